"""Messages for the page after a redirect, such as "Topic orders deleted at offset 4711", in a signed cookie."""

import base64
import json
from dataclasses import dataclass
from typing import Final, Literal

from fastapi import Request, Response

from app.security.secrets import same
from app.security.service import Security

FLASH_COOKIE: Final = "conclave_flash"
TEXT_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Flash:
    """One message; `kind` selects its style."""

    kind: Literal["good", "warn", "bad"]
    text: str


def set_flash(response: Response, security: Security, *messages: Flash) -> None:
    """Show these messages on the next page."""
    packed = json.dumps([[message.kind, message.text[:TEXT_MAX]] for message in messages])
    payload = base64.urlsafe_b64encode(packed.encode()).decode()
    value = f"{payload}.{security.signed('flash', payload)}"
    response.set_cookie(FLASH_COOKIE, value, max_age=60, httponly=True, samesite="strict", path="/")


def take_flash(request: Request, security: Security) -> list[Flash]:
    """Return the messages of this request; the page that shows them calls `clear_flash`. Forged ones are ignored."""
    payload, _, signature = request.cookies.get(FLASH_COOKIE, "").partition(".")
    if not payload or not same(signature, security.signed("flash", payload)):
        return []
    return [Flash(kind, text) for kind, text in json.loads(base64.urlsafe_b64decode(payload))]


def clear_flash(request: Request, response: Response) -> None:
    """Delete the messages that were shown."""
    if FLASH_COOKIE in request.cookies:
        response.delete_cookie(FLASH_COOKIE, path="/")
