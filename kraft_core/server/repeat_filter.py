"""A logging filter that passes a repeated line at most once a minute, with the number of suppressed repetitions."""

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
"""Attributes of every record; all others are fields of its event."""


@dataclass(slots=True)
class _Line:
    written_at: float
    seen_at: float
    written: int = 1
    suppressed: int = 0


class RepeatFilter(logging.Filter):
    """Passes a line FIRST_LINES times, then once a minute with the number of suppressed repetitions in `suppressed`.

    Two lines are the same if logger, level, event and all fields are equal. A line that was not logged for a minute
    counts as new. At most LINES_KEPT lines are remembered. The time is that of the records. Add the filter to a
    handler: a filter of a logger does not see the records of its child loggers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: OrderedDict[int, _Line] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record; sets `suppressed` on a record after suppressed ones."""
        fields = [(name, str(value)) for name, value in vars(record).items() if name not in STANDARD_FIELDS]
        key = hash(
            (record.name, record.levelno, record.getMessage(), *fields)
        )  # the fields may be long: keep only the hash
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
