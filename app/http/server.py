"""The HTTP server: uvicorn with limits on time and memory, and a shutdown that ends event streams first."""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kraft_core.server.network.file_limit import raise_file_limit

HEADER_SECONDS: Final = 10
IDLE_SECONDS: Final = 30
SHUTDOWN_SECONDS: Final = 5
WRITE_SECONDS: Final = 60
HEAD_BYTES_MAX: Final = 65_536
HEADS_BYTES_MAX: Final = 32 << 20
BACKLOG: Final = 512
CONNECTIONS_WANTED: Final = 4_096
FILES_KEPT: Final = 128
"""Open files for everything else: the database, the quorum's controllers, logs, report jobs."""
_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)

log = structlog.get_logger(__name__)


def connections_allowed() -> int:
    """Raise the limit on open files, and return how many connections the process may hold. Warns if they are few."""
    files = raise_file_limit()
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS_WANTED
    allowed = max(16, min(CONNECTIONS_WANTED, files - FILES_KEPT))
    if allowed < CONNECTIONS_WANTED:
        log.warning(
            "few_open_files",
            limit=files,
            connections=allowed,
            wanted=CONNECTIONS_WANTED,
            remedy=f"allow {CONNECTIONS_WANTED + FILES_KEPT} open files: ulimit -Hn, or LimitNOFILE= of systemd",
        )
    return allowed


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 by llhttp's strict parser, with limits on incomplete requests.

    The parser buffers input until a line or a head is complete. So a connection is closed when its head is incomplete
    after 10 s, or when it sends more than 64 KiB outside a body: an endless head or trailer. (One read, at most 256
    KiB, is always accepted.) A connection that accepts nothing of its response for 60 s is dropped.
    """

    def __init__(self, *args: Any, limits: "ConnectionLimits", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unfinished_bytes = 0
        self._head_bytes = 0
        self._read_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # asyncio passes this kind
        """Start the timer of the first request, and drop a connection when there are too many."""
        super().connection_made(transport)
        self._limits.wait(self)
        self._limits.make_room(len(self.connections))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_waiting()
        self._stop_write_timer()
        self._limits.forget(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read its response."""
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads."""
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def data_received(self, data: bytes) -> None:
        """Parse the input, and count the bytes that have not completed anything yet."""
        self._unfinished_bytes += len(data)
        self._head_bytes += len(data)
        self._read_bytes = len(data)
        super().data_received(data)
        self._limits.note_unfinished(self, self._head_bytes)
        if self._unfinished_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            if self._head_timer is not None and (self.cycle is None or self.cycle.response_complete):
                self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Reset the counts: the application limits bodies."""
        self._unfinished_bytes = self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the counts: the request is complete."""
        self._unfinished_bytes = self._head_bytes = 0
        super().on_message_complete()

    def on_message_begin(self) -> None:
        """Start the timer of each further request on the connection."""
        self._unfinished_bytes = 0
        self._head_bytes = self._read_bytes  # an upper bound: the request may have begun within what was read
        super().on_message_begin()
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Stop the timer: the head arrived in time."""
        self._stop_waiting()
        self._limits.begin(self)
        self._unfinished_bytes = self._head_bytes = 0
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is here already."""
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._limits.wait(self)

    def drop(self) -> None:
        """Close the connection without a response."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._head_timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._head_too_slow)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_too_slow(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


class ConnectionLimits:
    """The connections of a server without a running request, ordered by how long they have waited.

    When there are more connections than the process may hold, or too many bytes of incomplete heads, the connections
    that have waited longest are closed. So a new client is served however many others are idle.
    """

    def __init__(self, connections_max: int) -> None:
        self.connections_max = connections_max
        self._waiting: dict[LimitedProtocol, int] = {}
        self._unfinished_bytes = 0

    def wait(self, connection: LimitedProtocol) -> None:
        """Note that the connection has no running request."""
        self._waiting.setdefault(connection, 0)

    def begin(self, connection: LimitedProtocol) -> None:
        """Note that a request runs on the connection."""
        self._unfinished_bytes -= self._waiting.pop(connection, 0)

    forget = begin

    def note_unfinished(self, connection: LimitedProtocol, count: int) -> None:
        """Note how many bytes of an incomplete head the connection holds."""
        if connection not in self._waiting:
            return
        self._unfinished_bytes += count - self._waiting[connection]
        self._waiting[connection] = count
        while self._unfinished_bytes > HEADS_BYTES_MAX:
            longest = next(each for each, held in self._waiting.items() if held)
            self.begin(longest)
            longest.drop()

    def make_room(self, connections: int) -> None:
        """Drop the connection that has waited longest when there is one too many; the newest when all are busy."""
        if connections > self.connections_max:
            longest = next(iter(self._waiting))
            self.begin(longest)
            longest.drop()


class WebServer(uvicorn.Server):
    """A server that reports when it starts and when it begins to stop, and that ends without re-raising the signal."""

    def __init__(
        self,
        app: Any,
        *,
        connections_max: int,
        on_started: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(LimitedProtocol, limits=ConnectionLimits(connections_max)),  # type: ignore[arg-type]  # uvicorn accepts a callable
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS + 2,
                backlog=BACKLOG,
            )
        )
        self._on_started = on_started
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, begin to serve, then report the start."""
        await super().startup(sockets)
        if self.started:
            self._on_started()

    def stop(self) -> None:
        """Begin to stop: no new connections, event streams end, running requests get a few seconds.

        A client that does not read then is dropped, before uvicorn would cancel its request with a traceback.
        """
        self.should_exit = True
        self._on_stopping()
        asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, self._drop_remaining)

    def _drop_remaining(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, LimitedProtocol):
                connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on Ctrl-C and SIGTERM. A second signal stops at once."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.force_exit = self.should_exit
            loop.call_soon_threadsafe(self.stop)

        try:
            for number in before:
                signal.signal(number, handle)
        except ValueError:  # not the main thread: the caller stops the server by `stop`
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen. Port 0 selects a free port. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
