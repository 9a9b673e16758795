"""Models of reports. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer


class HarmedPartitionData(Answer, frozen=True, kw_only=True):
    """A partition that a loss newly takes down, stops writes to, or loses."""

    topic: str
    partition: int
    verdict: str


class ReportProgressData(Answer, frozen=True, kw_only=True):
    """Progress of the job: stage 1 to `stages`, and the tasks of this stage."""

    stage: int
    stages: int
    name: str
    tasks_done: int
    tasks: int


class ReportWebhookData(Answer, frozen=True, kw_only=True):
    """The webhook of a run: waiting, sending, delivered, failed or unconfirmed; `error` says why not delivered."""

    state: str
    attempts: int
    error: str | None


class ReportData(Answer, frozen=True, kw_only=True):
    """One run. `result` is the job's output (header and body). It is null in lists and until the run has succeeded.

    `topic_prefix` is the scope; "" is all topics. `webhook` is null in lists and for runs that needed none. Times are
    in ms since 1970. `state`: queued, snapshotting, running, storing, then succeeded, failed, cancelled,
    timed_out or lost.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
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
    result: dict[str, object] | None


class ReportDataList(Answer, frozen=True, kw_only=True):
    """Runs, newest first."""

    metadata: ListMetadata
    data: list[ReportData]
    kind: str


class ScheduleData(Answer, frozen=True, kw_only=True):
    """A schedule of reports. `next_due` and the five `next_runs` are in ms since 1970; null and none when disabled."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
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


class ScheduleDataList(Answer, frozen=True, kw_only=True):
    """Schedules by name."""

    metadata: ListMetadata
    data: list[ScheduleData]
    kind: str


class ViolationData(Answer, frozen=True, kw_only=True):
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


class ViolationDataList(Answer, frozen=True, kw_only=True):
    """Violations of one report, by severity, topic and partition. `total` is the number that match."""

    metadata: ListMetadata
    data: list[ViolationData]
    kind: str
    total: int


class WhatIfData(Answer, frozen=True, kw_only=True):
    """What the loss of brokers and racks does. `brokers` are all brokers lost, with those of `racks`.

    `verdicts` counts all partitions after the loss. `partitions` are up to 100 that are harmed, the worst first.
    `source`: "placement", or "cube" where the run's file of the placement is gone: then `hottest_leaders` is null and
    `partitions` is empty.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    brokers: list[int]
    racks: list[str]
    source: str
    verdicts: dict[str, int]
    newly_down: int
    newly_refused: int
    newly_lost: int
    leaders_moved: int
    hottest_leaders: int | None
    partitions: list[HarmedPartitionData]
