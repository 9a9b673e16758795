"""A listener with TLS and SASL against real sockets: accepted clients, their principals, and refusals."""

import asyncio
import logging
import ssl
import struct
from collections.abc import Callable

import pytest

from kraft_core.clients.kafka_client import ConnectionLost, ControllerClient, KafkaConnection, NoActiveController
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from kraft_core.protocol.software import api_versions_request
from kraft_core.security.listener_security import (
    ClientSecurity,
    client_security,
)
from kraft_core.security.sasl_client_authenticator import LoginFailed
from kraft_core.server.network import sasl_session
from tests.security.certificates import authority, ssl_properties, stranger_authority
from tests.security.secure_listener import (
    LOOPS,
    PASSWORD,
    SASL,
    TIME_ENOUGH_MS,
    ask,
    listening,
    name_at,
    rest_of,
    run,
    sasl_client,
    ssl_client,
)


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_principal_of_a_client_is_the_user_of_its_login(
    protocol: str, mechanism: str, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    has_tls = protocol == "SASL_SSL"
    own = ssl_properties(authority().issue("node")) if has_tls else {}

    async def scenario() -> None:
        async with listening(protocol, SASL | own) as listener:
            client = sasl_client(mechanism, **(ssl_properties(None) if has_tls else {}))
            assert await name_at(listener, client) == "User:alice"

    run(scenario(), loop_factory)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_many_tls_clients_can_connect_at_once(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The client's first bytes may arrive before the connection is accepted; none may be lost."""

    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node"))) as listener:
            names = await asyncio.gather(*(name_at(listener, ssl_client(None)) for _ in range(60)))
            assert set(names) == {"User:ANONYMOUS"}
            assert len(listener.served) == 60

    run(scenario(), loop_factory)


def test_large_requests_and_answers_work_over_tls() -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node"))) as listener:
            connection = await KafkaConnection.open("127.0.0.1", listener.port, "x", TIME_ENOUGH_MS, ssl_client(None))
            requests = [connection.request(SaslAuthenticateRequest(auth_bytes=bytes(500_000))) for _ in range(10)]
            listener.server.handler = lambda request: request.respond(
                SaslAuthenticateResponse(auth_bytes=bytes(3_000_000))
            )
            for answer in await asyncio.gather(*requests):
                assert isinstance(answer, SaslAuthenticateResponse)
                assert len(answer.auth_bytes) == 3_000_000
            connection.close()

    run(scenario())


MUTUAL = {"ssl.client.auth": "required"}
RULES = {"ssl.principal.mapping.rules": r"RULE:^CN=(.*?),O=Conclave$/$1/L,DEFAULT"}


@pytest.mark.parametrize(
    ("settings", "name", "principal"),
    [
        (MUTUAL, "Controller-1", "User:CN=Controller-1,O=Conclave"),
        (MUTUAL | RULES, "Controller-1", "User:controller-1"),
        ({"ssl.client.auth": "requested"} | RULES, "Controller-1", "User:controller-1"),
        ({"ssl.client.auth": "requested"}, None, "User:ANONYMOUS"),
        ({}, "Controller-1", "User:ANONYMOUS"),
    ],
)
def test_the_principal_is_derived_from_the_certificate(
    settings: dict[str, str], name: str | None, principal: str
) -> None:
    async def scenario() -> None:
        async with listening("SSL", settings | ssl_properties(authority().issue("node"))) as listener:
            assert await name_at(listener, ssl_client(name)) == principal

    run(scenario())


def client_with(kind: str) -> ClientSecurity:
    identities = {
        "none": None,
        "of another authority": stranger_authority().issue("Controller-1"),
        "expired": authority().issue("Controller-1", expired=True),
    }
    return client_security({"security.protocol": "SSL", **ssl_properties(identities[kind])})


@pytest.mark.parametrize("kind", ["none", "of another authority", "expired"])
def test_a_required_certificate_must_be_valid(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with listening("SSL", MUTUAL | ssl_properties(authority().issue("node"))) as listener:
            with pytest.raises(ConnectionLost):
                await name_at(listener, client_with(kind))
            assert listener.served == []
            assert await name_at(listener, ssl_client("Controller-1")) == "User:CN=Controller-1,O=Conclave"

    with caplog.at_level(logging.INFO):
        run(scenario())
    causes = [getattr(record, "cause", "") for record in caplog.records if record.msg == "connection_closed"]
    assert any(cause.startswith("TLS failed: ") for cause in causes)


def test_a_certificate_without_a_matching_rule_is_refused() -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/"}

    async def scenario() -> None:
        async with listening("SSL", MUTUAL | rules | ssl_properties(authority().issue("node"))) as listener:
            with pytest.raises(ConnectionLost):
                await name_at(listener, ssl_client("Controller-1"))
            assert listener.served == []

    run(scenario())


@pytest.mark.parametrize(
    ("hosts", "settings", "is_trusted"),
    [
        (("127.0.0.1",), {}, True),
        (("elsewhere.example",), {}, False),
        (("elsewhere.example",), {"ssl.endpoint.identification.algorithm": ""}, True),
    ],
)
def test_a_client_trusts_only_the_node_it_connects_to(
    hosts: tuple[str, ...], settings: dict[str, str], is_trusted: bool
) -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node", hosts))) as listener:
            if is_trusted:
                assert await name_at(listener, ssl_client(None, **settings)) == "User:ANONYMOUS"
                return
            with pytest.raises(ConnectionLost, match="CERTIFICATE_VERIFY_FAILED"):
                await name_at(listener, ssl_client(None, **settings))
            assert listener.served == []

    run(scenario())


def test_a_client_refuses_a_node_with_a_certificate_of_another_authority() -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(stranger_authority().issue("node"))) as listener:
            client = ControllerClient(
                [("127.0.0.1", listener.port)], find_leader_timeout_ms=100, security=ssl_client(None)
            )
            with pytest.raises(NoActiveController, match=r"no secure connection to .*CERTIFICATE_VERIFY_FAILED"):
                await client.request(DescribeClusterRequest())

    run(scenario())


def test_old_versions_of_tls_are_refused() -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node"))) as listener:
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            with pytest.warns(DeprecationWarning, match="TLSVersion"):
                old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            old.set_ciphers("DEFAULT@SECLEVEL=0")
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", listener.port, ssl=old)

    run(scenario())


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", encode_request(api_versions_request(), 3, 1, "x"), b"\x16\x03\x01\xff"]
)
def test_plaintext_on_a_tls_port_closes_the_connection_without_an_answer(data: bytes) -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node"))) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(data)
            writer.write_eof()
            answer = await rest_of(reader)
            assert answer == b"" or answer[0] == 0x15, "at most a TLS alert"
            writer.close()
            assert listener.served == []

    run(scenario())


def test_clients_that_never_finish_the_handshake_count_and_do_not_affect_others() -> None:
    async def scenario() -> None:
        async with listening("SSL", ssl_properties(authority().issue("node")), max_connections=6) as listener:
            stalled = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(5)]
            assert await name_at(listener, ssl_client(None)) == "User:ANONYMOUS"
            while listener.server.connection_count > 5:
                await asyncio.sleep(0.01)
            stalled.append(await asyncio.open_connection("127.0.0.1", listener.port))
            while listener.server.connection_count < 6:
                await asyncio.sleep(0.01)
            waiting = asyncio.create_task(name_at(listener, ssl_client(None)))
            await asyncio.sleep(0.05)
            assert listener.server.connection_count == 6
            assert not waiting.done()
            for _, writer in stalled:
                writer.close()
            assert await waiting == "User:ANONYMOUS"

    run(scenario())


def test_a_client_that_does_not_log_in_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_session, "LOGIN_TIMEOUT_MS", 100)

    async def scenario() -> None:
        async with listening("SASL_PLAINTEXT", SASL) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await rest_of(reader) == b""
            writer.close()
            monkeypatch.setattr(sasl_session, "LOGIN_TIMEOUT_MS", 1_500)  # long enough for a login
            connection = await KafkaConnection.open(
                "127.0.0.1", listener.port, "x", TIME_ENOUGH_MS, sasl_client("PLAIN")
            )
            await asyncio.sleep(1.7)
            assert connection.is_open, "the timeout applies only until the login"
            connection.close()

    run(scenario())


def test_failed_logins_get_one_text_after_the_delay_and_are_closed() -> None:
    tokens = [f"\x00alice\x00{PASSWORD}x", f"\x00nobody\x00{PASSWORD}", "garbage"]
    delays: list[float] = []
    texts: set[str | None] = set()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with listening("SASL_PLAINTEXT", SASL | {"connection.failed.authentication.delay.ms": "300"}) as listener:
            for token in tokens:
                client = await asyncio.open_connection("127.0.0.1", listener.port)
                handshake = SaslHandshakeRequest(mechanism="PLAIN")
                await ask(client, encode_request(handshake, 1, 1, "x"), 17, 1)
                start = loop.time()
                wrong = SaslAuthenticateRequest(auth_bytes=token.encode())
                again = SaslAuthenticateRequest(auth_bytes=f"\x00alice\x00{PASSWORD}".encode())
                frames = encode_request(wrong, 2, 2, "x") + encode_request(again, 2, 3, "x")
                answer = await ask(client, frames, 36, 2)
                delays.append(loop.time() - start)
                assert isinstance(answer, SaslAuthenticateResponse)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                texts.add(answer.error_message)
                assert await rest_of(client[0]) == b"", "the connection is closed and no request is served"
                client[1].close()
            assert listener.served == []

    run(scenario())
    assert len(texts) == 1
    assert min(delays) >= 0.29


def test_an_oversized_token_closes_the_connection_but_a_large_request_after_the_login_does_not() -> None:
    async def scenario() -> None:
        async with listening("SASL_PLAINTEXT", SASL) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(struct.pack(">i", 524_289))
            assert await rest_of(reader) == b""
            writer.close()
            connection = await KafkaConnection.open(
                "127.0.0.1", listener.port, "x", TIME_ENOUGH_MS, sasl_client("PLAIN")
            )
            listener.server.handler = lambda request: request.respond(SaslAuthenticateResponse())
            await connection.request(SaslAuthenticateRequest(auth_bytes=bytes(600_000)))
            connection.close()

    run(scenario())


def test_a_password_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with listening("SASL_PLAINTEXT", SASL) as listener:
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                await name_at(listener, sasl_client(mechanism))
                with pytest.raises(LoginFailed) as refusal:
                    await name_at(listener, sasl_client(mechanism, password=PASSWORD + "-not"))
                assert PASSWORD not in str(refusal.value)

    with caplog.at_level(logging.DEBUG):
        run(scenario())
    shown = "".join(repr(vars(record)) for record in caplog.records)
    assert "authentication_failed" in shown
    assert PASSWORD not in shown
