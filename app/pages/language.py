"""The choice of a language, kept in a cookie of the browser; until then that which the browser asks for."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.locations import redirect, safe_next
from app.pages.theme import YEAR_SECONDS
from app.texts import LANGUAGES, preferred

router = APIRouter(include_in_schema=False)

COOKIE: Final = "language"


def language_of(request: Request) -> str:
    """Return the code of the language of the answer: that of a download, else the one that the browser wants."""
    fixed: str | None = getattr(request.state, "language", None)
    if fixed is not None:
        return fixed
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in LANGUAGES else preferred(request.headers.get("accept-language", ""))


@router.post("/language")
async def choose(language: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "/") -> Response:
    """Keep the choice and return to the page `back`, also for visitors who have yet to log in.

    Another value than LANGUAGES means what the browser asks for.
    """
    response = redirect(safe_next(back))
    if language in LANGUAGES:
        response.set_cookie(COOKIE, language, max_age=YEAR_SECONDS, samesite="lax", httponly=True)
    else:
        response.delete_cookie(COOKIE)
    return response
