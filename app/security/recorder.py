"""Writes events to the audit: actor, source, action, resource and result."""

import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from app.db.database import Database
from app.db.models import AuditEvent
from app.db.outage import DatabaseUnavailableError
from app.security import audit
from app.security.anonymous_failures import AnonymousFailures
from app.security.roles import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """Origin of a request, for the audit, and the key of its cluster."""

    source: str
    request_id: str
    user_agent: str = ""
    cluster: str = ""


class Recorder:
    """Records the events of one process. `clock` returns the current time."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock
        self._anonymous = AnonymousFailures(database)

    async def flush(self) -> None:
        """Store the counts of anonymous failures that are still in memory. Called before the process ends."""
        await self._anonymous.flush()

    async def events(self, wanted: audit.AuditFilter, limit: int) -> list[AuditEvent]:
        """Return the newest matching events of all clusters, newest first, at most `limit`."""
        return await self._database.read(audit.events, wanted, limit)

    def check_record(self) -> None:
        """Raise DatabaseUnavailableError while events cannot be stored. Audited changes are refused then."""
        self._database.outage.check(writes=True)

    async def record(
        self,
        actor: Actor,
        action: str,
        resource: str,
        result: Literal["ok", "denied", "failed"],
        info: RequestInfo,
        *,
        error: str | None = None,
        detail: dict[str, Any] | None = None,
        metadata_offset: int | None = None,
    ) -> None:
        """Write one event to the log and to the table. Failures of callers without credentials are counted together."""
        event = audit.Event(
            actor=actor.name,
            actor_kind=actor.kind,
            source=info.source,
            action=action,
            resource=resource,
            result=result,
            request_id=info.request_id,
            cluster=info.cluster,
            error=error,
            detail=detail or {},
            metadata_offset=metadata_offset,
        )
        if actor.kind == "anonymous" and result != "ok":
            await self._anonymous.record(event, self._clock())
            return
        audit.log_event(event)
        with contextlib.suppress(DatabaseUnavailableError):  # the log has the event; the change keeps its answer
            await self._database.write(audit.store_event, event, self._clock())
