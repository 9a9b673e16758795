"""What every page stands on: the frame around it, its templates, and words for what was refused.

A page is a frozen view model and a template whose first line says what it needs; undefined names are errors.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment
from markupsafe import Markup, escape

from app.http.errors import of_connection, of_kafka
from app.http.locations import htmx_redirect, redirect
from app.http.templating import make_environment, static_files
from app.pages.flash import Flash, clear_flash, set_flash, take_flash
from app.pages.live import Live, Subject, live_state
from app.security.roles import Principal, Role
from app.services import csrf_token_of, services_of, visitor_of
from kraft_core.protocol.errors import KafkaError

NAVIGATION: Final = (
    ("/", "Dashboard", Role.VIEWER),
    ("/quorum", "Quorum", Role.VIEWER),
    ("/brokers", "Brokers", Role.VIEWER),
    ("/topics", "Topics", Role.VIEWER),
    ("/changes", "Changes", Role.VIEWER),
    ("/reports", "Reports", Role.VIEWER),
    ("/features", "Features", Role.VIEWER),
    ("/rights", "Access control", Role.ADMIN),
    ("/audit", "Audit", Role.ADMIN),
    ("/access", "Users and tokens", Role.ADMIN),
)
UNKNOWN: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Page:
    """The frame of a page; see base.html and bare.html."""

    title: str
    active: str
    user: Principal | None
    csrf_token: str
    live: Live
    flash: Sequence[Flash]

    @property
    def navigation(self) -> list[tuple[str, str]]:
        """(address, label) of what this user may open."""
        role = self.user.role if self.user else Role.VIEWER
        return [(href, label) for href, label, least in NAVIGATION if role >= least]

    @property
    def may_edit(self) -> bool:
        """Whether the user may change topics and run reports."""
        return self.user is not None and self.user.role >= Role.EDITOR

    @property
    def may_administer(self) -> bool:
        """Whether the user may change brokers, the quorum and access."""
        return self.user is not None and self.user.role >= Role.ADMIN


def number(value: float | None) -> str:
    """12 345 with narrow spaces; an unknown value (None or -1) as a dash."""
    if value is None or value == -1:
        return UNKNOWN
    return f"{value:,}".replace(",", "\u202f")


def amount(value: float) -> str:
    """A quantity that need not be whole: 1 048 576 with narrow spaces, 0.5."""
    return number(int(value) if value.is_integer() else value)


def counted(count: int, what: str) -> str:
    """1 partition, 2 partitions, 12 345 partitions."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def moment(value: dt.datetime | None) -> str:
    """A moment to the second in UTC, or "never"."""
    return "never" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def age(milliseconds: int) -> str:
    """How long ago, in words."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s ago"
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago"


def duration(milliseconds: int) -> str:
    """A length of time in words, to two units at most."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    seconds = milliseconds // 1000
    for unit, size, smaller, smaller_size in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size} {unit} {rest} {smaller}" if rest else f"{seconds // size} {unit}"
    raise AssertionError("a minute or more has a unit")


def size(count: int) -> str:
    """A number of bytes in words."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def doc(text: str) -> Markup:
    """A documentation text with its `code` parts set as code."""
    parts = text.split("`")
    shown = [
        escape(part) if index % 2 == 0 else Markup("<code>{}</code>").format(part) for index, part in enumerate(parts)
    ]
    return Markup("").join(shown)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The template environment with our filters."""
    made = make_environment()
    made.globals["static"] = static_files()
    made.filters.update(number=number, amount=amount, moment=moment, age=age, doc=doc)
    return made


def page_of(request: Request, title: str, active: str = "", *notes: Flash) -> Page:
    """The frame for this request, with what the last change left to say."""
    services = services_of(request)
    is_known = hasattr(request.state, "csrf_token")  # an error before the guard has neither user nor token
    subject = Subject.of_request(request) if is_known else None
    live = live_state(services.cluster, subject, getattr(request.state, "stamp", None))
    flash = (*take_flash(request, services.security), *notes)
    user, token = (visitor_of(request), csrf_token_of(request)) if is_known else (None, "")
    return Page(title, active, user, token, live, flash)


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page or a fragment. Nobody keeps it: what it shows is true now."""
    response = HTMLResponse(environment().get_template(template).render(**context), status)
    response.headers["Cache-Control"] = "no-store"
    if "page" in context:
        clear_flash(request, response)
    return response


def go_to(request: Request, location: str, note: Flash | None = None) -> Response:
    """Go on to another page of ours after a change, with a note; htmx is told in its own way."""
    response: Response = (
        HTMLResponse("", headers=htmx_redirect(location)) if request.headers.get("HX-Request") else redirect(location)
    )
    if note is not None:
        set_flash(response, services_of(request).security, note)
    return response


def refusal(error: KafkaError | ConnectionError) -> tuple[str, int]:
    """What a refused change says to a person (the controller's words, then Kafka's name for it), and its HTTP status."""
    if isinstance(error, KafkaError):
        answer, extra = of_kafka(error, v3=False)
        return f"{answer.message} ({extra['kafka_error']})", answer.status
    answer, _ = of_connection(error)
    return answer.message, answer.status


def whole_number(text: str, least: int, most: int) -> int | None:
    """Read a number in [least, most] from a form or an address; None if it is none."""
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        return None
    value = int(text)
    return value if least <= value <= most else None
