"""Logins and ACLs on a listener with SASL and an authorizer: ours answers and closes as Apache's node does."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft_core.clients.quorum_fetch import describe_quorum_request, leader_probe
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    AllocateProducerIdsRequest,
    ApiVersionsRequest,
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateDelegationTokenRequest,
    CreateTopicsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    EnvelopeRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kraft_core.protocol.wire import Message
from tests.hostile.frames import frame
from tests.hostile.twins import CLOSED, SILENT
from tests.interop import kafka
from tests.interop.kafka import PATIENCE_S
from tests.security.secure_quorum import PASSWORD, secure_quorum

pytestmark = pytest.mark.interop

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:controller;User:admin",
}
TOKEN_BYTES_MAX = 524_288  # sasl.server.max.receive.size
DELAY_S = 0.1  # connection.failed.authentication.delay.ms
Asked = tuple[Message, int] | bytes


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Yield the ports of one controller of ours and one of Apache's, with the users `controller` and `admin`."""
    kafka.require()
    folder: Path = tmp_path_factory.mktemp("logins")
    with (
        secure_quorum(folder / "ours", 1, "SASL_PLAINTEXT", "PLAIN", **AUTHORIZER) as ours,
        secure_quorum(folder / "apache", 1, "SASL_PLAINTEXT", "PLAIN", **AUTHORIZER) as apache,
    ):
        for found in (ours, apache):
            found.format(1)
        apache.start_apache(1)
        ours.start(1)
        for found in (ours, apache):
            found.wait_for_leader()
            kafka.wait_until(lambda found=found: is_active(found.ports[0]), PATIENCE_S, "the controller is active")
        yield ours.ports[0], apache.ports[0]
        assert ours.processes[1].alive
        assert "Traceback" not in ours.processes[1].output
        assert PASSWORD not in ours.processes[1].output


def is_active(port: int) -> bool:
    """Report whether a leader's controller is active, which it becomes some time after the election."""
    *_, answer = asyncio.run(talk(port, [*login(), (AllocateProducerIdsRequest(broker_id=77, broker_epoch=7), 0)]))
    return isinstance(answer, Message) and answer.error_code == ErrorCode.STALE_BROKER_EPOCH


async def talk(port: int, asked: list[Asked], timeout_s: float = PATIENCE_S) -> list[Any]:
    """Send requests one by one on one connection. Return the answers; the last may be CLOSED or SILENT."""
    heard: list[Any] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for each in asked:
            writer.write(each if isinstance(each, bytes) else encode_request(*each, 7, "x"))
            async with asyncio.timeout(timeout_s):
                data = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            heard.append(data[4:] if isinstance(each, bytes) else decode_response(each[0].API_KEY, each[1], data)[1])
    except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
        heard.append(CLOSED)
    except TimeoutError:
        heard.append(SILENT)
    finally:
        writer.close()
    return heard


def both(ports: tuple[int, int], asked: list[Asked]) -> list[list[Any]]:
    """Return the answers of ours and of Apache's to the same requests."""
    return [asyncio.run(talk(port, asked)) for port in ports]


def handshake(mechanism: str = "PLAIN") -> Asked:
    return SaslHandshakeRequest(mechanism=mechanism), 1


def token(data: bytes) -> Asked:
    return SaslAuthenticateRequest(auth_bytes=data), 2


def login(user: str = "admin", password: str = PASSWORD) -> list[Asked]:
    return [handshake(), token(f"\0{user}\0{password}".encode())]


LAST = (DescribeClusterRequest(endpoint_type=2), 1)
BEFORE_A_LOGIN: dict[str, list[Asked]] = {
    "create topics": [(CreateTopicsRequest(timeout_ms=100), 7)],
    "describe cluster": [LAST],
    "fetch": [(leader_probe(None), 17)],
    "describe quorum": [(describe_quorum_request(), 2)],
    "id block": [(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), 0)],
    "envelope": [(EnvelopeRequest(request_data=b"x", request_principal=b"", client_host_address=bytes(4)), 0)],
    "after api versions": [(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3), LAST],
    "after a handshake": [handshake(), LAST],
    "authenticate without a handshake": [token(b"\0admin\0x")],
    "two handshakes": [handshake(), handshake()],
    "api versions after a handshake": [handshake(), (ApiVersionsRequest(), 2)],
    "huge token": [handshake(), frame(bytes([0, 36, 0, 2, 0, 0, 0, 7, 0, 1]) + b"x" + bytes(TOKEN_BYTES_MAX + 1))],
    "garbage": [frame(b"\xff" * 40)],
}


@pytest.mark.parametrize("case", BEFORE_A_LOGIN)
def test_only_logins_are_served_before_a_login(ports: tuple[int, int], case: str) -> None:
    ours, theirs = both(ports, BEFORE_A_LOGIN[case])
    assert ours[-1] == theirs[-1] == CLOSED or ours[-1].error_code == theirs[-1].error_code != ErrorCode.NONE
    assert len(ours) == len(theirs)


WRONG_LOGINS: dict[str, list[Asked]] = {
    "wrong password": login(password="guess"),
    "unknown user": login("nobody"),
    "no password": login(password=""),
    "token of another form": [handshake(), token(b"admin")],
}


@pytest.mark.parametrize("case", WRONG_LOGINS)
def test_every_failed_login_gets_a_delayed_answer_and_a_close(ports: tuple[int, int], case: str) -> None:
    """Apache's names the wrong part (user, password or format), ours does not."""
    started = time.monotonic()
    (_, ours, ours_end) = asyncio.run(talk(ports[0], [*WRONG_LOGINS[case], LAST]))
    took_s = time.monotonic() - started
    (_, theirs, theirs_end) = asyncio.run(talk(ports[1], [*WRONG_LOGINS[case], LAST]))
    assert ours.error_code == theirs.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert ours_end == theirs_end == CLOSED
    assert took_s >= DELAY_S
    (_, other, _) = asyncio.run(talk(ports[0], [*login(user="somebody", password="else"), LAST]))
    assert ours == other


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones(ports: tuple[int, int]) -> None:
    ours, theirs = both(ports, [handshake("GSSAPI"), LAST])
    assert ours == theirs
    assert ours[0].error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def creation(**changed: Any) -> Asked:
    fine = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:x"}
    rest = {"host": "*", "operation": 3, "permission_type": 3}
    return CreateAclsRequest(creations=(CreateAclsRequestAclCreation(**{**fine, **rest, **changed}),)), 3


ODD_ACLS = [
    *({"resource_type": each} for each in (0, 1, 77)),
    *({"operation": each} for each in (0, 1, 99)),
    *({"resource_pattern_type": each} for each in (0, 1, 2, 55)),
    *({"permission_type": each} for each in (0, 1, 44)),
    *({"principal": each} for each in ("", "nobody")),
    {"resource_name": ""},
    {"resource_type": 4, "resource_name": "other"},
]


@pytest.mark.parametrize("changed", ODD_ACLS, ids=str)
def test_an_acl_of_any_or_unknown_kind_is_refused_and_not_written(
    ports: tuple[int, int], changed: dict[str, Any]
) -> None:
    every = DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1,
        resource_name_filter=None, principal_filter=None, host_filter=None,
    )  # fmt: skip
    results: list[Any] = []
    for port in ports:
        *_, created = asyncio.run(talk(port, [*login(), creation(**changed)]))
        results.append(created if isinstance(created, str) else created.results[0])
        *_, listed = asyncio.run(talk(port, [*login(), (every, 3)]))
        assert listed.resources == ()
    assert results[0] == results[1]
    assert results[0] == CLOSED or results[0].error_code in {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST}


TOKENS: list[Asked] = [
    (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
    (RenewDelegationTokenRequest(hmac=b"\x01" * 20, renew_period_ms=-1), 2),
    (ExpireDelegationTokenRequest(hmac=b"\x01" * 20, expiry_time_period_ms=-1), 2),
]


@pytest.mark.parametrize("asked", TOKENS, ids=["create", "renew", "expire"])
def test_tokens_are_disabled_without_a_secret_key_on_both(ports: tuple[int, int], asked: tuple[Message, int]) -> None:
    (*_, ours), (*_, theirs) = both(ports, [*login(), asked])
    assert ours.error_code == theirs.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
