"""The audit: every login, denial and change, once as a row and once as a log line.

The line goes out first, so a database that fails at that moment does not take the trace with it.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session as OrmSession

from app.db.base import utc_now
from app.db.models import AuditEvent
from app.security.text import plain_text

log = structlog.get_logger("audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened. `resource` names one thing, as `topic/orders` or `user/ann`; `detail` never holds a secret."""

    actor: str
    actor_kind: str
    source: str
    action: str
    resource: str
    result: Literal["ok", "denied", "failed"]
    request_id: str
    error: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    metadata_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events to show; an empty text means any. `before_id` continues a page: only older events."""

    actor: str = ""
    action: str = ""
    resource: str = ""
    result: str = ""
    before_id: int | None = None


def log_event(event: Event) -> None:
    """Write the event's one log line."""
    log.info(
        "audit",
        actor=event.actor,
        actor_kind=event.actor_kind,
        source=event.source,
        action=event.action,
        resource=event.resource,
        result=event.result,
        error=event.error,
        request_id=event.request_id,
        metadata_offset=event.metadata_offset,
    )


def store_event(session: OrmSession, event: Event, at: dt.datetime | None = None) -> int:
    """Add the event to the table -> its id."""
    row = AuditEvent(
        at=at or utc_now(),
        actor=plain_text(event.actor, 255),
        actor_kind=event.actor_kind,
        source=plain_text(event.source, 64),
        action=event.action,
        resource=plain_text(event.resource, 512),
        result=event.result,
        error=None if event.error is None else plain_text(event.error, 2000),
        detail=_clean(event.detail),
        request_id=event.request_id,
        metadata_offset=event.metadata_offset,
    )
    session.add(row)
    session.flush()
    return row.id


def store_counts(session: OrmSession, counts: Mapping[int, tuple[int, list[str]]]) -> None:
    """Set how often events have happened by now, and the names that were tried, by the events' ids."""
    for row_id, (times, names) in counts.items():
        values = {"count": times, "detail": _clean({"names": names})}
        session.execute(update(AuditEvent).where(AuditEvent.id == row_id).values(**values))


def trim(session: OrmSession, oldest: dt.datetime, rows_max: int, at_most: int) -> int:
    """Delete events from before `oldest` and all but the newest `rows_max`, at most so many at once -> how many."""
    newest = select(AuditEvent.id).order_by(AuditEvent.id.desc())
    last_beyond = session.scalar(newest.offset(rows_max).limit(1))
    is_old = AuditEvent.at < oldest
    unwanted = is_old if last_beyond is None else is_old | (AuditEvent.id <= last_beyond)
    ids = list(session.scalars(select(AuditEvent.id).where(unwanted).order_by(AuditEvent.id).limit(at_most)))
    session.execute(delete(AuditEvent).where(AuditEvent.id.in_(ids)))
    return len(ids)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value, 2000)
    if isinstance(value, dict):
        return {plain_text(str(key), 255): _clean(item) for key, item in list(value.items())[:200]}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value[:200]]
    return value


def events(session: OrmSession, wanted: AuditFilter, limit: int) -> list[AuditEvent]:
    """Return the newest events that fit, newest first, at most `limit`. `resource` matches from its beginning."""
    conditions = [
        column == plain_text(text)
        for column, text in (
            (AuditEvent.actor, wanted.actor),
            (AuditEvent.action, wanted.action),
            (AuditEvent.result, wanted.result),
        )
        if text
    ]
    if wanted.resource:
        conditions.append(AuditEvent.resource.startswith(plain_text(wanted.resource), autoescape=True))
    if wanted.before_id is not None:
        conditions.append(AuditEvent.id < wanted.before_id)
    return list(session.scalars(select(AuditEvent).where(*conditions).order_by(AuditEvent.id.desc()).limit(limit)))


def count(session: OrmSession) -> int:
    """Return how many events there are."""
    return session.scalar(select(func.count(AuditEvent.id))) or 0


def who_committed(session: OrmSession, offset_from: int, offset_to: int) -> dict[int, str]:
    """Return, for metadata offsets in [from, to], the actor of this installation whose change was committed there."""
    rows = session.execute(
        select(AuditEvent.metadata_offset, AuditEvent.actor).where(
            AuditEvent.metadata_offset >= offset_from,
            AuditEvent.metadata_offset <= offset_to,
            AuditEvent.result == "ok",
        )
    )
    return {offset: actor for offset, actor in rows if offset is not None}
