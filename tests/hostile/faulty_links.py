"""A TCP proxy in front of each controller, as the address that it advertises: links between nodes that break."""

import asyncio
import contextlib
from dataclasses import dataclass, field

CHUNK_BYTES = 65_536


@dataclass
class Link:
    """How bytes travel to one node: `cut` refuses and resets, `stalled` swallows time, `delay_ms` holds each chunk."""

    cut: bool = False
    stalled: bool = False
    answers_stalled: bool = False
    delay_ms: float = 0.0

    def heal(self) -> None:
        """Back to a plain wire."""
        self.cut = self.stalled = self.answers_stalled = False
        self.delay_ms = 0.0


@dataclass
class FaultyLinks:
    """One proxy per node: what is sent to `proxy_ports[n]` goes to `node_ports[n]` as `links[n]` allows."""

    proxy_ports: list[int]
    node_ports: list[int]
    links: list[Link] = field(default_factory=list)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _writers: list[set[asyncio.StreamWriter]] = field(default_factory=list)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def start(self) -> None:
        """Listen."""
        for index, port in enumerate(self.proxy_ports):
            self.links.append(Link())
            self._writers.append(set())
            self._servers.append(
                await asyncio.start_server(lambda r, w, index=index: self._serve(index, r, w), "127.0.0.1", port)
            )

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        for server in self._servers:
            server.close()
        for index in range(len(self._writers)):
            self.reset(index)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self, index: int) -> None:
        """Break all connections to a node."""
        for writer in list(self._writers[index]):
            writer.transport.abort()

    def cut(self, index: int) -> None:
        """Nobody reaches the node; it still reaches the others."""
        self.links[index].cut = True
        self.reset(index)

    def heal(self) -> None:
        """Plain wires everywhere."""
        for link in self.links:
            link.heal()

    async def _serve(self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers[index].add(writer)
        onward: asyncio.StreamWriter | None = None
        try:
            if self.links[index].cut:
                return
            node_reader, onward = await asyncio.open_connection("127.0.0.1", self.node_ports[index])
            self._writers[index].add(onward)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(index, reader, onward, answers=False))
                group.create_task(self._pump(index, node_reader, writer, answers=True))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            return  # the link ends here, whatever ended it
        finally:
            for each in (writer, onward):
                if each is not None:
                    self._writers[index].discard(each)
                    each.transport.abort()

    async def _pump(
        self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        link = self.links[index]
        while data := await reader.read(CHUNK_BYTES):
            if link.delay_ms:
                await asyncio.sleep(link.delay_ms / 1000)
            while link.answers_stalled if answers else link.stalled:
                await asyncio.sleep(0.02)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        raise ConnectionResetError  # one side has ended: end the other
