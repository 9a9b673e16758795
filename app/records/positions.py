"""The options --from and --to of `conclave consume`: offsets, times and ends."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from app.texts import phrase

FROM_ALLOWED: Final = "allowed are beginning, end, OFFSET, -COUNT for the last records of each partition, and a time"
_TIME: Final = "as 2026-01-31T12:00:00Z (UTC without an offset) or @MILLISECONDS since 1970"


class PositionTextError(ValueError):
    """A position is invalid; the message has it and what is allowed."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """An offset of every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """`count` records before the end of each partition; 0 is the end."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Position = AtOffset | BeforeEnd | AtTime | None
"""None is the beginning."""


def parse_from(text: str) -> Position:
    """Parse --from. Raises PositionTextError."""
    if text in {"beginning", "earliest"}:
        return None
    if text in {"end", "latest"}:
        return BeforeEnd(0)
    if re.fullmatch(r"-\d{1,18}", text):
        return BeforeEnd(int(text[1:]))
    found = _offset_or_time(text)
    if found is None:
        raise PositionTextError(f"invalid position '{text}': {FROM_ALLOWED} {_TIME}")
    return found


def parse_to(text: str) -> AtOffset | AtTime:
    """Parse --to: the first offset or time that is not read. Raises PositionTextError."""
    found = _offset_or_time(text)
    if found is None:
        raise PositionTextError(
            phrase(
                "invalid position '%(text)s': allowed are OFFSET and a time as 2026-01-31T12:00:00Z (UTC without an "
                "offset) or @MILLISECONDS since 1970",
                text=text,
            )
        )
    return found


def _offset_or_time(text: str) -> AtOffset | AtTime | None:
    if re.fullmatch(r"\d{1,18}", text):
        return AtOffset(int(text))
    if re.fullmatch(r"@\d{1,18}", text):
        return AtTime(int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return AtTime(round(moment.timestamp() * 1000))
