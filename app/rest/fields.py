"""Sparse answers: the query parameter `fields` names the members that a resource or each item of a list has."""

from typing import Annotated, Any, Final, get_args

import msgspec
from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.http.errors import BadRequestError, FieldError

FIELDS: Final = "fields"
LIST: Final = "data"


async def fields_parameter(
    fields: Annotated[
        str | None, Query(max_length=1_000, description="members to answer with, separated by commas; all without it")
    ] = None,
) -> None:
    """Declare the parameter for OpenAPI. `JsonRoute` reads it."""


def members_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the members that a caller can choose: those of the items of a list, else those of the resource."""
    item = get_args(model.model_fields[LIST].annotation)[0] if LIST in model.model_fields else model
    return tuple(name for name in item.model_fields if name != "validated")


def wanted_of(request: Request, members: tuple[str, ...]) -> frozenset[str] | None:
    """Return the members that a request names, None for all. Raises BadRequestError for one that does not exist."""
    given = request.query_params.get(FIELDS)
    if given is None:
        return None
    wanted = frozenset(name.strip() for name in given.split(","))
    unknown = sorted(wanted - set(members))
    if unknown:
        named = ", ".join(f"'{name[:60]}'" for name in unknown[:5])
        raise BadRequestError(
            f"Bad Request: fields has no member {named}; allowed here: {', '.join(members)}.",
            code="unknown-field",
            errors=(FieldError(f"?{FIELDS}", f"{named} is not known here"),),
        )
    return wanted


def narrowed(response: Response, wanted: frozenset[str]) -> Response:
    """Return the answer with these members. The frame of a list, with the address of its next page, stays."""
    if response.status_code != 200:
        return response
    found = msgspec.json.decode(response.body)
    sparse = {**found, LIST: [_only(item, wanted) for item in found[LIST]]} if LIST in found else _only(found, wanted)
    response.body = msgspec.json.encode(sparse)
    response.headers["Content-Length"] = str(len(response.body))
    return response


def _only(item: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name in wanted}
