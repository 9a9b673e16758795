"""What a NetworkClient takes and gives: its config, requests to nodes, the errors of requests, and effects.

Source: CommonClientConfigs, ClientRequest, ClientResponse of Kafka 4.3.1.
"""

from dataclasses import dataclass
from typing import Final

from kraft_core.clients.client_session import ClientRequest
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.wire import Message

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024


class Disconnected(KafkaError):  # noqa: N818  # what happened, as Kafka's names say it
    """The connection ended before the answer came; the request may have taken effect. It may be sent again."""

    def __init__(self, cause: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, cause)


class NodeTimedOut(Disconnected):
    """No answer came within the request's time, so the connection was closed."""


class InvalidAnswer(Disconnected):
    """The node sent what is no answer of Kafka's, or an answer of more than `response_bytes_max`."""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Times in ms; the names are those of Kafka's client configs with underscores."""

    client_id: str = ""
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    max_in_flight_requests_per_connection: int = 5
    response_bytes_max: int = RESPONSE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; report `connected` or `disconnected` with its id."""

    connection_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write bytes to an open connection."""

    connection_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection; nothing is reported about it afterwards."""

    connection_id: int


Effect = Connect | Write | Close


class NodeRequest(ClientRequest):
    """A request to one node. `context` is the owner's. After completion `answer` or `error` is set, never both.

    A request that expects no answer is completed when it is sent, with neither.

    `error` is Disconnected, NodeTimedOut, UnsupportedVersion, LoginFailed, or another KafkaError for a broken answer.
    """

    __slots__ = ("answer", "context", "created_ms", "deadline_ms", "error", "node_id")

    def __init__(
        self,
        node_id: int,
        message: Message,
        context: object = None,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        expects_answer: bool = True,
    ) -> None:
        super().__init__(message, min_version, max_version, expects_answer=expects_answer)
        self.node_id = node_id
        self.context = context
        self.answer: Message | None = None
        self.error: KafkaError | None = None
        self.created_ms: float = 0
        self.deadline_ms: float = -1.0 if timeout_ms is None else timeout_ms  # made absolute by `send`
