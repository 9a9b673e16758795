"""HTTP errors: one class per status, one table from Kafka's error codes to statuses, one body.

The body carries REST v3's `error_code` and `message` and the members of RFC 9457. Where REST v3 has the endpoint,
status and error_code are Confluent's; endpoints that REST v3 lacks answer with the status alone.

    ApiError                  an answer with a status; a subclass per status names it
    KafkaError                raised by requests to the controller; mapped by of_kafka
    ConnectionError           no controller can be reached: 503 with Retry-After, 504 after a timeout
    DatabaseUnavailableError  the database cannot be used: 503 with Retry-After

Every error status of the web process is in this module. A route declares its status on success.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

from starlette.exceptions import HTTPException

from app.db.outage import RETRY_AFTER_SECONDS as DATABASE_RETRY_SECONDS
from app.db.outage import DatabaseUnavailableError
from app.texts import phrase, sentence_of
from kraft_core.clients.kafka_client import RequestTimedOut
from kraft_core.protocol.errors import ErrorCode, KafkaError

PROBLEM_JSON: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 1

FORM_REFUSED: Final = 422
"""Status of a page that shows a form again, with what is wrong in it."""
CHANGE_REFUSED: Final = 409
"""Status of a page that shows why a change cannot be made now."""
NOT_READY: Final = 503
"""Status of a readiness probe that lists what is missing."""
UNEXPECTED: Final = 500
"""Status of the answer when rendering an error fails too."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong member of the request; `pointer` is a JSON pointer into the body, or `?name` for a query parameter."""

    pointer: str
    message: str


class Details(TypedDict, total=False):
    """What an ApiError says beside status and message.

    `code`: last part of the body's type, and its title; by default that of the class.
    `error_code`: REST v3's number; by default the status.
    `retry_after_seconds`: value of the header Retry-After.
    """

    code: str
    error_code: int
    errors: tuple[FieldError, ...]
    headers: dict[str, str]
    retry_after_seconds: int


class ApiError(Exception):
    """An answer that is an error. Subclasses have a status, and a code for programs."""

    status: int
    code: str

    def __init__(self, message: str, **details: Unpack[Details]) -> None:
        super().__init__(message)
        self.message = message
        self.code = details.get("code", type(self).code)
        self.error_code = details.get("error_code", self.status)
        self.errors = details.get("errors", ())
        self.headers = dict(details.get("headers", {}))
        if "retry_after_seconds" in details:
            self.headers["Retry-After"] = str(details["retry_after_seconds"])


class BadRequestError(ApiError):
    """The request cannot be read, or a parameter of it is wrong."""

    status, code = 400, "bad-request"


class UnauthorizedError(ApiError):
    """The request comes without valid credentials."""

    status, code = 401, "unauthorized"


class NotLoggedInError(UnauthorizedError):
    """The request comes without credentials. `form_cookie` has the key of its form, if that was kept."""

    def __init__(self, form_cookie: str = "") -> None:
        self.form_cookie = form_cookie
        super().__init__(
            phrase("Log in, or send an API token."), headers={"WWW-Authenticate": 'Bearer realm="conclave"'}
        )


class ForbiddenError(ApiError):
    """The caller may not do this."""

    status, code = 403, "forbidden"


class NotFoundError(ApiError):
    """The resource does not exist."""

    status, code = 404, "not-found"


class NoSuchPathError(NotFoundError):
    """No route has this path."""

    def __init__(self, **details: Unpack[Details]) -> None:
        super().__init__("HTTP 404 Not Found", **details)


class MethodNotAllowedError(ApiError):
    """The path exists and does not have this method."""

    status, code = 405, "method-not-allowed"


class NotAcceptableError(ApiError):
    """The client accepts no media type that the endpoint has."""

    status, code = 406, "not-acceptable"


class RequestTimeoutError(ApiError):
    """The body of the request took too long to arrive."""

    status, code = 408, "timeout"


class ConflictError(ApiError):
    """The state of the resource forbids the request now."""

    status, code = 409, "conflict"


class GoneError(ApiError):
    """The resource existed and is no longer kept."""

    status, code = 410, "gone"


class PreconditionFailedError(ApiError):
    """A precondition such as If-Match does not hold."""

    status, code = 412, "precondition-failed"


class ContentTooLargeError(ApiError):
    """The body is larger than allowed."""

    status, code = 413, "content-too-large"


class UnsupportedMediaTypeError(ApiError):
    """The body has a media type that the endpoint does not read."""

    status, code = 415, "unsupported-media-type"


class MisdirectedRequestError(ApiError):
    """The request names a host that this server does not serve."""

    status, code = 421, "misdirected-request"


class UnprocessableError(ApiError):
    """The body is well-formed and its content is not valid."""

    status, code = 422, "unprocessable-content"


class TooManyRequestsError(ApiError):
    """The caller has reached a limit of its own."""

    status, code = 429, "too-many-requests"


class InternalError(ApiError):
    """The server failed unexpectedly."""

    status, code = 500, "internal-error"


class UnavailableError(ApiError):
    """The server cannot answer now; a retry may succeed."""

    status, code = 503, "unavailable"


class GatewayTimeoutError(ApiError):
    """The cluster did not answer in time."""

    status, code = 504, "timeout"


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    kind.status: kind
    for kind in (
        BadRequestError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        MethodNotAllowedError,
        NotAcceptableError,
        RequestTimeoutError,
        ConflictError,
        GoneError,
        PreconditionFailedError,
        ContentTooLargeError,
        UnsupportedMediaTypeError,
        MisdirectedRequestError,
        UnprocessableError,
        TooManyRequestsError,
        InternalError,
        UnavailableError,
        GatewayTimeoutError,
    )
}

C = ErrorCode
_V3: Final[dict[ErrorCode, tuple[int, int]]] = {
    C.SASL_AUTHENTICATION_FAILED: (401, 40101),
    C.TOPIC_AUTHORIZATION_FAILED: (403, 40301),
    C.GROUP_AUTHORIZATION_FAILED: (403, 40301),
    C.CLUSTER_AUTHORIZATION_FAILED: (403, 40301),
    C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (403, 40301),
    C.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (403, 40301),
    C.UNKNOWN_TOPIC_OR_PARTITION: (404, 40403),
    C.UNKNOWN_TOPIC_ID: (404, 40403),
    C.TOPIC_ALREADY_EXISTS: (400, 40002),
    C.INVALID_PARTITIONS: (400, 40002),
    C.INVALID_REPLICATION_FACTOR: (400, 40002),
    C.INVALID_CONFIG: (400, 40002),
    C.INVALID_REQUEST: (400, 40002),
    C.POLICY_VIOLATION: (400, 40002),
    C.INVALID_TOPIC_EXCEPTION: (400, 40002),
    C.UNSUPPORTED_VERSION: (400, 40002),
    C.SECURITY_DISABLED: (400, 40002),
    C.TOPIC_DELETION_DISABLED: (400, 40002),
    C.UNKNOWN_SERVER_ERROR: (400, 40002),
    C.INVALID_REPLICA_ASSIGNMENT: (400, 40002),
    C.THROTTLING_QUOTA_EXCEEDED: (429, 42901),
    C.BROKER_NOT_AVAILABLE: (503, 50302),
    C.BROKER_ID_NOT_REGISTERED: (404, 404),
}
_OURS: Final[dict[ErrorCode, int]] = {
    C.SASL_AUTHENTICATION_FAILED: 401,
    C.TOPIC_AUTHORIZATION_FAILED: 403,
    C.GROUP_AUTHORIZATION_FAILED: 403,
    C.CLUSTER_AUTHORIZATION_FAILED: 403,
    C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    C.DELEGATION_TOKEN_AUTHORIZATION_FAILED: 403,
    C.UNKNOWN_TOPIC_OR_PARTITION: 404,
    C.UNKNOWN_TOPIC_ID: 404,
    C.TOPIC_ALREADY_EXISTS: 409,
    C.INVALID_PARTITIONS: 400,
    C.INVALID_REPLICATION_FACTOR: 400,
    C.INVALID_CONFIG: 400,
    C.INVALID_REQUEST: 400,
    C.POLICY_VIOLATION: 422,
    C.INVALID_TOPIC_EXCEPTION: 400,
    C.UNSUPPORTED_VERSION: 400,
    C.SECURITY_DISABLED: 400,
    C.TOPIC_DELETION_DISABLED: 409,
    C.INVALID_REPLICA_ASSIGNMENT: 400,
    C.OFFSET_OUT_OF_RANGE: 400,
    C.OFFSET_METADATA_TOO_LARGE: 400,
    C.INVALID_TIMESTAMP: 400,
    C.INVALID_RECORD: 400,
    C.UNSUPPORTED_COMPRESSION_TYPE: 400,
    C.MESSAGE_TOO_LARGE: 413,
    C.RECORD_LIST_TOO_LARGE: 413,
    C.LOG_DIR_NOT_FOUND: 404,
    C.UNKNOWN_CONTROLLER_ID: 404,
    C.REBALANCE_IN_PROGRESS: 409,
    C.FENCED_INSTANCE_ID: 409,
    C.INELIGIBLE_REPLICA: 409,
    C.INCONSISTENT_VOTER_SET: 409,
    C.STALE_BROKER_EPOCH: 409,
    C.OPERATION_NOT_ATTEMPTED: 409,
    C.REASSIGNMENT_IN_PROGRESS: 409,
    C.NO_REASSIGNMENT_IN_PROGRESS: 404,
    C.PREFERRED_LEADER_NOT_AVAILABLE: 409,
    C.ELIGIBLE_LEADERS_NOT_AVAILABLE: 409,
    C.THROTTLING_QUOTA_EXCEEDED: 429,
    C.BROKER_NOT_AVAILABLE: 503,
    C.NOT_CONTROLLER: 503,
    C.NOT_LEADER_OR_FOLLOWER: 503,
    C.REQUEST_TIMED_OUT: 504,
    C.DUPLICATE_VOTER: 409,
    C.VOTER_NOT_FOUND: 404,
    C.INVALID_VOTER_KEY: 400,
    C.BROKER_ID_NOT_REGISTERED: 404,
    C.INVALID_UPDATE_VERSION: 409,
    C.FEATURE_UPDATE_FAILED: 500,
    C.INCONSISTENT_CLUSTER_ID: 409,
    C.UNACCEPTABLE_CREDENTIAL: 400,
    C.UNSUPPORTED_SASL_MECHANISM: 400,
    C.RESOURCE_NOT_FOUND: 404,
    C.DUPLICATE_RESOURCE: 409,
    C.ELECTION_NOT_NEEDED: 409,
    C.DELEGATION_TOKEN_AUTH_DISABLED: 400,
    C.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: 400,
    C.INVALID_PRINCIPAL_TYPE: 400,
    C.DELEGATION_TOKEN_OWNER_MISMATCH: 403,
    C.DELEGATION_TOKEN_NOT_FOUND: 404,
    C.DELEGATION_TOKEN_EXPIRED: 409,
    C.INVALID_GROUP_ID: 400,
    C.GROUP_ID_NOT_FOUND: 404,
    C.NON_EMPTY_GROUP: 409,
    C.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    C.UNKNOWN_MEMBER_ID: 409,
    C.TRANSACTIONAL_ID_NOT_FOUND: 404,
    C.INVALID_PRODUCER_EPOCH: 409,
    C.INVALID_TXN_STATE: 409,
    C.TRANSACTION_COORDINATOR_FENCED: 409,
}


def status_of(code: ErrorCode, *, v3: bool) -> tuple[int, int]:
    """Return (HTTP status, error_code) of a Kafka error; `v3` says whether REST v3 has the endpoint.

    A retriable error that REST v3 would answer with 500 is 503 or 504 here, so that programs wait and retry. Its
    error_code remains Confluent's 50003. A fault of the caller is never 500, though REST v3 has such cases.
    """
    if v3 and code in _V3:
        return _V3[code]
    ours = _OURS.get(code)
    status = ours or (503 if code.retriable else 500)
    if not v3 or status < 500:  # a code of 500xx would call the caller's fault one of the server
        return status, status
    return (status, 50003) if code.retriable else (500, 50002)


def of_kafka(error: KafkaError, *, v3: bool) -> tuple[ApiError, dict[str, Any]]:
    """Return the answer to a Kafka error, and the extra members of its body."""
    status, error_code = status_of(error.code, v3=v3)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status in {429, 503} else {}
    name = error.code.name.removesuffix("_EXCEPTION")
    answer = _BY_STATUS[status](
        error.message or error.code.default_message,
        code=name.lower().replace("_", "-"),
        error_code=error_code,
        headers=headers,
    )
    return answer, {"kafka_error": name, "kafka_code": int(error.code), "retriable": error.code.retriable}


def of_connection(error: ConnectionError) -> tuple[ApiError, dict[str, Any]]:
    """Return the answer when no controller can be reached: 504 after a timeout, else 503."""
    if isinstance(error, RequestTimedOut):
        answer: ApiError = GatewayTimeoutError(
            phrase("The controller did not answer in time; whether the change took effect is not known."),
            code="controller-timeout",
            error_code=50003,
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )
    else:
        answer = UnavailableError(
            phrase("No active controller can be reached."),
            code="no-active-controller",
            error_code=50003,
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )
    return answer, {"retriable": True}


def of_http(error: HTTPException) -> ApiError:
    """Return the answer to an error of the router: an unknown path, or a method that the path does not have."""
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            return NoSuchPathError(headers=headers)
        case 405:
            return MethodNotAllowedError(phrase("HTTP 405 Method Not Allowed"), headers=headers)
        case status:
            return _BY_STATUS.get(status, BadRequestError)(str(error.detail), headers=headers)


def of_database(error: DatabaseUnavailableError) -> ApiError:
    """Return the answer while the database cannot be used."""
    return UnavailableError(sentence_of(error), code="database-unavailable", retry_after_seconds=DATABASE_RETRY_SECONDS)


def problem(error: ApiError, request_id: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the body: REST v3's two members first, then RFC 9457's, then ours."""
    body: dict[str, Any] = {
        "error_code": error.error_code,
        "message": error.message,
        "type": f"urn:conclave:error:{error.code}",
        "title": re.sub("-", " ", error.code).capitalize(),
        "status": error.status,
        "detail": error.message,
        "instance": f"/requests/{request_id}",
        **(extra or {}),
    }
    if error.errors:
        body["errors"] = [{"pointer": item.pointer, "message": item.message} for item in error.errors]
    return body


def wants_problem_json(accept: str) -> bool:
    """Return whether the client accepts application/problem+json."""
    return PROBLEM_JSON in accept.lower()
