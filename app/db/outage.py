"""Outages of the database: which errors are one, and one state for requests, log and metrics.

During an outage only a probe uses the database. Requests fail at once, and the first success of the probe ends the
outage. A database that cannot write (full, read-only) still serves reads.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.tasks import cancel_tasks
from app.texts import phrase

log = structlog.get_logger(__name__)

PROBE_SECONDS: Final = 0.5
REMIND_SECONDS: Final = 60.0
RETRY_AFTER_SECONDS: Final = 2

_SQLITE: Final[dict[int, tuple[str, bool]]] = {
    sqlite3.SQLITE_BUSY: ("another process has it locked", False),
    sqlite3.SQLITE_LOCKED: ("another process has it locked", False),
    sqlite3.SQLITE_IOERR: ("its file cannot be read or written", True),
    sqlite3.SQLITE_CORRUPT: ("its file is damaged", False),
    sqlite3.SQLITE_NOTADB: ("its file is not a database", False),
    sqlite3.SQLITE_READONLY: ("it is read-only", True),
    sqlite3.SQLITE_FULL: ("its disk is full", True),
    sqlite3.SQLITE_CANTOPEN: ("its file cannot be opened", False),
}
"""SQLite's primary result codes: their meaning, and whether reads may still work."""
_POSTGRESQL: Final[dict[str, tuple[str, bool]]] = {
    "08": ("the connection to it failed", False),
    "25006": ("it is read-only", True),
    "28": ("it refuses this login", False),
    "3D": ("it does not exist", False),
    "53100": ("its disk is full", True),
    "53": ("it lacks memory or connections", False),
    "57P": ("it is shutting down or starting", False),
    "58": ("it has a system error", False),
}
"""SQLSTATEs or their prefixes. The longest match wins."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the database cannot be used. `text` may be public; `only_writes`: reads may still work."""

    text: str
    only_writes: bool


class DatabaseUnavailableError(SQLAlchemyError):
    """The database cannot be used now. The message gives the reason and no address."""

    def __init__(self, trouble: Trouble) -> None:
        if trouble.only_writes:
            super().__init__(phrase("The database cannot be written to: %(problem)s.", problem=trouble.text))
        else:
            super().__init__(phrase("The database does not answer: %(problem)s.", problem=trouble.text))
        self.trouble = trouble


def trouble_of(error: BaseException) -> Trouble | None:
    """Return why the database cannot be used, None for any other error, such as a constraint or a wrong statement."""
    if isinstance(error, DatabaseUnavailableError):
        return error.trouble
    if isinstance(error, PoolTimeoutError):
        return Trouble("all connections to it are in use", only_writes=False)
    if not isinstance(error, DBAPIError):
        return None
    cause = error.orig
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        found = _SQLITE.get(code & 0xFF)
        return None if found is None else Trouble(*found)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        found = next(
            (text for start, text in sorted(_POSTGRESQL.items(), reverse=True) if state.startswith(start)), None
        )
        return None if found is None else Trouble(*found)
    if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
        return Trouble("it cannot be reached, or does not answer in time", only_writes=False)
    return None


class OutageWatch:
    """The outages of one database. Used on the event loop; `probe(writes)` raises during an outage."""

    def __init__(self, probe: Callable[[bool], None]) -> None:
        self.outages = 0
        self.refused = 0
        self._probe = probe
        self._trouble: Trouble | None = None
        self._since = 0.0
        self._reminded = 0.0
        self._refused_before = 0
        self._probing: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> Trouble | None:
        """Why the database cannot be used now, None while it can."""
        return self._trouble

    def check(self, *, writes: bool) -> None:
        """Raise DatabaseUnavailableError if the outage affects this use, so that requests fail without waiting."""
        if self._trouble is not None and (writes or not self._trouble.only_writes):
            self.refused += 1
            raise DatabaseUnavailableError(self._trouble)

    def failed(self, error: BaseException) -> None:
        """Note an error of a use of the database, which may be an outage or another error."""
        found = trouble_of(error)
        if found is None:
            return
        self.refused += 1
        if self._trouble is None:
            self.outages += 1
            self._since = self._reminded = time.monotonic()
            self._refused_before = self.refused - 1
            log.error("database_unavailable", cause=found.text, only_writes=found.only_writes, detail=_one_line(error))
        if self._trouble is None or (self._trouble.only_writes and not found.only_writes):
            self._trouble = found
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe_until_it_answers(), name="database-probe")

    async def stop(self) -> None:
        """Stop probing."""
        await cancel_tasks(self._probing)

    async def _probe_until_it_answers(self) -> None:
        while self._trouble is not None:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await asyncio.to_thread(self._probe, self._trouble.only_writes)
            except Exception as error:  # noqa: BLE001 - any error means that the database does not work
                found = trouble_of(error)
                self._trouble = found or self._trouble
                self._remind(error)
            else:
                seconds = round(time.monotonic() - self._since, 1)
                log.warning("database_available", after_seconds=seconds, refused=self.refused - self._refused_before)
                self._trouble = None

    def _remind(self, error: BaseException) -> None:
        now = time.monotonic()
        if now - self._reminded >= REMIND_SECONDS:
            self._reminded = now
            seconds, refused = round(now - self._since), self.refused - self._refused_before
            log.error("database_unavailable", detail=_one_line(error), since_seconds=seconds, refused=refused)


def _one_line(error: BaseException) -> str:
    """Return the driver's message on one line."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:300]
