"""Requests to other nodes over one connection per destination, opened on demand and reopened with backoff.

Requests wait while a connection is opened, are pipelined on it, and complete exactly once: with the answer or with the
reason for its absence. A request that times out closes its connection, since a late answer would shift those behind it.

`on_disconnect` reports every connection that the peer refused, reset or closed, so that a peer's death is noticed at
once. Source: NetworkClient, KafkaNetworkChannel and NodeToControllerChannelManager, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import cast

from kraft_core.clients.client_session import RENEWAL_SHARE, Answered, ClientRequest, ClientSession, NotSent, Ready
from kraft_core.protocol.errors import InvalidFrame, KafkaError, UnsupportedVersion
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Destination
from kraft_core.raft.events import FailureReason
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed

log = logging.getLogger(__name__)

Result = Message | FailureReason
OnDone = Callable[[Result], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """Settings of the outgoing connections. Times are ms; the defaults are Kafka's."""

    client_id: str
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 500
    connect_timeout_ms: int = 2000
    max_frame_bytes: int = 104_857_600
    security: ClientSecurity = PLAINTEXT_CLIENT


class _Call(ClientRequest):
    """A request and its callback, until `finish`."""

    __slots__ = ("_on_done", "deadline")

    def __init__(self, message: Message, min_version: int, on_done: OnDone) -> None:
        super().__init__(message, min_version)
        self.deadline: asyncio.TimerHandle | None = None
        self._on_done = on_done

    def finish(self, result: Result) -> None:
        """Cancel the deadline and call back."""
        if self.deadline is not None:
            self.deadline.cancel()
        self._on_done(result)


class _Wire(asyncio.Protocol):
    """One TCP connection of a channel."""

    __slots__ = ("channel", "transport")

    def __init__(self, channel: "_Channel") -> None:
        self.channel = channel
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.channel.owns(self):
            self.channel.connected()
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.channel.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.channel.lost(self, str(exc or "closed by the peer"))


class _Channel:
    """The connection to one destination, and the requests that wait for it.

    `_session` exists from the first request until the connection ends; it holds the requests while `_wire` is opened.
    """

    def __init__(self, manager: "ChannelManager", destination: Destination) -> None:
        self.config = manager.config
        self._manager = manager
        self._destination = destination
        self._loop = asyncio.get_running_loop()
        self._session: ClientSession[_Call] | None = None
        self._wire: _Wire | None = None
        self._opening: asyncio.Task[None] | None = None
        self._reopening: asyncio.TimerHandle | None = None
        self._step_timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._not_before = 0.0
        self._is_refused = False  # whether the last login was refused, so that it is logged once

    @property
    def busy(self) -> bool:
        """Whether a request is not answered yet."""
        return self._session is not None and self._session.pending > 0

    def owns(self, wire: _Wire) -> bool:
        """Whether this is the connection in use, not one that was given up while it was opened."""
        return wire is self._wire

    def submit(self, call: _Call, timeout_ms: int) -> None:
        """Send the request when the connection is ready."""
        call.deadline = self._loop.call_later(timeout_ms / 1000, self._expired, call)
        if self._session is None:
            self._session = ClientSession(
                self.config.client_id,
                self.config.security,
                max_frame_bytes=self.config.max_frame_bytes,
                step_timeout_ms=self.config.connect_timeout_ms,
                renewal_share=self._manager.random.uniform(*RENEWAL_SHARE),
            )
            self._reopening = self._loop.call_at(max(self._not_before, self._loop.time()), self._open)
        self._session.send(call)
        self._advance(self._session)

    # -- the connection

    def _open(self) -> None:
        self._reopening = None
        self._opening = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        destination = self._destination
        wire = _Wire(self)
        self._wire = wire
        try:
            async with asyncio.timeout(self.config.connect_timeout_ms / 1000):
                await self._loop.create_connection(
                    lambda: wire, destination.host, destination.port, ssl=self.config.security.tls
                )
        except (OSError, TimeoutError) as error:
            cause = str(error) or "connect timed out"
            extra = {"node_id": destination.node_id, "host": destination.host, "port": destination.port, "cause": cause}
            log.warning("peer_not_reachable", extra=extra)
            self.lost(wire, cause)

    def connected(self) -> None:
        """Begin the session: the connection is open."""
        assert self._session is not None, "a connection is opened for a session"
        self._session.start(self._now_ms())
        self._advance(self._session)

    def received(self, wire: _Wire, data: bytes) -> None:
        """Pass bytes that arrived on the connection in use to the session."""
        if self.owns(wire) and self._session is not None:
            self._session.receive_data(data)
            self._advance(self._session)

    # -- the session

    def _advance(self, session: ClientSession[_Call]) -> None:
        """Handle the events of the session and write its output. A callback may submit requests or close."""
        now_ms = self._now_ms()
        while (event := self._next_event(session, now_ms)) is not None:
            match event:
                case Answered(call, answer):
                    call.finish(answer)
                case Ready():
                    self._failures = 0
                    self._is_refused = False
                case NotSent(call, UnsupportedVersion()):
                    call.finish(FailureReason.UNSUPPORTED_VERSION)
                case NotSent(_, error):
                    raise error
        if session is self._session:
            if session.step is not None or self._step_timer is not None:
                self._watch_step(session.step_deadline_ms)
            data = session.data_to_send()
            if data and self._wire is not None and self._wire.transport is not None:
                self._wire.transport.write(data)

    def _next_event(
        self, session: ClientSession[_Call], now_ms: int
    ) -> Ready | Answered[_Call] | NotSent[_Call] | None:
        """Return the session's next event; None also when it failed and the connection was dropped."""
        try:
            return session.next_event(now_ms)
        except LoginFailed as error:
            self._login_refused(error)
        except InvalidFrame as error:
            if self._wire is not None:
                self.lost(self._wire, str(error))
        except KafkaError as error:
            self._drop(str(error))
        return None

    def _login_refused(self, error: LoginFailed) -> None:
        destination = self._destination
        if not self._is_refused:
            self._is_refused = True
            extra = {"host": destination.host, "port": destination.port, "cause": str(error)}
            log.error("login_refused", extra=extra)
        self._drop(str(error))

    def _watch_step(self, deadline_ms: int | None) -> None:
        """Let the deadline of the session's own request end the connection."""
        if self._step_timer is not None:
            self._step_timer.cancel()
            self._step_timer = None
        if deadline_ms is not None:
            self._step_timer = self._loop.call_at(deadline_ms / 1000, self._drop, "request timed out")

    def _expired(self, call: _Call) -> None:
        if self._session is not None and self._session.withdraw(call):
            self._drop("request timed out")
        call.finish(FailureReason.TIMED_OUT)

    # -- the end of a connection

    def lost(self, wire: _Wire, cause: str) -> None:
        """Report the loss of the connection and fail the pending requests."""
        if self.owns(wire):
            self._drop(cause)
            self._manager.disconnected(self._destination)

    def _drop(self, cause: str) -> None:
        """End connection and session; the pending requests fail as disconnected."""
        wire, self._wire = self._wire, None
        session, self._session = self._session, None
        if wire is not None and wire.transport is not None:
            wire.transport.abort()
        self._watch_step(None)
        self._not_before = self._loop.time() + self._backoff_s()
        if session is None:
            return
        extra = {"node_id": self._destination.node_id, "port": self._destination.port, "cause": cause}
        log.debug("channel_lost", extra=extra)
        for call in session.close():
            call.finish(FailureReason.DISCONNECTED)

    def _backoff_s(self) -> float:
        config = self.config
        backoff_ms = min(config.reconnect_backoff_max_ms, config.reconnect_backoff_ms << min(self._failures, 16))
        self._failures += 1
        return backoff_ms * self._manager.random.uniform(0.8, 1.2) / 1000

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def close(self) -> None:
        """Close the connection and fail the pending requests."""
        for handle in (self._reopening, self._opening):
            if handle is not None:
                handle.cancel()
        self._drop("channel closed")


class ChannelManager:
    """All outgoing connections of one node.

    `on_disconnect` is called with the node id of each peer that refused, reset or closed a connection.
    """

    def __init__(
        self, config: ChannelConfig, random: Random, on_disconnect: Callable[[int], None] = lambda _: None
    ) -> None:
        self.config = config
        self.random = random
        self._on_disconnect = on_disconnect
        self._channels: dict[Destination, _Channel] = {}
        self._closed = False

    def request(
        self, destination: Destination, message: Message, timeout_ms: int, on_done: OnDone, *, min_version: int = 0
    ) -> None:
        """Send `message`; `on_done` is called later, exactly once, with the answer or the reason there is none."""
        if self._closed:
            asyncio.get_running_loop().call_soon(on_done, FailureReason.DISCONNECTED)
            return
        channel = self._channels.get(destination)
        if channel is None:
            self._forget_moved(destination)
            channel = self._channels[destination] = _Channel(self, destination)
        channel.submit(_Call(message, min_version, on_done), timeout_ms)

    def disconnected(self, destination: Destination) -> None:
        """Report a connection that a peer ended."""
        if not self._closed:
            self._on_disconnect(destination.node_id)

    def close(self) -> None:
        """Close every connection; requests on them fail."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _forget_moved(self, destination: Destination) -> None:
        """Close idle connections to an address where this node no longer listens."""
        for known, channel in list(self._channels.items()):
            if known.node_id == destination.node_id and not channel.busy:
                del self._channels[known]
                channel.close()
