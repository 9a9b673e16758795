"""KafkaConnection and ControllerClient against a real node, and against a misbehaving peer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kraft_core.clients.kafka_client import (
    ConnectionLost,
    ControllerClient,
    KafkaConnection,
    NoActiveController,
    RequestTimedOut,
    UnsupportedApi,
    find_leader,
    says_not_active,
)
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import encode_response
from kraft_core.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicResult,
    DescribeClusterRequest,
    ProduceRequest,
)
from tests.app.live import CombinedNode, combined_node
from tests.interop import kafka


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedNode]:
    with combined_node(tmp_path_factory.mktemp("node")) as running:
        running.process.wait_for_output("broker_started")
        yield running


def endpoint(node: CombinedNode) -> tuple[str, int]:
    host, _, port = node.bootstrap.rpartition(":")
    return host, int(port)


Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def with_peer(peer: Peer, check: Callable[[int], Awaitable[None]]) -> None:
    """Run `check` with the port of a server that runs `peer` for each connection."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await peer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        await check(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """Return (api key, version, correlation id) of the next request."""
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    return int.from_bytes(frame[:2]), int.from_bytes(frame[2:4]), int.from_bytes(frame[4:8])


async def answer_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer ApiVersions as a node with ApiVersions and CreateTopics."""
    key, version, correlation_id = await read_request(reader)
    assert key == ApiKey.API_VERSIONS
    versions = (
        ApiVersionsResponseApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersionsResponseApiVersion(api_key=19, min_version=2, max_version=7),
    )
    writer.write(
        encode_response(ApiVersionsResponse(api_keys=versions), (ApiKey.API_VERSIONS, version), correlation_id)
    )


def test_many_requests_share_one_connection_and_each_gets_its_own_answer(node: CombinedNode) -> None:
    async def scenario() -> None:
        connection = await KafkaConnection.open(*endpoint(node), "test")
        requests = [connection.request(DescribeClusterRequest(endpoint_type=1 + number % 2)) for number in range(50)]
        answers = await asyncio.gather(*requests)
        assert [answer.endpoint_type for answer in answers] == [1 + number % 2 for number in range(50)]
        connection.close()

    asyncio.run(scenario())


def test_the_leader_is_found_from_any_controller(node: CombinedNode) -> None:
    async def scenario() -> None:
        connection = await KafkaConnection.open(*endpoint(node), "test")
        leader = await find_leader(connection)
        connection.close()
        assert leader is not None
        assert (leader.node_id, leader.host, leader.port) == (1, *endpoint(node))

    asyncio.run(scenario())


def test_a_controller_client_skips_dead_bootstrap_servers(node: CombinedNode) -> None:
    async def scenario() -> None:
        (dead,) = kafka.free_ports(1)
        client = ControllerClient([("127.0.0.1", dead), endpoint(node)])
        answer = await client.request(DescribeClusterRequest(endpoint_type=2))
        assert answer.controller_id == 1
        client.close()

    asyncio.run(scenario())


def test_an_unreachable_bootstrap_server_raises_no_active_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        (dead,) = kafka.free_ports(1)
        client = ControllerClient([("127.0.0.1", dead)])
        with pytest.raises(NoActiveController, match=str(dead)):
            await client.request(DescribeClusterRequest(), 200)

    asyncio.run(scenario())


def test_an_api_the_node_lacks_is_refused_before_sending(node: CombinedNode) -> None:
    async def scenario() -> None:
        connection = await KafkaConnection.open(*endpoint(node), "test")
        with pytest.raises(UnsupportedApi):
            await connection.request(ProduceRequest())
        connection.close()

    asyncio.run(scenario())


def test_api_versions_is_retried_in_version_0() -> None:
    """KIP-511: the answer to an unknown version is in version 0, with error 35."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, version, correlation_id = await read_request(reader)
        assert version > 0
        refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        writer.write(encode_response(refused, (ApiKey.API_VERSIONS, 0), correlation_id))
        _, version, correlation_id = await read_request(reader)
        assert version == 0
        known = ApiVersionsResponse(api_keys=(ApiVersionsResponseApiVersion(api_key=19, min_version=2, max_version=4),))
        writer.write(encode_response(known, (ApiKey.API_VERSIONS, 0), correlation_id))
        await reader.read()

    async def check(port: int) -> None:
        connection = await KafkaConnection.open("127.0.0.1", port, "test")
        assert connection.version_of(19, 2, 7) == 4
        connection.close()

    asyncio.run(with_peer(peer, check))


def test_an_unanswered_request_times_out_and_closes_the_connection() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_versions(reader, writer)
        await reader.read()

    async def check(port: int) -> None:
        connection = await KafkaConnection.open("127.0.0.1", port, "test")
        behind = asyncio.create_task(connection.request(CreateTopicsRequest(), 10_000))
        with pytest.raises(RequestTimedOut):
            await connection.request(CreateTopicsRequest(), 50)
        with pytest.raises(ConnectionLost):
            await behind
        assert not connection.is_open

    asyncio.run(with_peer(peer, check))


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"",
    ],
)
def test_a_peer_that_answers_garbage_is_disconnected(garbage: bytes) -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(garbage)
        await writer.drain()

    async def check(port: int) -> None:
        with pytest.raises(ConnectionLost):
            await KafkaConnection.open("127.0.0.1", port, "test", 60_000)

    asyncio.run(with_peer(peer, check))


def test_not_controller_is_found_in_nested_error_codes() -> None:
    result = CreateTopicsResponseCreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)
    assert says_not_active(CreateTopicsResponse(topics=(result,)))
    other = CreateTopicsResponseCreatableTopicResult(error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    assert not says_not_active(CreateTopicsResponse(topics=(other,)))
