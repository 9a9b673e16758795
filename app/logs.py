"""The log of the web process: one line per event, as text or as JSON.

An event has a fixed name, and its variable parts are fields. Values are quoted, so a name with a line break cannot
forge a line.
"""

import json
import logging
import sys
import time
from typing import Any, Literal

import structlog

from kraft_core.server.log_format import EventFormatter
from kraft_core.server.repeat_filter import STANDARD_FIELDS, RepeatFilter


class JsonFormatter(logging.Formatter):
    """One JSON object per line. A traceback is one of its members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as a line."""
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line.update((key, value) for key, value in vars(record).items() if key not in STANDARD_FIELDS)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=True)


def configure(log_format: Literal["text", "json"], level: str) -> None:
    """Send structlog and the standard library's loggers to standard error, in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else EventFormatter())
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("uvicorn.access", "httpx", "apscheduler.executors.default", "alembic.runtime.migration"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.filter_by_level,
        structlog.stdlib.render_to_log_kwargs,
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
