"""The listener against real sockets: order of answers, back-pressure, and what strangers may not do to it."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from kraft_core.protocol.framing import decode_response, encode_request, encode_response
from kraft_core.protocol.messages import ApiVersionsRequest, ApiVersionsResponse, SaslHandshakeResponse
from kraft_core.server.network.client_connection import FRAMES_PER_TURN
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.server.network.request import Request, RequestHandler
from kraft_core.server.network.socket_server import SocketServer
from tests.server.network.bounded import run, until

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listener(handler: RequestHandler, **limits: int):
    server = SocketServer("127.0.0.1", 0, handler, SocketServerLimits(**limits), listener_name="CONTROLLER")
    await server.start()
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.append(writer)
        return reader, writer

    try:
        yield server, connect
    finally:
        for writer in writers:
            writer.close()
        await server.stop()


def question(correlation_id: int, version: int = 3) -> bytes:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return encode_request(body, version, correlation_id, "tester")


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, ApiVersionsResponse]:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return decode_response(18, 3, await reader.readexactly(size))


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


def test_answers_leave_in_the_order_of_the_requests() -> None:
    parked: list[Request] = []

    async def scenario() -> None:
        async with listener(parked.append) as (_, connect):
            reader, writer = await connect()
            writer.write(question(1) + question(2) + question(3))
            await until(lambda: len(parked) == 3)
            for request in (parked[2], parked[0], parked[1]):
                request.respond(ApiVersionsResponse(error_code=request.header.correlation_id))
            answers = [await answer_of(reader) for _ in range(3)]
            assert [(number, answer.error_code) for number, answer in answers] == [(1, 1), (2, 2), (3, 3)]

    run(scenario())


def test_a_second_answer_to_one_request_is_not_sent() -> None:
    parked: list[Request] = []

    async def scenario() -> None:
        async with listener(parked.append) as (_, connect):
            reader, writer = await connect()
            writer.write(question(1) + question(2))
            await until(lambda: len(parked) == 2)
            parked[0].respond(ApiVersionsResponse(error_code=7))
            parked[0].respond(ApiVersionsResponse(error_code=8))
            parked[1].respond(ApiVersionsResponse(error_code=9))
            assert [(await answer_of(reader))[1].error_code for _ in range(2)] == [7, 9]

    run(scenario())


def test_a_request_that_wants_no_answer_does_not_hold_back_the_next() -> None:
    def handler(request: Request) -> None:
        if request.header.correlation_id == 1:
            request.respond_nothing()
        else:
            request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler) as (_, connect):
            reader, writer = await connect()
            writer.write(question(1) + question(2))
            assert (await answer_of(reader))[0] == 2

    run(scenario())


def test_a_request_in_many_small_pieces_is_one_request() -> None:
    parked: list[Request] = []

    async def scenario() -> None:
        async with listener(parked.append) as (_, connect):
            _, writer = await connect()
            for byte in question(5):
                writer.write(bytes([byte]))
                await writer.drain()
            await until(lambda: len(parked) == 1)
            body = parked[0].body()
            assert isinstance(body, ApiVersionsRequest)
            assert body.client_software_name == "test"
            assert (parked[0].header.client_id, parked[0].client_host) == ("tester", "127.0.0.1")

    run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 1_000_001),
        struct.pack(">i", 0),
        struct.pack(">i", 5) + b"\x00\x12\x00\x03\x00",
        struct.pack(">i", 10) + b"\x00\x12\x00\x03\x00\x00\x00\x01\x7f\xff",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=[
        "minus one",
        "int32 min",
        "int32 max",
        "over the limit",
        "empty",
        "cut header",
        "client id cut",
        "http",
        "tls",
    ],
)
def test_what_is_no_request_closes_the_connection_and_no_other(garbage: bytes) -> None:
    def handler(request: Request) -> None:
        request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler, max_frame_bytes=1_000_000) as (server, connect):
            good_reader, good_writer = await connect()
            reader, writer = await connect()
            writer.write(garbage)
            assert await closed(reader)
            good_writer.write(question(1))
            assert (await answer_of(good_reader))[0] == 1
            await until(lambda: server.connection_count == 1)
            assert server.buffered_bytes == 0

    run(scenario())


def test_an_announced_size_costs_no_memory_until_the_bytes_come() -> None:
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


def test_stalled_giants_are_shed_when_all_together_hold_too_much() -> None:
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


def test_a_full_pipeline_is_not_read_until_answers_leave() -> None:
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


def test_one_connection_waits_with_little_more_than_the_bytes_of_one_frame() -> None:
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


def test_nobody_is_read_while_the_queue_of_all_is_full_and_everybody_when_it_is_not() -> None:
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


def test_a_peer_that_reads_no_answers_is_not_served_for_ever() -> None:
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


def test_a_connection_that_pipelines_hands_over_a_part_in_each_turn_of_the_loop() -> None:
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


def test_no_more_is_read_than_is_handed_over() -> None:
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


def test_one_connection_more_than_allowed_waits_until_another_ends() -> None:
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


def test_an_idle_connection_is_closed_but_one_that_waits_for_its_answer_is_not() -> None:
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


def test_a_handler_that_fails_closes_its_connection_only() -> None:
    def handler(request: Request) -> None:
        if request.header.correlation_id == 13:
            raise ZeroDivisionError
        request.respond(ApiVersionsResponse())

    async def scenario() -> None:
        async with listener(handler) as (_, connect):
            bad_reader, bad_writer = await connect()
            good_reader, good_writer = await connect()
            bad_writer.write(question(13))
            assert await closed(bad_reader)
            good_writer.write(question(1))
            assert (await answer_of(good_reader))[0] == 1

    run(scenario())


def test_a_disconnect_is_told_once_and_a_late_answer_goes_nowhere() -> None:
    parked: list[Request] = []
    gone: list[int] = []

    async def scenario() -> None:
        server = SocketServer("127.0.0.1", 0, parked.append, on_disconnect=gone.append)
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(question(1))
        await until(lambda: len(parked) == 1)
        writer.close()
        await until(lambda: gone == [parked[0].connection_id])
        parked[0].respond(ApiVersionsResponse())
        await server.stop()
        assert gone == [parked[0].connection_id]

    run(scenario())


def test_what_was_answered_before_the_stop_still_arrives_and_what_was_not_never_does() -> None:
    parked: list[Request] = []
    answer = struct.pack(">i", 1_000_000) + bytes(1_000_000)

    async def scenario() -> None:
        async with listener(parked.append) as (server, connect):
            answered, waiting = await connect(), await connect()
            answered[1].write(question(1))
            waiting[1].write(question(2))
            await until(lambda: len(parked) == 2)
            first = next(each for each in parked if each.header.correlation_id == 1)
            first.respond_bytes(answer)
            await server.stop()
            assert await answered[0].read() == answer
            assert await waiting[0].read() == b""
            parked[-1].respond(ApiVersionsResponse())
            with pytest.raises(OSError, match=r"(?i)refused|failed"):
                await connect()
            assert server.connection_count == server.queued_bytes == server.buffered_bytes == 0

    run(scenario())


def test_a_busy_port_is_an_os_error() -> None:
    async def scenario() -> None:
        async with listener(lambda request: None) as (server, _):
            with pytest.raises(OSError, match=r"(?i)address already in use"):
                await SocketServer("127.0.0.1", server.port, lambda request: None).start()

    run(scenario())


def test_answers_that_nobody_reads_are_bounded_over_all_connections() -> None:
    """Before, each connection could hold 4 MiB and what its socket takes."""
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


def test_answers_held_back_by_an_earlier_request_stop_the_reading() -> None:
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


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("turns", range(8))
def test_a_listener_stops_while_a_connection_is_being_made(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], turns: int
) -> None:
    async def scenario() -> None:
        server = SocketServer("127.0.0.1", 0, lambda request: None)
        await server.start()
        with socket.create_connection(("127.0.0.1", server.port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await server.stop()

    with asyncio.Runner(loop_factory=loop_factory) as loop:
        loop.run(scenario())
