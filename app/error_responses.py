"""HTTP error_responses to exceptions: JSON for programs, a page for browsers, never a stack trace."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from app.cluster.brokers import TOPICS_SHOWN, BrokerInUseError, BrokerUse
from app.cluster.history import OffsetGone
from app.cluster.known_clusters import ClusterConflictError, ClusterError, UnknownClusterError
from app.cluster.voter_changes import VoterChangeRefused
from app.db.outage import DatabaseUnavailableError
from app.http.errors import (
    PROBLEM_JSON,
    ApiError,
    BadRequestError,
    ConflictError,
    FieldError,
    ForbiddenError,
    GoneError,
    InternalError,
    MethodNotAllowedError,
    NoSuchPathError,
    NotFoundError,
    NotLoggedInError,
    UnauthorizedError,
    UnprocessableError,
    of_connection,
    of_database,
    of_http,
    of_kafka,
    problem,
    wants_problem_json,
)
from app.http.locations import KEPT_FORM, NEXT, htmx_redirect, redirect, safe_next
from app.http.paths import is_api
from app.security.accounts import AccountConflictError, AccountError, AccountForbiddenError, UnknownAccountError
from app.texts import catalogued, joined, phrase, sentence_of, sentences
from kraft_core.protocol.errors import KafkaError

log = structlog.get_logger(__name__)

NATIVE: Final = "native"
"""Tag of the endpoints that REST v3 lacks. Their errors have the statuses of `app.http.errors`."""

LEVELS_MAX: Final = 3
"""How far above an address a page is looked for: each level compares all routes."""
BASIC: Final = 'Basic realm="conclave", charset="UTF-8"'

VALIDATION: Final = {
    "missing": catalogued("field required"),
    "int_parsing": catalogued("input should be a valid integer, unable to parse string as an integer"),
    "int_parsing_size": catalogued("unable to parse input string as an integer, exceeded maximum size"),
    "bool_parsing": catalogued("input should be a valid boolean, unable to interpret input"),
    "greater_than_equal": catalogued("input should be greater than or equal to %(ge)s"),
    "less_than_equal": catalogued("input should be less than or equal to %(le)s"),
    "string_too_long": catalogued("string should have at most %(max_length)s characters"),
    "string_too_short": catalogued("string should have at least %(min_length)s characters"),
    "literal_error": catalogued("input should be %(expected)s"),
}
"""What pydantic says of a value, by the type of the error."""

HtmlErrorPage = Callable[[Request, ApiError], Response]
"""Renders an error as a page. `request.state` has principal and csrf_token only after the guard."""


class ErrorResponses:
    """Turns exceptions into responses. `page` renders an error page; `routes` are all routes of the application."""

    def __init__(self, page: HtmlErrorPage, routes: Sequence[BaseRoute]) -> None:
        self._page = page
        self._routes = routes

    def render(self, request: Request, error: Exception) -> Response:
        """Return the response to an exception. An unexpected one is logged and becomes a plain 500."""
        answer, extra = _as_api_error(request, error)
        if "WWW-Authenticate" in answer.headers and _takes_basic(request):
            answer.headers["WWW-Authenticate"] += f", {BASIC}"
        if isinstance(answer, MethodNotAllowedError):
            answer.headers["Allow"] = ", ".join(_methods_at(self._routes, request, request.url.path))
        if wants_page(request):
            return self._page_response(request, answer)
        media_type = PROBLEM_JSON if wants_problem_json(request.headers.get("accept", "")) else "application/json"
        body = problem(answer, request.state.request_id, extra)
        return JSONResponse(body, answer.status, headers=answer.headers, media_type=media_type)

    def _page_response(self, request: Request, answer: ApiError) -> Response:
        if isinstance(answer, UnauthorizedError) and request.url.path not in {"/login", "/login/link"}:
            if isinstance(answer, NotLoggedInError) and answer.form_cookie:
                return _login_with_form(request, answer.form_cookie)
            wanted = _openable(self._routes, request, _wanted_page(request))
            login = "/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}"
            if "hx-request" in request.headers:
                return Response(status_code=answer.status, headers=htmx_redirect("/login"))
            return redirect(login)
        response = self._page(request, answer)
        response.headers.update(answer.headers)
        return response


def _login_with_form(request: Request, cookie: str) -> Response:
    """Return the way to the login and then to the form that was sent, whose key only this browser gets."""
    login = f"/login?next={quote(KEPT_FORM, safe='')}"
    response = redirect(login)
    if "hx-request" in request.headers:
        response = Response(status_code=NotLoggedInError.status, headers=htmx_redirect(login))
    response.headers["Set-Cookie"] = cookie
    return response


def _wanted_page(request: Request) -> str:
    """Return the address to open after a login: the page that was asked for, or the one whose form was sent.

    So a change that is confirmed after the session has expired leads back to its preview, and nothing was changed. A
    preview that was posted, or whose address is so long that browsers do not send it, names another one.
    """
    if request.method in {"GET", "HEAD"}:
        return request.url.path + (f"?{request.url.query}" if request.url.query else "")
    try:
        if NEXT in request.query_params:
            return safe_next(request.query_params[NEXT])
        page = urlsplit(request.headers.get("referer", ""))
    except (ValueError, BadRequestError):
        return "/"
    if page.netloc != request.url.netloc or not page.path.startswith("/"):
        return "/"
    path = page.path.removeprefix(request.state.root) or "/"
    return path + (f"?{page.query}" if page.query else "")


def _openable(routes: Sequence[BaseRoute], request: Request, address: str) -> str:
    """Return the address if a page can be opened there, else the nearest page above: a preview may have been posted."""
    path = address.partition("?")[0]
    for _ in range(LEVELS_MAX):
        if "GET" in _methods_at(routes, request, path):
            return address
        path = address = path.rpartition("/")[0]
    return "/"


def _takes_basic(request: Request) -> bool:
    """Return whether to offer Basic: on the API, except to a browser, which would open a dialog."""
    return is_api(request.url.path) and not ({"sec-fetch-site", "cookie"} & set(request.headers))


def wants_page(request: Request) -> bool:
    """Return whether the response should be a page: a browser's request outside the API."""
    if is_api(request.url.path) or request.url.path in {"/healthz", "/readyz", "/metrics", "/openapi.json"}:
        return False
    accept = request.headers.get("accept", "")
    return "text/html" in accept or "hx-request" in request.headers or request.url.path in {"/login", "/login/link"}


def _as_api_error(request: Request, error: Exception) -> tuple[ApiError, dict[str, Any]]:
    if isinstance(error, ApiError):
        return error, {}
    if isinstance(error, KafkaError):
        return of_kafka(error, v3=_is_v3(request))
    if isinstance(error, ConnectionError):
        return of_connection(error)
    if isinstance(error, DatabaseUnavailableError):
        return of_database(error), {"retriable": True}
    if isinstance(error, RequestValidationError):
        return _of_validation(error.errors()), {}
    if isinstance(error, OffsetGone):
        return GoneError(sentence_of(error), code="offset-gone"), {"oldest_offset": error.oldest}
    if isinstance(error, VoterChangeRefused):
        return _of_voter_change(error)
    if isinstance(error, BrokerInUseError):
        return _of_broker_in_use(error.use)
    if isinstance(error, AccountError):
        return _of_account(error), {}
    if isinstance(error, ClusterError):
        return _of_cluster(error), {}
    if isinstance(error, HTTPException):
        return of_http(error), {}
    log.error("unexpected_error", path=request.url.path, exc_info=error)
    return InternalError(phrase("Internal error. The log has the details under the id of this request.")), {}


def _methods_at(routes: Sequence[BaseRoute], request: Request, path: str) -> list[str]:
    """Return the methods of all routes at a path. The router itself names those of the first match only."""
    scope = {**request.scope, "path": path, "path_params": {}}
    fitting = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    return sorted({method for route in fitting for method in getattr(route, "methods", None) or ()})


def _is_v3(request: Request) -> bool:
    route = request.scope.get("route")
    return is_api(request.url.path) and NATIVE not in (getattr(route, "tags", None) or [])


def _of_voter_change(error: VoterChangeRefused) -> tuple[ApiError, dict[str, Any]]:
    """Return the leader's error, or 409 when only our own checks forbid the change, with all checks."""
    checks = [{"name": each.name, "is_met": each.is_met, "detail": each.detail} for each in error.change.checks]
    if error.error is None:
        return ConflictError(sentence_of(error), code="voter-change-not-safe"), {"checks": checks}
    answer, extra = of_kafka(KafkaError(error.error, str(error)), v3=False)
    return answer, {**extra, "checks": checks}


def _of_broker_in_use(use: BrokerUse) -> tuple[ApiError, dict[str, Any]]:
    message = sentences([*use.reasons, phrase("Use force to unregister it anyway.")])
    members = {
        "is_live": use.is_live,
        "replicas_count": use.replicas,
        "leaders_count": use.leaders,
        "topics_count": len(use.topics),
        "topics": list(use.topics[:TOPICS_SHOWN]),
    }
    return ConflictError(message, code="broker-in-use"), members


def _of_account(error: AccountError) -> ApiError:
    said = sentence_of(error)
    errors = (FieldError(f"/{error.field}", said),) if error.field else ()
    match error:
        case AccountForbiddenError():
            return ForbiddenError(said, errors=errors)
        case AccountConflictError():
            return ConflictError(said, errors=errors)
        case UnknownAccountError():
            return NotFoundError(said, errors=errors)
        case _:
            return UnprocessableError(said, errors=errors)


def _of_cluster(error: ClusterError) -> ApiError:
    errors = (FieldError(f"/{error.field}", error.message),) if error.field else ()
    match error:
        case ClusterConflictError():
            return ConflictError(error.message, errors=errors)
        case UnknownClusterError():
            return NotFoundError(error.message, errors=errors)
        case _:
            return UnprocessableError(error.message, errors=errors)


def _of_validation(errors: Sequence[Any]) -> ApiError:
    """Return 400 for an invalid query parameter, 404 for an impossible path, 422 for an invalid body."""
    if any(error["type"] == "json_invalid" for error in errors):
        return BadRequestError("The body is not valid JSON.")
    where = {error["loc"][0] for error in errors}
    found = tuple(FieldError(_pointer(error["loc"]), error["msg"]) for error in errors)
    message = joined("; ", (_sentence(error) for error in errors))
    if "path" in where:
        return NoSuchPathError(errors=found)
    if where & {"query", "header"}:
        return BadRequestError(phrase("Bad Request: %(problem)s", problem=message), errors=found)
    if any(error["loc"] == ("body",) and error["type"] == "missing" for error in errors):
        return UnprocessableError("Payload error. A request body is required.", error_code=42206, errors=found)
    return UnprocessableError(message, errors=found)


def _pointer(location: Sequence[str | int]) -> str:
    kind, *rest = location
    path = "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in rest)
    return f"/{path}" if kind == "body" else f"?{path}" if kind == "query" else f"{kind}:{path}"


def _sentence(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"][1:])
    given = error.get("input")
    said = _validation_text(error)
    if path:
        said = phrase("%(path)s %(problem)s", path=path, problem=said)
    if isinstance(given, str | int | float | bool) and len(repr(given)) < 100:
        said = phrase("%(problem)s (was %(given)s)", problem=said, given=repr(given))
    return said


def _validation_text(error: Any) -> str:
    """Return what pydantic says of a value, as a sentence of ours if it is one of those that pages can cause."""
    english = f"{error['msg'][:1].lower()}{error['msg'][1:]}"
    message = VALIDATION.get(error["type"])
    said = english if message is None else phrase(message, **error.get("ctx", {}))
    return said if said == english else english
