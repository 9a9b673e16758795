"""Report runs and schedules as users change them, each written to the audit."""

import asyncio
from dataclasses import asdict

from app.actions.audited import Caller
from app.db.base import utc_now
from app.db.database import Database
from app.reports.cron import cron_trigger
from app.reports.models import ReportSchedule
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler
from app.reports.schedules import ScheduleSpec, delete_schedule, put_schedule
from app.reports.webhooks import Attempt, InvalidWebhookError, WebhookSettings, body_of_test, send
from app.security.service import Security


class ReportActions:
    """Runs, cancels and schedules reports."""

    def __init__(
        self,
        runner: ReportRunner,
        schedules: ReportScheduler,
        database: Database,
        security: Security,
        webhook: WebhookSettings,
    ) -> None:
        self._runner = runner
        self._schedules = schedules
        self._database = database
        self._security = security
        self._webhook = webhook

    async def check_run(self, caller: Caller) -> None:
        """Raise what `run` would raise: NoImageError or ReportBusyError."""
        await self._runner.check(caller.principal.audit_name)

    async def run(self, caller: Caller, topic_prefix: str = "") -> int:
        """Start a run over the topics with this prefix and return its id. Raises NoImageError, ReportBusyError."""
        run_id = await self._runner.run_now(caller.principal.audit_name, topic_prefix)
        await self._record(caller, "report.run", f"report/{run_id}", {"topic_prefix": topic_prefix})
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
        self, caller: Caller, name: str, spec: ScheduleSpec, *, validate_only: bool = False
    ) -> ReportSchedule:
        """Create or replace a schedule. Raises InvalidCronError, InvalidTimeZoneError, InvalidWebhookError."""
        cron_trigger(spec.cron, spec.time_zone)
        if spec.webhook_url is not None:
            self._webhook.check(spec.webhook_url)
        actor = caller.principal.audit_name
        if validate_only:
            return await self._database.dry_run(put_schedule, name, spec, actor)
        schedule = await self._schedules.put(name, spec, actor)
        await self._record(caller, "report.schedule", f"schedule/{name}", asdict(spec))
        return schedule

    async def delete_schedule(self, caller: Caller, name: str, *, validate_only: bool = False) -> bool:
        """Delete a schedule; its reports remain. Returns False if no schedule has this name."""
        if validate_only:
            return await self._database.dry_run(delete_schedule, name)
        done = await self._schedules.delete(name)
        if done:
            await self._record(caller, "report.schedule-delete", f"schedule/{name}")
        return done

    async def send_test(
        self, caller: Caller, schedule: ReportSchedule, cluster_id: str | None, base_url: str
    ) -> Attempt:
        """Send a test to the webhook of a schedule, once, and return how that ended. It is signed like a real one.

        Raises InvalidWebhookError if the schedule has no webhook.
        """
        if schedule.webhook_url is None:
            raise InvalidWebhookError(f"schedule {schedule.name} has no webhook")
        body = body_of_test(cluster_id, schedule.name, schedule.topic_prefix, base_url)
        now = int(utc_now().timestamp())
        attempt = await asyncio.to_thread(send, schedule.webhook_url, body, self._webhook, now, "test")
        detail: dict[str, object] = {"url": schedule.webhook_url, "status": attempt.status, "error": attempt.error}
        await self._record(caller, "report.webhook-test", f"schedule/{schedule.name}", detail)
        return attempt

    async def _record(
        self, caller: Caller, action: str, resource: str, detail: dict[str, object] | None = None
    ) -> None:
        await self._security.record(caller.principal.actor, action, resource, "ok", caller.info, detail=detail)
