"""The change feed in entries: one for each change, its further lines folded."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.cluster.about import About
from app.cluster.history import EXCERPT_LINES, PARTITION_LINE, Change, Excerpt
from app.pages.change_lines import said
from app.pages.frame import counted, number
from app.texts import phrase, phrases


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
    changes: Iterable[Change],
    limit: int,
    wanted: Callable[[str], bool] | None = None,
    about: About | None = None,
) -> list[FeedEntry]:
    """Return at most `limit` entries, newest change first. Only `wanted` lines count; a change without any is none.

    With `about` only lines of records that are about a resource. Lines about single partitions come last.
    """
    entries: list[FeedEntry] = []
    for change in changes:
        if len(entries) == limit:
            break
        excerpt = change.excerpt if wanted is None and about is None else _excerpt(change, wanted, about)
        if excerpt.total:
            entries.append(_entry(change, excerpt))
    return entries


def _entry(change: Change, excerpt: Excerpt) -> FeedEntry:
    text, *rest = excerpt.lines
    more = excerpt.total - 1
    summary = phrase("%(count)s more", count=more)
    if not excerpt.headlines:
        summary = phrases("%(count)s more partition", "%(count)s more partitions", more, count=number(more))
    elif excerpt.headlines == 1:
        summary = counted(more, "partition")
    return FeedEntry(
        change.offset, change.epoch, time_of(change), said(text), summary, list(map(said, rest)), more - len(rest)
    )


def _excerpt(change: Change, wanted: Callable[[str], bool] | None, about: About | None) -> Excerpt:
    """Return the excerpt of the lines that are wanted. Only the texts of the lines tell how many there are."""
    if about is None:
        lines: Sequence[str] = change.headlines_first
    elif any(about(record, change) for _, record in change.records):
        lines = [line for record, line in change.described if about(record, change)]
    else:
        lines = ()  # without describing the other records
    if wanted is not None:
        lines = list(filter(wanted, lines))
    headlines = sum(not PARTITION_LINE.match(line) for line in lines)
    return Excerpt(tuple(lines[:EXCERPT_LINES]), len(lines), headlines)


def time_of(change: Change) -> dt.datetime:
    """Return when the change was written, by the clock of its leader."""
    return dt.datetime.fromtimestamp(max(0, change.timestamp_ms) / 1000, dt.UTC)
