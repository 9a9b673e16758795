"""One accepted connection of a listener, and the requests that come through it.

The connection hands each whole frame to the listener's handler as a `Request`, and sends the answers in the order of
the requests. It is not read while `max_in_flight` requests wait, while its peer does not read its answers, and while
the listener as a whole has too much to do.

Source: KafkaChannel and Processor of Kafka's SocketServer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from kraft_core.controller.controller_request_context import ANONYMOUS
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import InvalidFrame, KafkaError
from kraft_core.protocol.framing import RequestHeader, decode_request_body, decode_request_header, encode_response
from kraft_core.protocol.wire import Message
from kraft_core.server.network.request_turns import LARGE_REQUEST_BYTES, Rank
from kraft_core.server.network.sasl_session import SaslSession
from kraft_core.server.network.unsent_answers import UNSENT

if TYPE_CHECKING:
    from kraft_core.server.network.socket_server import SocketServer

log = logging.getLogger(__name__)

LISTENER_STOPPED: Final = "listener stopped"
FRAMES_PER_TURN: Final = 32
"""How many requests a connection hands over in one turn of the loop at most, so that others come in between."""
LINGER_S: Final = 5.0
"""How long the last answers of a closed connection may take to be sent."""
_LOGIN_HEADER: Final = RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None)


class Request:
    """One request of a client, and the only way to answer it. Answer exactly once; later answers are ignored.

    `frame` is the request without its size prefix, `body_offset` where the body begins in it; `size` is the frame's,
    also after `take_body` let go of it.
    """

    __slots__ = (
        "_answer",
        "_connection",
        "_expected_bytes",
        "body_offset",
        "client_host",
        "connection_id",
        "frame",
        "header",
        "principal",
        "size",
        "token_authenticated",
    )

    def __init__(self, connection: "ClientConnection", header: RequestHeader, frame: bytes, body_offset: int) -> None:
        self._connection = connection
        self._answer: bytes | None = None
        self._expected_bytes = 0
        self.connection_id = connection.connection_id
        self.client_host = connection.client_host
        self.principal = connection.principal
        self.token_authenticated = connection.token_authenticated
        self.header = header
        self.frame = frame
        self.size = len(frame)
        self.body_offset = body_offset

    @property
    def listener_name(self) -> str:
        """Name of the listener the request came through."""
        return self._connection.server.listener_name

    @property
    def owner(self) -> tuple[str, str]:
        """The client's address, and what names the connection within this process."""
        return self._connection.owner

    @property
    def security_protocol(self) -> int:
        """Number of that listener's SecurityProtocol."""
        return self._connection.server.login.security.security_protocol

    @property
    def answer_room(self) -> int:
        """How many bytes the answer may have, if that can be chosen; 0 when it should have no content."""
        return self._connection.server.unsent.room(self.client_host)

    def expect_answer(self, size: int) -> None:
        """Count an answer of about `size` bytes while it is made, once."""
        self._expected_bytes = size
        self._connection.expect(size)

    def body(self) -> Message:
        """Decode the body. Raises DecodeError when it is not what the header says it is."""
        return decode_request_body(self.header, self.frame, self.body_offset)

    def take_body(self) -> Message:
        """Decode the body and let go of the frame, for a request that waits long for its answer. Raises as `body`."""
        body = self.body()
        self.frame = b""
        return body

    def respond(self, message: Message) -> None:
        """Send `message` as the answer, once all earlier requests of the connection are answered."""
        self.respond_bytes(encode_response(message, self.header, self.header.correlation_id))

    def respond_bytes(self, frame: bytes) -> None:
        """Send a whole answer, size prefix and header included."""
        if self._answer is None:
            self._answer = frame
            self._connection.answered(len(frame) - self._expected_bytes)

    def respond_nothing(self) -> None:
        """Count the request as answered without sending anything (a Produce with acks=0)."""
        self.respond_bytes(b"")

    def hold(self) -> None:
        """Take no further request of the connection until this one is answered, as Kafka does with each."""
        self._connection.held_by = self

    def close(self, cause: str) -> None:
        """Close the connection instead of answering; `cause` goes to the log."""
        self._connection.close(cause)

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection has closed, so that nobody gets the answer."""
        return self._connection.is_closed

    @property
    def answer(self) -> bytes | None:
        """The answer's frame, None while there is none yet; empty once it was handed to the socket."""
        return self._answer

    def forget_answer(self) -> None:
        """Let go of the frame, which may be large."""
        self._answer = b""


RequestHandler = Callable[[Request], None]


class ClientConnection(asyncio.Protocol):
    """One accepted connection: input buffer, requests in flight in their order, back-pressure."""

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

    def __init__(self, server: "SocketServer", address: str) -> None:
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

    # -- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter the listener, and begin the login if it has one. Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self.last_activity = self.server.loop.time()
        self._transport.set_write_buffer_limits(high=self.server.limits.write_high_water_bytes)
        self.server.enter(self)
        if self.server.login.mechanisms and not self._closed:
            self._session = SaslSession(self, self.server.login, self.server.listener_name, self.server.loop)

    def data_received(self, data: bytes) -> None:
        """Take bytes in and hand over the requests they complete. Called by asyncio."""
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
        """Read on. Called by asyncio."""
        self._write_paused = False
        if not self._closed:
            self.count_unsent()
        self._take_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the connection's place. Called by asyncio."""
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
        """Hand over the whole frames that the limits and this turn of the loop allow, then read on or stop reading."""
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
        """Take requests in a turn that the connection waited for."""
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
        except Exception:  # a bug in one handler must not take the listener with it; the peer sees a closed connection
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

    # -- what a login asks of its connection

    def reply(self, frame: bytes, answer: bytes) -> None:
        """Answer a frame of a login in its turn."""
        if not self._closed:
            self._enter(Request(self, _LOGIN_HEADER, frame, 0)).respond_bytes(answer)

    def mute(self) -> None:
        """Read nothing more, for good."""
        self._muted = True
        self._update_reading()

    def limit_frames(self, max_frame_bytes: int | None) -> None:
        """Take frames up to this size whatever they hold; None for the limits of the listener and of each API."""
        limit = self.server.limits.max_frame_bytes
        self._frames.checks_requests = max_frame_bytes is None
        self._frames.max_frame_bytes = limit if max_frame_bytes is None else min(limit, max_frame_bytes)

    # -- answers

    def expect(self, size: int) -> None:
        """Count an answer of `size` bytes that is being made."""
        if not self._closed and self._transport is not None:
            self._held_bytes += size
            self.count_unsent()

    def answered(self, size: int) -> None:
        """Send the answers that no earlier, unanswered request holds back; one with `size` bytes that were not counted yet is new."""
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
        """Count the answers that wait for earlier ones or for the peer; return whether the peer has taken some since the last count."""
        assert self._transport is not None, "an open connection has one"
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

    # -- the end

    @property
    def is_closed(self) -> bool:
        """Whether it has closed or is being closed."""
        return self._closed

    @property
    def idle(self) -> bool:
        """Whether the connection waits for nothing but its peer."""
        return not self._in_flight

    def close(self, cause: str) -> None:
        """Close at once, without answering what is in flight."""
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
        """Take what waited for room."""
        if not self._closed and self._read_paused:
            self._take_frames()
