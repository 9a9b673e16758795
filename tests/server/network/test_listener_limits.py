"""The limits of a listener against real sockets: buffers, back-pressure, connections, and unsent answers."""

import asyncio
import struct
from collections import Counter

from kraft_core.protocol.framing import encode_request, encode_response
from kraft_core.protocol.messages import ApiVersionsRequest, ApiVersionsResponse, SaslHandshakeResponse
from kraft_core.server.network.client_connection import FRAMES_PER_TURN
from kraft_core.server.network.request import Request
from kraft_core.server.network.socket_server import SocketServer
from tests.server.network.bounded import run, until
from tests.server.network.raw_clients import answer_of, closed, listener, question


def test_an_announced_size_takes_no_memory_before_the_bytes_arrive() -> None:
    def handler(request: Request) -> None:
        request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler) as (server, connect):
            for _ in range(20):
                _, writer = await connect()
                writer.write(struct.pack(">i", 50 * 1024 * 1024) + b"\x00")
            await until(lambda: server.connection_count == 20 and server.buffered_bytes == 100)
            reader, writer = await connect()
            writer.write(question(1))
            assert (await answer_of(reader))[0] == 1

    run(scenario())


def test_the_largest_incomplete_request_is_closed_above_the_limit_of_all() -> None:
    def handler(request: Request) -> None:
        request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler, max_buffered_bytes=300_000) as (server, connect):
            readers = []
            for size in (100_000, 150_000, 120_000):
                reader, writer = await connect()
                writer.write(struct.pack(">i", 1_000_000) + bytes(size))
                await writer.drain()
                readers.append(reader)
            assert await closed(readers[1])
            assert server.buffered_bytes <= 300_000
            reader, writer = await connect()
            writer.write(question(1))
            assert (await answer_of(reader))[0] == 1

    run(scenario())


def test_a_connection_with_a_full_pipeline_is_not_read_until_answers_are_sent() -> None:
    parked: list[Request] = []

    async def scenario() -> None:
        async with listener(parked.append, max_in_flight=4) as (_, connect):
            reader, writer = await connect()
            writer.write(b"".join(question(number) for number in range(10)))
            await until(lambda: len(parked) == 4)
            await asyncio.sleep(0.05)
            assert len(parked) == 4
            for answered in range(10):
                parked[answered].respond(ApiVersionsResponse())
                assert (await answer_of(reader))[0] == answered
                expected = min(10, answered + 5)
                await until(lambda expected=expected: len(parked) == expected)

    run(scenario())


def test_one_connection_holds_little_more_than_the_bytes_of_one_frame() -> None:
    parked: list[Request] = []
    large = ApiVersionsRequest(client_software_name="x" * 400, client_software_version="1")

    async def scenario() -> None:
        async with listener(parked.append, max_frame_bytes=1_000) as (server, connect):
            reader, writer = await connect()
            writer.write(b"".join(encode_request(large, 3, number, "tester") for number in range(6)))
            await until(lambda: len(parked) == 3)
            await asyncio.sleep(0.05)
            assert len(parked) == 3
            assert 1_000 < server.queued_bytes < 2_000
            for number in range(6):
                await until(lambda number=number: len(parked) > number)
                parked[number].respond(ApiVersionsResponse())
                assert (await answer_of(reader))[0] == number

    run(scenario())


def test_no_connection_is_read_while_the_queue_of_all_is_full() -> None:
    parked: list[Request] = []
    size = len(question(1)) - 4

    async def scenario() -> None:
        async with listener(parked.append, max_queued_bytes=2 * size) as (server, connect):
            first, second = await connect(), await connect()
            first[1].write(question(1) + question(2) + question(3))
            await until(lambda: len(parked) == 3)
            second[1].write(question(4))
            await asyncio.sleep(0.05)
            assert len(parked) == 3
            parked[0].respond(ApiVersionsResponse())
            await until(lambda: len(parked) == 4)
            parked[3].respond(ApiVersionsResponse())
            assert (await answer_of(second[0]))[0] == 4
            first[1].close()
            await until(lambda: server.queued_bytes == 0)

    run(scenario())


def test_requests_of_a_peer_that_reads_no_answers_are_not_read() -> None:
    answer = struct.pack(">i", 65536) + bytes(65536)
    served = 0

    def handler(request: Request) -> None:
        nonlocal served
        served += 1
        request.respond_bytes(answer)

    async def scenario() -> None:
        async with listener(handler, write_high_water_bytes=100_000) as (_, connect):
            _, writer = await connect()
            writer.write(b"".join(question(number) for number in range(2000)))
            before = -1
            while served != before:  # what the system's own buffers take is served
                before = served
                await asyncio.sleep(0.3)
            assert 0 < served < 2000

    run(scenario())


def test_pipelined_requests_are_handled_in_parts_over_turns_of_the_loop() -> None:
    turn = 0
    in_turn: Counter[int] = Counter()
    numbers: list[int] = []

    def handler(request: Request) -> None:
        in_turn[turn] += 1
        numbers.append(request.header.correlation_id)
        asyncio.get_running_loop().call_soon(request.respond, ApiVersionsResponse())

    async def scenario() -> None:
        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        loop = asyncio.get_running_loop()
        next_turn()
        async with listener(handler) as (_, connect):
            _, writer = await connect()
            writer.write(b"".join(map(question, range(200))))
            await until(lambda: len(numbers) == 200)

    run(scenario())
    assert numbers == list(range(200))
    assert max(in_turn.values()) <= FRAMES_PER_TURN


def test_input_is_read_only_as_fast_as_it_is_handled() -> None:
    held: list[int] = []

    def handler(request: Request) -> None:
        request.respond(ApiVersionsResponse())
        held.append(servers[0].buffered_bytes)

    servers: list[SocketServer] = []

    async def scenario() -> None:
        async with listener(handler) as (server, connect):
            servers.append(server)
            reader, writer = await connect()
            writer.write(b"".join(map(question, range(40_000))))
            for number in range(40_000):
                assert (await answer_of(reader))[0] == number

    run(scenario())
    assert max(held) < 40_000 * len(question(1)) / 2


def test_a_connection_above_the_limit_waits_until_another_ends() -> None:
    def handler(request: Request) -> None:
        request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler, max_connections=2) as (server, connect):
            first, second = await connect(), await connect()
            await until(lambda: server.connection_count == 2)
            third_reader, third_writer = await connect()
            third_writer.write(question(3))
            second[1].write(question(2))
            assert (await answer_of(second[0]))[0] == 2
            assert server.counters.connections_opened == 2
            first[1].close()
            assert (await answer_of(third_reader))[0] == 3
            assert server.connection_count == 2

    run(scenario())


def test_an_idle_connection_is_closed_but_not_one_with_a_request_in_flight() -> None:
    parked: list[Request] = []

    async def scenario() -> None:
        async with listener(parked.append, connections_max_idle_ms=500) as (server, connect):
            waiting_reader, waiting_writer = await connect()
            waiting_writer.write(question(1))
            idle_reader, _ = await connect()
            assert await closed(idle_reader)
            assert server.connection_count == 1
            parked[0].respond(ApiVersionsResponse())
            assert (await answer_of(waiting_reader))[0] == 1

    run(scenario())


def test_unsent_answers_of_all_connections_are_bounded() -> None:
    """Without this limit each connection could hold 4 MiB and its socket buffer."""
    big = "x" * 30_000

    def handler(request: Request) -> None:
        request.respond_bytes(encode_response(SaslHandshakeResponse(mechanisms=(big,) * 100), (17, 1), 1))

    async def scenario() -> None:
        async with listener(handler, max_unsent_bytes=2**24, max_unsent_bytes_per_address=2**26) as (server, connect):
            for _ in range(20):
                _, writer = await connect()
                writer.write(b"".join(map(question, range(4))))
            await until(lambda: server.counters.connections_closed > 0)
            assert server.unsent.total_bytes <= 2**24

    run(scenario())


def test_answers_behind_an_unanswered_request_count_as_unsent() -> None:
    parked: list[Request] = []
    big = "x" * 30_000

    def handler(request: Request) -> None:
        if request.header.correlation_id == 0:
            parked.append(request)
        else:
            request.respond_bytes(encode_response(SaslHandshakeResponse(mechanisms=(big,) * 100), (17, 1), 1))

    async def scenario() -> None:
        async with listener(handler) as (server, connect):
            reader, writer = await connect()
            writer.write(b"".join(map(question, range(50))))
            await until(lambda: server.unsent.total_bytes > 262_144)
            assert server.unsent.total_bytes < 262_144 + 2 * 3_100_000
            parked[0].respond(ApiVersionsResponse())
            for _ in range(50):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)

    run(scenario())
