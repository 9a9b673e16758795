"""Rules of every JSON endpoint: query parameters must be known, reads can be sparse, every change has a dry run.

A route refuses query parameters that it does not declare and repeated ones, so that a misspelt `validate_only` never
deletes anything; a change refuses those of past states. A route that changes something must depend on `DryRun`: the
process does not start without it.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BeforeValidator

from app.http.errors import ApiError, BadRequestError, FieldError, UnprocessableError
from app.http.strict_json import json_documents
from app.rest.fields import fields_parameter, members_of, narrowed, wanted_of
from app.services import PAST_PARAMETERS

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
VALIDATE_ONLY: Final = "validate_only"
_SHOWN: Final = 5
_WORDS: Final = {"true": True, "false": False}


def _flag(given: object) -> object:
    """Return the value of `true` or `false` in any case. Pydantic alone would also accept `yes`, `on` and `1`."""
    if isinstance(given, str):
        if given.lower() not in _WORDS:
            raise ValueError("must be true or false")
        return _WORDS[given.lower()]
    return given


Flag = Annotated[bool, BeforeValidator(_flag)]
"""A query parameter that is true or false."""


async def flag_of(request: Request, name: str, in_query: bool | None) -> bool:
    """Return a flag that can be given in the query or in the body, False without either.

    Raises BadRequestError when the two differ, UnprocessableError when the value in the body is not true or false.
    """
    documents = json_documents(await request.body())
    body = documents[0] if len(documents) == 1 else None  # several: none of them may have the flag
    if not isinstance(body, dict) or name not in body:
        return bool(in_query)
    in_body = body[name]
    if not isinstance(in_body, bool):
        message = f"{name} must be true or false"
        raise UnprocessableError(message, errors=(FieldError(f"/{name}", message),))
    if in_query is not None and in_body is not in_query:
        values = f"{str(in_query).lower()} in the query and {str(in_body).lower()} in the body"
        raise BadRequestError(f"Bad Request: {name} is {values}.")
    return in_body


async def dry_run(
    request: Request,
    validate_only: Annotated[
        Flag | None, Query(description="report what the change would do without making it")
    ] = None,
) -> bool:
    """Report whether the change is only to be checked: `validate_only` in the query or in the body.

    Raises what `flag_of` raises.
    """
    return await flag_of(request, VALIDATE_ONLY, validate_only)


DryRun = Annotated[bool, Depends(dry_run)]


class JsonRoute(APIRoute):
    """A route of the API that enforces the rules above."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Declare the route. A GET with a model of its answer also takes `fields`. Its function names the operation."""
        options["operation_id"] = options.get("operation_id") or endpoint.__name__
        answers = options.get("responses") or {}
        model = answers.get(200, {}).get("model") if "GET" in (options.get("methods") or ()) else None
        self._members = () if model is None else members_of(model)
        if self._members:
            options["dependencies"] = [*(options.get("dependencies") or ()), Depends(fields_parameter)]
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, preceded by the check of the query."""
        handle = super().get_route_handler()
        needed, members = _all_of(self.dependant), self._members
        names = {field.alias for each in needed for field in each.query_params}
        is_change = bool((self.methods or set()) - SAFE_METHODS)
        allowed = tuple(sorted(names - set(PAST_PARAMETERS) if is_change else names))
        if is_change:
            assert any(each.call is dry_run for each in needed), f"{self.methods} {self.path} has no dry run"

        async def checked(request: Request) -> Response:
            check_query(request, allowed)
            wanted = wanted_of(request, members) if members and request.query_params else None
            response = await handle(request)
            return response if wanted is None else narrowed(response, wanted)

        return checked


def _all_of(dependant: Dependant) -> list[Dependant]:
    def walk(each: Dependant) -> Iterator[Dependant]:
        yield each
        for inner in each.dependencies:
            yield from walk(inner)

    return list(walk(dependant))


def check_query(request: Request, allowed: tuple[str, ...]) -> None:
    """Raise BadRequestError for unknown and repeated query parameters. It names them and the allowed ones."""
    names = [name for name, _ in request.query_params.multi_items()]
    if not names:
        return
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        known = f"allowed here: {', '.join(allowed)}" if allowed else "none is allowed here"
        raise _refused(unknown, f"unknown query parameter {_listed(unknown)}; {known}.", "is not known here")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise _refused(repeated, f"query parameter {_listed(repeated)} is given more than once.", "is given twice")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name[:60]}'" for name in names[:_SHOWN]) + more


def _refused(names: list[str], message: str, what: str) -> ApiError:
    errors = tuple(FieldError(f"?{name[:60]}", f"{name[:60]} {what}") for name in names[:_SHOWN])
    return BadRequestError(f"Bad Request: {message}", code="unknown-parameter", errors=errors)
