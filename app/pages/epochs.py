"""The leaders of the metadata log: when each was elected, how long it led, and why it ended if that was observed."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.epochs import Leadership
from app.pages.frame import UNKNOWN, duration, moment, page_items, page_of, render, whole_number
from app.services import PastReader, services_of
from app.texts import joined, phrase, phrases

router = APIRouter(include_in_schema=False)

ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One leadership in words, for _epochs.html. `wait` is the leaderless time before it."""

    epoch: int
    leader: str
    start_offset: int
    began: str
    led_for: str
    wait: str
    is_long: bool
    notes: str
    votes: str
    ended: str


@dataclass(frozen=True, slots=True)
class EpochsView:
    """Model of epochs.html: one page of all known epochs."""

    epochs: Sequence[EpochRow]
    known: int
    page: int
    pages: int


def clock(timestamp_ms: int) -> str:
    """Return a timestamp as text, a dash if it is negative."""
    return UNKNOWN if timestamp_ms < 0 else moment(dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC))


def short_clock(timestamp_ms: int, now_ms: int) -> str:
    """Return a timestamp of the last 12 hours as time only, an older one with its date."""
    text = clock(timestamp_ms)
    return text[11:] if timestamp_ms >= 0 and now_ms - timestamp_ms < 12 * 3_600_000 else text


def epoch_row(leadership: Leadership) -> EpochRow:
    """Return one row."""
    epoch = leadership.epoch
    waits: list[str] = []
    if leadership.leaderless_ms is not None:
        waits.append(phrase("%(duration)s observed", duration=duration(leadership.leaderless_ms)))
    if leadership.gap_ms is not None:
        waits.append(phrase("≤ %(duration)s by the log", duration=duration(leadership.gap_ms)))
    notes: list[str] = []
    if leadership.previous_leader_id == epoch.leader_id:
        notes.append(phrase("same node as before"))
    if leadership.epochs_before:
        count = leadership.epochs_before
        notes.append(phrases("%(count)s epoch without a winner", "%(count)s epochs without a winner", count))
    granted = ", ".join(map(str, epoch.granting_voter_ids))
    led = UNKNOWN if leadership.led_ms is None else duration(leadership.led_ms)
    return EpochRow(
        epoch=epoch.epoch,
        leader=phrase("node %(id)s", id=epoch.leader_id),
        start_offset=epoch.start_offset,
        began=clock(epoch.timestamp_ms),
        led_for=phrase("%(duration)s, leads", duration=led) if leadership.ended == "leads" else led,
        wait=joined(", ", waits) or UNKNOWN,
        is_long=leadership.was_long_without,
        notes=joined(", ", notes),
        votes=phrase("%(part)s of %(whole)s", part=granted, whole=", ".join(map(str, epoch.voter_ids)))
        if granted
        else UNKNOWN,
        ended="" if leadership.ended == "leads" else leadership.ended_detail,
    )


def lately(leaderships: Iterable[Leadership], now_ms: int, hours: int = 24) -> tuple[int, int | None]:
    """Return (leader changes in the last hours, longest leaderless time in ms or None if it is not known)."""
    since = now_ms - hours * 3_600_000
    changes = [each for each in leaderships if each.epoch.timestamp_ms >= since and each.previous_leader_id is not None]
    waits = [each.gap_ms if each.leaderless_ms is None else each.leaderless_ms for each in changes]
    return len(changes), max((wait for wait in waits if wait is not None), default=None)


@router.get("/quorum/epochs")
async def epochs(request: Request, _caller: PastReader) -> Response:
    """Return the page."""
    known = services_of(request).cluster.epochs.leaderships()
    shown, page, pages = page_items(known, whole_number(request.query_params.get("page", ""), 1, 10**9) or 1, ROWS)
    view = EpochsView([epoch_row(each) for each in shown], len(known), page, pages)
    return render(request, "epochs.html", page=page_of(request, phrase("Leaders"), "/quorum"), view=view)
