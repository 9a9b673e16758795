"""What the client raises: one class per status, each with the members of the problem.

ConclaveError            base of all
  UnreachableError       no answer: unknown address, refused or lost connection, timeout
  UnexpectedAnswerError  the answer is not one of this API
  ClusterNotChosenError  the web process has no cluster yet, or several
  ApiError               an error status; a subclass per status names it
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kraft_core.protocol.errors import ErrorCode

_TYPE: Final = "urn:conclave:error:"


class ConclaveError(Exception):
    """Base of what the client raises. The message is one line."""


class UnreachableError(ConclaveError, ConnectionError):
    """No answer was received. Whether a change took effect is unknown, unless the connection was refused."""


class UnexpectedAnswerError(ConclaveError):
    """The answer is not one that this version of the API has."""


class ClusterNotChosenError(ConclaveError):
    """The web process has no cluster yet, or several: then the client needs `cluster_id`."""


class FieldProblem(msgspec.Struct, frozen=True):
    """A wrong member of the request: a JSON pointer into the body, or `?name` for a query parameter."""

    pointer: str
    message: str


class _Problem(msgspec.Struct, frozen=True):
    """The body of an error."""

    error_code: int = 0
    message: str = ""
    type: str = ""
    title: str = ""
    detail: str = ""
    instance: str = ""
    kafka_error: str | None = None
    retriable: bool | None = None
    errors: tuple[FieldProblem, ...] = ()


class ApiError(ConclaveError):
    """An answer that is an error.

    `error_code` is REST v3's number, `code` the last part of the problem's type (such as `topic-already-exists`),
    `kafka_error` Kafka's error, None where Kafka has none. `members` is the whole body.
    """

    def __init__(self, request: str, status: int, problem: _Problem, members: Mapping[str, Any]) -> None:
        super().__init__(f"{request}: {status} {problem.detail or problem.message or problem.title}".rstrip())
        self.status = status
        self.error_code = problem.error_code or status
        self.code = problem.type.removeprefix(_TYPE)
        self.title = problem.title
        self.detail = problem.detail or problem.message
        self.instance = problem.instance
        self.retriable = problem.retriable
        self.errors = problem.errors
        self.kafka_error = ErrorCode.__members__.get(problem.kafka_error or "")
        self.members = members
        self.retry_after_seconds: float | None = None


class BadRequestError(ApiError):
    """The request is wrong, or Kafka refused it as REST v3 does."""


class UnauthorizedError(ApiError):
    """The token is missing, unknown, revoked or expired."""


class ForbiddenError(ApiError):
    """The token may not do this."""


class NotFoundError(ApiError):
    """The resource does not exist."""


class ConflictError(ApiError):
    """The state of the resource forbids the request now."""


class GoneError(ApiError):
    """A past state that is no longer kept."""


class PreconditionFailedError(ApiError):
    """The resource is not in the state that If-Match names."""


class UnprocessableError(ApiError):
    """A member of the body is wrong; `errors` says which."""


class TooManyRequestsError(ApiError):
    """The caller sends too much. `retry_after_seconds` says when to send the next request."""


class InternalError(ApiError):
    """A fault of the server; its log has `instance`."""


class UnavailableError(ApiError):
    """No controller leads, the database is unavailable or the process is starting."""


class GatewayTimeoutError(ApiError):
    """The cluster did not answer in time. Whether a change took effect is unknown."""


_OF_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    412: PreconditionFailedError,
    422: UnprocessableError,
    429: TooManyRequestsError,
    500: InternalError,
    503: UnavailableError,
    504: GatewayTimeoutError,
}


def api_error(request: str, status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """Return the error of an answer. An answer of a proxy has a status and no problem."""
    try:
        problem = msgspec.json.decode(content, type=_Problem)
        members = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem, members = _Problem(), {}
    error = _OF_STATUS.get(status, ApiError)(request, status, problem, members)
    waits = headers.get("retry-after", "")
    error.retry_after_seconds = float(waits) if waits.isascii() and waits.isdigit() else None
    return error
