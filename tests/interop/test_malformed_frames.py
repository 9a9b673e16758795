"""A live controller under bytes that no Kafka peer would send. RELIABILITY 4A: it answers or closes, and stays up."""

import asyncio
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_core.protocol.api_keys import apis_of
from kraft_core.protocol.codec import encode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    EnvelopeRequest,
    FetchRequest,
    SaslHandshakeRequest,
)
from kraft_core.protocol.wire import Message
from tests.interop.conclave import Quorum, call, describe_quorum, resident_mb, running_quorum

pytestmark = pytest.mark.interop

SEED = 4310


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder: Path = tmp_path_factory.mktemp("malformed")
    with running_quorum(folder, 1) as found:
        epoch = asyncio.run(describe_quorum(found.ports[0])).leader_epoch
        yield found
        after = asyncio.run(describe_quorum(found.ports[0]))
        assert after is not None, found.outputs()
        assert after.leader_epoch == epoch
        assert found.processes[1].alive


async def exchange(port: int, data: bytes, timeout_s: float = 3) -> bytes | None:
    """Send bytes; b"" when the peer closes, an answer's frame when it answers. Silence fails."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            size = await reader.readexactly(4)
            return await reader.readexactly(int.from_bytes(size))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return b""
        finally:
            writer.close()


async def is_served(port: int) -> None:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await call(port, body, 3, timeout_s=1)
    assert answer.error_code == 0


def header(api_key: int, version: int, *, flexible: bool = True) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 1) + b"x" + (b"\x00" if flexible else b"")


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


CLOSED = {
    "size -1": struct.pack(">i", -1),
    "size int32 min": struct.pack(">i", -(2**31)),
    "size int32 max": struct.pack(">i", 2**31 - 1),
    "size over the limit": struct.pack(">i", 104_857_601),
    "empty frame": struct.pack(">i", 0),
    "http": b"GET /metrics HTTP/1.1\r\nHost: controller\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "unknown api": frame(header(9999, 0)),
    "negative api": frame(header(-1, 0)),
    "produce": frame(header(0, 9) + bytes(20)),
    "metadata": frame(header(3, 12) + bytes(20)),
    "vote of a version to come": frame(header(52, 3) + bytes(20)),
    "absurd array": frame(header(19, 7) + b"\xff\xff\xff\xff\x0f"),
    "absurd string": frame(header(19, 7) + b"\x02\xff\xff\xff\xff\x0f"),
    "varint of six bytes": frame(header(19, 7) + b"\xff\xff\xff\xff\xff\x01"),
    "null array": frame(header(19, 7) + b"\x00"),
}


@pytest.mark.parametrize("data", CLOSED.values(), ids=CLOSED.keys())
def test_what_cannot_be_a_request_closes_its_connection(quorum: Quorum, data: bytes) -> None:
    assert asyncio.run(exchange(quorum.ports[0], data)) == b""
    asyncio.run(is_served(quorum.ports[0]))


def test_a_request_cut_anywhere_closes_or_waits_but_harms_nobody(quorum: Quorum) -> None:
    whole = encode_request(CreateTopicsRequest(timeout_ms=100), 7, 1, "cut")[4:]

    async def scenario() -> None:
        for end in range(len(whole)):
            assert await exchange(quorum.ports[0], frame(whole[:end])) == b"", end
        await is_served(quorum.ports[0])

    asyncio.run(scenario())


def test_api_versions_of_any_version_is_answered_in_v0_and_the_connection_goes_on(quorum: Quorum) -> None:
    async def scenario() -> None:
        for version in (5, 99, 32767):
            reader, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writer.write(frame(header(18, version) + b"\x00"))
            size = int.from_bytes(await reader.readexactly(4))
            correlation_id, answer = decode_response(18, 0, await reader.readexactly(size))
            assert (correlation_id, answer.error_code) == (7, 35)
            assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
            writer.write(encode_request(ApiVersionsRequest(), 0, 8, "x"))
            size = int.from_bytes(await reader.readexactly(4))
            correlation_id, answer = decode_response(18, 0, await reader.readexactly(size))
            assert (correlation_id, answer.error_code, len(answer.api_keys)) == (8, 0, 41)
            writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", "has space", "<script>", "line\nbreak", "-dash", "x" * 10 + "é"])
def test_client_software_outside_the_pattern_is_an_invalid_request(quorum: Quorum, name: str) -> None:
    body = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    assert asyncio.run(call(quorum.ports[0], body, 3)).error_code == 42


@pytest.mark.parametrize(
    ("message", "version", "code"),
    [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1, 34),
        (EnvelopeRequest(request_data=b"\x00", request_principal=b"\x00\x00", client_host_address=b"\x7f"), 0, 42),
        (EnvelopeRequest(request_data=b"", request_principal=b"\x00\x09", client_host_address=bytes(4)), 0, 97),
        (FetchRequest(cluster_id="another-cluster", topics=()), 17, 104),
        (FetchRequest(topics=()), 17, 42),
    ],
    ids=["sasl", "envelope address", "envelope principal", "wrong cluster", "no topic"],
)
def test_a_wrong_request_gets_its_error_code(quorum: Quorum, message: Message, version: int, code: int) -> None:
    assert asyncio.run(call(quorum.ports[0], message, version)).error_code == code


@pytest.mark.parametrize("api_key", [41, 50])
def test_an_api_that_is_advertised_but_not_served_says_so(quorum: Quorum, api_key: int) -> None:
    version = 0 if api_key == 50 else 2
    answer = asyncio.run(exchange(quorum.ports[0], frame(header(api_key, version) + bytes(2))))
    assert answer
    _, message = decode_response(api_key, version, answer)
    assert message.error_code == -1


def test_a_request_inside_an_envelope_must_be_one_that_may_be_forwarded(quorum: Quorum) -> None:
    principal = struct.pack(">h", 0) + b"\x05User\x0aANONYMOUS\x00\x00"
    inner = encode_request(DescribeClusterRequest(), 1, 3, "inner")[4:]
    envelope = EnvelopeRequest(request_data=inner, request_principal=principal, client_host_address=bytes(4))
    assert asyncio.run(call(quorum.ports[0], envelope, 0)).error_code == 42
    garbage = EnvelopeRequest(request_data=inner[:9], request_principal=principal, client_host_address=bytes(4))
    assert asyncio.run(call(quorum.ports[0], garbage, 0)).error_code == 35


def test_four_hundred_random_bodies_are_each_answered_or_closed(quorum: Quorum) -> None:
    dice = random.Random(SEED)
    apis = sorted(apis_of("controller").items())

    async def one() -> None:
        api_key, api = dice.choice(apis)
        version = dice.randint(api.min_version, api.max_version)
        flexible = version >= api.flexible_version
        body = dice.randbytes(dice.randint(0, 200))
        await exchange(quorum.ports[0], frame(header(api_key, version, flexible=flexible) + body))

    async def scenario() -> None:
        for _ in range(400):
            await one()
        await is_served(quorum.ports[0])

    asyncio.run(scenario())


def test_announced_gigabytes_and_stalled_clients_cost_neither_memory_nor_service(quorum: Quorum) -> None:
    async def scenario() -> None:
        before = resident_mb(quorum.processes[1])
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writer.write(struct.pack(">i", 50 * 1024 * 1024) + b"\x00")
            writers.append(writer)
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writer.write(struct.pack(">i", 1024 * 1024) + bytes(512 * 1024))
            writers.append(writer)
        for _ in range(150):
            _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writers.append(writer)
        await is_served(quorum.ports[0])
        assert resident_mb(quorum.processes[1]) - before < 60
        for writer in writers:
            writer.close()

    asyncio.run(scenario())


def test_a_message_is_no_larger_than_its_bytes() -> None:
    """The header of these tests is what an encoder writes, so that a refusal is not for the header's sake."""
    body = encode(CreateTopicsRequest(timeout_ms=100), 7)
    assert encode_request(CreateTopicsRequest(timeout_ms=100), 7, 7, "x")[4:] == header(19, 7) + body
