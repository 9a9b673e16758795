"""Runs a sans-IO client on an asyncio event loop: opens its connections, reads and writes, and wakes it in time.

A client is anything with a `network` (NetworkClient) and two methods: `step(now_ms)` acts on completed requests and on
time, and `next_deadline_ms(now_ms)` says when it wants to be called without an event. The producer, the consumer and
the admin client are such cores; the simulator runs the same cores on a virtual network.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Close, Connect, Effect, Write

log = logging.getLogger(__name__)


_TLS_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Errors of a connection that ended, whatever the certificates."""
_TOGETHER_MS = 1
_UNREAD_BYTES = 4096
"""Bytes that a connection which was closed reads at once."""


class ClientCore(Protocol):
    """The rules of a client, without I/O."""

    @property
    def network(self) -> NetworkClient:
        """Its connections."""

    def step(self, now_ms: float) -> None:
        """Take completed requests, and do what is due. Called after every event."""

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""


class ClientRunner:
    """One core on the running event loop.

    `on_turn` is called after each turn, `on_failure` with an exception that the core raised by a fault of its own.
    """

    def __init__(
        self,
        core: ClientCore,
        on_turn: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self._core = core
        self._on_turn = on_turn
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._connections: dict[int, _Connection] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._turned_ms: float = 0
        self._is_closed = False

    def now_ms(self) -> float:
        """Return the event loop's time, which the core's times are in."""
        return self._loop.time() * 1000

    def wake(self) -> None:
        """Let the core take a turn soon: something was asked of it. Several calls make one turn."""
        if not self._is_woken and not self._is_closed:
            self._is_woken = True
            self._loop.call_soon(self._turn)

    def turn(self) -> None:
        """Let the core take a turn at once. Not from within `on_turn`."""
        self._turn()

    async def close(self) -> None:
        """Close all connections; pending requests fail first, and the core takes a last turn."""
        if self._is_closed:
            return
        now_ms = self.now_ms()
        self._core.network.close(now_ms)
        self._core.step(now_ms)
        self._perform()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        self._on_turn()

    def _turn(self) -> None:
        self._is_woken = False
        if self._is_closed:
            return
        self._turned_ms = now_ms = self.now_ms()
        try:
            self._core.network.poll(now_ms)
            self._core.step(now_ms)
        except Exception as fault:
            log.exception("client_failed")
            if self._on_failure is None:
                raise
            self._on_failure(fault)
            return
        self._perform()
        self._on_turn()
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = (self._core.network.next_deadline_ms(now_ms), self._core.next_deadline_ms(now_ms))
        due = min((time for time in times if time is not None), default=None)
        if due is not None and not self._is_woken:
            self._timer = self._loop.call_at(due / 1000, self.wake)

    def _perform(self) -> None:
        for effect in self._core.network.take_effects():
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Connect():
                task = self._loop.create_task(self._open(effect))
                self._opening[effect.connection_id] = task
            case Write(connection_id, data):
                connection = self._connections.get(connection_id)
                if connection is not None:
                    connection.write(data)
            case Close(connection_id):
                opening = self._opening.get(connection_id)
                if opening is not None:
                    opening.cancel()
                connection = self._connections.pop(connection_id, None)
                if connection is not None:
                    connection.close()

    async def _open(self, effect: Connect) -> None:
        connection = _Connection(self, effect.connection_id)
        try:
            await self._loop.create_connection(
                lambda: connection, effect.host, effect.port, ssl=self._core.network.security.tls
            )
        except ssl.SSLCertVerificationError as untrusted:
            cause = f"its certificate is not trusted: {untrusted.verify_message}"
            self.lost(effect.connection_id, cause, is_untrusted=True)
        except ssl.SSLError as refused:
            is_refused = not isinstance(refused, _TLS_ENDS)
            cause = f"the TLS handshake failed: {refused.reason or refused}"
            self.lost(effect.connection_id, cause, is_untrusted=is_refused)
        except OSError as refused:
            self.lost(effect.connection_id, f"cannot be reached: {refused}")
        finally:
            self._opening.pop(effect.connection_id, None)

    # Events of connections

    def opened(self, connection: "_Connection") -> None:
        """Tell the core that a connection is open."""
        self._connections[connection.id] = connection
        self._core.network.connected(connection.id, self.now_ms())
        self._perform()
        self.wake()

    def get_buffer(self, connection_id: int) -> memoryview | None:
        """Return room for bytes of a connection; None if it was closed."""
        return self._core.network.get_buffer(connection_id)

    def buffer_updated(self, connection_id: int, count: int) -> None:
        """Give the core what arrived in the buffer of a connection. A part of an answer needs no turn.

        An answer gets its turn at once, but not many in a row: those that come together are taken in by one.
        """
        now_ms = self.now_ms()
        if self._core.network.buffer_updated(connection_id, count, now_ms):
            if self._is_woken or now_ms - self._turned_ms < _TOGETHER_MS:
                self.wake()
            else:
                self._turn()

    def paused(self, connection_id: int, *, is_paused: bool) -> None:
        """Tell the core that a connection cannot take more bytes for now, or can again."""
        self._core.network.paused(connection_id, is_paused=is_paused)
        if not is_paused:
            self.wake()

    def lost(self, connection_id: int, cause: str, *, is_untrusted: bool = False) -> None:
        """Tell the core that a connection ended or could not be opened."""
        self._connections.pop(connection_id, None)
        if not self._is_closed:
            self._core.network.disconnected(connection_id, cause, self.now_ms(), is_untrusted=is_untrusted)
            self.wake()


class _Connection(asyncio.BufferedProtocol):
    """One connection of the runner."""

    def __init__(self, runner: ClientRunner, connection_id: int) -> None:
        self.id = connection_id
        self._runner = runner
        self._transport: asyncio.Transport | None = None
        self._was_closed = False
        self._has_received = False

    def write(self, data: bytes) -> None:
        """Write to the socket."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close the socket; nothing is reported afterwards."""
        self._was_closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report the open connection. Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=1, low=0)  # paused while bytes wait; TLS pauses at `high`
        self._runner.opened(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where bytes that arrive are written to. Called by asyncio."""
        room = None if self._was_closed else self._runner.get_buffer(self.id)
        return memoryview(bytearray(_UNREAD_BYTES)) if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """Report what arrived. Called by asyncio."""
        if not self._was_closed:
            self._has_received = True
            self._runner.buffer_updated(self.id, nbytes)

    def pause_writing(self) -> None:
        """Report that the socket is slower than the client. Called by asyncio."""
        self._runner.paused(self.id, is_paused=True)

    def resume_writing(self) -> None:
        """Report that the socket takes bytes again. Called by asyncio."""
        self._runner.paused(self.id, is_paused=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end. Called by asyncio."""
        if self._was_closed:
            return
        if isinstance(exc, ssl.SSLError) and not isinstance(exc, _TLS_ENDS) and not self._has_received:
            # TLS 1.3: a node refuses a client's certificate after the handshake
            self._runner.lost(self.id, f"the TLS handshake failed: {exc.reason or exc}", is_untrusted=True)
        else:
            self._runner.lost(self.id, str(exc or "the peer closed the connection"))
