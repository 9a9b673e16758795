"""Plans: made, approved, started, paused, changed and cancelled, each written to the audit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from app.actions.audited import Audited, Caller
from app.cluster.cluster import Cluster
from app.db.database import Database
from app.reports.executor import plan_store
from app.reports.executor.copied import known_log_dirs, with_sizes
from app.reports.executor.cordons import LeftCordon, left_cordons, to_uncordon
from app.reports.executor.driver import PlanExecutor
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan_store import Counts, NewPlan
from app.reports.executor.throttles import CORDONED
from app.security.service import Security
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import BROKER


class PlanActions(Audited):
    """Changes of plans. All raise LookupError for an unknown plan, PlanStateError when its state forbids the change."""

    def __init__(self, cluster: Cluster, security: Security, database: Database, executor: PlanExecutor) -> None:
        super().__init__(cluster, security)
        self._database = database
        self._executor = executor

    async def create(self, caller: Caller, new: NewPlan, *, validate_only: bool = False) -> PlanRecord:
        """Make a draft."""
        by = caller.principal.audit_name
        rows = with_sizes(new.rows, self._cluster.image, await known_log_dirs(self._cluster))
        new = replace(new, rows=rows)
        if validate_only:
            return await self._database.dry_run(plan_store.create, new, by)
        record = await self._database.write(plan_store.create, new, by)
        detail = {"origin": new.origin, "partitions": len(new.rows), "options": dict(new.options)}
        await self._security.record(
            caller.principal.actor, "plan.create", f"plan/{record.id}", "ok", caller.info, detail=detail
        )
        return record

    async def progress(self, record: PlanRecord) -> Counts:
        """Return the counts of a plan."""
        return await self._database.read(plan_store.counts, record)

    async def approve(
        self, caller: Caller, cluster_id: str, plan_id: int, *, validate_only: bool = False
    ) -> PlanRecord:
        """Approve a draft."""
        by = caller.principal.audit_name
        change = partial(plan_store.approve, cluster_id=cluster_id, plan_id=plan_id, by=by)
        return await self._changed(caller, "approve", plan_id, change, {}, validate_only)

    async def start(self, caller: Caller, cluster_id: str, plan_id: int, *, validate_only: bool) -> PlanRecord:
        """Start an approved plan, while no other one of the cluster is active."""
        by = caller.principal.audit_name
        change = partial(plan_store.start, cluster_id=cluster_id, plan_id=plan_id, by=by)
        return await self._changed(caller, "start", plan_id, change, {}, validate_only)

    async def pause(self, caller: Caller, cluster_id: str, plan_id: int, *, validate_only: bool) -> PlanRecord:
        """Begin no further partition."""
        change = partial(plan_store.pause, cluster_id=cluster_id, plan_id=plan_id, by=caller.principal.audit_name)
        return await self._changed(caller, "pause", plan_id, change, {}, validate_only)

    async def resume(self, caller: Caller, cluster_id: str, plan_id: int, *, validate_only: bool) -> PlanRecord:
        """Continue a paused plan."""
        change = partial(plan_store.resume, cluster_id=cluster_id, plan_id=plan_id, by=caller.principal.audit_name)
        return await self._changed(caller, "resume", plan_id, change, {}, validate_only)

    async def cancel(
        self, caller: Caller, cluster_id: str, plan_id: int, begun: str, *, validate_only: bool
    ) -> PlanRecord:
        """Cancel a plan; `begun` says whether moving partitions are undone or finished."""
        by = caller.principal.audit_name
        change = partial(plan_store.cancel, cluster_id=cluster_id, plan_id=plan_id, by=by, begun=begun)
        return await self._changed(caller, "cancel", plan_id, change, {"begun": begun}, validate_only)

    async def left_cordons(self, record: PlanRecord) -> list[LeftCordon]:
        """Return the cordons that a plan has left."""
        return await self._database.read(left_cordons, record, self._cluster.image)

    async def uncordon(
        self, caller: Caller, cluster_id: str, plan_id: int, *, validate_only: bool = False
    ) -> PlanRecord:
        """Remove the cordons that an ended plan has left. Raises KafkaError, ConnectionError at the first failure.

        Log directories that stay cordoned are set through the broker, which alone accepts them; in a dry run these are
        not validated.
        """
        image, configs = self._cluster.image, self._cluster.admin.configs
        record, left = await self._database.read(to_uncordon, cluster_id, plan_id, image)
        detail = {str(each.broker_id): each.after for each in left}
        async with self._audited(caller, "plan.uncordon", f"plan/{plan_id}", detail, validate_only) as outcome:
            for each in left:
                if each.after is None:
                    removal = ConfigChange(CORDONED, AlterConfigOp.DELETE, None)
                    offset = await configs.alter(BROKER, str(each.broker_id), [removal], validate_only=validate_only)
                    outcome.offset = offset
                elif not validate_only:
                    rest = ConfigChange(CORDONED, AlterConfigOp.SET, each.after)
                    outcome.offset = await configs.alter_on_broker(image.cluster.brokers[each.broker_id], [rest])
        return record

    async def change(
        self, caller: Caller, cluster_id: str, plan_id: int, values: Mapping[str, Any], *, validate_only: bool
    ) -> PlanRecord:
        """Change throttle, moves_per_broker, pause_on_under_min or stuck_minutes."""
        by = caller.principal.audit_name
        change = partial(plan_store.change, cluster_id=cluster_id, plan_id=plan_id, values=values, by=by)
        return await self._changed(caller, "change", plan_id, change, values, validate_only)

    async def _changed(
        self,
        caller: Caller,
        what: str,
        plan_id: int,
        change: Callable[[Session], PlanRecord],
        detail: Mapping[str, Any],
        validate_only: bool,
    ) -> PlanRecord:
        if validate_only:
            return await self._database.dry_run(change)
        async with self._audited(caller, f"plan.{what}", f"plan/{plan_id}", dict(detail)):
            record = await self._database.write(change)
        self._executor.wake()
        return record
