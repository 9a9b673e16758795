"""The wizard of moves: what moves, where it goes, what that does to the balance; then a plan is saved as a draft.

The address has everything that was chosen, so each step can be bookmarked, the browser's back button works, and a login
in between returns to the step. A long pasted plan does not fit into an address and is posted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response
from markupsafe import Markup

from app.actions.audited import Caller
from app.http.errors import FORM_REFUSED
from app.http.locations import NEXT, redirect
from app.pages.brokers import BrokerRow, brokers_view
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.frame import (
    UNKNOWN,
    counted,
    duration,
    ids_text,
    number,
    page_of,
    render,
    rows_on_page,
    size,
    whole_number,
)
from app.pages.move_choice import (
    CHOSEN,
    DRAINS_ALL,
    GOALS,
    NO_PARTITIONS,
    Choice,
    Goal,
    Problems,
    scope_of,
    ticked,
    typed_lines,
)
from app.pages.move_draft import MoveDraft, drafted, numbers_text, warnings_of
from app.pages.placement_charts import moved_chart
from app.pages.plan_limits import UNITS, Limits
from app.pages.plans import draft_saved, rows_shown
from app.pages.topics import SIZES_SECONDS
from app.reports.executor import plan_store
from app.reports.executor.effect import copy_seconds
from app.reports.executor.plan import ACTIVE_STATES
from app.services import Admin, Services, services_of
from app.texts import joined, phrase, phrases, recognised, sentences

router = APIRouter(include_in_schema=False)

ROWS: Final = 50
BROKERS_SHOWN: Final = 100
RATES: Final = (10 * 2**20, 50 * 2**20, 200 * 2**20)
"""Throttles for which the review estimates the time."""
STEPS: Final = (("what", phrase("1. What")), ("where", phrase("2. Where")), ("review", phrase("3. Review")))


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """One partition that can be ticked."""

    key: str
    topic: str
    partition: int
    leader: int
    replicas: str
    isr: str
    is_ticked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatView:
    """The first step: goals, and a page of the partitions that the filters match. `kept`: ticks of other pages."""

    goals: Mapping[str, Goal]
    rows: Sequence[PartitionChoice]
    matching: int
    page: int
    pages: int
    kept: Sequence[str]
    is_shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereView:
    """The second step: the brokers and racks to choose from. `title`: goal and partitions in words."""

    title: str
    brokers: Sequence[BrokerRow]
    racks: Sequence[str]
    typed: str
    may_type: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """The third step: what the plan does. `totals` are (what, before, after, tone)."""

    cards: Sequence[tuple[str, str, str]]
    totals: Sequence[tuple[str, str, str, str]]
    brokers: Sequence[Mapping[str, Any]]
    more_brokers: int
    chart: Callable[[], Markup | None]
    estimates: str
    summary: str
    warnings: Sequence[str]
    unsolved: Sequence[str]
    rows: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesView:
    """Model of moves.html. `errors` by field, "" for the whole; `steps` are (address, title), "" if not reached."""

    choice: Choice
    goal: Goal
    limits: Limits
    units: Sequence[str]
    step: str
    errors: Mapping[str, str]
    steps: Sequence[tuple[str, str]]
    here: str
    what: WhatView | None = None
    where: WhereView | None = None
    review: ReviewView | None = None


@router.get("/moves/new")
async def new_moves(request: Request, caller: Admin) -> Response:
    """Return a step of the wizard, or the preview of its plan."""
    asked = request.query_params
    choice, limits = Choice.of(asked.multi_items()), Limits.of(asked)
    match asked.get("step"):
        case "where" | "review" as step:
            return await wizard(request, choice, limits, step)
        case "save":
            return await _draft(request, caller, choice, limits)
    return await wizard(request, choice, limits, "what")


@router.post("/moves/new")
async def review_moves(request: Request, _caller: Admin) -> Response:
    """Return the review with what was typed; by its address, unless the pasted plan is long. Nothing is changed."""
    choice, limits = await _posted(request)
    if not choice.is_posted:
        return redirect(choice.address("review", limits))
    return await wizard(request, choice, limits, "review")


async def _posted(request: Request) -> tuple[Choice, Limits]:
    pairs = [(name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str)]
    return Choice.of(pairs), Limits.of(dict(pairs))


async def wizard(request: Request, choice: Choice, limits: Limits, step: str) -> Response:
    """Return the step, or the step before it with what is wrong there."""
    errors: dict[str, str] = {}
    review = None
    if step == "review":
        try:
            review = await _review(request, choice, limits)
            errors = limits.errors
        except Problems as wrong:
            step, errors = wrong.step, wrong.by_field
    return await _page(request, choice, limits, step, errors, review)


async def _page(
    request: Request,
    choice: Choice,
    limits: Limits,
    step: str,
    errors: Mapping[str, str],
    review: ReviewView | None,
) -> Response:
    what, where, found = None, None, dict(errors)
    if step == "where":
        try:
            where = await _where(request, choice)
        except Problems as wrong:
            step, found = wrong.step, {**found, **wrong.by_field}
    if step == "what":
        what, wrongs = _what(request, choice)
        found = {**wrongs, **found}
    reached = [name for name, _ in STEPS].index(step)
    view = MovesView(
        choice=choice,
        goal=GOALS[choice.goal],
        limits=limits,
        units=list(UNITS),
        step=step,
        errors=found,
        steps=[
            (choice.address(name, limits if name == "review" else None) if at <= reached else "", title)
            for at, (name, title) in enumerate(STEPS)
        ],
        here=choice.address(step, limits if step == "review" else None),
        what=what,
        where=where,
        review=review,
    )
    page = page_of(request, phrase("Move partitions"), "/plans")
    return render(request, "moves.html", FORM_REFUSED if found else 200, page=page, view=view)


# first step


def _what(request: Request, choice: Choice) -> tuple[WhatView, dict[str, str]]:
    image = services_of(request).cluster.image
    errors: dict[str, str] = {}
    rows: list[PartitionChoice] = []
    matching, page, pages, is_shown = 0, 1, 1, choice.has_scope or "show" in request.query_params
    try:
        ticked(choice, image)
        if is_shown:
            scope = scope_of(choice, image)
            on_page = rows_on_page(request, ROWS)
            matching, pages = scope.count, max(1, -(-scope.count // on_page))
            page = min(whole_number(request.query_params.get("page", "1"), 1, 10**9) or 1, pages)
            rows = [
                PartitionChoice(
                    f"{name}-{index}",
                    name,
                    index,
                    each.leader,
                    ids_text(each.replicas),
                    ids_text(each.isr),
                    f"{name}-{index}" in choice.p,
                )
                for name, index, each in scope.page(page, on_page)
            ]
    except Problems as wrong:
        errors = wrong.by_field
    shown = {row.key for row in rows}
    view = WhatView(
        goals={name: GOALS[name] for name in CHOSEN},
        rows=rows,
        matching=matching,
        page=page,
        pages=pages,
        kept=[key for key in choice.p if key not in shown],
        is_shown=is_shown,
    )
    return view, errors


# second step


async def _where(request: Request, choice: Choice) -> WhereView:
    """Return the second step. Raises Problems of the first."""
    cluster = services_of(request).cluster
    image = cluster.image
    if choice.goal == "move" and not choice.has_scope:
        raise Problems("what", {"topics": NO_PARTITIONS})
    if choice.goal == "drain" and choice.has_scope:
        raise Problems("what", {"topics": DRAINS_ALL})
    goal = GOALS[choice.goal].label
    title = phrase("%(goal)s: all partitions.", goal=goal)
    if choice.p:
        title = phrase("%(goal)s: %(what)s.", goal=goal, what=counted(len(ticked(choice, image)), "ticked partition"))
    elif choice.has_scope:
        title = phrase("%(goal)s: %(what)s.", goal=goal, what=counted(scope_of(choice, image).count, "partition"))
    elif choice.goal in {"paste", "drain"}:
        title = phrase("%(goal)s.", goal=goal)
    typed = choice.plan or (typed_lines(choice, image) if choice.goal == "paste" else "")
    view = brokers_view(
        image, cluster.topic_table, await cluster.log_dirs.of(image.cluster.brokers.values(), SIZES_SECONDS)
    )
    racks = sorted({each.rack for each in image.cluster.brokers.values() if each.rack})
    return WhereView(
        title=title, brokers=view.rows, racks=racks, typed=typed, may_type=bool(choice.has_scope) and not choice.plan
    )


# third step


async def _review(request: Request, choice: Choice, limits: Limits) -> ReviewView:
    """Return the third step. Raises Problems."""
    services = services_of(request)
    draft = await drafted(services, choice)
    effect, throttle = draft.effect, None if limits.errors else limits.bytes_per_second
    warnings = warnings_of(services.cluster.image, draft, throttled=bool(limits.throttle)) + await _waiting(services)
    brokers = sorted(effect["brokers"], key=_change_of)
    return ReviewView(
        cards=_cards(effect, throttle),
        totals=_totals(effect),
        brokers=brokers[:BROKERS_SHOWN],
        more_brokers=len(brokers) - BROKERS_SHOWN,
        chart=partial(moved_chart, effect["brokers"]),
        estimates=_estimates(effect) if effect["bytes"] else "",
        summary=sentences([phrase("%(goal)s.", goal=GOALS[choice.goal].label), *numbers_text(draft)]),
        warnings=warnings,
        unsolved=[_unsolved_text(each) for each in draft.numbers.get("unsolved", ())],
        rows=rows_shown(draft.rows),
    )


def _change_of(row: Mapping[str, Any]) -> tuple[int, int]:
    """Sort key: the brokers that change most first."""
    before, after = row["before"], row["after"]
    return -sum(abs(after[name] - before[name]) for name in ("replicas", "leaders")), row["broker_id"]


async def _waiting(services: Services) -> list[str]:
    """Return a sentence when another plan is being executed."""
    found = await services.database.read(plan_store.plans, services.cluster.cluster_id or "", 100)
    active = next((each for each in found if each.state in ACTIVE_STATES), None)
    return (
        []
        if active is None
        else [phrase("Plan %(id)s is being executed. This one can be started after it.", id=active.id)]
    )


def _time(effect: Mapping[str, Any], throttle: int) -> str:
    seconds = copy_seconds(effect, throttle)
    if seconds < 1:
        return phrase("under 1 s")
    time = duration(int(seconds) * 1_000)
    return phrase("at least %(time)s", time=time) if effect["unsized"] else time


def _estimates(effect: Mapping[str, Any]) -> str:
    """Return how long the copying takes by throttle."""
    texts = [phrase("%(time)s at %(rate)s/s", time=_time(effect, rate), rate=size(rate)) for rate in RATES]
    return joined(", ", texts)


def _cards(effect: Mapping[str, Any], throttle: int | None) -> list[tuple[str, str, str]]:
    """Return the figures of the review, as (label, value, detail)."""
    unsized = phrase("%(replicas)s of unknown size", replicas=counted(effect["unsized"], "replica"))
    if effect["bytes"] is None or throttle is None:
        time, why = UNKNOWN, phrase("no throttle") if throttle is None else phrase("sizes are not known")
    else:
        time, why = _time(effect, throttle), phrase("at %(rate)s/s per broker", rate=size(throttle))
    reordered = phrase("%(partitions)s only reordered", partitions=counted(effect["reordered"], "partition"))
    return [
        (phrase("Partitions changed"), number(effect["partitions"]), reordered if effect["reordered"] else ""),
        (phrase("Replicas to copy"), number(effect["copies"]), ""),
        (phrase("Bytes to copy"), size(effect["bytes"]), unsized if effect["unsized"] else ""),
        (phrase("Leaders that change"), number(effect["leader_changes"]), ""),
        (phrase("Estimated time"), time, why),
    ]


def _totals(effect: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the cluster's numbers, as (what, before, after, tone): a number that gets worse is amber."""
    found: list[tuple[str, str, str, str]] = []
    brokers = [each for each in effect["brokers"] if each["state"] == "ACTIVE"]
    labels = {"replicas": phrase("Replicas on a broker, least to most"), "leaders": phrase("Leaders, least to most")}
    for name, label in labels.items():
        spans = []
        for when in ("before", "after"):
            held = [each[when][name] for each in brokers] or [0]
            spans.append((min(held), max(held)))
        tone = "warn" if spans[1][1] - spans[1][0] > spans[0][1] - spans[0][0] else ""
        then, now = (phrase("%(low)s to %(high)s", low=number(low), high=number(high)) for low, high in spans)
        found.append((label, then, now, tone))
    for name, label in (
        ("rack_violated", phrase("Partitions that break the rack rule")),
        ("under_min", phrase("Partitions under min ISR")),
        ("at_min", phrase("Partitions at min ISR")),
        ("non_preferred", phrase("Partitions without their preferred leader")),
    ):
        before, after = effect[name]
        if name == "rack_violated" and not effect["racks"]:
            found.append((label, phrase("no racks"), phrase("no racks"), ""))
        else:
            found.append((label, number(before), number(after), "warn" if after > before else ""))
    return found


def _unsolved_text(each: Mapping[str, Any]) -> str:
    named = ", ".join(f"{row['topic']}-{row['partition']}" for row in each["partitions"][:5])
    count, text, ids = number(each["count"]), recognised(each["text"]), each["brokers"]
    examples = (
        named or phrases("broker %(ids)s", "brokers %(ids)s", len(ids), ids=ids_text(ids)) if ids or named else ""
    )
    if not examples:
        return phrase("Stays as it is: %(what)s (%(count)s).", what=text, count=count)
    return phrase("Stays as it is: %(what)s (%(count)s: %(some)s).", what=text, count=count, some=examples)


# the plan


@router.post("/plans")
async def create_plan(
    request: Request, caller: Admin, confirmed: Annotated[str, Form()] = "", seen: Annotated[str, Form()] = ""
) -> Response:
    """Preview the plan of a choice; with confirmed=yes save it as a draft, if it is still the one that was `seen`."""
    choice, limits = await _posted(request)
    return await _draft(request, caller, choice, limits, confirmed=bool(confirmed), seen=seen)


async def _draft(
    request: Request, caller: Caller, choice: Choice, limits: Limits, *, confirmed: bool = False, seen: str = ""
) -> Response:
    services = services_of(request)
    if limits.errors:
        return await wizard(request, choice, limits, "review")
    try:
        draft = await drafted(services, choice)
    except Problems as wrong:
        return await _page(request, choice, limits, wrong.step, wrong.by_field, None)
    is_same = seen in {"", draft.digest}

    async def save() -> Response:
        new = draft.new_plan(services.cluster.cluster_id or "", limits)
        return draft_saved(request, await services.actions.plans.create(caller, new))

    view = _confirmation(request, choice, limits, draft, is_same=is_same)
    return await preview_or_apply(request, view, confirmed=confirmed and is_same, apply=save)


def _confirmation(request: Request, choice: Choice, limits: Limits, draft: MoveDraft, *, is_same: bool) -> ConfirmView:
    image = services_of(request).cluster.image
    changed = phrase("The cluster has changed since the preview. These are the moves now; nothing is saved.")
    back, here = (choice.address("where" if choice.is_posted else step, limits) for step in ("review", "save"))
    return ConfirmView(
        title=phrase("Save the moves as a plan"),
        active="/plans",
        back=phrase("Move partitions"),
        back_url=back,
        action=f"/plans?{urlencode({NEXT: here})}",
        button=phrase("Save draft"),
        changes=rows_shown(draft.rows),
        consequences=[
            *([] if is_same else [changed]),
            *numbers_text(draft),
            *warnings_of(image, draft, throttled=bool(limits.throttle)),
        ],
        curl=cluster_curl(request, "POST", "plans", draft.call_body(limits)),
        fields=[*choice.pairs(), *limits.pairs(), ("seen", draft.digest)],
    )
