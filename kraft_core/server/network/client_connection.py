"""ClientConnection: one accepted connection of a listener.

The connection passes each whole frame as a `Request` to the handler of the listener and sends the answers in the order
of the requests. It is not read while `max_in_flight` requests are unanswered, while its peer does not read its answers,
and while the listener has reached one of its limits.

Source: KafkaChannel and SocketServer's Processor, Kafka 4.3.1.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol, cast

from kraft_core.controller.controller_request_context import ANONYMOUS
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import InvalidFrame, KafkaError
from kraft_core.protocol.framing import RequestHeader, decode_request_header
from kraft_core.server.network.listener_limits import ListenerCounters, SocketServerLimits
from kraft_core.server.network.request import Request, RequestHandler
from kraft_core.server.network.request_turns import LARGE_REQUEST_BYTES, Rank, RequestTurns
from kraft_core.server.network.sasl_session import ListenerLogin, SaslSession
from kraft_core.server.network.unsent_answers import UNSENT, UnsentAnswers

log = logging.getLogger(__name__)

LISTENER_STOPPED: Final = "listener stopped"
FRAMES_PER_TURN: Final = 32
"""Upper bound of requests that a connection passes to the handler in one turn of the loop."""
LINGER_S: Final = 5.0
"""Time to send the last answers of a closed connection."""
_LOGIN_HEADER: Final = RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None)


class Listener(Protocol):
    """The interface of SocketServer that its connections use."""

    listener_name: str
    limits: SocketServerLimits
    login: ListenerLogin
    counters: ListenerCounters
    unsent: UnsentAnswers
    turns: RequestTurns
    handler: RequestHandler
    urgent_apis: frozenset[int]
    connection_ids: Iterator[int]
    buffered_bytes: int
    queued_bytes: int

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server."""

    @property
    def is_full(self) -> bool:
        """Whether unanswered requests have reached `max_queued_bytes`."""

    def enter(self, connection: "ClientConnection") -> None:
        """Add a new connection."""

    def forget(self, connection: "ClientConnection") -> None:
        """Remove a connection that has ended."""

    def left(self, address: str) -> None:
        """Uncount a connection whose socket is closed."""

    def dequeued(self, size: int) -> None:
        """Uncount answered requests."""

    def shed(self) -> None:
        """Close the connection with the most incomplete input."""


class ClientConnection(asyncio.Protocol):
    """One accepted connection: input buffer, requests in flight in their order, back-pressure.

    `owner` is the client's address and the name of the connection within this process.
    """

    __slots__ = (
        "_awaits_turn",
        "_closed",
        "_frames",
        "_held_bytes",
        "_in_flight",
        "_linger",
        "_muted",
        "_next",
        "_read_paused",
        "_sent_bytes",
        "_session",
        "_taking",
        "_transport",
        "_write_paused",
        "_written_bytes",
        "buffered_bytes",
        "client_host",
        "connection_id",
        "has_asked",
        "held_by",
        "in_flight_bytes",
        "last_activity",
        "owner",
        "principal",
        "server",
        "stalled_watches",
        "token_authenticated",
        "unsent_bytes",
    )

    def __init__(self, server: Listener, address: str) -> None:
        self.server = server
        self.connection_id = next(server.connection_ids)
        self.client_host = address
        self.owner = address, f"{server.listener_name} {self.connection_id}"
        self.principal = ANONYMOUS
        self.token_authenticated = False
        self.buffered_bytes = 0
        self.in_flight_bytes = 0
        self.held_by: Request | None = None
        self.last_activity = 0.0
        self.has_asked = False
        self._frames = Connection(server.limits.max_frame_bytes, checks_requests=True)
        self._in_flight: deque[Request] = deque()
        self._transport: asyncio.Transport | None = None
        self._read_paused = False
        self._write_paused = False
        self._taking = False
        self._awaits_turn = False
        self._next: bytes | None = None
        self._muted = False
        self._held_bytes = 0
        self._written_bytes = 0
        self._sent_bytes = 0
        self.unsent_bytes = 0
        self.stalled_watches = 0
        self._closed = False
        self._session: SaslSession | None = None
        self._linger: asyncio.TimerHandle | None = None

    # -- what requests use

    @property
    def listener_name(self) -> str:
        """Name of the connection's listener."""
        return self.server.listener_name

    @property
    def security_protocol(self) -> int:
        """Number of the listener's SecurityProtocol."""
        return self.server.login.security.security_protocol

    @property
    def answer_room(self) -> int:
        """How many bytes an answer to this client may have; 0 if it should have no content."""
        return self.server.unsent.room(self.client_host)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add the connection to the listener and begin its login, if any. Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self.last_activity = self.server.loop.time()
        self._transport.set_write_buffer_limits(high=self.server.limits.write_high_water_bytes)
        self.server.enter(self)
        if self.server.login.mechanisms and not self._closed:
            self._session = SaslSession(self, self.server.login, self.server.listener_name, self.server.loop)

    def data_received(self, data: bytes) -> None:
        """Pass the requests that the bytes complete to the handler. Called by asyncio."""
        if self._closed:
            return
        self.last_activity = self.server.loop.time()
        self.buffered_bytes += len(data)
        self.server.buffered_bytes += len(data)
        self.server.counters.incoming_bytes += len(data)
        try:
            self._frames.receive_data(data)
        except InvalidFrame as error:
            self.close(str(error))
            return
        self._take_frames()
        if self.server.buffered_bytes > self.server.limits.max_buffered_bytes:
            self.server.shed()

    def pause_writing(self) -> None:
        """Stop reading: the peer does not read its answers. Called by asyncio."""
        self._write_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        """Resume reading: the peer has read its answers. Called by asyncio."""
        self._write_paused = False
        if not self._closed:
            self.count_unsent()
        self._take_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the listener. Called by asyncio."""
        self._forget()
        if self._linger is not None:
            self._linger.cancel()
        self.server.left(self.client_host)

    # -- requests

    def _blocked(self) -> bool:
        limits = self.server.limits
        return (
            self._write_paused
            or self._muted
            or (self.held_by is not None and self.held_by.answer is None)
            or len(self._in_flight) >= limits.max_in_flight
            or self.in_flight_bytes > limits.max_frame_bytes
            or self._held_bytes > limits.write_high_water_bytes
            or self.server.is_full
            or self.server.unsent.blocks(self)
        )

    def _take_frames(self) -> None:
        """Handle the whole frames that the limits and this turn of the loop allow, then resume or pause reading."""
        if self._taking or self._awaits_turn:
            return
        self._taking = True
        turns, room = self.server.turns, FRAMES_PER_TURN
        try:
            while not self._closed and not self._blocked():
                frame = self._next or self._frames.next_frame()
                if frame is None:
                    break
                rank = self._rank(frame)
                if not room or not turns.may_take(rank):
                    self._next = frame
                    self._awaits_turn = True
                    turns.wait(self, rank)
                    break
                self._next = None
                room -= 1
                began_s = turns.begin()
                self._take(frame)
                turns.end(began_s)
        except InvalidFrame as error:
            self.close(str(error))
        finally:
            self._taking = False
        self._update_reading()

    def _rank(self, frame: bytes) -> Rank:
        if len(frame) > LARGE_REQUEST_BYTES:
            return Rank.LARGE
        is_urgent = int.from_bytes(frame[:2], signed=True) in self.server.urgent_apis
        return Rank.URGENT if is_urgent else Rank.SMALL

    def take_turn(self) -> None:
        """Handle requests in a turn for which the connection waited."""
        self._awaits_turn = False
        self._take_frames()

    def _take(self, frame: bytes) -> None:
        size = len(frame) + 4
        self.buffered_bytes -= size
        self.server.buffered_bytes -= size
        if self._session is not None and self._session.take(frame):
            return
        try:
            header, body_offset = decode_request_header(frame)
        except KafkaError as error:
            self.close(f"not a request header: {error}")
            return
        request = self._enter(Request(self, header, frame, body_offset))
        try:
            self.server.handler(request)
        except KafkaError as error:
            self.close(f"request cannot be served: {error}")
        except Exception:  # a bug in a handler must not stop the listener
            log.exception("request_failed", extra={"api_key": header.api_key, "client_host": self.client_host})
            self.close("request handler failed")

    def _enter(self, request: Request) -> Request:
        self.has_asked = True
        self._in_flight.append(request)
        self.in_flight_bytes += request.size
        self.server.queued_bytes += request.size
        requests, api_key = self.server.counters.requests, request.header.api_key
        requests[api_key] = requests.get(api_key, 0) + 1
        return request

    # -- what a login uses

    def reply(self, frame: bytes, answer: bytes) -> None:
        """Answer a frame of a login, in the order of all answers."""
        if not self._closed:
            self._enter(Request(self, _LOGIN_HEADER, frame, 0)).respond_bytes(answer)

    def mute(self) -> None:
        """Stop reading for the rest of the connection."""
        self._muted = True
        self._update_reading()

    def limit_frames(self, max_frame_bytes: int | None) -> None:
        """Accept frames up to this size, whatever their API; None for the limits of the listener and of each API."""
        limit = self.server.limits.max_frame_bytes
        self._frames.checks_requests = max_frame_bytes is None
        self._frames.max_frame_bytes = limit if max_frame_bytes is None else min(limit, max_frame_bytes)

    # -- answers

    def expect(self, size: int) -> None:
        """Count an answer of `size` bytes that is being created."""
        if not self._closed and self._transport is not None:
            self._held_bytes += size
            self.count_unsent()

    def answered(self, size: int) -> None:
        """Send the answers up to the first unanswered request; a new answer has `size` bytes not counted yet."""
        if self._closed or self._transport is None:
            return
        self._held_bytes += size
        in_flight = self._in_flight
        done_bytes = 0
        while in_flight:
            answer = in_flight[0].answer
            if answer is None:
                break
            request = in_flight.popleft()
            request.forget_answer()
            done_bytes += request.size
            if answer:
                self._held_bytes -= len(answer)
                self._written_bytes += len(answer)
                self._transport.write(answer)
                self.server.counters.outgoing_bytes += len(answer)
        self.in_flight_bytes -= done_bytes
        self.server.dequeued(done_bytes)
        self.count_unsent()
        if self.server.unsent.total_bytes > self.server.limits.max_unsent_bytes:
            self.server.unsent.shed()
            if self._closed:
                return
        self.last_activity = self.server.loop.time()
        if self._read_paused or self.buffered_bytes:
            self._take_frames()

    def count_unsent(self) -> bool:
        """Count the unsent answers; return whether the peer has read any bytes since the last count."""
        assert self._transport is not None, "an open connection has a transport"
        waiting = self._transport.get_write_buffer_size()
        sent = self._written_bytes - waiting
        has_moved, self._sent_bytes = sent > self._sent_bytes, sent
        unsent = self._held_bytes + waiting
        self.server.unsent.count(self.client_host, unsent - self.unsent_bytes)
        self.unsent_bytes = unsent
        return has_moved

    def _update_reading(self) -> None:
        if self._closed or self._transport is None or self._transport.is_closing():
            return
        blocked = self._awaits_turn or self._blocked()
        if blocked and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        elif not blocked and self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    # -- closing

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._closed

    @property
    def idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._in_flight

    def close(self, cause: str) -> None:
        """Close at once, without an answer to requests in flight; answers given before are still sent."""
        if self._closed:
            return
        extra = {"listener": self.server.listener_name, "client_host": self.client_host, "cause": cause}
        log.log(logging.DEBUG if cause == LISTENER_STOPPED else logging.INFO, "connection_closed", extra=extra)
        self._forget()
        if self._transport is None:
            return
        if self._write_paused or cause == UNSENT:
            self._transport.abort()
        else:
            self._transport.close()
            self._linger = self.server.loop.call_later(LINGER_S, self._transport.abort)

    def _forget(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._session is not None:
            self._session.end()
        self.server.buffered_bytes -= self.buffered_bytes
        self.buffered_bytes = 0
        self._next = None
        self.held_by = None
        self.server.unsent.count(self.client_host, -self.unsent_bytes)
        self.unsent_bytes = 0
        self._in_flight.clear()
        self.server.forget(self)
        self.server.dequeued(self.in_flight_bytes)
        self.in_flight_bytes = 0

    def read_on(self) -> None:
        """Handle the frames that had to wait for a limit."""
        if not self._closed and self._read_paused:
            self._take_frames()
