"""Format of the log: time, level, event, then the fields as key=value.

An event is a fixed word; its fields vary. Values are quoted if necessary, so that no value can forge a line.
"""

import json
import logging
import sys
import time
from typing import Final, TextIO

from kraft_core.server.repeat_filter import STANDARD_FIELDS, RepeatFilter

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@,+")


def quoted(value: object) -> str:
    """Return a value as one word of one line. Secrets are never logged."""
    text = str(value)
    if text and _PLAIN.issuperset(text):
        return text
    return json.dumps(text, ensure_ascii=True)


class EventFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO  became_leader epoch=3 node_id=1 (kraft_core.raft)`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record; a traceback follows on further lines."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = "".join(f" {key}={quoted(value)}" for key, value in vars(record).items() if key not in STANDARD_FIELDS)
        message = record.getMessage().replace("\n", "\\n").replace("\r", "\\r")
        line = f"{moment}.{int(record.msecs):03d}Z {record.levelname:<5} {message}{fields} ({record.name})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send the log of the whole process to `stream` (stderr by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(EventFormatter())
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
