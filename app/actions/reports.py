"""Report runs and schedules as users change them, each written to the audit."""

from app.actions.audited import Caller
from app.db.database import Database
from app.reports import store
from app.reports.models import ReportSchedule
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler, cron_trigger
from app.security.service import Security


class ReportActions:
    """Runs, cancels and schedules reports."""

    def __init__(
        self, runner: ReportRunner, schedules: ReportScheduler, database: Database, security: Security
    ) -> None:
        self._runner = runner
        self._schedules = schedules
        self._database = database
        self._security = security

    async def check_run(self, caller: Caller) -> None:
        """Raise what `run` would raise: NoImageError or ReportBusyError."""
        await self._runner.check(caller.principal.audit_name)

    async def run(self, caller: Caller) -> int:
        """Start a run and return its id. Raises NoImageError, ReportBusyError."""
        run_id = await self._runner.run_now(caller.principal.audit_name)
        await self._record(caller, "report.run", f"report/{run_id}")
        return run_id

    async def cancel(self, caller: Caller, run_id: int, *, validate_only: bool = False) -> bool:
        """Cancel a run. Returns False when it is not running."""
        if validate_only:
            return await self._runner.check_cancel(run_id, caller.principal.audit_name)
        done = await self._runner.cancel(run_id, caller.principal.audit_name)
        if done:
            await self._record(caller, "report.cancel", f"report/{run_id}")
        return done

    async def put_schedule(
        self, caller: Caller, name: str, cron: str, *, enabled: bool, validate_only: bool = False
    ) -> ReportSchedule:
        """Create or replace a schedule. Raises InvalidCronError."""
        actor = caller.principal.audit_name
        if validate_only:
            cron_trigger(cron)
            return await self._database.dry_run(store.put_schedule, name, cron, actor, enabled=enabled)
        schedule = await self._schedules.put(name, cron, actor, enabled=enabled)
        await self._record(caller, "report.schedule", f"schedule/{name}", {"cron": cron, "enabled": enabled})
        return schedule

    async def _record(
        self, caller: Caller, action: str, resource: str, detail: dict[str, object] | None = None
    ) -> None:
        await self._security.record(caller.principal.actor, action, resource, "ok", caller.info, detail=detail)
