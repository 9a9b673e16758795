"""The API explorer: every operation of the REST API with its parameters, and a form that sends it.

The form of a read opens its answer. That of a change sends the dry run, or with `validate_only` off the change itself,
after a dry run and a confirmation, and shows the answer. REST decides what the caller may do: see
`app.http.own_requests`. The document is that of `/openapi.json`, whose descriptions are English in every language.
"""

import http
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import FormData, QueryParams

from app.http.errors import BadRequestError, NotFoundError
from app.http.locations import redirect
from app.http.own_requests import OwnAnswer, ask
from app.http.paths import segment_of
from app.pages.confirm import ConfirmView, preview_or_apply
from app.pages.frame import page_of, render
from app.services import Reader, base_url_of, csrf_token_of, root_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)

FIELD: Final = "p-"
"""Prefix of the form's fields: a page itself has parameters of the same names."""
VALIDATE_ONLY: Final = "validate_only"
SHOWN_CHARACTERS: Final = 100_000
_CLUSTER: Final = "cluster_id"
_JSON: Final = "application/json"


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

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET"

    @property
    def fields(self) -> list[Parameter]:
        """The parameters with a field of their own in the form: `validate_only` is a box, and a read has no headers."""
        return [
            each
            for each in self.parameters
            if each.name != VALIDATE_ONLY and (each.place != "header" or not self.is_read)
        ]


@dataclass(frozen=True, slots=True)
class Entry:
    """What was entered in the form of a change: the text of each parameter, and the body."""

    given: Mapping[str, str]
    body: str
    is_dry_run: bool = True


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent, and its answer."""

    line: str
    is_dry_run: bool
    status: int
    headers: str
    body: str

    @property
    def reason(self) -> str:
        """The status in words, as HTTP has it."""
        return http.HTTPStatus(self.status).phrase

    @property
    def is_refused(self) -> bool:
        """Whether the request has failed."""
        return self.status >= http.HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class ExplorerView:
    """Model of explorer.html."""

    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class OperationView:
    """Model of operation.html: an operation, what its form shows, and the answer to the form."""

    operation: Operation
    entry: Entry
    curl: str
    sent: Sent | None = None


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


def curl_of(request: Request, operation: Operation, entry: Entry) -> str:
    """Return the operation as a command; what is not entered stays in braces."""
    given = _headers(operation, entry)
    headers = "".join(f" \\\n  -H {_quoted(f'{name}: {value}')}" for name, value in given.items())
    body = f" \\\n  -H 'Content-Type: {_JSON}' -d {_quoted(entry.body)}" if entry.body else ""
    line = f'curl -X {operation.method} -H "Authorization: Bearer $CONCLAVE_TOKEN" \\\n  '
    return f"{line}{_quoted(base_url_of(request) + _target(operation, entry))}{headers}{body}"


def _headers(operation: Operation, entry: Entry) -> dict[str, str]:
    """Return the headers that were entered."""
    return {
        each.name: entry.given[each.name]
        for each in operation.fields
        if each.place == "header" and entry.given[each.name]
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _target(operation: Operation, entry: Entry) -> str:
    """Return path and query of the request. A part of the path that is not entered stays in braces."""
    path, query = operation.path, []
    for each in operation.fields:
        given = entry.given[each.name]
        if each.place == "path" and given:
            path = path.replace(f"{{{each.name}}}", segment_of(given))
        elif each.place == "query" and given:
            query.append((each.name, given))
    if not operation.is_read and entry.is_dry_run:
        query.append((VALIDATE_ONLY, "true"))
    return f"{path}?{urlencode(query)}" if query else path


def _preset(operation: Operation) -> Entry:
    """Return what the form shows at first: the example as the body, and the dry run."""
    body = "" if operation.example is None else json.dumps(operation.example, indent=2, ensure_ascii=False)
    return Entry({each.name: each.preset for each in operation.fields}, body)


def _entered(operation: Operation, form: FormData | QueryParams) -> Entry:
    """Return what was entered. Raises BadRequestError without a part of the path, and for an impossible header."""
    given = {each.name: str(form.get(each.field, "")) for each in operation.fields}
    for each in operation.fields:
        value = given[each.name]
        if each.place == "path" and not value:
            raise BadRequestError(phrase("Bad Request: %(name)s must be given.", name=each.name))
        if each.place == "header" and not (value.isascii() and (value.isprintable() or not value)):
            raise BadRequestError(phrase("Bad Request: %(name)s must be printable ASCII.", name=each.name))
    return Entry(given, str(form.get("body", "")).replace("\r\n", "\n"), VALIDATE_ONLY in form)


async def _send(request: Request, operation: Operation, entry: Entry) -> Sent:
    """Send a change as the caller, and return its answer."""
    headers = _headers(operation, entry) | {"accept": _JSON, "x-csrf-token": csrf_token_of(request)}
    if entry.body:
        headers["content-type"] = _JSON
    target = _target(operation, entry)
    answer = await ask(request, operation.method, f"{root_of(request)}{target}", entry.body.encode(), headers)
    return Sent(
        f"{operation.method} {target}",
        entry.is_dry_run,
        answer.status,
        "\n".join(f"{name}: {value}" for name, value in answer.headers),
        _body_of(answer),
    )


def _body_of(answer: OwnAnswer) -> str:
    """Return the body as people read it, its beginning if it is long."""
    try:
        text = json.dumps(json.loads(answer.body), indent=2, ensure_ascii=False)
    except ValueError:
        text = answer.body.decode(errors="replace")
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _page(request: Request, operation: Operation, entry: Entry, sent: Sent | None = None) -> Response:
    view = OperationView(operation, entry, curl_of(request, operation, entry), sent)
    return render(request, "operation.html", page=page_of(request, operation.id, "/explorer"), view=view)


def _preview(request: Request, operation: Operation, entry: Entry, form: FormData | QueryParams) -> ConfirmView:
    page = f"/explorer/{operation.id}"
    names = [*(each.field for each in operation.fields), "body"]
    changes = [(phrase("Request"), "", f"{operation.method} {_target(operation, entry)}")]
    if entry.body:
        changes.append((phrase("Body"), "", entry.body))
    return ConfirmView(
        title=phrase("Send %(operation)s", operation=operation.id),
        active="/explorer",
        back=operation.id,
        back_url=page,
        action=page,
        button=phrase("Send"),
        changes=changes,
        curl=curl_of(request, operation, entry),
        fields=[(name, str(form.get(name, ""))) for name in names],
        dangerous=operation.method == "DELETE",
        verdict=phrase("The dry run has succeeded. Nothing has changed yet."),
    )


@router.get("/explorer")
async def explorer(request: Request, _caller: Reader) -> Response:
    """List all operations."""
    view = ExplorerView(await operations_of(request))
    return render(request, "explorer.html", page=page_of(request, phrase("API explorer"), "/explorer"), view=view)


@router.get("/explorer/{operation}")
async def operation_page(operation: str, request: Request, _caller: Reader) -> Response:
    """Show one operation."""
    found = await _found(request, operation)
    return _page(request, found, _preset(found))


@router.post("/explorer/{operation}")
async def send_operation(operation: str, request: Request, _caller: Reader) -> Response:
    """Send a change: its dry run, or after a dry run and a confirmation the change itself."""
    found = await _found(request, operation)
    if found.is_read:
        raise BadRequestError(phrase("Bad Request: only a change can be sent here."))
    form = await request.form()
    entry = _entered(found, form)
    is_confirmed = form.get("confirmed") == "yes"

    async def apply() -> Response:
        return _page(request, found, entry, await _send(request, found, entry))

    if not is_confirmed:
        checked = await _send(request, found, replace(entry, is_dry_run=True))
        if entry.is_dry_run or checked.is_refused:
            return _page(request, found, entry, checked)
    return await preview_or_apply(request, _preview(request, found, entry, form), confirmed=is_confirmed, apply=apply)


@router.get("/explorer/{operation}/open")
async def open_answer(operation: str, request: Request, _caller: Reader) -> Response:
    """Lead to the answer of a read with the parameters of the form; empty ones are left out."""
    found = await _found(request, operation)
    if not found.is_read:
        raise BadRequestError(phrase("Bad Request: only a read can be opened here."))
    return redirect(_target(found, _entered(found, request.query_params)))
