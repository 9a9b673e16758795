"""Counts failures of anonymous callers, so that strangers cannot fill the audit or the disk.

The first failure of an action from one address in a minute is stored and logged at once. Further ones within the minute
only raise the count of its row, which is written every few seconds. Once KEYS_MAX actions and addresses have failed in
a minute, the rest share one row per action. So strangers write about 200 rows a minute at most, whatever they send. A
process that is killed loses the counts of its last FLUSH_SECONDS.
"""

import asyncio
import contextlib
import datetime as dt
from dataclasses import dataclass, field, replace
from typing import Final

from app.db.database import Database
from app.db.outage import DatabaseUnavailableError
from app.security import audit
from app.security.forwarded import network_of

KEYS_MAX: Final = 200
NAMES_MAX: Final = 10
FLUSH_SECONDS: Final = 5.0
MANY: Final = "(many)"


@dataclass(slots=True)
class _Counted:
    row_id: int | None = None
    count: int = 1
    stored: int = 1
    names: list[str] = field(default_factory=list)


class AnonymousFailures:
    """Counts and stores failures. There is one per process, with rows of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._minute: dt.datetime | None = None
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._flushing: asyncio.Task[None] | None = None

    async def record(self, event: audit.Event, at: dt.datetime) -> None:
        """Store the event, or count it with the first of its action, address and minute."""
        minute = at.replace(second=0, microsecond=0)
        if minute != self._minute:
            left, self._counted, self._minute = self._counted, {}, minute
            await self._store(left)
        key = (network_of(event.source), event.action)
        if key not in self._counted and len(self._counted) >= KEYS_MAX:
            key = (MANY, event.action)
            event = replace(event, source=MANY)
        counted = self._counted.get(key)
        if counted is not None:
            counted.count += 1
            if event.actor not in counted.names and len(counted.names) < NAMES_MAX:
                counted.names.append(event.actor)
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.create_task(self._flush_soon(), name="anonymous-failures")
            return
        counted = self._counted[key] = _Counted(names=[event.actor])
        audit.log_event(event)
        try:
            counted.row_id = await self._database.write(audit.store_event, event, at)
        except DatabaseUnavailableError:
            pass  # the log has the first event; the rest of the minute is only counted
        except BaseException:
            self._counted.pop(key, None)
            raise

    async def flush(self) -> None:
        """Store the counts that have grown."""
        await self._store(self._counted)

    async def _flush_soon(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        with contextlib.suppress(DatabaseUnavailableError):  # stored with a later count
            await self.flush()

    async def _store(self, counted: dict[tuple[str, str], _Counted]) -> None:
        grown = {
            each.row_id: (each.count, list(each.names))
            for each in counted.values()
            if each.row_id is not None and each.count > each.stored
        }
        if not grown:
            return
        await self._database.write(audit.store_counts, grown)
        for each in counted.values():
            if each.row_id in grown:
                each.stored = grown[each.row_id][0]
