"""The audit: every login, denial and change as a row and as a log line.

The line is written first, so that a failing database does not lose the event.
"""

import datetime as dt
from collections.abc import Collection, Mapping
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
    """One event. `resource` names one thing, such as `topic/orders` or `user/ann`; `detail` never has a secret.

    `cluster` is the key of the cluster of the request.
    """

    actor: str
    actor_kind: str
    source: str
    action: str
    resource: str
    result: Literal["ok", "denied", "failed"]
    request_id: str
    cluster: str = ""
    error: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    metadata_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A filter of events; an empty text matches all. `before_id` continues a page with older events.

    `cluster` is the key of a cluster, None for all.
    """

    actor: str = ""
    action: str = ""
    resource: str = ""
    result: str = ""
    before_id: int | None = None
    cluster: str | None = None


def log_event(event: Event) -> None:
    """Write the event as one log line."""
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
        cluster=event.cluster,
        metadata_offset=event.metadata_offset,
    )


def store_event(session: OrmSession, event: Event, at: dt.datetime | None = None) -> int:
    """Add the event to the table, and return its id."""
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
        cluster=event.cluster,
        metadata_offset=event.metadata_offset,
    )
    session.add(row)
    session.flush()
    return row.id


def store_counts(session: OrmSession, counts: Mapping[int, tuple[int, list[str]]]) -> None:
    """Set the counts of events and the names that were tried, by the ids of the events."""
    for row_id, (times, names) in counts.items():
        values = {"count": times, "detail": _clean({"names": names})}
        session.execute(update(AuditEvent).where(AuditEvent.id == row_id).values(**values))


def trim(session: OrmSession, oldest: dt.datetime, rows_max: int, at_most: int) -> int:
    """Delete up to `at_most` events that are older than `oldest` or beyond the newest `rows_max`. Returns how many."""
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
    """Return the newest matching events, newest first, at most `limit`. `resource` matches from its start."""
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
    if wanted.cluster is not None:
        conditions.append(AuditEvent.cluster == wanted.cluster)
    if wanted.before_id is not None:
        conditions.append(AuditEvent.id < wanted.before_id)
    return list(session.scalars(select(AuditEvent).where(*conditions).order_by(AuditEvent.id.desc()).limit(limit)))


def count(session: OrmSession) -> int:
    """Return the number of events."""
    return session.scalar(select(func.count(AuditEvent.id))) or 0


def committers(session: OrmSession, offset_from: int, offset_to: int) -> dict[int, str]:
    """Return the actors of this installation's changes by offset, for metadata offsets in [from, to]."""
    rows = session.execute(
        select(AuditEvent.metadata_offset, AuditEvent.actor).where(
            AuditEvent.metadata_offset >= offset_from,
            AuditEvent.metadata_offset <= offset_to,
            AuditEvent.result == "ok",
        )
    )
    return {offset: actor for offset, actor in rows if offset is not None}


def committers_at(session: OrmSession, offsets: Collection[int]) -> dict[int, str]:
    """Return the actors of this installation's changes by offset, for these metadata offsets."""
    rows = session.execute(
        select(AuditEvent.metadata_offset, AuditEvent.actor).where(
            AuditEvent.metadata_offset.in_(offsets), AuditEvent.result == "ok"
        )
    )
    return {offset: actor for offset, actor in rows if offset is not None}
