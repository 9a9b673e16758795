"""Request: one request that arrived on a listener, with the methods to answer it.

Source: RequestChannel.Request, Kafka 4.3.1.
"""

from collections.abc import Callable
from typing import Protocol

from kraft_core.protocol.framing import RequestHeader, decode_request_body, encode_response
from kraft_core.protocol.wire import Message
from kraft_core.server.network.request_turns import LARGE_REQUEST_BYTES


class RequestConnection(Protocol):
    """The interface of a connection that its requests use."""

    connection_id: int
    client_host: str
    owner: tuple[str, str]
    principal: str
    token_authenticated: bool
    held_by: "Request | None"

    @property
    def listener_name(self) -> str:
        """Name of the connection's listener."""

    @property
    def security_protocol(self) -> int:
        """Number of the listener's SecurityProtocol."""

    @property
    def answer_room(self) -> int:
        """How many bytes an answer to this client may have; 0 if it should have no content."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or closing."""

    def expect(self, size: int) -> None:
        """Count an answer of `size` bytes that is being created."""

    def answered(self, size: int) -> None:
        """Send the answers up to the first unanswered request; a new answer has `size` bytes not counted yet."""

    def close(self, cause: str) -> None:
        """Close at once."""


class Request:
    """One request of a client. Answer it exactly once; later answers are ignored.

    `frame` is the request without its size prefix; its body begins at `body_offset`. `size` is the size of the frame,
    also after `take_body` has released it.
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

    def __init__(self, connection: RequestConnection, header: RequestHeader, frame: bytes, body_offset: int) -> None:
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
    def is_large(self) -> bool:
        """Whether the request takes so much time and memory that others wait for it or it waits for others."""
        return self.size > LARGE_REQUEST_BYTES

    @property
    def listener_name(self) -> str:
        """Name of the listener on which the request arrived."""
        return self._connection.listener_name

    @property
    def owner(self) -> tuple[str, str]:
        """The client's address, and the name of the connection within this process."""
        return self._connection.owner

    @property
    def security_protocol(self) -> int:
        """Number of that listener's SecurityProtocol."""
        return self._connection.security_protocol

    @property
    def answer_room(self) -> int:
        """How many bytes the answer may have, if its size can be chosen; 0 if it should have no content."""
        return self._connection.answer_room

    def expect_answer(self, size: int) -> None:
        """Count an answer of about `size` bytes while it is being created. Call it once."""
        self._expected_bytes = size
        self._connection.expect(size)

    def body(self) -> Message:
        """Decode the body. Raises DecodeError if it does not match the header."""
        return decode_request_body(self.header, self.frame, self.body_offset)

    def take_body(self) -> Message:
        """Decode the body and release the frame, for a request that may wait long for its answer. Raises as `body`."""
        body = self.body()
        self.frame = b""
        return body

    def respond(self, message: Message) -> None:
        """Send `message` as the answer, once all earlier requests of the connection are answered."""
        self.respond_bytes(encode_response(message, self.header, self.header.correlation_id))

    def respond_bytes(self, frame: bytes) -> None:
        """Send a whole answer, including size prefix and header."""
        if self._answer is None:
            self._answer = frame
            self._connection.answered(len(frame) - self._expected_bytes)

    def respond_nothing(self) -> None:
        """Complete the request without an answer (Produce with acks=0)."""
        self.respond_bytes(b"")

    def hold(self) -> None:
        """Handle no further request of the connection until this one is answered, as Kafka does with every request."""
        self._connection.held_by = self

    def close(self, cause: str) -> None:
        """Close the connection instead of answering; `cause` is logged."""
        self._connection.close(cause)

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection has closed, so that an answer would be dropped."""
        return self._connection.is_closed

    @property
    def answer(self) -> bytes | None:
        """The answer's frame; None while unanswered, empty after it was written to the socket."""
        return self._answer

    def forget_answer(self) -> None:
        """Release the answer's frame, which may be large."""
        self._answer = b""


RequestHandler = Callable[[Request], None]
