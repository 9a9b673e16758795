"""Connections of nodes to a listener with SASL: login, refusal, and renewal in time."""

import asyncio
from random import Random

import pytest

from kraft_core.clients.channel_manager import ChannelConfig, ChannelManager, Result
from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from kraft_core.raft.effects import Destination
from kraft_core.raft.events import FailureReason
from kraft_core.security.listener_security import (
    node_security,
)
from kraft_core.security.properties import SecurityConfigError
from tests.security.certificates import authority, ssl_properties
from tests.security.secure_listener import (
    PASSWORD,
    PLAIN_MODULE,
    SASL,
    SCRAM_MODULE,
    TIME_ENOUGH_MS,
    Listener,
    ask,
    listening,
    rest_of,
    run,
    sasl_client,
)


def node(properties: dict[str, str], protocol: str, **security: str) -> ChannelManager:
    client = node_security(properties | security, "CONTROLLER", protocol, "sasl.mechanism.controller.protocol")
    return ChannelManager(ChannelConfig(client_id="1", reconnect_backoff_ms=10, security=client), Random(1))


async def name_of(channels: ChannelManager, listener: Listener) -> Result:
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    channels.request(
        Destination(7, "127.0.0.1", listener.port), DescribeClusterRequest(), TIME_ENOUGH_MS, done.set_result
    )
    return await done


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_node_logs_in_with_the_jaas_setting_of_its_listener(mechanism: str) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    own = {
        "sasl.mechanism.controller.protocol": mechanism,
        f"listener.name.controller.{mechanism.lower()}.sasl.jaas.config": (
            f'{module} required username="alice" password="{PASSWORD}" user_alice="{PASSWORD}";'
        ),
        **ssl_properties(authority().issue("node"), "listener.name.controller."),
    }

    async def scenario() -> None:
        async with listening("SASL_SSL", SASL | own) as listener:
            channels = node(SASL | own, "SASL_SSL")
            answers = [name_of(channels, listener) for _ in range(3)]
            for answer in await asyncio.gather(*answers):
                assert isinstance(answer, DescribeClusterResponse)
                assert answer.cluster_id == "User:alice"
            assert listener.server.connection_count == 1
            channels.close()

    run(scenario())


def test_a_refused_login_of_a_node_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    own = {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="x";',
    }

    async def scenario() -> None:
        async with listening("SASL_PLAINTEXT", SASL) as listener:
            channels = node(own, "SASL_PLAINTEXT")
            for _ in range(3):
                assert await name_of(channels, listener) is FailureReason.DISCONNECTED
            assert listener.served == []
            channels.close()

    run(scenario())
    refusals = [record for record in caplog.records if record.msg == "login_refused"]
    assert len(refusals) == 1


def test_a_node_renews_its_login_before_it_expires() -> None:
    session = SASL | {
        "connections.max.reauth.ms": "3000",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="alice" password="{PASSWORD}" user_alice="{PASSWORD}";'
        ),
    }

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with listening("SASL_PLAINTEXT", session) as listener:
            channels = node(session, "SASL_PLAINTEXT")
            connection = await KafkaConnection.open(
                "127.0.0.1", listener.port, "x", TIME_ENOUGH_MS, sasl_client("PLAIN")
            )
            end = loop.time() + 6.5
            while loop.time() < end:
                answers = await asyncio.gather(
                    name_of(channels, listener),
                    name_of(channels, listener),
                    connection.request(DescribeClusterRequest()),
                    connection.request(DescribeClusterRequest()),
                )
                assert all(isinstance(answer, DescribeClusterResponse) for answer in answers)
                await asyncio.sleep(0.02)
            assert {request.connection_id for request in listener.served} == {1, 2}
            connection.close()
            channels.close()

    run(scenario())


def test_a_client_that_does_not_renew_its_login_is_closed_at_the_next_request() -> None:
    async def scenario() -> None:
        async with listening("SASL_PLAINTEXT", SASL | {"connections.max.reauth.ms": "2000"}) as listener:
            client = await asyncio.open_connection("127.0.0.1", listener.port)
            await ask(client, encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x"), 17, 1)
            token = SaslAuthenticateRequest(auth_bytes=f"\x00alice\x00{PASSWORD}".encode())
            answer = await ask(client, encode_request(token, 2, 2, "x"), 36, 2)
            assert isinstance(answer, SaslAuthenticateResponse)
            assert answer.session_lifetime_ms == 2_000
            await ask(client, encode_request(DescribeClusterRequest(), 0, 3, "x"), 60, 0)
            await asyncio.sleep(2.1)
            client[1].write(encode_request(DescribeClusterRequest(), 0, 4, "x"))
            assert await rest_of(client[0]) == b""
            client[1].close()
            assert len(listener.served) == 1

    run(scenario())


def test_a_node_needs_a_name_and_a_password() -> None:
    own = SASL | {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"}
    with pytest.raises(
        SecurityConfigError, match=r"scram-sha-256\.sasl\.jaas\.config: it has no username and password"
    ):
        node(own, "SASL_PLAINTEXT")
