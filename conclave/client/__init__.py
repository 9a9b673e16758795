"""A typed client of the web process's REST API: `from conclave.client import Client`. See docs/rest-client.md.

The methods and models are made from the OpenAPI document of the same version (`make client`).
"""

from conclave.client import models
from conclave.client.async_client import AsyncClient
from conclave.client.blocking_client import Client
from conclave.client.errors import (
    ApiError,
    BadRequestError,
    ClusterNotChosenError,
    ConclaveError,
    ConflictError,
    FieldProblem,
    ForbiddenError,
    GatewayTimeoutError,
    GoneError,
    InternalError,
    NotFoundError,
    PreconditionFailedError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnprocessableError,
    UnreachableError,
)
from conclave.client.pages import AsyncPages, Pages
from conclave.contexts import ContextError

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "BadRequestError",
    "Client",
    "ClusterNotChosenError",
    "ConclaveError",
    "ConflictError",
    "ContextError",
    "FieldProblem",
    "ForbiddenError",
    "GatewayTimeoutError",
    "GoneError",
    "InternalError",
    "NotFoundError",
    "Pages",
    "PreconditionFailedError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "UnprocessableError",
    "UnreachableError",
    "models",
]
