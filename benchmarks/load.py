"""The load program: requests are encoded before the clock starts, and answers are checked after it stops.

Latency uses one blocking connection, many connections use one epoll loop. The loop costs about 10 µs per request, so
the controllers dominate the result.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

RECEIVE_BYTES = 1 << 18


@dataclass(slots=True)
class Outcome:
    """The result of a run: its duration, the latency of each answer, and the answers without their size prefix."""

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Return the answers per second."""
        return len(self.answers) / self.seconds


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value at `share` (0 to 1) of the sorted values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextmanager
def connected(port: int, timeout_s: float = 60) -> Iterator[socket.socket]:
    """Yield a connection with TCP_NODELAY."""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def read_answer(connection: socket.socket) -> bytes:
    """Return the next answer. Large answers are read into one buffer.

    Raises ConnectionError when the connection ends first.
    """
    data = b""
    while len(data) < 4:
        received = connection.recv(RECEIVE_BYTES)
        if not received:
            raise ConnectionError("the connection ended before the answer")
        data += received
    size = int.from_bytes(data[:4])
    have = len(data) - 4
    if have == size:
        return data[4:]
    if have > size:
        raise ConnectionError("more than one answer was received")
    answer = bytearray(size)
    answer[: max(0, have)] = data[4:]
    rest = memoryview(answer)[max(0, have) :]
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise ConnectionError("the connection ended inside an answer")
        rest = rest[count:]
    return bytes(answer)


def one_at_a_time(port: int, frames: Sequence[bytes]) -> Outcome:
    """Send each request after the answer to the previous one."""
    outcome = Outcome()
    with connected(port) as connection:
        began = time.perf_counter()
        for frame in frames:
            sent = time.perf_counter()
            connection.sendall(frame)
            outcome.answers.append(read_answer(connection))
            outcome.latencies_ms.append((time.perf_counter() - sent) * 1000)
        outcome.seconds = time.perf_counter() - began
    return outcome


class _Client:
    """One connection of `many_at_once`, with its frames and up to `window` requests in flight."""

    __slots__ = ("_buffer", "_connection", "_frames", "_sent", "waiting")

    def __init__(self, connection: socket.socket, frames: Sequence[bytes]) -> None:
        self._connection = connection
        self._frames = iter(frames)
        self._buffer = b""
        self._sent: deque[float] = deque()
        self.waiting = 0

    def send(self, window: int) -> None:
        """Send as many frames as the window allows in one write."""
        batch = []
        while self.waiting < window:
            frame = next(self._frames, None)
            if frame is None:
                break
            batch.append(frame)
            self._sent.append(time.perf_counter())
            self.waiting += 1
        if batch:
            self._connection.sendall(b"".join(batch))

    def receive(self, outcome: Outcome) -> None:
        """Read the complete answers that have arrived."""
        data = self._connection.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the controller closed a connection under load")
        data = self._buffer + data
        position = 0
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4])
            if end > len(data):
                break
            outcome.answers.append(data[position + 4 : end])
            outcome.latencies_ms.append((time.perf_counter() - self._sent.popleft()) * 1000)
            self.waiting -= 1
            position = end
        self._buffer = data[position:]


def many_at_once(port: int, frames_of: Sequence[Sequence[bytes]], window: int = 1) -> Outcome:
    """Send each list of frames on its own connection, with up to `window` requests in flight."""
    outcome = Outcome()
    with ExitStack() as stack:
        poll = select.epoll()
        stack.callback(poll.close)
        clients: dict[int, _Client] = {}
        for frames in frames_of:
            connection = stack.enter_context(connected(port))
            clients[connection.fileno()] = _Client(connection, frames)
            poll.register(connection.fileno(), select.EPOLLIN)
        began = time.perf_counter()
        for client in clients.values():
            client.send(window)
        open_clients = sum(client.waiting > 0 for client in clients.values())
        while open_clients:
            ready = poll.poll(60)
            if not ready:
                raise TimeoutError("no answer for 60 s")
            for number, _ in ready:
                client = clients[number]
                client.receive(outcome)
                client.send(window)
                open_clients -= client.waiting == 0
        outcome.seconds = time.perf_counter() - began
    return outcome
