"""A log in which a failure that repeats does not drown everything else: the same line at most once a minute, with a count."""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

FIRST_LINES: Final = 3
PERIOD_SECONDS: Final = 60.0
LINES_KEPT: Final = 1_000
STANDARD_FIELDS: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}
"""Attributes that every record has; what else it has are the fields of its event."""


@dataclass(slots=True)
class _Line:
    written_at: float
    seen_at: float
    written: int = 1
    suppressed: int = 0


class RepeatFilter(logging.Filter):
    """Passes a line and its first repetitions, then one a minute, which says in `suppressed` how many it stands for.

    Lines are the same when logger, level, event and all fields are, so what names another topic or another request is
    another line. After a silent minute a line is new again. At most LINES_KEPT different lines are remembered. Time is
    that of the records. Belongs on a handler: a filter of a logger does not see the records of the loggers below it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: OrderedDict[int, _Line] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write the record; one that stands for others gets the field `suppressed`."""
        fields = [(name, str(value)) for name, value in vars(record).items() if name not in STANDARD_FIELDS]
        key = hash((record.name, record.levelno, record.getMessage(), *fields))  # what it was made of may be long
        line, now = self._lines.get(key), record.created
        if line is None or not 0 <= now - line.seen_at < PERIOD_SECONDS:
            self._lines[key] = _Line(now, now)
            self._lines.move_to_end(key)
            if len(self._lines) > LINES_KEPT:
                self._lines.popitem(last=False)
            return True
        line.seen_at = now
        self._lines.move_to_end(key)
        if line.written >= FIRST_LINES and now - line.written_at < PERIOD_SECONDS:
            line.suppressed += 1
            return False
        if line.suppressed:
            record.suppressed = line.suppressed
        line.written, line.written_at, line.suppressed = line.written + 1, now, 0
        return True
