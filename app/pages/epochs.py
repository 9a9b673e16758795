"""Who led when, for how long, what it took to get there, and why it ended as far as anybody knows."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.epochs import Leadership
from app.pages.frame import UNKNOWN, duration, moment, page_of, render, whole_number
from app.services import Reader, services_of

router = APIRouter(include_in_schema=False)

ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One leadership in words, for _epochs.html. `wait`: how long there was no leader before it; `notes`: what to mind."""

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
    """epochs.html: one page of all epochs known."""

    epochs: Sequence[EpochRow]
    known: int
    page: int
    pages: int


def clock(timestamp_ms: int) -> str:
    """A moment of a leader's or our clock."""
    return UNKNOWN if timestamp_ms < 0 else moment(dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC))


def short_clock(timestamp_ms: int, now_ms: int) -> str:
    """A moment of today by its time alone, an older one by its date too."""
    text = clock(timestamp_ms)
    return text[11:] if timestamp_ms >= 0 and now_ms - timestamp_ms < 12 * 3_600_000 else text


def epoch_row(leadership: Leadership) -> EpochRow:
    """One row."""
    epoch = leadership.epoch
    waits: list[str] = []
    if leadership.leaderless_ms is not None:
        waits.append(f"{duration(leadership.leaderless_ms)} seen")
    if leadership.gap_ms is not None:
        waits.append(f"≤ {duration(leadership.gap_ms)} by the log")
    notes: list[str] = []
    if leadership.previous_leader_id == epoch.leader_id:
        notes.append("the same node again")
    if leadership.epochs_before:
        notes.append(f"{leadership.epochs_before} {'epoch' if leadership.epochs_before == 1 else 'epochs'} nobody won")
    granted = ", ".join(map(str, epoch.granting_voter_ids))
    led = UNKNOWN if leadership.led_ms is None else duration(leadership.led_ms)
    return EpochRow(
        epoch=epoch.epoch,
        leader=f"node {epoch.leader_id}",
        start_offset=epoch.start_offset,
        began=clock(epoch.timestamp_ms),
        led_for=f"{led}, leads" if leadership.ended == "leads" else led,
        wait=", ".join(waits) or UNKNOWN,
        is_long=leadership.was_long_without,
        notes=", ".join(notes),
        votes=f"{granted} of {', '.join(map(str, epoch.voter_ids))}" if granted else UNKNOWN,
        ended="" if leadership.ended == "leads" else leadership.ended_detail,
    )


def lately(leaderships: Iterable[Leadership], now_ms: int, hours: int = 24) -> tuple[int, int | None]:
    """(changes of the leader in the last hours, longest time without one in ms, None if that is not known)."""
    since = now_ms - hours * 3_600_000
    changes = [each for each in leaderships if each.epoch.timestamp_ms >= since and each.previous_leader_id is not None]
    waits = [each.gap_ms if each.leaderless_ms is None else each.leaderless_ms for each in changes]
    return len(changes), max((wait for wait in waits if wait is not None), default=None)


@router.get("/quorum/epochs")
async def epochs(request: Request, _caller: Reader) -> Response:
    """The page."""
    known = services_of(request).cluster.history.epochs.leaderships()
    pages = max(1, -(-len(known) // ROWS))
    page = whole_number(request.query_params.get("page", ""), 1, pages) or 1
    view = EpochsView([epoch_row(each) for each in known[(page - 1) * ROWS : page * ROWS]], len(known), page, pages)
    return render(request, "epochs.html", page=page_of(request, "Leaders", "/quorum"), view=view)
