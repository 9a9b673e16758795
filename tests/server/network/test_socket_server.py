"""The listener against real sockets: order of answers, malformed requests, failing handlers, and its stop."""

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest
import uvloop

from kraft_core.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kraft_core.server.network.request import Request
from kraft_core.server.network.socket_server import SocketServer
from tests.server.network.bounded import run, until
from tests.server.network.raw_clients import answer_of, closed, listener, question


def test_answers_are_sent_in_the_order_of_the_requests() -> None:
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


def test_a_second_answer_to_a_request_is_ignored() -> None:
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


def test_a_request_without_an_answer_does_not_delay_the_next() -> None:
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


def test_a_request_may_arrive_in_many_small_pieces() -> None:
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
def test_garbage_closes_only_its_connection(garbage: bytes) -> None:
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


def test_a_failing_handler_closes_only_its_connection() -> None:
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


def test_a_disconnect_is_reported_once_and_a_late_answer_is_dropped() -> None:
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


def test_answers_before_the_stop_are_sent_and_later_ones_are_not() -> None:
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


def test_a_port_in_use_raises_an_os_error() -> None:
    async def scenario() -> None:
        async with listener(lambda request: None) as (server, _):
            with pytest.raises(OSError, match=r"(?i)address already in use"):
                await SocketServer("127.0.0.1", server.port, lambda request: None).start()

    run(scenario())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("turns", range(8))
def test_a_listener_can_stop_while_a_connection_is_being_accepted(
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
