"""Bodies and answers about placement reports and their schedules."""

from typing import Any, Literal

from pydantic import Field

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource


class PutScheduleBody(ChangeBody):
    """A schedule, whole."""

    cron: str = Field(max_length=128)
    enabled: bool = True


class ReportProgressData(Answer):
    """How far the job is: stage 1..stages, and its tasks."""

    stage: int
    stages: int
    name: str
    tasks_done: int
    tasks: int


class ReportData(Resource):
    """One run. `result` is what the job wrote (header and body), and null in lists and before it succeeded.

    Times are ms since 1970. `state`: queued, snapshotting, running, storing, then succeeded, failed, cancelled,
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
    """One partition that needs a look. `leader` is -1 for none; `racks` runs parallel to `replicas`, "" for no rack."""

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
    """Violations of one report, sorted by topic and partition; `total` counts all that match."""

    kind: Literal["KafkaPlacementViolationList"]
    total: int


class ScheduleData(Resource):
    """When reports are made: five cron fields in UTC. `next_due` in ms since 1970, null when it is off."""

    kind: Literal["KafkaPlacementSchedule"]
    name: str
    cron: str
    enabled: bool
    next_due: int | None
    changed_by: str


class ScheduleDataList(ListOf[ScheduleData]):
    """All schedules by name."""

    kind: Literal["KafkaPlacementScheduleList"]
