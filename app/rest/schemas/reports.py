"""Bodies and answers about placement reports and their schedules."""

from typing import Any, Literal

from pydantic import Field

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource

TOPIC_PREFIX = r"^[A-Za-z0-9._-]*$"


class PutScheduleBody(ChangeBody):
    """A complete schedule.

    `cron` has five fields: minute, hour, day, month, weekday (0 and 7 are Sunday), in `time_zone` (IANA). The report is
    about topics whose names start with `topic_prefix`. With `on_change`, changes of the topology start a report too.
    """

    cron: str = Field(max_length=128)
    time_zone: str = Field(default="UTC", max_length=64)
    enabled: bool = True
    topic_prefix: str = Field(default="", max_length=249, pattern=TOPIC_PREFIX)
    on_change: bool = False
    webhook_url: str | None = Field(default=None, max_length=2048)


class RunReportBody(ChangeBody):
    """The scope of a report: topics whose names start with `topic_prefix`."""

    topic_prefix: str = Field(default="", max_length=249, pattern=TOPIC_PREFIX)


class ReportProgressData(Answer):
    """Progress of the job: stage 1 to `stages`, and the tasks of this stage."""

    stage: int
    stages: int
    name: str
    tasks_done: int
    tasks: int


class ReportWebhookData(Answer):
    """The webhook of a run: waiting, sending, delivered, failed or unconfirmed; `error` says why not delivered."""

    state: str
    attempts: int
    error: str | None


class ReportData(Resource):
    """One run. `result` is the job's output (header and body). It is null in lists and until the run has succeeded.

    `topic_prefix` is the scope; "" is all topics. `webhook` is null in lists and for runs that needed none. Times are
    in ms since 1970. `state`: queued, snapshotting, running, storing, then succeeded, failed, cancelled,
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
    topic_prefix: str
    reason: str | None
    error: str | None
    progress: ReportProgressData | None
    webhook: ReportWebhookData | None
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
    """Violations of one report, by severity, topic and partition. `total` is the number that match."""

    kind: Literal["KafkaPlacementViolationList"]
    total: int


class HarmedPartitionData(Answer):
    """A partition that a loss newly takes down, stops writes to, or loses."""

    topic: str
    partition: int
    verdict: str


class WhatIfData(Resource):
    """What the loss of brokers and racks does. `brokers` are all brokers lost, with those of `racks`.

    `verdicts` counts all partitions after the loss. `partitions` are up to 100 that are harmed, the worst first.
    `source`: "placement", or "cube" where the run's file of the placement is gone: then `hottest_leaders` is null and
    `partitions` is empty.
    """

    kind: Literal["KafkaPlacementWhatIf"]
    brokers: list[int]
    racks: list[str]
    source: Literal["placement", "cube"]
    verdicts: dict[str, int]
    newly_down: int
    newly_refused: int
    newly_lost: int
    leaders_moved: int
    hottest_leaders: int | None
    partitions: list[HarmedPartitionData]


class ScheduleData(Resource):
    """A schedule of reports. `next_due` and the five `next_runs` are in ms since 1970; null and none when disabled."""

    kind: Literal["KafkaPlacementSchedule"]
    name: str
    cron: str
    time_zone: str
    enabled: bool
    topic_prefix: str
    on_change: bool
    webhook_url: str | None
    next_due: int | None
    next_runs: list[int]
    changed_by: str


class ScheduleDataList(ListOf[ScheduleData]):
    """Schedules by name."""

    kind: Literal["KafkaPlacementScheduleList"]
