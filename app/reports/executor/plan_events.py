"""Queries on the table of plan events: plain functions of a database session."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.reports.executor.models import PlanEvent, PlanRecord
from app.reports.executor.story import ROWS, Event, added_up

TOGETHER_SECONDS: Final = 60.0
"""Partitions that begin and end within this time are one event, so that a plan of many has few."""


def add(session: Session, plan_id: int, kind: str, actor: str | None = None, **detail: Any) -> None:
    """Add an event."""
    session.add(PlanEvent(plan_id=plan_id, at=utc_now(), kind=kind, actor=actor, detail=detail))


def add_all(session: Session, plan_id: int, events: Iterable[Event]) -> None:
    """Add the events of a decision; those of partitions are added to the newest event while it is young."""
    for event in events:
        newest = _newest(session, plan_id) if event.kind == ROWS else None
        if (
            newest is not None
            and newest.kind == ROWS
            and newest.at > utc_now() - dt.timedelta(seconds=TOGETHER_SECONDS)
        ):
            newest.detail = added_up(newest.detail, event.detail)
        else:
            add(session, plan_id, event.kind, None, **event.detail)
        session.flush()


def _newest(session: Session, plan_id: int) -> PlanEvent | None:
    query = select(PlanEvent).where(PlanEvent.plan_id == plan_id).order_by(PlanEvent.id.desc())
    return session.scalars(query.limit(1)).first()


def events(session: Session, plan: PlanRecord, limit: int) -> tuple[Sequence[PlanEvent], int]:
    """Return the newest events of a plan, newest first, and the number of all.

    A plan that was made before events were kept has those that its own row tells.
    """
    found = session.scalars(
        select(PlanEvent).where(PlanEvent.plan_id == plan.id).order_by(PlanEvent.id.desc()).limit(limit)
    ).all()
    if found:
        count = session.scalar(select(func.count()).where(PlanEvent.plan_id == plan.id)) or 0
        return found, count
    told = _of_record(plan)
    return told, len(told)


def _of_record(plan: PlanRecord) -> list[PlanEvent]:
    result = plan.result or {}
    partitions = sum((result.get("partitions") or {}).values())
    ended = {"state": plan.state, "reasons": plan.reasons, "result": result}
    told: list[tuple[str, dt.datetime | None, str | None, dict[str, Any]]] = [
        ("ended", plan.finished_at, plan.cancelled_by, ended),
        ("started", plan.started_at, plan.started_by, {}),
        ("approved", plan.approved_at, plan.approved_by, {}),
        ("made", plan.made_at, plan.made_by, {"origin": plan.origin, "partitions": partitions}),
    ]
    return [
        PlanEvent(id=0, plan_id=plan.id, at=at, kind=kind, actor=actor, detail=detail)
        for kind, at, actor, detail in told
        if at is not None
    ]
