"""What goes wrong, as HTTP: one table from Kafka's error codes, one exception for everything else, one body.

The body carries REST v3's `error_code` and `message` and, beside them, the members of RFC 9457. Where REST v3 has the
endpoint, status and error_code are Confluent's; endpoints that REST v3 lacks use the statuses of ours below.

    ApiError         an answer with a status: validation, authorization, conditions
    KafkaError       raised by admin calls; mapped here
    ConnectionError  the quorum cannot be reached: 503 with Retry-After
    DatabaseUnavailableError  the database cannot be used: 503 with Retry-After
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from app.db.outage import RETRY_AFTER_SECONDS as DATABASE_RETRY_SECONDS
from app.db.outage import DatabaseUnavailableError
from kraft_core.clients.kafka_client import RequestTimedOut
from kraft_core.protocol.errors import ErrorCode, KafkaError

PROBLEM_JSON: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong member of the request; `pointer` is a JSON pointer into the body, or `?name` for a query parameter."""

    pointer: str
    message: str


class ApiError(Exception):
    """An answer that is an error. `code` becomes the type and, unless `error_code` says otherwise, the title."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        error_code: int | None = None,
        errors: tuple[FieldError, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or _STATUS_CODES.get(status, "error")
        self.error_code = error_code if error_code is not None else status
        self.errors = errors
        self.headers = headers or {}


_STATUS_CODES: Final = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    409: "conflict",
    410: "gone",
    412: "precondition-failed",
    413: "content-too-large",
    415: "unsupported-media-type",
    421: "misdirected-request",
    422: "unprocessable-content",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
    504: "timeout",
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
    C.INVALID_REPLICA_ASSIGNMENT: (500, 50002),
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
}


def status_of(code: ErrorCode, *, v3: bool) -> tuple[int, int]:
    """Return (HTTP status, error_code) of a Kafka error; `v3` says whether REST v3 has the endpoint.

    An error that REST v3 would answer with 500 although it only asks for patience (retriable) is 503 or 504 here,
    so that programs wait and try again; its error_code stays Confluent's 50003.
    """
    if v3 and code in _V3:
        return _V3[code]
    ours = _OURS.get(code)
    if code.retriable:
        status = ours or 503
        return status, 50003 if v3 else status
    if v3:
        return (ours if ours is not None and ours < 500 else 500), 50002
    return ours or 500, ours or 500


def of_kafka(error: KafkaError, *, v3: bool) -> tuple[ApiError, dict[str, Any]]:
    """Return the answer to a Kafka error, and the extra members of its body."""
    status, error_code = status_of(error.code, v3=v3)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status in {429, 503} else {}
    name = error.code.name.removesuffix("_EXCEPTION")
    answer = ApiError(
        status,
        error.message or error.code.default_message,
        code=name.lower().replace("_", "-"),
        error_code=error_code,
        headers=headers,
    )
    return answer, {"kafka_error": name, "kafka_code": int(error.code), "retriable": error.code.retriable}


def of_connection(error: ConnectionError) -> tuple[ApiError, dict[str, Any]]:
    """Return the answer while the quorum cannot be reached: 504 when it took too long, else 503. Never a success."""
    timed_out = isinstance(error, RequestTimedOut)
    answer = ApiError(
        504 if timed_out else 503,
        "The controller did not answer in time; whether the change took effect is not known."
        if timed_out
        else "No active controller can be reached.",
        code="controller-timeout" if timed_out else "no-active-controller",
        error_code=50003,
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
    return answer, {"retriable": True}


def of_database(error: DatabaseUnavailableError) -> ApiError:
    """Return the answer while the database cannot be used."""
    headers = {"Retry-After": str(DATABASE_RETRY_SECONDS)}
    return ApiError(503, str(error), code="database-unavailable", headers=headers)


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
    """Whether the client asked for application/problem+json."""
    return PROBLEM_JSON in accept.lower()
