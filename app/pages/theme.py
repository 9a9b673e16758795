"""The choice between a light and a dark look, kept in a cookie of the browser."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.locations import redirect, safe_next
from app.services import Anyone

router = APIRouter(include_in_schema=False)

COOKIE: Final = "theme"
THEMES: Final = ("light", "dark")
YEAR_SECONDS: Final = 365 * 86_400


def theme_of(request: Request) -> str:
    """Return light or dark, "" for the look of the system."""
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in THEMES else ""


@router.post("/theme")
async def choose(
    request: Request, _caller: Anyone, theme: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "/"
) -> Response:
    """Keep the choice and return to the page `back`. Another value than THEMES means the system's look."""
    response = redirect(safe_next(back))
    if theme in THEMES:
        response.set_cookie(COOKIE, theme, max_age=YEAR_SECONDS, samesite="lax", httponly=True)
    else:
        response.delete_cookie(COOKIE)
    return response
