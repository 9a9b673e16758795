"""Outgoing connections against a real listener: order, timeouts, backoff, and reports of lost peers."""

import asyncio
import struct
from random import Random

import pytest

from kraft_core.clients.channel_manager import ChannelConfig, ChannelManager, Result
from kraft_core.protocol.framing import encode_response
from kraft_core.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeClusterRequest,
    DescribeClusterResponse,
    VoteRequest,
    VoteResponse,
)
from kraft_core.raft.effects import Destination
from kraft_core.raft.events import FailureReason
from kraft_core.server.network.request import Request
from kraft_core.server.network.socket_server import SocketServer
from tests.interop.kafka import free_ports
from tests.server.network.bounded import run, until

TIME_ENOUGH_MS = 60_000
APIS = {18: (0, 4), 52: (0, 2), 60: (0, 1)}


def api_versions(apis: dict[int, tuple[int, int]] = APIS, error_code: int = 0) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=tuple(
            ApiVersionsResponseApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in apis.items()
        ),
    )


class Peer:
    """A node that answers ApiVersions and passes all other requests to the test."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.apis = APIS
        self.server = SocketServer("127.0.0.1", 0, self.handle)

    def handle(self, request: Request) -> None:
        if request.header.api_key == 18:
            request.respond(api_versions(self.apis))
        else:
            self.seen.append(request)

    @property
    def destination(self) -> Destination:
        return Destination(7, "127.0.0.1", self.server.port)


class Outcome:
    def __init__(self) -> None:
        self.results: list[Result] = []

    def __call__(self, result: Result) -> None:
        self.results.append(result)


def manager(gone: list[int]) -> ChannelManager:
    return ChannelManager(ChannelConfig(client_id="raft-client-1"), Random(1), gone.append)


def test_a_request_is_sent_in_the_highest_common_version_and_answered() -> None:
    async def scenario() -> None:
        peer, gone, outcome = Peer(), [], Outcome()
        await peer.server.start()
        channels = manager(gone)
        channels.request(peer.destination, DescribeClusterRequest(), TIME_ENOUGH_MS, outcome)
        channels.request(peer.destination, VoteRequest(cluster_id="c"), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(peer.seen) == 2)
        headers = [(request.header.api_key, request.header.api_version) for request in peer.seen]
        assert headers == [(60, 1), (52, 2)]
        assert peer.seen[0].header.client_id == "raft-client-1"
        peer.seen[1].respond(VoteResponse(error_code=104))
        peer.seen[0].respond(DescribeClusterResponse(cluster_id="c"))
        await until(lambda: len(outcome.results) == 2)
        assert outcome.results == [DescribeClusterResponse(cluster_id="c"), VoteResponse(error_code=104)]
        assert peer.server.connection_count == 1
        assert gone == []
        channels.close()
        await peer.server.stop()

    run(scenario())


def test_a_request_without_a_common_version_fails_alone() -> None:
    async def scenario() -> None:
        peer, gone, refused, answered = Peer(), [], Outcome(), Outcome()
        peer.apis = {18: (0, 4), 52: (0, 1), 60: (0, 2)}
        await peer.server.start()
        channels = manager(gone)
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, refused, min_version=2)
        channels.request(peer.destination, DescribeClusterRequest(), TIME_ENOUGH_MS, answered)
        await until(lambda: len(peer.seen) == 1)
        assert refused.results == [FailureReason.UNSUPPORTED_VERSION]
        peer.seen[0].respond(DescribeClusterResponse())
        await until(lambda: len(answered.results) == 1)
        channels.close()
        await peer.server.stop()

    run(scenario())


def test_api_versions_is_retried_in_a_version_of_an_older_peer() -> None:
    """KIP-511: ApiVersions in an unknown version is answered in version 0 with error 35."""
    asked: list[int] = []

    def handle(request: Request) -> None:
        if request.header.api_key != 18:
            request.respond(VoteResponse())
            return
        asked.append(request.header.api_version)
        if request.header.api_version > 2:
            own = api_versions({18: (0, 2)}, error_code=35)
            request.respond_bytes(encode_response(own, (18, 0), request.header.correlation_id))
        else:
            request.respond(api_versions())

    async def scenario() -> None:
        server, outcome = SocketServer("127.0.0.1", 0, handle), Outcome()
        await server.start()
        channels = manager([])
        channels.request(Destination(1, "127.0.0.1", server.port), VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: outcome.results == [VoteResponse()])
        assert asked == [4, 2]
        channels.close()
        await server.stop()

    run(scenario())


def test_a_request_that_times_out_closes_the_connection() -> None:
    async def scenario() -> None:
        peer, gone, slow, behind = Peer(), [], Outcome(), Outcome()
        await peer.server.start()
        channels = manager(gone)
        channels.request(peer.destination, VoteRequest(), 100, slow)
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, behind)
        await until(lambda: len(slow.results) == 1)
        assert slow.results == [FailureReason.TIMED_OUT]
        assert behind.results == [FailureReason.DISCONNECTED]
        assert gone == []  # the peer did not end the connection
        await until(lambda: peer.server.connection_count == 0)
        channels.close()
        await peer.server.stop()

    run(scenario())


def test_a_refused_connection_fails_at_once_and_is_reported() -> None:
    async def scenario() -> None:
        gone, outcome = [], Outcome()
        (dead,) = free_ports(1)
        channels = manager(gone)
        channels.request(Destination(7, "127.0.0.1", dead), VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(outcome.results) == 1)
        assert outcome.results == [FailureReason.DISCONNECTED]
        assert gone == [7]
        channels.close()

    run(scenario())


def test_the_end_of_an_idle_connection_is_reported() -> None:
    async def scenario() -> None:
        peer, gone, outcome = Peer(), [], Outcome()
        await peer.server.start()
        channels = manager(gone)
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(peer.seen) == 1)
        peer.seen[0].respond(VoteResponse())
        await until(lambda: len(outcome.results) == 1)
        await peer.server.stop()
        await until(lambda: gone == [7])
        channels.close()

    run(scenario())


def test_the_next_attempt_waits_for_the_backoff_and_succeeds() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        peer, failed_at = Peer(), []
        (port,) = free_ports(1)
        peer.server = SocketServer("127.0.0.1", port, peer.handle)
        channels = manager([])

        def outcome(result: Result) -> None:
            assert result == FailureReason.DISCONNECTED
            failed_at.append(loop.time())

        for attempt in range(4):
            channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, outcome)
            await until(lambda attempt=attempt: len(failed_at) == attempt + 1)
        await peer.server.start()
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(peer.seen) == 1)
        assert loop.time() - failed_at[3] > 0.31  # the fourth failure backs off 400 ms ± 20 %
        channels.close()
        await peer.server.stop()

    run(scenario())


@pytest.mark.parametrize(
    "garbage", [struct.pack(">i", -5), struct.pack(">ii", 4, 999), struct.pack(">i", 8) + b"\xff" * 8]
)
def test_garbage_closes_the_connection(garbage: bytes) -> None:
    def handle(request: Request) -> None:
        if request.header.api_key == 18:
            request.respond(api_versions())
        else:
            request.respond_bytes(garbage)

    async def scenario() -> None:
        server, outcome = SocketServer("127.0.0.1", 0, handle), Outcome()
        await server.start()
        channels = manager([])
        channels.request(Destination(1, "127.0.0.1", server.port), VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: outcome.results == [FailureReason.DISCONNECTED])
        channels.close()
        await server.stop()

    run(scenario())


def test_closing_fails_requests_in_flight() -> None:
    async def scenario() -> None:
        peer, gone, outcome = Peer(), [], Outcome()
        await peer.server.start()
        channels = manager(gone)
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(peer.seen) == 1)
        channels.close()
        assert outcome.results == [FailureReason.DISCONNECTED]
        channels.request(peer.destination, VoteRequest(), TIME_ENOUGH_MS, outcome)
        await until(lambda: len(outcome.results) == 2)
        await peer.server.stop()
        assert gone == []

    run(scenario())
