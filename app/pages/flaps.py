"""Flaps: partitions and brokers ranked by their ISR and leader changes, and the leaders elected outside the ISR."""

import asyncio
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.cluster.about import NAME_MAX
from app.cluster.log_events.events import PartitionMove
from app.cluster.log_events.flaps import BrokerFlaps, By, PartitionFlaps, Period, Window, elections, rank
from app.http.errors import BadRequestError
from app.pages.frame import ids_text, page_items, page_of, render, rows_on_page
from app.pages.survey_notes import SurveyNotes, notes_of, survey_of
from app.services import PastReader, services_of
from app.texts import phrase, phrases, sentence_of

router = APIRouter(include_in_schema=False)

ROWS: Final = 50
FOLLOWED_MAX: Final = 20_000
"""With more moves the page does not count again after each change; it is right as of its loading."""
PERIODS: Final[dict[Period, str]] = {
    "hour": phrase("the last hour"),
    "day": phrase("the last day"),
    "all": phrase("all that is kept"),
}
ORDERS: Final[dict[By, str]] = {"isr": phrase("ISR changes"), "leader": phrase("leader changes")}


@dataclass(frozen=True, slots=True)
class FlapsView:
    """Model of flaps.html. `address` is that of the page with its choices, to which the pager adds a page."""

    window: str
    windows: Sequence[tuple[str, str]]
    first: str
    last: str
    by: str
    orders: Sequence[tuple[str, str]]
    partitions: Sequence[PartitionFlaps]
    brokers: Sequence[BrokerFlaps]
    totals: Sequence[tuple[str, int]]
    notes: SurveyNotes
    is_followed: bool
    address: str
    page: int
    pages: int


@router.get("/flaps")
async def flaps(
    request: Request,
    _caller: PastReader,
    window: Annotated[Period, Query()] = "day",
    first: Annotated[str, Query(alias="from", max_length=30)] = "",
    last: Annotated[str, Query(alias="to", max_length=30)] = "",
    by: Annotated[By, Query()] = "isr",
    page: int = 1,
) -> Response:
    """Return the ranking of a window: hour, day, all, or the offsets `from` and `to`."""
    offsets = _offset("from", first), _offset("to", last)
    survey, now_ms = await survey_of(services_of(request).cluster)
    moves = survey.moves
    try:
        wanted = Window.of(window, *offsets, now_ms)
    except ValueError as wrong:
        raise BadRequestError(phrase("Bad Request: %(problem)s.", problem=sentence_of(wrong))) from None
    found = await asyncio.to_thread(rank, moves, wanted, by)
    shown, page, pages = page_items(found.partitions, page, rows_on_page(request, ROWS))
    view = FlapsView(
        window=window,
        windows=list(PERIODS.items()),
        first=first.strip(),
        last=last.strip(),
        by=by,
        orders=list(ORDERS.items()),
        partitions=shown,
        brokers=found.brokers,
        totals=[
            (phrase("ISR changes"), found.isr_changes),
            (phrase("Returns to an ISR"), found.flaps),
            (phrase("Leader changes"), found.leader_changes),
        ],
        notes=notes_of(survey),
        is_followed=len(moves) <= FOLLOWED_MAX,
        address=f"/flaps?{urlencode([('window', window), ('from', first.strip()), ('to', last.strip()), ('by', by)])}",
        page=page,
        pages=pages,
    )
    return render(request, "flaps.html", page=page_of(request, phrase("ISR and leader changes"), "/changes"), view=view)


def _offset(name: str, text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequestError(
            phrase(
                "Bad Request: %(name)s must be an offset of the metadata log (was %(text)s).",
                name=name,
                text=f"{text!r}",
            )
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """One leader elected outside the ISR. `leader_before` is "none" for a partition without a leader."""

    move: PartitionMove
    at: dt.datetime
    how: str
    tone: str
    leader_before: str
    isr_before: str
    lost: str


@dataclass(frozen=True, slots=True)
class ElectionsView:
    """Model of elections.html: a page of the elections, newest first, of all topics or one, or one partition."""

    topic: str
    partition: str
    rows: Sequence[ElectionRow]
    unclean: int
    total: int
    notes: SurveyNotes
    address: str
    page: int
    pages: int


def loss_text(move: PartitionMove) -> str:
    """Return which records an election may have lost."""
    if move.election == "elr":
        return phrase("Nothing that is below the high watermark: the broker was an eligible leader replica (ELR).")
    if move.election == "last-known-leader":
        return phrase("What broker %(id)s, the last known leader, had not on disk when it stopped.", id=move.leader)
    holders = [each for each in move.isr_before if each != move.leader]
    if not holders:
        return phrase(
            "Acknowledged records that broker %(leader)s had not fetched. It was neither in the ISR nor eligible.",
            leader=move.leader,
        )
    return phrases(
        "Acknowledged records that broker %(ids)s had and broker %(leader)s had not fetched."
        " It was neither in the ISR nor eligible.",
        "Acknowledged records that brokers %(ids)s had and broker %(leader)s had not fetched."
        " It was neither in the ISR nor eligible.",
        len(holders),
        ids=ids_text(holders),
        leader=move.leader,
    )


def election_row(move: PartitionMove) -> ElectionRow:
    """Return one row."""
    how = {"elr": phrase("from the ELR"), "last-known-leader": phrase("unclean, last known leader")}.get(
        move.election, phrase("unclean")
    )
    return ElectionRow(
        move,
        dt.datetime.fromtimestamp(max(0, move.time_ms) / 1000, dt.UTC),
        how,
        "info" if move.election == "elr" else "bad",
        phrase("none") if move.leader_before < 0 else str(move.leader_before),
        ids_text(move.isr_before),
        loss_text(move),
    )


@router.get("/flaps/elections")
async def outside_the_isr(
    request: Request,
    _caller: PastReader,
    topic: Annotated[str, Query(max_length=NAME_MAX)] = "",
    partition: Annotated[str, Query(max_length=10)] = "",
    page: int = 1,
) -> Response:
    """Return the leaders elected outside the ISR, newest first."""
    topic, partition = topic.strip(), partition.strip()
    if partition and not (partition.isascii() and partition.isdigit()):
        raise BadRequestError(phrase("Bad Request: partition must be a number (was %(text)s).", text=f"{partition!r}"))
    survey, _ = await survey_of(services_of(request).cluster)
    found = elections(survey.moves, topic, int(partition) if partition else None)
    shown, page, pages = page_items(found, page, rows_on_page(request, ROWS))
    view = ElectionsView(
        topic=topic,
        partition=partition,
        rows=[election_row(each) for each in shown],
        unclean=sum(each.election != "elr" for each in found),
        total=len(found),
        notes=notes_of(survey),
        address=f"/flaps/elections?{urlencode([('topic', topic), ('partition', partition)])}",
        page=page,
        pages=pages,
    )
    return render(request, "elections.html", page=page_of(request, phrase("Unclean elections"), "/changes"), view=view)
