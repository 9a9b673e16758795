"""What users do with reports, each written to the audit: run, cancel, schedule. REST and pages both go through here."""

from app.actions import Caller
from app.reports.models import ReportSchedule
from app.services import Services


class ReportActions:
    """The report changes of one web process; made from its services wherever one is needed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self, caller: Caller) -> int:
        """Begin a run and return its id. Raises NoImageError, ReportBusyError."""
        run_id = await self._services.reports.run_now(caller.principal.audit_name)
        await self._record(caller, "report.run", f"report/{run_id}")
        return run_id

    async def cancel(self, caller: Caller, run_id: int) -> bool:
        """End a run. -> False when it does not run (any more)."""
        done = await self._services.reports.cancel(run_id, caller.principal.audit_name)
        if done:
            await self._record(caller, "report.cancel", f"report/{run_id}")
        return done

    async def put_schedule(self, caller: Caller, name: str, cron: str, *, enabled: bool) -> ReportSchedule:
        """Make or change a schedule. Raises InvalidCronError."""
        schedule = await self._services.schedules.put(name, cron, caller.principal.audit_name, enabled=enabled)
        await self._record(caller, "report.schedule", f"schedule/{name}", {"cron": cron, "enabled": enabled})
        return schedule

    async def _record(
        self, caller: Caller, action: str, resource: str, detail: dict[str, object] | None = None
    ) -> None:
        await self._services.security.record_of(caller.principal, action, resource, "ok", caller.info, detail=detail)
