"""Addresses in response headers: Location, HX-Redirect and HX-Push-Url are written only here.

A header holds Latin-1 only, and the name of a user, a token or a principal may have any letters. Every address is
percent-encoded here, so that no name can turn a finished change into an error.
"""

from typing import Final
from urllib.parse import quote, urlsplit

from fastapi.responses import RedirectResponse, Response

from app.http.errors import BadRequestError
from app.texts import phrase

NEXT: Final = "next"
"""Query parameter of a form's address: the page to open after a login, if the session has ended when it is sent."""
KEPT_FORM: Final = "/kept-form"
"""Page that shows a form again that was sent after its session had ended."""
_KEPT: Final = ":/?#[]@!$&'()*+,;=%-._~"


def header_url(url: str) -> str:
    """Return the address as a header can hold it. Percent-encoded parts stay as they are."""
    return quote(url, safe=_KEPT)


def located(url: str) -> dict[str, str]:
    """Return the header with the address of a new resource."""
    return {"Location": header_url(url)}


def redirect(url: str) -> Response:
    """Return a redirect to another address with a GET (303)."""
    return RedirectResponse(header_url(url), 303)


def htmx_redirect(url: str) -> dict[str, str]:
    """Return the header that makes htmx load another page."""
    return {"HX-Redirect": header_url(url)}


def htmx_push(url: str) -> dict[str, str]:
    """Return the header that makes htmx show another address for the same page."""
    return {"HX-Push-Url": header_url(url)}


def safe_next(address: str) -> str:
    """Return the page that a form asks to open next: a path of this server, else the dashboard.

    Raises BadRequestError for text that is no address at all.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        raise BadRequestError(
            phrase("Bad Request: next is not an address of this server: %(text)s.", text=f"{address[:100]!r}")
        ) from None
    if parts.scheme or parts.netloc or not address.startswith("/") or address.startswith(("//", "/\\")):
        return "/"
    return address if address.isprintable() else "/"
