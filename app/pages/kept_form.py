"""A form that arrived after its session had ended, shown after the login and sent again only by a click."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.locations import KEPT_FORM, safe_next
from app.pages.frame import page_of, render
from app.security.guard import KEPT_COOKIE
from app.services import Anyone, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)

SHOWN_MAX: Final = 100
VALUE_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class KeptFormView:
    """Model of kept_form.html. `shown` are the fields with a value, at most SHOWN_MAX, and their beginnings.

    `address` is "" when no form is kept.
    """

    address: str
    fields: Sequence[tuple[str, str]]
    shown: Sequence[tuple[str, str]]
    more: int


@router.get(KEPT_FORM)
async def kept_form(request: Request, _caller: Anyone) -> Response:
    """Return the page."""
    key = request.cookies.get(KEPT_COOKIE, "")
    form = await services_of(request).security.kept_forms.find(key) if key else None
    fields = [] if form is None else form.fields
    filled = [(name, value[:VALUE_MAX]) for name, value in fields if value.strip()]
    view = KeptFormView(
        "" if form is None else safe_next(form.address), fields, filled[:SHOWN_MAX], max(0, len(filled) - SHOWN_MAX)
    )
    return render(request, "kept_form.html", page=page_of(request, phrase("A form to send again"), "/"), view=view)
