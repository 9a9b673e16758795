"""What users do with reports, each written to the audit: run, cancel, schedule. REST and pages both go through here."""

from app.actions import Caller
from app.reports import store
from app.reports.models import ReportSchedule
from app.reports.scheduler import cron_trigger
from app.services import Services


class ReportActions:
    """The report changes of one web process; made from its services wherever one is needed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def check_run(self, caller: Caller) -> None:
        """Raise what `run` would: NoImageError, ReportBusyError."""
        await self._services.reports.check(caller.principal.audit_name)

    async def run(self, caller: Caller) -> int:
        """Begin a run and return its id. Raises NoImageError, ReportBusyError."""
        run_id = await self._services.reports.run_now(caller.principal.audit_name)
        await self._record(caller, "report.run", f"report/{run_id}")
        return run_id

    async def cancel(self, caller: Caller, run_id: int, *, validate_only: bool = False) -> bool:
        """End a run. -> False when it does not run (any more)."""
        if validate_only:
            return await self._services.reports.check_cancel(run_id, caller.principal.audit_name)
        done = await self._services.reports.cancel(run_id, caller.principal.audit_name)
        if done:
            await self._record(caller, "report.cancel", f"report/{run_id}")
        return done

    async def put_schedule(
        self, caller: Caller, name: str, cron: str, *, enabled: bool, validate_only: bool = False
    ) -> ReportSchedule:
        """Make or change a schedule. Raises InvalidCronError."""
        actor = caller.principal.audit_name
        if validate_only:
            cron_trigger(cron)
            return await self._services.database.rehearse(store.put_schedule, name, cron, actor, enabled=enabled)
        schedule = await self._services.schedules.put(name, cron, actor, enabled=enabled)
        await self._record(caller, "report.schedule", f"schedule/{name}", {"cron": cron, "enabled": enabled})
        return schedule

    async def _record(
        self, caller: Caller, action: str, resource: str, detail: dict[str, object] | None = None
    ) -> None:
        await self._services.security.record_of(caller.principal, action, resource, "ok", caller.info, detail=detail)
