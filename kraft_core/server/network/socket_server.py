"""SocketServer: one Kafka listener, which passes requests to a handler and sends the answers in their order.

The listener parses frames and request headers only. The handler answers a request at once or later, in any order.

Limits on what clients can make it hold
---------------------------------------
- Buffers grow with the received bytes, never with the size that a frame announces.
- A connection is not read while it has `max_in_flight` unanswered requests or its peer does not read its answers; no
  connection is read while `max_queued_bytes` of requests are unanswered.
- Above `max_buffered_bytes` of incomplete frames in all connections together, the connection with the most is closed;
  likewise above `max_unsent_bytes` of unsent answers, which are also limited for each address (`unsent_answers`).
- All listeners of a loop share its turns (`request_turns`).
- A frame that is not a Kafka request closes its connection without an answer.

With TLS or SASL no request reaches the handler before the client is authenticated (`tls_transport`, `sasl_session`).
Source: SocketServer and Selector, Kafka 4.3.1.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Final

from kraft_core.server.network.acceptor import Acceptor
from kraft_core.server.network.client_connection import LISTENER_STOPPED, ClientConnection
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.server.network.listener_limits import ListenerCounters, SocketServerLimits
from kraft_core.server.network.request import RequestHandler
from kraft_core.server.network.request_turns import turns_of
from kraft_core.server.network.sasl_session import ListenerLogin
from kraft_core.server.network.tls_transport import TlsTransport
from kraft_core.server.network.unsent_answers import UnsentAnswers

_PLAINTEXT: Final = ListenerLogin()


class SocketServer:
    """One listener on one address. For `port` 0 a free port is taken, which is `.port` after `start`."""

    def __init__(
        self,
        host: str,
        port: int,
        handler: RequestHandler,
        limits: SocketServerLimits | None = None,
        *,
        listener_name: str = "",
        login: ListenerLogin = _PLAINTEXT,
        quotas: ConnectionQuotas | None = None,
        urgent_apis: frozenset[int] = frozenset(),
        on_disconnect: Callable[[int], None] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.handler = handler
        self.limits = limits or SocketServerLimits()
        self.listener_name = listener_name
        self.login = login
        self.buffered_bytes = 0
        self.queued_bytes = 0
        self.urgent_apis = urgent_apis
        self.counters = ListenerCounters()
        self.connection_ids: Iterator[int] = itertools.count(1)
        self._on_disconnect = on_disconnect
        self._connections: set[ClientConnection] = set()
        self.unsent = UnsentAnswers(
            self._connections, self.limits.max_unsent_bytes, self.limits.max_unsent_bytes_per_address
        )
        self._quotas = quotas or ConnectionQuotas()
        self._acceptor: Acceptor | None = None
        self._open = 0
        self._all_closed = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server."""
        return self._loop

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    async def bind(self) -> None:
        """Bind the address without listening yet. Raises OSError if it cannot be bound."""
        self._loop = asyncio.get_running_loop()
        self.turns = turns_of(self._loop)
        self._acceptor = Acceptor(self.listener_name, self._quotas, self._new_protocol)
        self._quotas.add_listener(self)
        self.port = await self._acceptor.bind(self.host, self.port)

    def _new_protocol(self, address: str) -> asyncio.Protocol:
        connection = ClientConnection(self, address)
        if self.login.security.tls is None:
            return connection
        return TlsTransport(connection, self.login.security, self._loop)

    async def start(self) -> None:
        """Listen; bind first if necessary. Raises OSError if the address cannot be bound."""
        if self._acceptor is None:
            await self.bind()
        assert self._acceptor is not None, "bound above"
        self._acceptor.start()
        self._schedule_sweep()

    async def stop(self) -> None:
        """Stop listening and close every connection; answers are still sent, for LINGER_S at most."""
        if self._sweep is not None:
            self._sweep.cancel()
        self.unsent.stop()
        if self._acceptor is None:
            return
        self._acceptor.stop()
        self._acceptor = None
        self._quotas.remove_listener(self)
        for connection in tuple(self._connections):
            connection.close(LISTENER_STOPPED)
        if self._open:
            await self._all_closed.wait()

    # -- for the quotas

    @property
    def max_connections(self) -> int:
        """Upper bound of this listener's connections, regardless of the settings."""
        return self.limits.max_connections

    def resume_accepting(self) -> None:
        """Accept connections again, since there may be room."""
        if self._acceptor is not None:
            self._acceptor.resume()

    def least_recently_used(self) -> ClientConnection | None:
        """Return the idle connection to close first; None if none is idle."""
        idle = (connection for connection in self._connections if connection.idle)
        return min(idle, key=lambda connection: (connection.has_asked, connection.last_activity), default=None)

    def enter(self, connection: ClientConnection) -> None:
        """Add a new connection; it is closed at once if the listener has stopped meanwhile."""
        self._open += 1
        self._all_closed.clear()
        self._connections.add(connection)
        self.counters.connections_opened += 1
        if self._acceptor is None:
            connection.close(LISTENER_STOPPED)

    def left(self, address: str) -> None:
        """Uncount a connection whose socket is closed."""
        self._open -= 1
        self._quotas.release(self.listener_name, address)
        if not self._open:
            self._all_closed.set()

    def forget(self, connection: ClientConnection) -> None:
        """Remove a connection that has ended."""
        if connection in self._connections:
            self._connections.discard(connection)
            self.counters.connections_closed += 1
            if self._on_disconnect is not None:
                self._on_disconnect(connection.connection_id)

    @property
    def is_full(self) -> bool:
        """Whether unanswered requests have reached `max_queued_bytes`."""
        return self.queued_bytes > self.limits.max_queued_bytes

    def dequeued(self, size: int) -> None:
        """Uncount answered requests; if that makes room, read the waiting connections again."""
        was_full = self.is_full
        self.queued_bytes -= size
        if was_full and not self.is_full:
            for connection in tuple(self._connections):
                connection.read_on()

    def shed(self) -> None:
        """Close the connection with the most incomplete input."""
        max(self._connections, key=lambda connection: connection.buffered_bytes).close("too much incomplete input")

    def _schedule_sweep(self) -> None:
        interval_s = min(30.0, self.limits.connections_max_idle_ms / 4000)
        self._sweep = self._loop.call_later(interval_s, self._close_idle)

    def _close_idle(self) -> None:
        oldest = self._loop.time() - self.limits.connections_max_idle_ms / 1000
        for connection in tuple(self._connections):
            if connection.idle and connection.last_activity < oldest:
                connection.close("idle for connections.max.idle.ms")
        self._schedule_sweep()
