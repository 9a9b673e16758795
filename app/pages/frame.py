"""The frame of every page, the template environment with its filters, and the texts of refused changes.

A page is a frozen view model and a template, whose first line says what it needs; undefined names are errors.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, Literal, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment
from markupsafe import Markup, escape

from app.cluster.brokers import BrokerInUseError
from app.clusters import clusters_of
from app.http.cluster_paths import HOME, root_of_key, under_root
from app.http.errors import CHANGE_REFUSED, of_connection, of_kafka
from app.http.locations import htmx_redirect, redirect
from app.http.templating import make_environment, static_files
from app.pages.columns import columns_of
from app.pages.flash import Flash, clear_flash, set_flash, take_flash
from app.pages.language import language_of
from app.pages.live import Live, Subject, live_state
from app.pages.navigation import Group, navigation_of
from app.pages.past import PastBanner, past_banner, stay_in_past
from app.pages.theme import theme_of
from app.security.roles import Principal, Role
from app.services import (
    Services,
    csrf_token_of,
    may_read_records,
    may_write_records,
    role_here,
    root_of,
    services_of,
    visitor_of,
)
from app.texts import LANGUAGES, Text, gettext, joined, phrase, phrases, recognised, shown, speaking
from kraft_core.protocol.errors import KafkaError

Item = TypeVar("Item")
Noun = Literal[
    "ACL",
    "API token",
    "group",
    "leader",
    "node",
    "pair",
    "partition",
    "replica",
    "ticked partition",
    "unclean leader election",
]
UNKNOWN: Final = "\N{EN DASH}"
REFUSALS: Final = (KafkaError, ConnectionError, BrokerInUseError)
"""What a change raises when it is refused or cannot be sent; see `refusal`."""


@dataclass(frozen=True, slots=True)
class ClusterName:
    """The cluster of a page: its name, the cluster id ("" before it is known), its colour, and its link from others."""

    name: str
    id: str
    color: str
    url: str


@dataclass(frozen=True, slots=True)
class Page:
    """The frame of a page; see base.html and bare.html.

    `theme` is light or dark, "" for that of the system. `address` is that of `address_of`, `others` are the other
    clusters that the user may see, `role` is the user's at this address.
    """

    title: str
    active: str
    user: Principal | None
    csrf_token: str
    live: Live
    flash: Sequence[Flash]
    cluster: ClusterName
    theme: str
    address: str
    others: Sequence[ClusterName] = ()
    role: Role = Role.NONE
    past: PastBanner | None = None
    may_read_records: bool = False
    may_write_records: bool = False

    @property
    def navigation(self) -> list[Group]:
        """The groups of entries that this user may open."""
        return navigation_of(self.user.role, self.user.own_role) if self.user else navigation_of(Role.VIEWER, Role.NONE)

    @property
    def may_edit(self) -> bool:
        """Whether the user may change topics and run reports."""
        return self.past is None and self.role >= Role.EDITOR

    @property
    def may_administer(self) -> bool:
        """Whether the user may change brokers, the quorum and access."""
        return self.past is None and self.role >= Role.ADMIN

    @property
    def may_create_topics(self) -> bool:
        """Whether the user may create some topics."""
        return self.may_edit or (self.past is None and self.user is not None and self.user.has_topics)

    @property
    def may_manage(self) -> bool:
        """Whether the user may change what belongs to no cluster: users, tokens, the clusters themselves."""
        return self.user is not None and self.user.own_role >= Role.ADMIN


def number(value: float | None) -> str:
    """Return a number with narrow spaces, as 12 345; a dash for an unknown value (None or -1)."""
    if value is None or value == -1:
        return UNKNOWN
    return f"{value:,}".replace(",", "\u202f")


def known(value: int | None) -> str:
    """Return a number that may be negative, a dash for an unknown value (None)."""
    return "-1" if value == -1 else number(value)


def amount(value: float) -> str:
    """Return a quantity with narrow spaces, as 1 048 576 or 0.5."""
    return number(int(value) if value.is_integer() else value)


def counted(count: int, what: Noun) -> Text:
    """Return a count with its noun: 1 partition, 12 345 partitions."""
    value = number(count)
    match what:
        case "ACL":
            return phrases("%(count)s ACL", "%(count)s ACLs", count, count=value)
        case "API token":
            return phrases("%(count)s API token", "%(count)s API tokens", count, count=value)
        case "group":
            return phrases("%(count)s group", "%(count)s groups", count, count=value)
        case "leader":
            return phrases("%(count)s leader", "%(count)s leaders", count, count=value)
        case "node":
            return phrases("%(count)s node", "%(count)s nodes", count, count=value)
        case "pair":
            return phrases("%(count)s pair", "%(count)s pairs", count, count=value)
        case "partition":
            return phrases("%(count)s partition", "%(count)s partitions", count, count=value)
        case "replica":
            return phrases("%(count)s replica", "%(count)s replicas", count, count=value)
        case "ticked partition":
            return phrases("%(count)s ticked partition", "%(count)s ticked partitions", count, count=value)
        case "unclean leader election":
            return phrases(
                "%(count)s unclean leader election", "%(count)s unclean leader elections", count, count=value
            )


def moment(value: dt.datetime | None) -> str:
    """Return a timestamp to the second in UTC, or "never"."""
    return phrase("never") if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(value: dt.datetime | None, now: dt.datetime | None = None) -> Markup:
    """Return a timestamp as the time since or until then, with the timestamp itself on hover. live.js renews it."""
    if value is None:
        return gettext("never")
    seconds = ((now or dt.datetime.now(dt.UTC)) - value.astimezone(dt.UTC)).total_seconds()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        value.astimezone(dt.UTC).isoformat(timespec="seconds"), moment(value), shown(since(seconds))
    )


def since(seconds: float) -> Text:
    """Return a past time in words, a negative number as a time to come; live.js has the same rule."""
    if -5 < seconds < 5:
        return phrase("just now")
    length = abs(seconds)
    for unit, size_of, least in (("d", 86_400, 2), ("h", 3_600, 2), ("min", 60, 1), ("s", 1, 1)):
        if length >= least * size_of:
            time = _time(str(int(length // size_of)), unit)
            return phrase("%(time)s ago", time=time) if seconds > 0 else phrase("in %(time)s", time=time)
    raise AssertionError("five seconds or more have a unit")


def _time(value: str, unit: str) -> Text:
    match unit:
        case "d":
            return phrase("%(count)s d", count=value)
        case "h":
            return phrase("%(count)s h", count=value)
        case "min":
            return phrase("%(count)s min", count=value)
        case "s":
            return phrase("%(count)s s", count=value)
        case _:
            return phrase("%(count)s ms", count=value)


def age(milliseconds: int) -> Text:
    """Return an age in words."""
    seconds = milliseconds / 1000
    if seconds < 10:
        time = _time(f"{seconds:.1f}", "s")
    elif seconds < 120:
        time = _time(f"{seconds:.0f}", "s")
    elif seconds < 7200:
        time = _time(f"{seconds / 60:.0f}", "min")
    else:
        time = _time(f"{seconds / 3600:.0f}", "h")
    return phrase("%(time)s ago", time=time)


def duration(milliseconds: int) -> Text:
    """Return a duration in words, with two units at most."""
    if milliseconds < 1_000:
        return _time(str(milliseconds), "ms")
    if milliseconds < 60_000:
        return _time(f"{milliseconds / 1000:.1f}", "s")
    seconds = milliseconds // 1000
    for unit, size, smaller, smaller_size in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // smaller_size
            most = _time(str(seconds // size), unit)
            return joined(" ", [most, _time(str(rest), smaller)]) if rest else most
    raise AssertionError("a minute or more has a unit")


def size(count: int | None) -> str:
    """Return a number of bytes in words, a dash if it is unknown."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def size_value(count: int | None) -> str:
    """Return a number of bytes in words, with the number itself for programs."""
    return UNKNOWN if count is None else Markup('<data value="{}">{}</data>').format(count, size(count))


def share(part: int, whole: int) -> str:
    """Return a percentage without decimals, a dash of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else UNKNOWN


def doc(text: str) -> Markup:
    """Return a documentation text with its `code` parts as HTML code elements."""
    parts = shown(text).split("`")
    made = [
        escape(part) if index % 2 == 0 else Markup("<code>{}</code>").format(part) for index, part in enumerate(parts)
    ]
    return Markup("").join(made)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the template environment with the filters of the pages."""
    made = make_environment()
    made.globals["static"] = static_files()
    made.filters.update(
        number=number,
        known=known,
        amount=amount,
        moment=moment,
        when=when,
        age=age,
        size=size_value,
        duration=duration,
        doc=doc,
        recognised=recognised,
    )
    return made


def page_of(request: Request, title: str, active: str = "", *notes: Flash) -> Page:
    """Return the frame for this request, with the messages of the last change."""
    services = services_of(request)
    is_known = hasattr(request.state, "csrf_token")  # an error before the guard has neither user nor token
    subject = Subject.of_request(request) if is_known else None
    live = live_state(services.cluster, subject, getattr(request.state, "stamp", None))
    flash = (*take_flash(request, services.security), *notes)
    user, token = (visitor_of(request), csrf_token_of(request)) if is_known else (None, "")
    name, *others = [_cluster_name(each) for each in (services, *_other_clusters(request, services, user))]
    past = past_banner(request)
    is_present = is_known and past is None
    return Page(
        title,
        active,
        user,
        token,
        live,
        flash,
        name,
        theme_of(request),
        address_of(request),
        others,
        role_here(request) if is_known else Role.NONE,
        past,
        may_read_records=is_present and may_read_records(request),
        may_write_records=is_present and may_write_records(request),
    )


def _cluster_name(services: Services) -> ClusterName:
    settings, key = services.settings, services.key or HOME
    return ClusterName(
        settings.cluster_name, services.cluster.cluster_id or "", settings.cluster_color, f"{root_of_key(key)}/"
    )


def _other_clusters(request: Request, services: Services, user: Principal | None) -> list[Services]:
    """Return the clusters beside that of the request that the user may see."""
    if user is None:
        return []
    return [each for each in clusters_of(request).seen_by(user) if each.key != services.key]


def may(request: Request, role: Role) -> bool:
    """Return whether the user of a page of the present has at least this role."""
    return services_of(request).cluster.past is None and role_here(request) >= role


def address_of(request: Request) -> str:
    """Return path and query of a page that can be opened again, "" for the answer to a form."""
    if request.method != "GET":
        return ""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def rows_on_page(request: Request, usual: int) -> int:
    """Return how many rows a page of a table has: more than usual in a download of all rows."""
    return getattr(request.state, "rows_on_page", None) or usual


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page or a fragment, which must not be cached.

    Templates get the address as `here` for the downloads of their tables, empty for what is no answer to a GET, whether
    the user `may_edit` what they show, and `columns_of` tables.
    """
    html = html_of(
        request,
        template,
        here=address_of(request),
        may_edit=may(request, Role.EDITOR),
        columns_of=partial(columns_of, request),
        **context,
    )
    response = HTMLResponse(under_root(root_of(request), stay_in_past(request, html)), status)
    response.headers["Cache-Control"] = "no-store"
    if "page" in context:
        clear_flash(request, response)
    return response


def html_of(request: Request, template: str, **context: Any) -> str:
    """Return a template in the language of the reader, which it knows as `language` of `languages`."""
    language = language_of(request)
    with speaking(language):
        return environment().get_template(template).render(language=language, languages=LANGUAGES, **context)


def said(request: Request, text: str) -> str:
    """Return a text in the language of the reader."""
    with speaking(language_of(request)):
        return str(shown(text))


def go_to(request: Request, location: str, note: Flash | None = None) -> Response:
    """Redirect to another page after a change, with a message; for htmx by its header."""
    response: Response = (
        HTMLResponse("", headers=htmx_redirect(location)) if request.headers.get("HX-Request") else redirect(location)
    )
    if note is not None:
        set_flash(response, services_of(request).security, replace(note, text=said(request, note.text)))
    return response


def refusal(error: Exception) -> tuple[str, int]:
    """Return the text of one of REFUSALS (the controller's message, then Kafka's error name) and its HTTP status."""
    if isinstance(error, BrokerInUseError):
        return str(error), CHANGE_REFUSED
    if isinstance(error, KafkaError):
        answer, extra = of_kafka(error, v3=False)
        text = phrase("%(message)s (%(error)s)", message=answer.message, error=extra["kafka_error"])
        return text, answer.status
    assert isinstance(error, ConnectionError), "REFUSALS has no other class"
    answer, _ = of_connection(error)
    return answer.message, answer.status


def page_items(items: Sequence[Item], page: int, size: int) -> tuple[Sequence[Item], int, int]:
    """Return the items of a page, its number (brought into range), and the number of pages."""
    pages = max(1, -(-len(items) // size))
    page = min(max(1, page), pages)
    return items[(page - 1) * size : page * size], page, pages


def ids_text(ids: Sequence[int]) -> str:
    """Return ids separated by commas, or "none"."""
    return ", ".join(map(str, ids)) or phrase("none")


def whole_number(text: str, least: int, most: int) -> int | None:
    """Return a number in [least, most] from a form or an address, None for any other text."""
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if least <= value <= most else None


def optional_number(text: str, name: str, most: int) -> tuple[int | None, str]:
    """Return a positive whole number that may be left out, and the error of any other text."""
    if not text.strip():
        return None, ""
    value = whole_number(text, 1, most)
    if value is not None:
        return value, ""
    return None, phrase(
        "%(name)s '%(value)s' is not a whole number from 1 to %(most)s.", name=name, value=text.strip()[:40], most=most
    )
