"""The OpenAPI document: what FastAPI derives from the routes, with servers, logins, examples and all errors."""

import asyncio
import hashlib
import http
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.routing import BaseRoute

from app.error_responses import NATIVE
from app.http.entity_tags import is_among
from app.http.errors import PROBLEM_JSON, status_of
from app.http.paths import PREFIX, is_api
from app.rest.examples import EXAMPLES
from app.rest.schemas.problem import ProblemData
from app.rest.schemas.topic_records import ProduceBody
from app.services import PAST_PARAMETERS
from kraft_core.protocol.errors import ErrorCode

JSON: Final = "application/json"
_CLUSTER_PATH: Final = "/v3/clusters"
_EVERY: Final = frozenset({400, 401, 403, 406, 421, 429, 500, 503})
_OF_BODIES: Final = frozenset({408, 409, 413, 415, 422})
_AUTOMATIC: Final = frozenset({"HTTPValidationError", "ValidationError"})
"""Schemas of FastAPI's own answer to an invalid request, which `error_responses` replaces."""
_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "an API token"},
    "basic": {"type": "http", "scheme": "basic", "description": "an API token: its name (key) and its text (secret)"},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "conclave_session",
        "description": "a browser's session; a change also needs the header X-CSRF-Token",
    },
}


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """The document, and as text with its entity tag."""

    content: dict[str, Any]
    text: bytes
    etag: str


class OpenApi:
    """The document of an application, made when it is first asked for.

    That takes a second or two, so it is made on a thread while other requests are answered.
    """

    def __init__(self, app: FastAPI, routes: list[BaseRoute]) -> None:
        self._app = app
        self._routes = routes
        self._lock = asyncio.Lock()
        self._made: OpenApiDocument | None = None

    async def get(self) -> OpenApiDocument:
        """Return the document."""
        async with self._lock:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return self._made

    def _make(self) -> OpenApiDocument:
        content = describe(self._app, self._routes)
        text = msgspec.json.encode(content)
        return OpenApiDocument(content, text, f'"{hashlib.sha256(text).hexdigest()[:16]}"')

    async def answer(self, request: Request) -> Response:
        """Answer `GET /openapi.json`."""
        made = await self.get()
        headers = {"ETag": made.etag, "Cache-Control": "no-cache"}
        if is_among(made.etag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=headers)
        return Response(made.text, media_type=JSON, headers=headers)


def describe(app: FastAPI, routes: list[BaseRoute]) -> dict[str, Any]:
    """Return the document of these routes."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=routes, servers=[{"url": "/"}]
    )
    document["servers"].append({"url": PREFIX, "description": "as in Confluent Server"})
    document["security"] = [{name: []} for name in _SCHEMES]
    parts = document["components"]
    parts["securitySchemes"] = _SCHEMES
    parts["schemas"] = {name: each for name, each in parts["schemas"].items() if name not in _AUTOMATIC}
    for model in (ProblemData, ProduceBody):  # those that no route declares
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        parts["schemas"] |= {**schema.pop("$defs"), model.__name__: schema}
    parts["responses"] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not is_api(path):
                operation |= {"security": [], "servers": [{"url": "/"}]}
            if method != "get" and "parameters" in operation:
                operation["parameters"] = [
                    each for each in operation["parameters"] if each["name"] not in PAST_PARAMETERS
                ]
            if "requestBody" in operation:
                operation["requestBody"]["content"][JSON]["example"] = EXAMPLES[operation["operationId"]]
            _add_errors(path, method, operation, parts["responses"])
    return document


def _add_errors(path: str, method: str, operation: dict[str, Any], shared: dict[str, Any]) -> None:
    """Add the errors of an operation. Those that its route declares keep their description."""
    answers = operation["responses"]
    if str(answers.get("422", {}).get("content", "")).endswith("HTTPValidationError'}}}"):
        del answers["422"]
    if not is_api(path):
        return
    if "201" in answers and "200" not in answers:
        answers["200"] = {**answers["201"], "description": "a dry run"}
    family = "Native" if NATIVE in operation["tags"] else "V3"
    for status in sorted(_errors_of(path, method, operation)):
        declared = answers.get(str(status))
        if declared is None:
            name = f"{family}Error{status}"
            shared.setdefault(name, _problem(_description(status, v3=family == "V3")))
            answers[str(status)] = {"$ref": f"#/components/responses/{name}"}
    answers["431"] = {"description": "the head of the request is larger than 64 KiB; the answer has no body"}
    for status, declared in answers.items():
        if 431 != int(status) >= 400 and "description" in declared and "content" not in declared:
            answers[status] = _problem(declared["description"])


def _errors_of(path: str, method: str, operation: dict[str, Any]) -> frozenset[int]:
    taken = {each["name"].lower() for each in operation.get("parameters", [])}
    return (
        _EVERY
        | (_OF_BODIES if method != "get" else frozenset())
        | ({404} if "{" in path else frozenset())
        | ({504} if path.startswith(_CLUSTER_PATH) else frozenset())
        | ({410} if "at_offset" in taken else frozenset())
        | ({412} if "if-match" in taken else frozenset())
    )


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemData"}
    return {"description": description, "content": {kind: {"schema": schema} for kind in (JSON, PROBLEM_JSON)}}


def _description(status: int, *, v3: bool) -> str:
    codes = ", ".join(str(each) for each in sorted(_ERROR_CODES[v3][status]))
    return f"{http.HTTPStatus(status).phrase}; `error_code` {codes}"


def _error_codes(*, v3: bool) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for status, *codes in ((401, 40101), (403, 40301), (422, 42206), (429, 42901, 42902), (503, 50302)):
        found[status] |= {status, *codes}
    for code in ErrorCode:
        status, error_code = status_of(code, v3=v3)
        found[status].add(error_code)
    for status in _EVERY | _OF_BODIES | {404, 410, 412, 504}:
        found[status].add(status)
    return found


_ERROR_CODES: Final = {v3: _error_codes(v3=v3) for v3 in (False, True)}
