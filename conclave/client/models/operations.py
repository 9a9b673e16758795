"""Models of operations. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer, Body


class BrokerFeatureData(Answer, frozen=True, kw_only=True):
    """The levels of a feature that a broker supports."""

    broker_id: int
    lowest_level: int
    highest_level: int


class BrokerLeadersData(Answer, frozen=True, kw_only=True):
    """The number of partitions that a broker leads before an election, and after it as the controller's rules say."""

    broker_id: int
    leaders_before: int
    leaders_after: int


class LogDirBody(Body, frozen=True, kw_only=True):
    """A log directory of a broker."""

    broker_id: int
    path: str


class DrainBody(Body, frozen=True, kw_only=True):
    """Brokers or log directories to cordon and empty; `unregister` removes brokers once they have been stopped."""

    broker_ids: Sequence[int] | UnsetType = UNSET
    log_dirs: Sequence[LogDirBody] | UnsetType = UNSET
    unregister: bool | UnsetType = UNSET


class ElectionBrokerData(Answer, frozen=True, kw_only=True):
    """The number of partitions that a broker led when an election began, and leads now."""

    broker_id: int
    leaders_before: int
    leaders_now: int


class ElectionData(Answer, frozen=True, kw_only=True):
    """An election of more than 1,000 partitions, in batches.

    `state`: `running`, `done`, or `stopped` for the reason in `stopped_by`. `waits_for`: why the present batch is
    repeated. `metadata_offset`: of its newest change. Times are in ms since 1970.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    election_id: str
    election_type: str
    state: str
    by: str
    started_at: int
    finished_at: int | None
    partitions_count: int
    elected_count: int
    refused_count: int
    metadata_offset: int | None
    waits_for: str | None
    stopped_by: str | None
    partitions: Related
    brokers: list[ElectionBrokerData]


class PartitionOutcomeData(Answer, frozen=True, kw_only=True):
    """The outcome for one partition. The last three members are null on success."""

    topic_name: str
    partition_id: int
    partition: Related
    error_code: int | None
    kafka_error: str | None
    message: str | None


class ElectionOutcomeDataList(Answer, frozen=True, kw_only=True):
    """One outcome per partition, and the leaders of each broker."""

    validated: bool | None = None
    data: list[PartitionOutcomeData]
    brokers: list[BrokerLeadersData]


class ElectionPartitionData(Answer, frozen=True, kw_only=True):
    """What has become of one partition. `kafka_error` and `message` are null unless it was refused."""

    topic_name: str
    partition_id: int
    partition: Related
    state: str
    kafka_error: str | None
    message: str | None


class ElectionPartitionDataList(Answer, frozen=True, kw_only=True):
    """A page of the partitions of an election."""

    metadata: ListMetadata
    data: list[ElectionPartitionData]
    kind: str


class FeatureData(Answer, frozen=True, kw_only=True):
    """A feature and its finalized level: 0 when disabled, null while it is unknown.

    `lowest_level` and `highest_level` are those that this software supports, null for a feature that it does not know.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    feature_name: str
    level: int | None
    lowest_level: int | None
    highest_level: int | None
    brokers: list[BrokerFeatureData]


class FeatureDataList(Answer, frozen=True, kw_only=True):
    """Features."""

    validated: bool | None = None
    metadata: ListMetadata
    data: list[FeatureData]
    kind: str


class FeatureEntry(Body, frozen=True, kw_only=True):
    """A feature and its new level. A lower level requires a downgrade `upgrade_type`; 0 disables the feature."""

    feature_name: str
    level: int
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] | UnsetType = UNSET


class PartitionEntry(Body, frozen=True, kw_only=True):
    """One partition."""

    topic_name: str
    partition_id: int


class PartitionOutcomeDataList(Answer, frozen=True, kw_only=True):
    """One outcome per partition, in the order of the request."""

    validated: bool | None = None
    data: list[PartitionOutcomeData]


class PlanLogDirData(Answer, frozen=True, kw_only=True):
    """A log directory of a broker."""

    broker_id: int
    path: str


class PlanResultData(Answer, frozen=True, kw_only=True):
    """The result: partitions by state, replicas added, configs that were set by what became of them, and seconds."""

    partitions: dict[str, int]
    replicas_added: int
    configs: dict[str, int]
    seconds: float | None


class PlanData(Answer, frozen=True, kw_only=True):
    """A plan. Times are in ms since 1970.

    `state`: draft, approved, running, paused, cancelling, then done, failed or cancelled. `partition_states`: number of
    partitions by state. The counts from `replicas_to_add` to `eta_seconds` are null in lists. Replicas that move to
    another log directory of their broker count as added. Bytes are those of added replicas of known size;
    `stuck_partitions` have for `stuck_minutes` neither had a new replica in the ISR nor copied more bytes. `waits_for`
    says why nothing happens now. `cordoned_broker_ids`: brokers that still have a cordon of the ended drain, for
    `:uncordon`; null in lists.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    plan_id: int
    origin: str
    options: dict[str, object]
    state: str
    made_by: str
    made_at: int
    approved_by: str | None
    approved_at: int | None
    started_by: str | None
    started_at: int | None
    cancelled_by: str | None
    finished_at: int | None
    throttle_bytes_per_second: int | None
    moves_per_broker: int
    pause_on_under_min_isr: bool
    stuck_minutes: int
    drain_broker_ids: list[int]
    drain_log_dirs: list[PlanLogDirData]
    unregister: bool
    cordoned_broker_ids: list[int] | None
    partition_states: dict[str, int]
    replicas_to_add: int | None
    replicas_added: int | None
    bytes_to_copy: int | None
    bytes_copied: int | None
    replicas_without_size: int | None
    stuck_partitions: int | None
    eta_seconds: int | None
    waits_for: str | None
    reasons: list[str]
    result: PlanResultData | None
    partitions: Related
    events: Related


class PlanDataList(Answer, frozen=True, kw_only=True):
    """Plans, newest first."""

    metadata: ListMetadata
    data: list[PlanData]
    kind: str


class PlanEventData(Answer, frozen=True, kw_only=True):
    """Something that happened to a plan. `actor`: who did it, null for the executor. `text`: the event in words.

    `event`: made, approved, started, changed, resumed, cancelled, then continued (by another web process), cordoned,
    throttled, rows (partitions began or ended to move), waits, stuck, paused, planned (again, for a drain), failing,
    elected, unthrottled, uncordoned, note, ended.
    """

    at: int
    event: str
    actor: str | None
    text: str


class PlanEventDataList(Answer, frozen=True, kw_only=True):
    """What happened to a plan, newest first."""

    metadata: ListMetadata
    data: list[PlanEventData]
    kind: str


class PlanOptionsBody(Body, frozen=True, kw_only=True):
    """What the planner is to reach, and its limits. See docs/reports.md."""

    goals: (
        Sequence[Literal["repair", "balance", "bytes", "leaders", "drain", "expand", "replication_factor", "move"]]
        | UnsetType
    ) = UNSET
    drain_broker_ids: Sequence[int] | UnsetType = UNSET
    drain_racks: Sequence[str] | UnsetType = UNSET
    expand_broker_ids: Sequence[int] | UnsetType = UNSET
    replication_factor: int | UnsetType | None = UNSET
    target_broker_ids: Sequence[int] | UnsetType = UNSET
    topic_names: Sequence[str] | UnsetType | None = UNSET
    partitions: Sequence[PartitionEntry] | UnsetType | None = UNSET
    exclude_topic_names: Sequence[str] | UnsetType = UNSET
    exclude_broker_ids: Sequence[int] | UnsetType = UNSET
    max_moves: int | UnsetType | None = UNSET
    max_bytes: int | UnsetType | None = UNSET
    tolerance_percent: int | UnsetType = UNSET


class PlanPartitionData(Answer, frozen=True, kw_only=True):
    """A partition of a plan.

    `state`: pending (not begun), beginning (the request is being sent), moving, undoing (being cancelled), then moved,
    unchanged (was placed so already), stale (is not as it was when the plan was made, so skipped), failed, undone
    (cancelled while moving) or skipped (the plan ended before). Log directories are parallel to the replicas, `any`
    where the broker chooses or has not told; null when the plan names none. `copied_bytes`: those of incomplete copies.
    """

    topic_name: str
    partition_id: int
    state: str
    original_replica_ids: list[int]
    proposed_replica_ids: list[int]
    original_log_dirs: list[str] | None
    proposed_log_dirs: list[str] | None
    replicas_caught_up: int
    changed_at: int | None
    size_bytes: int | None
    copied_bytes: int
    error: str | None


class PlanPartitionDataList(Answer, frozen=True, kw_only=True):
    """Partitions of a plan, in its order."""

    metadata: ListMetadata
    data: list[PlanPartitionData]
    kind: str


class ReassignmentEntry(Body, frozen=True, kw_only=True):
    """The new replicas of one partition, the preferred leader first."""

    topic_name: str
    partition_id: int
    replica_ids: Sequence[int]
