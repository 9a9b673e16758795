"""Bodies and answers about placement reports and their schedules."""

from typing import Any, Literal

from pydantic import Field

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource


class PutScheduleBody(ChangeBody):
    """A complete schedule: five cron fields in UTC."""

    cron: str = Field(max_length=128)
    enabled: bool = True


class ReportProgressData(Answer):
    """Progress of the job: stage 1 to `stages`, and the tasks of this stage."""

    stage: int
    stages: int
    name: str
    tasks_done: int
    tasks: int


class ReportData(Resource):
    """One run. `result` is the job's output (header and body). It is null in lists and until the run has succeeded.

    Times are in ms since 1970. `state`: queued, snapshotting, running, storing, then succeeded, failed, cancelled,
    timed_out or lost.
    """

    kind: Literal["KafkaPlacementReport"]
    report_id: int
    state: str
    requested_by: str
    created_at: int
    finished_at: int | None
    metadata_offset: int | None
    leader_epoch: int | None
    reason: str | None
    error: str | None
    progress: ReportProgressData | None
    result: dict[str, Any] | None


class ReportDataList(ListOf[ReportData]):
    """Runs, newest first."""

    kind: Literal["KafkaPlacementReportList"]


class ViolationData(Answer):
    """A partition that violates a placement rule. `leader` -1: none. `racks` is parallel to `replicas`; "": no rack."""

    topic: str
    partition: int
    reason: str
    replicas: list[int]
    racks: list[str]
    isr: list[int]
    leader: int
    rf: int
    min_isr: int
    margin: int
    rack_moves: int
    size_bytes: int | None


class ViolationDataList(ListOf[ViolationData]):
    """Violations of one report, sorted by topic and partition. `total` is the number that match."""

    kind: Literal["KafkaPlacementViolationList"]
    total: int


class ScheduleData(Resource):
    """A schedule of reports: five cron fields in UTC. `next_due` is in ms since 1970, null when disabled."""

    kind: Literal["KafkaPlacementSchedule"]
    name: str
    cron: str
    enabled: bool
    next_due: int | None
    changed_by: str


class ScheduleDataList(ListOf[ScheduleData]):
    """Schedules by name."""

    kind: Literal["KafkaPlacementScheduleList"]
