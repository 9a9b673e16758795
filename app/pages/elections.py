"""Leader elections over all topics or chosen ones: a preview with the leaders per broker, and the result."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.cluster.elections import BATCH, Election, is_long, leaders_by_broker, partitions_to_elect, previewed
from app.cluster.partitions import Outcome, Partition
from app.http.errors import FORM_REFUSED
from app.http.locations import redirect
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, ids_text, page_items, page_of, render, rows_on_page, whole_number
from app.pages.long_elections import begin, path_of, title_of
from app.pages.move_choice import Choice, Problems, scope_of, ticked
from app.security.roles import Role
from app.services import Reader, Services, TopicEditor, services_of
from app.texts import joined, phrase, phrases
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.protocol.errors import ErrorCode

router = APIRouter(include_in_schema=False)

ROWS: Final = 100
SHOWN_MAX: Final = 200
RESULTS_SHOWN: Final = 1_000
PREVIEW: Final = "preview"
ADDRESS_MAX: Final = 4_000
"""The longest address of a confirmation; one of more ticked partitions has none."""
UNCLEAN_WORD: Final = "unclean"
"""What must be typed before an unclean election."""


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """One partition that needs an election. `may_lose`: what an unclean election may lose, "" for a clean one."""

    key: str
    topic: str
    partition: int
    leader: str
    then: str
    replicas: str
    isr: str
    may_lose: str
    is_ticked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionsView:
    """Model of elect_leaders.html.

    `brokers` are (id, leaders before, after). `newest`: address and title of the last long election.
    """

    election: str
    topics: str
    errors: Mapping[str, str]
    wanted: int
    electable: int
    brokers: Sequence[tuple[int, int, int]]
    rows: Sequence[ElectionRow]
    page: int
    pages: int
    base: str
    newest: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """Model of election_result.html. `rows` are (partition, topic, result, tone), failures first."""

    election: str
    elected: int
    failed: int
    offset: int | None
    rows: Sequence[tuple[str, str, str, str]]
    more: int
    back: str


def _election_of(text: str) -> ElectionType:
    return ElectionType.__members__.get(text, ElectionType.PREFERRED)


def _address(election: ElectionType, topics: str) -> str:
    given = {"type": "" if election is ElectionType.PREFERRED else election.name, "topics": topics}
    query = urlencode({name: value for name, value in given.items() if value})
    return f"/elections?{query}" if query else "/elections"


async def _wanted(services: Services, election: ElectionType, choice: Choice) -> list[Partition]:
    """Return the partitions of the chosen topics that need the election, or the ticked ones. Raises Problems."""
    image = services.cluster.image
    if choice.p:
        return ticked(choice, image)
    topics = scope_of(choice, image).topics if choice.topics else None
    return await asyncio.to_thread(partitions_to_elect, image, election, topics)


async def _previewed(services: Services, election: ElectionType, choice: Choice) -> list[Election]:
    """Return what the election would do to them. Raises Problems."""
    wanted = await _wanted(services, election, choice)
    return await asyncio.to_thread(previewed, services.cluster.image, election, wanted)


@router.get("/elections")
async def elections(request: Request, caller: Reader) -> Response:
    """Return the page: what an election would change; with step=preview its confirmation."""
    pairs = request.query_params.multi_items()
    if dict(pairs).get("step") == PREVIEW and caller.principal.may(Role.EDITOR, "topics"):
        return await _elect(request, caller, pairs)
    return await _page(request, _election_of(dict(pairs).get("type", "")), Choice.of(pairs), {})


async def _page(request: Request, election: ElectionType, choice: Choice, errors: Mapping[str, str]) -> Response:
    services = services_of(request)
    found: list[Election] = []
    wrong = dict(errors)
    try:
        found = await _previewed(services, election, Choice(topics=choice.topics))
    except Problems as problems:
        wrong |= problems.by_field
    number = whole_number(request.query_params.get("page", "1"), 1, 10**9) or 1
    rows, page, pages = page_items(found, number, rows_on_page(request, ROWS))
    address = _address(election, choice.topics)
    newest = await services.actions.long_elections.newest()
    view = ElectionsView(
        election=election.name,
        topics=choice.topics,
        errors=wrong,
        wanted=len(found),
        electable=sum(each.then is not None for each in found),
        brokers=_brokers(services, found),
        rows=[_row(each, election, choice.p) for each in rows],
        page=page,
        pages=pages,
        base=f"{address}{'&' if '?' in address else '?'}",
        newest=None if newest is None else (path_of(newest), title_of(newest)),
    )
    status = FORM_REFUSED if wrong else 200
    return render(
        request, "elect_leaders.html", status, page=page_of(request, phrase("Elect leaders"), "/topics"), view=view
    )


def _brokers(services: Services, found: Sequence[Election]) -> list[tuple[int, int, int]]:
    """Return (id, leaders before, after) of each broker, those that change most first."""
    cluster = services.cluster
    by_broker = leaders_by_broker(cluster.image, cluster.topic_table, found)
    rows = [(broker, then, now) for broker, (then, now) in by_broker.items()]
    return sorted(rows, key=lambda row: (-abs(row[2] - row[1]), row[0]))


def _row(each: Election, election: ElectionType, ticks: Sequence[str]) -> ElectionRow:
    key = f"{each.topic}-{each.partition}"
    now = each.registration
    return ElectionRow(
        key=key,
        topic=each.topic,
        partition=each.partition,
        leader=str(now.leader) if now.has_leader else phrase("none"),
        then=each.refused if each.then is None else str(each.then),
        replicas=ids_text(now.replicas),
        isr=ids_text(now.isr),
        may_lose=_may_lose(each) if election is ElectionType.UNCLEAN else "",
        is_ticked=key in ticks,
    )


def _may_lose(each: Election) -> str:
    """Return what an unclean election of a partition may lose, as a sentence."""
    if each.then is None:
        return phrase("Nothing: no replica can be elected.")
    known = each.last_in_sync
    if each.then in known:
        return phrase("Nothing: broker %(id)s was in sync.", id=each.then)
    if not known:
        return phrase("Unknown: the metadata does not say who was in sync.")
    return phrases(
        "Records that only broker %(ids)s has.",
        "Records that only brokers %(ids)s have.",
        len(known),
        ids=ids_text(known),
    )


# the change


@router.post("/elections")
async def elect(
    request: Request, caller: TopicEditor, confirmed: Annotated[str, Form()] = "", typed: Annotated[str, Form()] = ""
) -> Response:
    """Preview an election of all or chosen partitions; with confirmed=yes hold it. An unclean one is typed for."""
    pairs = [(name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str)]
    return await _elect(request, caller, pairs, confirmed=bool(confirmed), typed=typed)


async def _elect(
    request: Request, caller: Caller, pairs: Sequence[tuple[str, str]], *, confirmed: bool = False, typed: str = ""
) -> Response:
    """Return the confirmation, or hold the election. The confirmation has an address, to which a login returns."""
    services = services_of(request)
    choice, election = Choice.of(pairs), _election_of(dict(pairs).get("type", ""))
    if election is ElectionType.UNCLEAN and not choice.p:
        return await _page(
            request, election, choice, {"p": phrase("Tick the partitions of which records may be lost.")}
        )
    try:
        if confirmed and election is ElectionType.PREFERRED:
            wanted = await _wanted(services, election, choice)
            if is_long(wanted):
                return await begin(request, caller, election, wanted)
        found = await _previewed(services, election, choice)
    except Problems as wrong:
        return await _page(request, election, choice, wrong.by_field)
    back = _address(election, choice.topics)
    wanted = [each.key for each in found if each.then is not None]
    if not wanted:
        if not found:
            return go_to(request, back, Flash("good", phrase("No partition needs an election.")))
        text = phrase("No partition can be elected: no replica that may lead is up.")
        return go_to(request, back, Flash("bad", text))

    fields = [("type", election.name), *choice.pairs(leave=("goal", "plan"))]
    address = f"/elections?{urlencode([*fields, ('step', PREVIEW)])}"
    if request.method == "POST" and not confirmed and len(address) <= ADDRESS_MAX:
        return redirect(address)

    async def apply() -> Response:
        if is_long(wanted):
            return await begin(request, caller, election, wanted)
        done = await services.actions.partitions.elect_leaders(caller, election, wanted)
        return _result(request, election, wanted, done, back)

    view = _confirmation(request, election, choice, found, _brokers(services, found))
    return await preview_or_apply(request, view, confirmed=confirmed, apply=apply, typed=typed)


def _confirmation(
    request: Request,
    election: ElectionType,
    choice: Choice,
    found: Sequence[Election],
    brokers: Sequence[tuple[int, int, int]],
) -> ConfirmView:
    is_unclean = election is ElectionType.UNCLEAN
    elected = [each for each in found if each.then is not None]
    changes: list[tuple[str, str, str]] = [
        (
            phrase("Leader of %(partition)s", partition=f"{each.topic}-{each.partition}"),
            _row(each, election, ()).leader,
            str(each.then),
        )
        for each in elected[:SHOWN_MAX]
    ]
    if len(elected) > SHOWN_MAX:
        changes.append(("…", phrase("%(count)s more partitions", count=len(elected) - SHOWN_MAX), ""))
    moved = [
        phrase("broker %(id)s: %(before)s to %(after)s", id=broker, before=then, after=now)
        for broker, then, now in brokers[:20]
        if then != now
    ]
    lines: list[str] = [phrase("Leaders by broker: %(brokers)s.", brokers=joined("; ", moved))] if moved else []
    if len(found) > len(elected):
        left = counted(len(found) - len(elected), "partition")
        lines.append(phrase("%(partitions)s stay as is: the replica to elect is not in sync.", partitions=left))
    if is_unclean:
        lines += [
            phrase("%(partition)s may lose: %(what)s", partition=f"{each.topic}-{each.partition}", what=_may_lose(each))
            for each in elected[:SHOWN_MAX]
        ]
    if is_long(elected):
        lines.append(
            phrase("The partitions are elected %(count)s at a time; the next page shows the progress.", count=BATCH)
        )
    body: dict[str, Any] = {"election_type": election.name}
    if choice.p or choice.topics:
        keys = [{"topic_name": each.topic, "partition_id": each.partition} for each in elected[:SHOWN_MAX]]
        body["partitions"] = keys
    return ConfirmView(
        title=phrase("Elect leaders of %(partitions)s", partitions=counted(len(elected), "partition")),
        active="/topics",
        back=phrase("Elect leaders"),
        back_url=_address(election, choice.topics),
        action="/elections",
        button=phrase("Elect leaders"),
        changes=changes,
        consequences=lines,
        curl=cluster_curl(request, "POST", "leaders:elect", body),
        fields=[("type", election.name), *choice.pairs(leave=("goal", "plan"))],
        type_name=UNCLEAN_WORD if is_unclean else "",
        dangerous=is_unclean,
    )


def _result(
    request: Request, election: ElectionType, wanted: Sequence[Partition], done: Outcome, back: str
) -> Response:
    """Return to the page when all have been elected, else the result of each partition."""
    failures = {key: each for key, each in done.failures.items() if each.code is not ErrorCode.ELECTION_NOT_NEEDED}
    if not failures:
        partitions = counted(len(wanted), "partition")
        text = phrase("Leader elected for %(partitions)s.", partitions=partitions)
        if done.offset is not None:
            text = phrase(
                "Leader elected for %(partitions)s at offset %(offset)s.", partitions=partitions, offset=done.offset
            )
        return go_to(request, back, Flash("good", text))
    failed = [
        (f"{key[0]}-{key[1]}", key[0], f"{each.message} ({each.code.name})", "bad") for key, each in failures.items()
    ]
    elected = [
        (f"{topic}-{index}", topic, phrase("elected"), "good")
        for topic, index in wanted
        if (topic, index) not in failures
    ]
    rows = [*failed, *elected]
    view = ResultView(
        election=election.name,
        elected=len(elected),
        failed=len(failed),
        offset=done.offset,
        rows=rows[:RESULTS_SHOWN],
        more=len(rows) - RESULTS_SHOWN,
        back=back,
    )
    return render(
        request, "election_result.html", page=page_of(request, phrase("Result of the election"), "/topics"), view=view
    )
