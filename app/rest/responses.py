"""Successful responses: JSON with the offset that it reflects, lists, and what a dry run would change."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from fastapi.responses import Response

from app.http.locations import located
from app.rest.schemas.base import DryRunData
from app.texts import plain

OFFSET_HEADER: Final = "X-Metadata-Offset"
DRY_RUN: Final[dict[int | str, dict[str, Any]]] = {200: {"model": DryRunData, "description": "a dry run"}}
"""OpenAPI description of the dry run of a change that otherwise answers without a body."""

PlannedChange = tuple[str, object, object]
"""What would change, its value before and its value after; None where there is none."""


def answer(body: Any, offset: int | None, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON with the offset that it reflects, or at which the change was committed."""
    return Response(
        msgspec.json.encode(body, enc_hook=plain),
        status,
        media_type="application/json",
        headers={**_at(offset), **(headers or {})},
    )


def created(
    body: dict[str, Any],
    offset: int | None = None,
    *,
    validate_only: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return 201, or 200 for the dry run, with the new resource; see `location_of` for its headers."""
    if validate_only:
        return answer(checked(body, validate_only=True), None)
    return answer(body, offset, 201, headers)


def location_of(resource: dict[str, Any]) -> dict[str, str]:
    """Return the header Location of a resource."""
    return located(resource["metadata"]["self"])


def accepted(body: dict[str, Any], offset: int | None, headers: Mapping[str, str] | None = None) -> Response:
    """Return 202: the change has begun, or takes effect later."""
    return answer(body, offset, 202, headers)


def multi_status(body: dict[str, Any], offset: int | None) -> Response:
    """Return 207: parts of the change were refused."""
    return answer(body, offset, 207)


def created_at(url: str, offset: int | None) -> Response:
    """Return 201 without a body, with the Location of a new resource."""
    return Response(status_code=201, headers={**located(url), **_at(offset)})


def no_content(offset: int | None = None) -> Response:
    """Return 204 with the offset of the change."""
    return Response(status_code=204, headers=_at(offset))


def milliseconds(moment: dt.datetime | None) -> int | None:
    """Return a time as REST v3 has it: in ms since 1970, null where there is none."""
    return None if moment is None else int(moment.timestamp() * 1000)


def _at(offset: int | None) -> dict[str, str]:
    return {} if offset is None else {OFFSET_HEADER: str(offset)}


def checked(body: dict[str, Any], *, validate_only: bool) -> dict[str, Any]:
    """Return the body of a change; that of a dry run also has `validated`."""
    return {**body, "validated": True} if validate_only else body


def planned(changes: Iterable[PlannedChange], not_checked: Sequence[str] = ()) -> Response:
    """Return the dry run of a change that otherwise answers without a body.

    `not_checked` names the conditions that only the change itself can check.
    """
    listed = [{"what": what, "before": before, "after": after} for what, before, after in changes]
    body = {"kind": "KafkaDryRun", "changes": listed, "not_checked": list(not_checked)}
    return answer(checked(body, validate_only=True), None)


def state_name(state: str) -> str:
    """Return a state in REST v3's words: PREPARING_REBALANCE for PreparingRebalance, UNKNOWN for none."""
    words = "".join(f"_{each}" if each.isupper() else each for each in state).lstrip("_")
    return words.upper() or "UNKNOWN"


def list_body(kind: str, url: str, data: list[dict[str, Any]], following: str | None = None) -> dict[str, Any]:
    """Return a list. `following` is the address of its next page."""
    return {"kind": kind, "metadata": {"self": url, "next": following}, "data": data}
