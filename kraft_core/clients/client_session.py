"""The client's side of one Kafka connection as a state machine: bytes and a time in, bytes and events out, no I/O.

    session.start(now_ms)                       # the connection is open
    session.send(request)                       # at any time; held until the session is ready
    session.receive_data(data)
    while (event := session.next_event(now_ms)) is not None:
        ...
    transport.write(session.data_to_send())

A session negotiates versions (KIP-511), logs in with SASL (KIP-43, KIP-152) and renews the login before its lifetime
ends (KIP-368). Answers arrive in the order of the requests.
Source: NetworkClient and SaslClientAuthenticator, Kafka 4.3.1.
"""

from collections import deque
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.frame_buffer import FrameBuffer
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import SaslClientAuthenticator

RENEWAL_SHARE: Final = (0.85, 0.95)
"""A login is renewed after a share of its lifetime between these. Source: SaslClientAuthenticator.ReauthInfo."""

_CORRELATION_ID_MAX: Final = 0x7FFFFFFF


class VersionsRefused(KafkaError):  # noqa: N818  # what happened, as Kafka's names say it
    """The node answered ApiVersions with an error other than a version of that request which it does not have."""

    def __init__(self, error_code: int) -> None:
        super().__init__(ErrorCode(error_code), f"ApiVersions was answered with error {error_code}")


class UnexpectedAnswer(KafkaError):  # noqa: N818  # see above
    """An answer that matches no request, or not the oldest unanswered one."""

    def __init__(self, correlation_id: int, expected: int | None) -> None:
        wanted = "no request is unanswered" if expected is None else f"{expected} is expected"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"an answer with correlation id {correlation_id}: {wanted}")


class ClientRequest:
    """A request of the session's user, who may add fields in a subclass.

    It goes out in the highest version of both sides, between `min_version` and `max_version` if given. A node does not
    answer a Produce request with acks 0: `expects_answer` is False for such, and no event follows after it was sent.
    """

    __slots__ = ("correlation_id", "expects_answer", "max_version", "message", "min_version", "version")

    def __init__(
        self, message: Message, min_version: int = 0, max_version: int | None = None, *, expects_answer: bool = True
    ) -> None:
        lowest, highest = message.VERSIONS
        self.message = message
        self.expects_answer = expects_answer
        self.min_version = max(lowest, min_version)
        self.max_version = highest if max_version is None else min(highest, max_version)
        self.version = -1  # -1, as the next: not sent yet
        self.correlation_id = -1


RequestT = TypeVar("RequestT", bound=ClientRequest)


class Ready(msgspec.Struct, frozen=True):
    """The versions are known and the login, if any, is complete. A renewed login is reported as well."""


class Answered(msgspec.Struct, Generic[RequestT], frozen=True, gc=False):
    """The answer to one request, whatever error codes it holds."""

    request: RequestT
    answer: Message


class NotSent(msgspec.Struct, Generic[RequestT], frozen=True):
    """A request that cannot be sent: `error` is UnsupportedVersion, or EncodeError for values without a place in it."""

    request: RequestT
    error: UnsupportedVersion | EncodeError


class _Phase(Enum):
    NEW = "new"
    NEGOTIATING = "negotiating"
    LOGGING_IN = "logging in"
    READY = "ready"
    CLOSED = "closed"


class ClientSession(Generic[RequestT]):
    """One connection's session. `renewal_share` is the share of a login's lifetime after which it is renewed.

    Each request of the session's own (ApiVersions, SaslHandshake, SaslAuthenticate) must be answered within
    `step_timeout_ms`: the owner watches `step_deadline_ms`, and the times of its own requests.
    A renewal begins with the first request that is sent once it is due, as soon as no request is in flight.
    """

    def __init__(
        self,
        client_id: str,
        security: ClientSecurity = PLAINTEXT_CLIENT,
        *,
        max_frame_bytes: int,
        step_timeout_ms: int,
        renewal_share: float = RENEWAL_SHARE[0],
    ) -> None:
        self.node_versions: dict[int, tuple[int, int]] = {}  # api key -> lowest and highest version of the node
        self.finalized_features: dict[str, int] = {}  # name -> level, as of the epoch
        self.finalized_features_epoch = -1  # -1: the node does not say
        self.step: Message | None = None
        self.step_deadline_ms: int | None = None
        self.is_accepted = False  # whether the node answered more than ApiVersions, which every listener answers
        self._client_id = client_id
        self._security = security
        self._step_timeout_ms = step_timeout_ms
        self._renewal_share = renewal_share
        self._frames = FrameBuffer(max_frame_bytes)
        self._has_data = False  # whether a whole frame may be there
        self._phase = _Phase.NEW
        self._login: SaslClientAuthenticator | None = None
        self._renew_at_ms: float | None = None
        self._last_correlation_id = 0
        self._step_correlation_id = -1
        self._step_version = 0
        self._held: deque[RequestT] = deque()
        self._in_flight: deque[RequestT] = deque()
        self._events: deque[Ready | NotSent[RequestT]] = deque()
        self._out: list[bytes] = []

    @property
    def pending(self) -> int:
        """How many requests are held or unanswered."""
        return len(self._held) + len(self._in_flight)

    def version_of(self, api_key: int, lowest: int, highest: int) -> int | None:
        """Return the highest version from `lowest` to `highest` that the node has too, None if there is none."""
        node_lowest, node_highest = self.node_versions.get(api_key, (0, -1))
        version = min(highest, node_highest)
        return version if version >= max(lowest, node_lowest) else None

    def start(self, now_ms: int) -> None:
        """Begin the negotiation of versions: the connection is open."""
        assert self._phase is _Phase.NEW, "a session starts once"
        self._phase = _Phase.NEGOTIATING
        self._send_step(api_versions_request(), ApiVersionsRequest.VERSIONS[1], now_ms)

    def send(self, request: RequestT) -> None:
        """Queue a request; `next_event` sends it when the session is ready."""
        assert self._phase is not _Phase.CLOSED, "a closed session takes no request"
        self._held.append(request)

    def withdraw(self, request: RequestT) -> bool:
        """Give up a request -> whether it was sent. If so, close the connection: the answer may still arrive."""
        if request in self._held:
            self._held.remove(request)
            return False
        if request in self._in_flight:
            self._in_flight.remove(request)
            return True
        return False

    def receive_data(self, data: bytes) -> None:
        """Add bytes that arrived on the connection."""
        self._frames.receive_data(data)
        self._has_data = True

    def get_buffer(self) -> memoryview:
        """Return room for bytes that arrive, to be written to at once; then call `buffer_updated`."""
        return self._frames.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Take in bytes that arrived in the buffer."""
        self._frames.buffer_updated(count)
        self._has_data = True

    def next_event(self, now_ms: int) -> Ready | Answered[RequestT] | NotSent[RequestT] | None:
        """Advance as far as the next event; None when nothing happens before more bytes or requests arrive.

        Raises InvalidFrame, UnexpectedAnswer or DecodeError for bytes that are no answer of Kafka's, VersionsRefused,
        and LoginFailed. After any of them close the session and the connection.
        """
        while self._phase is not _Phase.CLOSED:
            if self._held and self._phase is _Phase.READY:
                self._send_held(now_ms)
            if self._events:
                return self._events.popleft()
            frame = self._frames.next_frame() if self._has_data else None
            if frame is None:
                self._has_data = False
                return None
            if self.step is not None:  # then no request of the user is in flight
                self._step_answered(frame, self.step, now_ms)
            else:
                return self._answered(frame)
        return None

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the connection since the last call; b"" for none."""
        if not self._out:
            return b""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def close(self) -> list[RequestT]:
        """End the session -> the requests without an answer: those in flight, then those never sent."""
        self._phase = _Phase.CLOSED
        self.step = self.step_deadline_ms = None
        pending = [*self._in_flight, *self._held]
        self._in_flight.clear()
        self._held.clear()
        self._events.clear()
        self._out.clear()
        return pending

    # Requests of the user

    def _send_held(self, now_ms: int) -> None:
        if self._renew_at_ms is not None and now_ms >= self._renew_at_ms:
            if not self._in_flight:
                self._begin_login(now_ms)
            return
        while self._held:
            request = self._held.popleft()
            message = request.message
            version = self.version_of(message.API_KEY, request.min_version, request.max_version)
            if version is None:
                text = f"the node has no version of {type(message).__name__} from {request.min_version} on"
                self._events.append(NotSent(request, UnsupportedVersion(text)))
                continue
            try:
                frame = encode_request(message, version, self._next_correlation_id(), self._client_id)
            except EncodeError as error:
                self._events.append(NotSent(request, error))
                continue
            request.version, request.correlation_id = version, self._last_correlation_id
            self._out.append(frame)
            if request.expects_answer:
                self._in_flight.append(request)

    def _answered(self, frame: memoryview) -> Answered[RequestT]:
        if not self._in_flight:
            raise UnexpectedAnswer(_correlation_id(frame), None)
        request = self._in_flight[0]
        answer = _decode(frame, request.message.API_KEY, request.version, request.correlation_id)
        self._in_flight.popleft()
        self.is_accepted = True
        return Answered(request, answer)

    def _next_correlation_id(self) -> int:
        self._last_correlation_id = (self._last_correlation_id + 1) & _CORRELATION_ID_MAX
        return self._last_correlation_id

    # The session's own requests

    def _send_step(self, message: Message, version: int, now_ms: int) -> None:
        self.step = message
        self.step_deadline_ms = now_ms + self._step_timeout_ms
        self._step_version = version
        self._step_correlation_id = self._next_correlation_id()
        self._out.append(encode_request(message, version, self._step_correlation_id, self._client_id))

    def _step_answered(self, frame: memoryview, step: Message, now_ms: int) -> None:
        answer = _decode(frame, step.API_KEY, self._step_version, self._step_correlation_id)
        self.step = self.step_deadline_ms = None
        if isinstance(answer, ApiVersionsResponse):
            self._negotiated(answer, now_ms)
        else:
            self.is_accepted = True
            assert self._login is not None, "a step other than ApiVersions belongs to a login"
            self._continue_login(self._login, self._login.received(answer), now_ms)

    def _negotiated(self, answer: ApiVersionsResponse, now_ms: int) -> None:
        """Store the node's versions; after error 35 retry in a version that the node has, in 0 if it names none."""
        versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and self._step_version > 0:
            _, highest = versions.get(ApiKey.API_VERSIONS, (0, 0))
            self._send_step(api_versions_request(), max(0, min(self._step_version - 1, highest)), now_ms)
            return
        if answer.error_code != ErrorCode.NONE:
            raise VersionsRefused(answer.error_code)
        self.node_versions = versions
        self.finalized_features = {each.name: each.max_version_level for each in answer.finalized_features}
        self.finalized_features_epoch = answer.finalized_features_epoch
        self._begin_login(now_ms)

    def _begin_login(self, now_ms: int) -> None:
        """Log in, for the first time or again. Raises LoginFailed."""
        self._phase = _Phase.LOGGING_IN
        self._login = self._security.new_login(self.node_versions)
        if self._login is None:
            self._become_ready()
        else:
            self._continue_login(self._login, self._login.first_request(), now_ms)

    def _continue_login(self, login: SaslClientAuthenticator, request: Message | None, now_ms: int) -> None:
        if request is not None:
            self._send_step(request, login.version_of(request), now_ms)
            return
        lifetime_ms = login.session_lifetime_ms
        self._renew_at_ms = now_ms + self._renewal_share * lifetime_ms if lifetime_ms > 0 else None
        self._become_ready()

    def _become_ready(self) -> None:
        self._phase = _Phase.READY
        self._login = None
        self._events.append(Ready())


def _decode(frame: memoryview, api_key: int, version: int, expected: int) -> Message:
    """Decode the answer with the correlation id `expected`; raises UnexpectedAnswer for any other."""
    found = _correlation_id(frame)
    if found != expected:
        raise UnexpectedAnswer(found, expected)
    return decode_response(api_key, version, frame)[1]


def _correlation_id(frame: memoryview) -> int:
    if len(frame) < 4:
        raise DecodeError("ResponseHeader", "correlation_id", 0, f"a response of {len(frame)} bytes")
    return int.from_bytes(frame[:4], "big", signed=True)
