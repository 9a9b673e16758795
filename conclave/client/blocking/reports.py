"""Methods about reports. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.reports import (
    ReportData,
    ReportDataList,
    ScheduleData,
    ScheduleDataList,
    ViolationData,
    ViolationDataList,
    WhatIfData,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class ReportsMethods(Methods):
    """Methods about reports."""

    def list_report_schedules(self, *, page_size: int | None = None) -> Pages[ScheduleDataList, ScheduleData]:
        """List the schedules by name."""
        return Pages(
            self._send,
            Call[ScheduleDataList](
                "GET",
                "/v3/clusters/{cluster_id}/report-schedules",
                {200: ScheduleDataList},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_report_schedule(self, name: str) -> ScheduleData:
        """Describe a schedule, with its next five runs."""
        return self._send(
            Call[ScheduleData](
                "GET",
                "/v3/clusters/{cluster_id}/report-schedules/{name}",
                {200: ScheduleData},
                path={"name": name},
                waits_for_offset=True,
            )
        )

    def put_report_schedule(
        self,
        name: str,
        *,
        cron: str,
        time_zone: str | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
        topic_prefix: str | UnsetType = UNSET,
        on_change: bool | UnsetType = UNSET,
        webhook_url: str | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> ScheduleData:
        """Create or replace a schedule. It takes effect at once. A dry run shows its next five runs."""
        return self._send(
            Call[ScheduleData](
                "PUT",
                "/v3/clusters/{cluster_id}/report-schedules/{name}",
                {200: ScheduleData},
                path={"name": name},
                query={"validate_only": validate_only},
                body={
                    "cron": cron,
                    "time_zone": time_zone,
                    "enabled": enabled,
                    "topic_prefix": topic_prefix,
                    "on_change": on_change,
                    "webhook_url": webhook_url,
                },
            )
        )

    def delete_report_schedule(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Delete a schedule. Its reports remain."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/report-schedules/{name}",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    def run_report(
        self, *, topic_prefix: str | UnsetType = UNSET, validate_only: bool = False
    ) -> DryRunData | ReportData:
        """Start a report on the current metadata. Its resource shows the progress."""
        return self._send(
            Call[DryRunData | ReportData](
                "POST",
                "/v3/clusters/{cluster_id}/reports:run",
                {200: DryRunData, 202: ReportData},
                query={"validate_only": validate_only},
                body={"topic_prefix": topic_prefix},
            )
        )

    def cancel_report(self, report_id: int, *, validate_only: bool = False) -> DryRunData | None:
        """Cancel a running report and end its processes."""
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/reports/{report_id}:cancel",
                {200: DryRunData, 204: None},
                path={"report_id": report_id},
                query={"validate_only": validate_only},
            )
        )

    def list_reports(self, *, page_size: int | None = None) -> Pages[ReportDataList, ReportData]:
        """List the runs, newest first, without their results."""
        return Pages(
            self._send,
            Call[ReportDataList](
                "GET",
                "/v3/clusters/{cluster_id}/reports",
                {200: ReportDataList},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_report(self, report_id: int) -> ReportData:
        """Return one run with its result: the sections verdict, brokers, racks, what_if, violations and margins."""
        return self._send(
            Call[ReportData](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}",
                {200: ReportData},
                path={"report_id": report_id},
                waits_for_offset=True,
            )
        )

    def get_event_log(self, report_id: int) -> bytes:
        """Return Spark's event log of a run, for Spark's history server. The file name says how it is compressed."""
        return self._send(
            Call[bytes](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/event-log",
                {200: bytes},
                path={"report_id": report_id},
                waits_for_offset=True,
            )
        )

    def list_violations(
        self, report_id: int, *, reason: str | None = None, topic: str | None = None, page_size: int | None = None
    ) -> Pages[ViolationDataList, ViolationData]:
        """List the partitions that violate a placement rule."""
        return Pages(
            self._send,
            Call[ViolationDataList](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/violations",
                {200: ViolationDataList},
                path={"report_id": report_id},
                query={"reason": reason, "topic": topic, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def what_if_lost(self, report_id: int, *, brokers: str | None = None, racks: str | None = None) -> WhatIfData:
        """Return what the loss of these brokers and racks together would do, from the files of a report."""
        return self._send(
            Call[WhatIfData](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/what-if",
                {200: WhatIfData},
                path={"report_id": report_id},
                query={"brokers": brokers, "racks": racks},
                waits_for_offset=True,
            )
        )

    def get_reassignment_file(self, report_id: int) -> bytes:
        """Return the default plan for `kafka-reassign-partitions --reassignment-json-file`."""
        return self._send(
            Call[bytes](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/reassign.json",
                {200: bytes},
                path={"report_id": report_id},
                waits_for_offset=True,
            )
        )

    def get_rollback(self, report_id: int) -> bytes:
        """Return the assignment before the default plan, in the same format: what undoes the plan."""
        return self._send(
            Call[bytes](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/rollback.json",
                {200: bytes},
                path={"report_id": report_id},
                waits_for_offset=True,
            )
        )

    def get_elections(self, report_id: int) -> bytes:
        """Return the default plan's elections for `kafka-leader-election --path-to-json-file`."""
        return self._send(
            Call[bytes](
                "GET",
                "/v3/clusters/{cluster_id}/reports/{report_id}/elect.json",
                {200: bytes},
                path={"report_id": report_id},
                waits_for_offset=True,
            )
        )
