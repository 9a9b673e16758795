"""A TCP proxy in front of each controller, at its advertised address: links between nodes that can fail.

The client id of the first request identifies the sender (`raft-client-2`, or `2` for forwarded requests), so a link is
a pair of nodes. Each direction has its own faults. Clients have the number 0. Frames are forwarded as a whole.
"""

import asyncio
import contextlib
import random
import re
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.framing import decode_request_header, decode_response
from kraft_core.protocol.messages import FetchResponse

CLIENT = 0
_SOURCE = re.compile(r"(?:raft-client-)?(\d+)")
_ELECTORAL = {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}
_REMEMBERED = {*_ELECTORAL, ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.UPDATE_RAFT_VOTER}
_FRAMES_KEPT = 300
_QUIET_S = 0.3
"""Time without an answer after which repeated requests count as handled."""
_CHECKED_FROM = 21
"""Position in a batch of the first byte that its CRC covers."""
_OTHER_PLACES = (3, 12, 16, 17)
"""Positions in a batch whose damage is detected without the CRC: offset, epoch (far above any), magic, the CRC."""


@dataclass
class Link:
    """The faults of one direction: requests to the target, answers back."""

    cut: bool = False  # connections are refused and reset
    stalled: bool = False  # requests do not arrive
    answers_stalled: bool = False  # requests arrive, their answers do not
    damaged: bool = False  # the records of Fetch answers have a flipped bit
    delay_ms: float = 0.0

    def heal(self) -> None:
        """Remove all faults."""
        self.cut = self.stalled = self.answers_stalled = self.damaged = False
        self.delay_ms = 0.0


@dataclass(eq=False)
class _Connection:
    """One connection through a proxy, once its sender is known."""

    source: int
    target: int
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    fetches: dict[int, int] = field(default_factory=dict)  # version by correlation id

    def reset(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class FaultyLinks:
    """One proxy per node. `proxy_ports[n - 1]` forwards to node n, subject to the link from the sender."""

    def __init__(self, proxy_ports: list[int], node_ports: list[int]) -> None:
        self.proxy_ports, self.node_ports = proxy_ports, node_ports
        self.node_ids = range(1, len(node_ports) + 1)
        self.damaged_answers = 0
        self.old_requests: dict[int, deque[tuple[int, bytes]]] = {
            node_id: deque(maxlen=_FRAMES_KEPT) for node_id in self.node_ids
        }
        self._dice = random.Random(1)
        self._links: dict[tuple[int, int], Link] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start listening."""
        for node_id, port in zip(self.node_ids, self.proxy_ports, strict=True):
            self._servers.append(
                await asyncio.start_server(lambda r, w, target=node_id: self._serve(target, r, w), "127.0.0.1", port)
            )

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        for server in self._servers:
            server.close()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- faults

    def link(self, source: int, target: int) -> Link:
        """Return the link from `source` to `target`."""
        return self._links.setdefault((source, target), Link())

    def to(self, target: int) -> Iterable[Link]:
        """Return the links from all other nodes to one."""
        return [self.link(source, target) for source in self.node_ids if source != target]

    def of(self, source: int) -> Iterable[Link]:
        """Return the links from one node to all others."""
        return [self.link(source, target) for target in self.node_ids if source != target]

    def isolate(self, node_id: int) -> None:
        """Disconnect a node from all others, but not from clients."""
        for link in (*self.to(node_id), *self.of(node_id)):
            link.cut = True
        self.reset(node_id)

    def reset(self, node_id: int | None = None) -> None:
        """Reset all connections between nodes, or those of one node, but not those of clients."""
        for each in list(self._connections):
            if each.source != CLIENT and node_id in (None, each.source, each.target):
                each.reset()

    def cut(self, source: int, target: int) -> None:
        """Disconnect `source` from `target`."""
        self.link(source, target).cut = True
        for each in list(self._connections):
            if (each.source, each.target) == (source, target):
                each.reset()

    def heal(self) -> None:
        """Remove all faults from all links."""
        for link in self._links.values():
            link.heal()

    async def send_again(self, target: int, count: int, *, kinds: set[ApiKey] | None = None) -> int:
        """Send old requests of other nodes to a node again, on a new connection. Return their number."""
        old = [frame for api_key, frame in self.old_requests[target] if kinds is None or api_key in kinds]
        chosen = self._dice.sample(old, min(count, len(old)))
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.node_ports[target - 1])
            try:
                writer.writelines(chosen)
                while await asyncio.wait_for(reader.read(65_536), _QUIET_S):
                    pass
            finally:
                writer.transport.abort()
        return len(chosen)

    # -- connections

    async def _serve(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        connection: _Connection | None = None
        try:
            first = await _frame(reader)
            source = _source_of(first)
            if self.link(source, target).cut:
                return
            node_reader, onward = await asyncio.open_connection("127.0.0.1", self.node_ports[target - 1])
            connection = _Connection(source, target, (writer, onward))
            self._connections.add(connection)
            if self.link(source, target).cut:  # while the node was called
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_requests(connection, first, reader, onward))
                group.create_task(self._pass_answers(connection, node_reader, writer))
        except (OSError, EOFError, ExceptionGroup, asyncio.CancelledError):
            return  # the link ends, whatever the cause
        finally:
            writer.transport.abort()
            if connection is not None:
                self._connections.discard(connection)
                connection.reset()

    async def _pass_requests(
        self, connection: _Connection, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link, frame = self.link(connection.source, connection.target), first
        while True:
            self._remember(connection, frame)
            if link.delay_ms:
                await asyncio.sleep(link.delay_ms / 1000)
            while link.stalled:
                await asyncio.sleep(0.02)
            writer.write(frame)
            await writer.drain()
            frame = await _frame(reader)

    async def _pass_answers(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link = self.link(connection.source, connection.target)
        while True:
            frame = await _frame(reader)
            if link.delay_ms:
                await asyncio.sleep(link.delay_ms / 1000)
            while link.answers_stalled:
                await asyncio.sleep(0.02)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            version = connection.fetches.pop(correlation_id, None)
            if version is not None and link.damaged:
                frame = self._damage(frame, version)
            writer.write(frame)
            await writer.drain()

    def _remember(self, connection: _Connection, frame: bytes) -> None:
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
        if connection.source != CLIENT and api_key in _REMEMBERED:
            self.old_requests[connection.target].append((api_key, frame))
            if api_key == ApiKey.FETCH:
                connection.fetches[correlation_id] = version

    def _damage(self, frame: bytes, version: int) -> bytes:
        """Flip one bit of the records in a Fetch answer where a reader can detect it."""
        answer = decode_response(ApiKey.FETCH, version, frame[4:])[1]
        assert isinstance(answer, FetchResponse)
        records = answer.responses[0].partitions[0].records if answer.responses else None
        if not records:
            return frame
        self.damaged_answers += 1
        place = self._dice.choice((*_OTHER_PLACES, *(self._dice.randrange(_CHECKED_FROM, 61) for _ in range(6))))
        position = frame.index(records) + place
        bit = 0x40 if place in _OTHER_PLACES else 1 << self._dice.randrange(8)
        return frame[:position] + bytes([frame[position] ^ bit]) + frame[position + 1 :]


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next frame with its size. Raises IncompleteReadError at the end."""
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size))


def _source_of(frame: bytes) -> int:
    """Return the node that sent a request, CLIENT for a client."""
    try:
        client_id = decode_request_header(frame[4:])[0].client_id or ""
    except KafkaError:
        return CLIENT
    match = _SOURCE.fullmatch(client_id)
    return int(match[1]) if match else CLIENT
