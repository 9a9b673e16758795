"""A TCP proxy in front of a broker that cuts connections when the broker answers, so that answers are lost."""

import asyncio
from collections import Counter
from typing import Self


class CuttingProxy:
    """Forwards `port` of 127.0.0.1 to `target`. `cuts` says, by API key, how many answers are still to be lost.

    A lost answer ends its connection in both directions, after the broker has handled the request.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.cuts: Counter[int] = Counter()
        self.requests: Counter[int] = Counter()
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target)
        keys: dict[int, int] = {}  # correlation id -> API key
        directions = [
            asyncio.create_task(self._requests(reader, broker_writer, keys)),
            asyncio.create_task(self._answers(broker_reader, writer, keys)),
        ]
        self._tasks.update(directions)
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, broker_writer):
            each.transport.abort()
        for task in directions:
            task.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        self._tasks.difference_update(directions)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]) -> None:
        while True:
            frame = await _frame(reader)
            key = int.from_bytes(frame[4:6], "big")
            keys[int.from_bytes(frame[8:12], "big")] = key
            self.requests[key] += 1
            writer.write(frame)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]) -> None:
        while True:
            frame = await _frame(reader)
            key = keys.pop(int.from_bytes(frame[4:8], "big"))
            if self.cuts[key]:
                self.cuts[key] -= 1
                return
            writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Return a frame with its size. Raises IncompleteReadError at the end."""
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
