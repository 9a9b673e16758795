"""The server's side of Kafka's SASL login as a state machine: frames in, answers out, no I/O and no clock.

                      ApiVersions                SaslHandshake           tokens
    INITIAL ───────────────────────▶ HANDSHAKE ─────────────▶ AUTHENTICATE ───▶ COMPLETE
       └───────────── SaslHandshake ────────────────────────────▲     ▲             │ SaslHandshake, when sessions end
                                                                │     └─────────────┘ (KIP-368)
    a failed login, an unknown mechanism, any other request: FAILED, and the connection serves no request any more

Before a login only ApiVersions and SaslHandshake are accepted. After a SaslHandshake of version 1 the tokens are sent
in SaslAuthenticate requests, after version 0 as bare tokens with their size. A failed login is answered after
`connection.failed.authentication.delay.ms`, with one text for all causes, and the connection is closed.

Source: SaslServerAuthenticator and KafkaChannel, Kafka 4.3.1; KIP-43, KIP-152, KIP-368.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.framing import RequestHeader, decode_request_body, decode_request_header, encode_response
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.sasl import SaslError, SaslServer

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
"""Shortest time between two logins of a client. Source: KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS."""

ApiVersionsAnswer = Callable[[RequestHeader, ApiVersionsRequest | None], bytes]
"""Returns the answer to ApiVersions; the request is None if its version is not supported."""


@dataclass(frozen=True, slots=True)
class SaslMechanism:
    """One mechanism of a listener. `max_reauth_ms` is the lifetime of a login; 0: it does not expire."""

    new_server: Callable[[], SaslServer]
    max_reauth_ms: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one frame.

    `answer` is for the client: at once, or after the delay for failed logins if `failure` is set.
    `failure` is the cause to close the connection; `is_delayed`: after the delay and the answer, else at once.
    `principal` ("User:name") is set when a login is complete; `is_token`: the login used a delegation token.
    """

    answer: bytes = b""
    failure: str | None = None
    is_delayed: bool = False
    principal: str | None = None
    is_token: bool = False


class State(Enum):
    """State of a login."""

    INITIAL = "initial"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    COMPLETE = "complete"
    FAILED = "failed"


class SaslServerAuthenticator:
    """The logins of one connection. Pass it every frame until `is_complete`, and later those for which `is_due`."""

    def __init__(self, mechanisms: Mapping[str, SaslMechanism], api_versions: ApiVersionsAnswer) -> None:
        self._mechanisms = mechanisms
        self._api_versions = api_versions
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._wraps_tokens = False
        self._principal: str | None = None
        self._expires_ms: int | None = None
        self._reauthenticated_ms: int | None = None
        self.state = State.INITIAL

    @property
    def is_complete(self) -> bool:
        """Whether requests may be served."""
        return self.state is State.COMPLETE

    @property
    def mechanism(self) -> str:
        """The client's mechanism; "" before the handshake."""
        return self._mechanism

    def is_expired(self, now_ms: int) -> bool:
        """Whether the login has expired, so that requests must not be served."""
        return self._expires_ms is not None and now_ms > self._expires_ms

    def is_due(self, frame: bytes, now_ms: int) -> bool:
        """Return whether a frame belongs to a login: all during the first login, later those from a SaslHandshake on.

        A handshake within a second of the last login, or of a login that does not expire, is an ordinary request.
        """
        if self.state is not State.COMPLETE:
            return True
        if self._expires_ms is None or int.from_bytes(frame[:2]) != ApiKey.SASL_HANDSHAKE:
            return False
        last = self._reauthenticated_ms
        if last is not None and now_ms - last < MIN_REAUTHENTICATION_INTERVAL_MS:
            return False
        self._reauthenticated_ms = now_ms
        self.state = State.HANDSHAKE
        return True

    def receive(self, frame: bytes, now_ms: int) -> Step:
        """Handle one frame, given without its size."""
        if self.state is State.FAILED:
            return Step()
        try:
            if self.state is not State.AUTHENTICATE:
                return self._handshake(frame)
            if self._wraps_tokens:
                return self._wrapped_token(frame, now_ms)
            return self._bare_token(frame, now_ms)
        except KafkaError as error:
            return self._fail(f"invalid request during the login: {error}", is_delayed=False)

    # -- before the tokens

    def _handshake(self, frame: bytes) -> Step:
        header, offset = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS and self._principal is None:
            return self._answer_versions(header, frame, offset)
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return self._fail(f"Unexpected Kafka request of type {header.api_key.name} during SASL handshake.")
        request = decode_request_body(header, frame, offset)
        assert isinstance(request, SaslHandshakeRequest), "the header says so"
        return self._choose(header, request.mechanism)

    def _answer_versions(self, header: RequestHeader, frame: bytes, offset: int) -> Step:
        if self.state is not State.INITIAL:
            return self._fail("ApiVersions a second time during SASL handshake.")
        lowest, highest = ApiVersionsRequest.VERSIONS
        if not lowest <= header.api_version <= highest:
            return Step(self._api_versions(header, None))
        request = decode_request_body(header, frame, offset)
        assert isinstance(request, ApiVersionsRequest), "the header says so"
        answer = self._api_versions(header, request)
        if answer[8:10] == b"\x00\x00":  # size, correlation id, then the error code
            self.state = State.HANDSHAKE
        return Step(answer)

    def _choose(self, header: RequestHeader, mechanism: str) -> Step:
        offered = tuple(self._mechanisms)
        chosen = self._mechanisms.get(mechanism)
        if chosen is None:
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            return self._refuse(header, refusal, f"Unsupported SASL mechanism {mechanism}")
        accepted = _frame(header, SaslHandshakeResponse(mechanisms=offered))
        if self._principal is not None and mechanism != self._mechanism:
            cause = f"SASL mechanism '{mechanism}' requested for re-authentication of mechanism '{self._mechanism}'"
            return self._fail(cause, accepted, is_delayed=True)
        self._mechanism = mechanism
        self._wraps_tokens = header.api_version >= 1
        self._server = chosen.new_server()
        self.state = State.AUTHENTICATE
        return Step(accepted)

    # -- the tokens

    def _wrapped_token(self, frame: bytes, now_ms: int) -> Step:
        header, offset = decode_request_header(frame)
        request = decode_request_body(header, frame, offset)
        if not isinstance(request, SaslAuthenticateRequest):
            text = f"Unexpected Kafka request of type {header.api_key.name} during SASL authentication."
            return self._illegal(header, request, text)
        try:
            token, principal = self._evaluate(request.auth_bytes)
        except SaslError as error:
            text = self._text_for_client()
            refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
            return self._refuse(header, refusal, str(error))
        is_token = self._is_token(principal)
        lifetime_ms = self._begin_session(principal, now_ms)
        answer = SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return Step(_frame(header, answer), principal=principal, is_token=is_token)

    def _bare_token(self, frame: bytes, now_ms: int) -> Step:
        try:
            token, principal = self._evaluate(frame)
        except SaslError as error:
            return self._fail(str(error), is_delayed=True)
        is_token = self._is_token(principal)
        self._begin_session(principal, now_ms)
        return Step(len(token).to_bytes(4) + token, principal=principal, is_token=is_token)

    def _evaluate(self, token: bytes) -> tuple[bytes, str | None]:
        """Pass the client's token to the mechanism -> (the answer, the principal if the login is complete)."""
        assert self._server is not None, "chosen by the handshake"
        answer = self._server.evaluate_response(token)
        if not self._server.is_complete:
            return answer, None
        principal = f"User:{self._server.authorization_id}"
        if self._principal not in (None, principal):
            raise SaslError("cannot change principals during re-authentication")
        return answer, principal

    def _is_token(self, principal: str | None) -> bool:
        return principal is not None and self._server is not None and self._server.token_lifetime_ms is not None

    def _begin_session(self, principal: str | None, now_ms: int) -> int:
        """Record a complete login and return its lifetime in ms; 0: it does not expire or is not complete."""
        if principal is None:
            return 0
        assert self._server is not None, "it has just returned the principal"
        limits = (self._mechanisms[self._mechanism].max_reauth_ms, self._server.token_lifetime_ms or 0)
        lifetime_ms = min((limit for limit in limits if limit > 0), default=0)
        self.state = State.COMPLETE
        self._principal = principal
        self._server = None
        self._expires_ms = now_ms + lifetime_ms if lifetime_ms else None
        return lifetime_ms

    def _text_for_client(self) -> str:
        what = "authentication" if self._principal is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"

    # -- the end

    def _illegal(self, header: RequestHeader, request: Message, text: str) -> Step:
        from kraft_core.controller.error_responses import error_response  # rarely needed, and large

        refusal = error_response(request, header.api_version, ErrorCode.ILLEGAL_SASL_STATE, text)
        return self._refuse(header, refusal, text)

    def _refuse(self, header: RequestHeader, refusal: Message, cause: str) -> Step:
        return self._fail(cause, _frame(header, refusal), is_delayed=True)

    def _fail(self, cause: str, answer: bytes = b"", *, is_delayed: bool = False) -> Step:
        self.state = State.FAILED
        self._server = None
        return Step(answer, failure=cause, is_delayed=is_delayed)


def _frame(header: RequestHeader, message: Message) -> bytes:
    return encode_response(message, header, header.correlation_id)
