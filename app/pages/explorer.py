"""The API explorer: every operation of the REST API with its parameters, an example, and a form that opens a read.

It shows the document of `/openapi.json`, whose descriptions are English in every language of the pages.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.errors import BadRequestError, NotFoundError
from app.http.locations import redirect
from app.http.paths import segment_of
from app.pages.frame import page_of, render
from app.services import Reader, base_url_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)

FIELD: Final = "p-"
"""Prefix of the form's fields: a page itself has parameters of the same names."""
_CLUSTER: Final = "cluster_id"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its place (path, query, header), what the form shows in it, and what it is for."""

    name: str
    place: str
    is_required: bool
    preset: str
    about: str

    @property
    def field(self) -> str:
        """The name of its field in the form."""
        return f"{FIELD}{self.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One documented answer."""

    status: str
    about: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API."""

    id: str
    method: str
    path: str
    about: str
    parameters: Sequence[Parameter]
    answers: Sequence[Answer]
    example: object


@dataclass(frozen=True, slots=True)
class ExplorerView:
    """Model of explorer.html."""

    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class OperationView:
    """Model of operation.html."""

    operation: Operation
    curl: str

    @property
    def opens(self) -> bool:
        """Whether the form can open the answer: a read."""
        return self.operation.method == "GET"


async def operations_of(request: Request) -> list[Operation]:
    """Return the operations by path and method."""
    document = (await request.app.state.openapi.get()).content
    cluster_id = services_of(request).cluster.cluster_id or ""
    shared = document["components"]["responses"]
    found = [
        _operation(method.upper(), path, described, shared, cluster_id)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]
    return sorted(found, key=lambda each: (each.path, each.method))


def _operation(
    method: str, path: str, described: Mapping[str, Any], shared: Mapping[str, Any], cluster_id: str
) -> Operation:
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    answers = {
        status: shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
        for status, answer in described["responses"].items()
    }
    return Operation(
        described["operationId"],
        method,
        path,
        described.get("description", ""),
        [_parameter(each, cluster_id) for each in described.get("parameters", ())],
        [Answer(status, answers[status]["description"]) for status in sorted(answers)],
        content.get("example"),
    )


def _parameter(described: Mapping[str, Any], cluster_id: str) -> Parameter:
    name = described["name"]
    preset = cluster_id if name == _CLUSTER else ""
    return Parameter(name, described["in"], described.get("required", False), preset, described.get("description", ""))


async def _found(request: Request, operation_id: str) -> Operation:
    for each in await operations_of(request):
        if each.id == operation_id:
            return each
    raise NotFoundError(phrase("There is no such operation."))


def curl_of(request: Request, operation: Operation) -> str:
    """Return the operation as a command; a change as its dry run."""
    path = operation.path
    for each in operation.parameters:
        if each.place == "path" and each.preset:
            path = path.replace(f"{{{each.name}}}", segment_of(each.preset))
    query = "" if operation.method == "GET" else "?validate_only=true"
    body = ""
    if operation.example is not None:
        text = json.dumps(operation.example, indent=2).replace("'", "'\\''")
        body = f" \\\n  -H 'Content-Type: application/json' -d '{text}'"
    line = f'curl -X {operation.method} -H "Authorization: Bearer $CONCLAVE_TOKEN" \\\n  '
    return f"{line}'{base_url_of(request)}{path}{query}'{body}"


@router.get("/explorer")
async def explorer(request: Request, _caller: Reader) -> Response:
    """List all operations."""
    view = ExplorerView(await operations_of(request))
    return render(request, "explorer.html", page=page_of(request, phrase("API explorer"), "/explorer"), view=view)


@router.get("/explorer/{operation}")
async def operation_page(operation: str, request: Request, _caller: Reader) -> Response:
    """Show one operation."""
    found = await _found(request, operation)
    view = OperationView(found, curl_of(request, found))
    return render(request, "operation.html", page=page_of(request, found.id, "/explorer"), view=view)


@router.get("/explorer/{operation}/open")
async def open_answer(operation: str, request: Request, _caller: Reader) -> Response:
    """Lead to the answer of a read with the parameters of the form; empty ones are left out."""
    found = await _found(request, operation)
    if found.method != "GET":
        raise BadRequestError(phrase("Bad Request: only a read can be opened here."))
    path, query = found.path, []
    for each in found.parameters:
        given = request.query_params.get(each.field, "")
        if each.place == "path":
            if not given:
                raise BadRequestError(phrase("Bad Request: %(name)s must be given.", name=each.name))
            path = path.replace(f"{{{each.name}}}", segment_of(given))
        elif each.place == "query" and given:
            query.append((each.name, given))
    return redirect(f"{path}?{urlencode(query)}" if query else path)
