"""Requests to other nodes: one connection a destination, opened on demand, kept, and reopened with backoff.

A new connection asks ApiVersions first (with Kafka's fall-back for an older peer); every request then goes out in the
highest version that both sides have. Requests wait while a connection is opened, are pipelined on it, and end exactly
once: with the answer or with the reason why there is none. A request that stays unanswered for its timeout costs the
connection, as nobody can tell late answers from lost ones.

Where the settings say so, a connection is one of TLS and begins with a SASL login. When the peer lets a login be good
for a time only (KIP-368), the channel logs in again before that time is over; requests wait that little while.

Whoever needs to know of a peer's death at once hears of every connection that the peer refused, reset or closed.
Source: Kafka's NetworkClient, KafkaNetworkChannel and NodeToControllerChannelManager.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from random import Random
from typing import Final, cast

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import ErrorCode, InvalidFrame, KafkaError
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import ApiVersionsResponse
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Destination
from kraft_core.raft.events import FailureReason
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed, SaslClientAuthenticator

log = logging.getLogger(__name__)

Result = Message | FailureReason
OnDone = Callable[[Result], None]

_API_VERSIONS_VERSION: Final = 4
_RENEWED_AFTER: Final = (0.85, 0.95)
"""A login is renewed after some share of its lifetime between these. Source: SaslClientAuthenticator.ReauthInfo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """Settings of the outgoing connections. Times are ms; the defaults are Kafka's."""

    client_id: str
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 500
    connect_timeout_ms: int = 2000
    max_frame_bytes: int = 104_857_600
    security: ClientSecurity = PLAINTEXT_CLIENT


class _Call:
    """A request on its way, until `finish`."""

    __slots__ = ("_on_done", "correlation_id", "deadline", "message", "min_version", "version")

    def __init__(self, message: Message, min_version: int, on_done: OnDone) -> None:
        self.message = message
        self.min_version = min_version
        self.version = 0
        self.correlation_id = -1
        self.deadline: asyncio.TimerHandle | None = None
        self._on_done = on_done

    def finish(self, result: Result) -> None:
        """Tell the caller, and stop the clock."""
        if self.deadline is not None:
            self.deadline.cancel()
        self._on_done(result)


class _State(Enum):
    CLOSED = "closed"
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    READY = "ready"


class _Wire(asyncio.Protocol):
    """One TCP connection of a channel."""

    __slots__ = ("channel", "frames", "transport")

    def __init__(self, channel: "_Channel") -> None:
        self.channel = channel
        self.frames = Connection(channel.config.max_frame_bytes)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if not self.channel.owns(self):
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self.frames.receive_data(data)
            while (frame := self.frames.next_frame()) is not None:
                self.channel.received(self, frame)
        except InvalidFrame as error:
            self.channel.lost(self, str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self.channel.lost(self, str(exc or "closed by the peer"))


class _Channel:
    """The connection to one destination, and the requests that wait for it."""

    def __init__(self, manager: "ChannelManager", destination: Destination) -> None:
        self.config = manager.config
        self._manager = manager
        self._destination = destination
        self._loop = asyncio.get_running_loop()
        self._state = _State.CLOSED
        self._wire: _Wire | None = None
        self._opening: asyncio.Task[None] | None = None
        self._reopening: asyncio.TimerHandle | None = None
        self._waiting: deque[_Call] = deque()
        self._in_flight: deque[_Call] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._failures = 0
        self._not_before = 0.0
        self._next_correlation_id = 0
        self._renew_at: float | None = None
        self._is_refused = False  # whether the last login was refused, so that it is said once

    @property
    def busy(self) -> bool:
        """Whether a request waits or is unanswered."""
        return bool(self._waiting or self._in_flight)

    def owns(self, wire: _Wire) -> bool:
        """Whether this is the connection in use; one given up while it was opened is not."""
        return wire is self._wire

    def submit(self, call: _Call, timeout_ms: int) -> None:
        """Send the request when the connection is there."""
        call.deadline = self._loop.call_later(timeout_ms / 1000, self._expired, call)
        if self._state is _State.READY and not self._renewal_due:
            self._transmit(call)
            return
        self._waiting.append(call)
        self._renew()
        if self._state is _State.CLOSED and self._reopening is None:
            self._reopening = self._loop.call_at(max(self._not_before, self._loop.time()), self._open)

    # -- the connection

    def _open(self) -> None:
        self._reopening = None
        self._state = _State.CONNECTING
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
            return
        if self._wire is wire and self._state is _State.CONNECTING:
            self._state = _State.NEGOTIATING
            self._negotiate(_API_VERSIONS_VERSION)

    def _negotiate(self, version: int) -> None:
        """Ask what the peer speaks, with the clock of a request."""
        call = _Call(api_versions_request(), 0, self._negotiated)
        call.version = version
        call.deadline = self._loop.call_later(self.config.connect_timeout_ms / 1000, self._expired, call)
        self._write(call)

    def _negotiated(self, result: Result) -> None:
        if not isinstance(result, ApiVersionsResponse):
            return  # the connection is lost, and `lost` has seen to the rest
        versions = {api.api_key: (api.min_version, api.max_version) for api in result.api_keys}
        if result.error_code == ErrorCode.UNSUPPORTED_VERSION and ApiKey.API_VERSIONS in versions:
            self._negotiate(min(_API_VERSIONS_VERSION - 1, versions[ApiKey.API_VERSIONS][1]))
            return
        if result.error_code != ErrorCode.NONE:
            self._drop(FailureReason.DISCONNECTED, f"ApiVersions answered with error {result.error_code}")
            return
        self._versions = versions
        self._log_in()

    def _ready(self) -> None:
        self._state = _State.READY
        self._failures = 0
        self._is_refused = False
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            self._transmit(call)

    # -- the login

    def _log_in(self) -> None:
        login = self.config.security.new_login(self._versions)
        if login is None:
            self._ready()
        else:
            self._ask_for_login(login, login.first_request())

    def _ask_for_login(self, login: SaslClientAuthenticator, request: Message) -> None:
        try:
            version = login.version_of(request)
        except LoginFailed as error:
            self._login_refused(error)
            return
        call = _Call(request, 0, partial(self._login_answered, login))
        call.version = version
        call.deadline = self._loop.call_later(self.config.connect_timeout_ms / 1000, self._expired, call)
        self._write(call)

    def _login_answered(self, login: SaslClientAuthenticator, result: Result) -> None:
        if isinstance(result, FailureReason):
            return  # the connection is lost, and `lost` has seen to the rest
        try:
            request = login.received(result)
        except LoginFailed as error:
            self._login_refused(error)
            return
        if request is not None:
            self._ask_for_login(login, request)
            return
        self._renew_at = None
        if login.session_lifetime_ms > 0:
            share = self._manager.random.uniform(*_RENEWED_AFTER)
            self._renew_at = self._loop.time() + share * login.session_lifetime_ms / 1000
        self._ready()

    def _login_refused(self, error: LoginFailed) -> None:
        destination = self._destination
        if not self._is_refused:
            self._is_refused = True
            extra = {"host": destination.host, "port": destination.port, "cause": str(error)}
            log.error("login_refused", extra=extra)
        self._drop(FailureReason.DISCONNECTED, str(error))

    @property
    def _renewal_due(self) -> bool:
        return self._renew_at is not None and self._loop.time() >= self._renew_at

    def _renew(self) -> None:
        """Log in again when it is time and nothing is unanswered."""
        if self._state is _State.READY and not self._in_flight and self._renewal_due:
            self._state = _State.NEGOTIATING
            self._log_in()

    # -- requests and answers

    def _transmit(self, call: _Call) -> None:
        peer_min, peer_max = self._versions.get(call.message.API_KEY, (0, -1))
        own_min, own_max = call.message.VERSIONS
        call.version = min(peer_max, own_max)
        if call.version < max(peer_min, own_min, call.min_version):
            call.finish(FailureReason.UNSUPPORTED_VERSION)
            return
        self._write(call)

    def _write(self, call: _Call) -> None:
        assert self._wire is not None, "a request needs a connection"
        assert self._wire.transport is not None, "a request needs an open connection"
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        call.correlation_id = self._next_correlation_id
        self._in_flight.append(call)
        self._wire.transport.write(
            encode_request(call.message, call.version, call.correlation_id, self.config.client_id)
        )

    def received(self, wire: _Wire, frame: bytes) -> None:
        """Match one answer with the oldest unanswered request."""
        if wire is not self._wire:
            return
        if not self._in_flight:
            self._drop(FailureReason.DISCONNECTED, "an answer that nobody asked for")
            return
        call = self._in_flight[0]
        api_key, version = call.message.API_KEY, call.version
        if api_key == ApiKey.API_VERSIONS and frame[4:6] == b"\x00\x23":  # 35: the answer is in v0, whatever was asked
            version = 0
        try:
            correlation_id, message = decode_response(api_key, version, frame)
        except KafkaError as error:
            self._drop(FailureReason.DISCONNECTED, f"unreadable answer: {error}")
            return
        if correlation_id != call.correlation_id:
            self._drop(FailureReason.DISCONNECTED, f"answer {correlation_id} instead of {call.correlation_id}")
            return
        self._in_flight.popleft()
        call.finish(message)
        if self._renew_at is not None and self._waiting:
            self._renew()

    def _expired(self, call: _Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            call.finish(FailureReason.TIMED_OUT)
        elif call in self._in_flight:
            self._in_flight.remove(call)
            self._drop(FailureReason.DISCONNECTED, "request timed out")
            call.finish(FailureReason.TIMED_OUT)

    # -- the end of a connection

    def lost(self, wire: _Wire, cause: str) -> None:
        """Note that the connection is gone, and fail what was on it or waited for it."""
        if wire is self._wire:
            self._drop(FailureReason.DISCONNECTED, cause)
            self._manager.disconnected(self._destination)

    def _drop(self, reason: FailureReason, cause: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None and wire.transport is not None:
            wire.transport.abort()
        if self._state is not _State.CLOSED:
            extra = {"node_id": self._destination.node_id, "port": self._destination.port, "cause": cause}
            log.debug("channel_lost", extra=extra)
        self._state = _State.CLOSED
        self._renew_at = None
        self._not_before = self._loop.time() + self._backoff_s()
        failed = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call in failed:
            call.finish(reason)

    def _backoff_s(self) -> float:
        config = self.config
        backoff_ms = min(config.reconnect_backoff_max_ms, config.reconnect_backoff_ms << min(self._failures, 16))
        self._failures += 1
        return backoff_ms * self._manager.random.uniform(0.8, 1.2) / 1000

    def close(self) -> None:
        """Close the connection and fail what is on it."""
        for handle in (self._reopening, self._opening):
            if handle is not None:
                handle.cancel()
        self._drop(FailureReason.DISCONNECTED, "channel closed")


class ChannelManager:
    """All outgoing connections of one node.

    `on_disconnect` hears the node id of each peer that refused, reset or closed a connection.
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
        """Pass on that a peer ended a connection."""
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
