"""Writes what happened to the audit: who, from where, what, and how it ended."""

import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from app.db.database import Database
from app.db.outage import DatabaseUnavailableError
from app.security import audit
from app.security.anonymous_failures import AnonymousFailures
from app.security.roles import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """Where a request comes from, for the audit."""

    source: str
    request_id: str
    user_agent: str = ""


class Recorder:
    """Records events of one process. `clock` gives the current moment."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock
        self._anonymous = AnonymousFailures(database)

    async def flush(self) -> None:
        """Write what is counted but not yet stored; before the process ends."""
        await self._anonymous.flush()

    async def record(
        self,
        actor: str,
        actor_kind: str,
        action: str,
        resource: str,
        result: Literal["ok", "denied", "failed"],
        info: RequestInfo,
        *,
        error: str | None = None,
        detail: dict[str, Any] | None = None,
        metadata_offset: int | None = None,
    ) -> None:
        """Write one event to the log and the table; failures of nobody known are counted together."""
        event = audit.Event(
            actor=actor,
            actor_kind=actor_kind,
            source=info.source,
            action=action,
            resource=resource,
            result=result,
            request_id=info.request_id,
            error=error,
            detail=detail or {},
            metadata_offset=metadata_offset,
        )
        if actor_kind == "anonymous" and result != "ok":
            await self._anonymous.record(event, self._clock())
            return
        audit.log_event(event)
        with contextlib.suppress(DatabaseUnavailableError):  # the log has it; what has happened keeps its answer
            await self._database.write(audit.store_event, event, self._clock())

    def check_record(self) -> None:
        """Raise DatabaseUnavailableError while no event can be kept: then nothing is changed that ought to be audited."""
        self._database.outage.check(writes=True)

    async def record_of(
        self,
        principal: Principal,
        action: str,
        resource: str,
        result: Literal["ok", "denied", "failed"],
        info: RequestInfo,
        *,
        error: str | None = None,
        detail: dict[str, Any] | None = None,
        metadata_offset: int | None = None,
    ) -> None:
        """Write one event of a known caller."""
        await self.record(
            principal.audit_name,
            principal.kind,
            action,
            resource,
            result,
            info,
            error=error,
            detail=detail,
            metadata_offset=metadata_offset,
        )
