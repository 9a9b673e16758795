"""The cordons that an ended drain has left on brokers and log directories, and what removing them leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.reports.executor import plan_store
from app.reports.executor.models import PlanRecord, PlanSetting
from app.reports.executor.plan import ACTIVE_STATES, FINAL_STATES, Setting
from app.reports.executor.plan_store import PlanStateError
from app.reports.executor.throttles import ALL, CORDONED, current
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage


@dataclass(frozen=True, slots=True)
class LeftCordon:
    """A broker's cordoned.log.dirs, and its value without what the plan has added (None: not set)."""

    broker_id: int
    now: str
    after: str | None


def left_cordons(session: Session, record: PlanRecord, image: MetadataImage) -> list[LeftCordon]:
    """Return the cordons of a plan that has ended, by broker id. Those of other callers are not among them."""
    if record.state not in FINAL_STATES:
        return []
    query = select(PlanSetting).where(PlanSetting.plan_id == record.id, PlanSetting.name == CORDONED)
    found = (_left(plan_store.setting_of(each), image) for each in session.scalars(query))
    return sorted((each for each in found if each is not None), key=lambda each: each.broker_id)


def to_uncordon(
    session: Session, cluster_id: str, plan_id: int, image: MetadataImage
) -> tuple[PlanRecord, list[LeftCordon]]:
    """Return a plan and the cordons to remove.

    Raises LookupError, and PlanStateError when there are none, or when a plan that is being executed drains one of the
    brokers and relies on its cordon.
    """
    record = plan_store.get(session, cluster_id, plan_id)
    if record is None:
        raise LookupError(f"plan {plan_id}")
    left = left_cordons(session, record, image)
    if not left:
        if record.state in FINAL_STATES:
            raise PlanStateError(phrase("Plan %(id)s has left no cordon.", id=plan_id))
        raise PlanStateError(phrase("Plan %(id)s is %(state)s, and keeps its cordons.", id=plan_id, state=record.state))
    active = session.scalars(
        select(PlanRecord).where(PlanRecord.cluster_id == cluster_id, PlanRecord.state.in_(ACTIVE_STATES))
    )
    brokers = {each.broker_id for each in left}
    for other in active:
        both = brokers.intersection([*other.drain, *(broker for broker, _ in other.drain_log_dirs or ())])
        if both:
            ids = ", ".join(map(str, sorted(both)))
            raise PlanStateError(
                phrase("Plan %(id)s is draining broker %(ids)s. Wait for its end, or cancel it.", id=other.id, ids=ids)
            )
    return record, left


def _left(setting: Setting, image: MetadataImage) -> LeftCordon | None:
    now = current(image, setting.key)
    if now is None or int(setting.resource_name) not in image.cluster.brokers:
        return None
    after = without(now, setting.ours[-1], setting.before)
    return None if after == now else LeftCordon(int(setting.resource_name), now, after)


def without(now: str, ours: str, before: str | None) -> str | None:
    """Return a value of cordoned.log.dirs without what a plan has added to `before`, None if nothing is left."""
    entries, added = _entries(now), set(_entries(ours)) - set(_entries(before or ""))
    if ALL in added:
        return before if ALL in entries else now
    if ALL in entries or added.isdisjoint(entries):
        return now
    return ",".join(each for each in entries if each not in added) or None


def _entries(value: str) -> Sequence[str]:
    return [each.strip() for each in value.split(",") if each.strip()]
