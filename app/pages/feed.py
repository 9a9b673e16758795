"""The change feed in entries: one for each change, its further lines folded."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.about import About
from app.cluster.history import PARTITION_LINE, Change
from app.pages.change_lines import said
from app.pages.frame import counted, number
from app.texts import phrase, phrases

FOLDED_MAX: Final = 25


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One change: its first line, and the others as `folded` under `summary`, of which `left_out` are not shown.

    `actor` is empty for a change made elsewhere.
    """

    offset: int
    epoch: int
    at: dt.datetime
    text: str
    summary: str
    folded: Sequence[str]
    left_out: int
    actor: str = ""


def feed_entries(
    changes: Iterable[Change], limit: int, wanted: Callable[[str], bool] = lambda _: True, about: About | None = None
) -> list[FeedEntry]:
    """Return at most `limit` entries, newest change first. Only `wanted` lines count; a change without any is none.

    With `about` only lines of records that are about a resource. Lines about single partitions come last.
    """
    entries: list[FeedEntry] = []
    for change in changes:
        if len(entries) == limit:
            break
        lines = [line for line in _texts(change, about) if wanted(line)]
        if not lines:
            continue
        text, *rest = lines
        about_partitions = all(PARTITION_LINE.match(line) for line in rest)
        summary = phrase("%(count)s more", count=len(rest))
        if about_partitions and PARTITION_LINE.match(text):
            summary = phrases(
                "%(count)s more partition", "%(count)s more partitions", len(rest), count=number(len(rest))
            )
        elif about_partitions:
            summary = counted(len(rest), "partition")
        shown = [said(line) for line in rest[:FOLDED_MAX]]
        entries.append(
            FeedEntry(change.offset, change.epoch, time_of(change), said(text), summary, shown, len(rest) - len(shown))
        )
    return entries


def _texts(change: Change, about: About | None) -> Sequence[str]:
    if about is None:
        return change.headlines_first
    if not any(about(record, change) for _, record in change.records):
        return ()  # without describing the other records
    return [line for record, line in change.described if about(record, change)]


def time_of(change: Change) -> dt.datetime:
    """Return when the change was written, by the clock of its leader."""
    return dt.datetime.fromtimestamp(max(0, change.timestamp_ms) / 1000, dt.UTC)
