"""A listener with raw client connections for the tests of the network package."""

import asyncio
import struct
from contextlib import asynccontextmanager

from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.server.network.request import RequestHandler
from kraft_core.server.network.socket_server import SocketServer

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
