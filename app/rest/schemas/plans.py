"""Bodies and answers about plans and their partitions."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.rest.schemas.base import (
    PARTITIONS_MAX,
    Answer,
    Body,
    ChangeBody,
    ListOf,
    Name,
    Related,
    Resource,
    TopicName,
)
from app.rest.schemas.partitions import PartitionEntry

Throttle = Annotated[int, Field(ge=1, le=2**62)]
MovesPerBroker = Annotated[int, Field(ge=1, le=1_000)]
StuckMinutes = Annotated[int, Field(ge=1, le=10_080)]


BrokerIds = Annotated[tuple[Annotated[int, Field(ge=0, le=2**31 - 1)], ...], Field(max_length=1_000, strict=False)]
TopicNames = Annotated[tuple[TopicName, ...], Field(max_length=PARTITIONS_MAX, strict=False)]
Goal = Literal["repair", "balance", "bytes", "leaders", "drain", "expand", "replication_factor", "move"]
Goals = Annotated[tuple[Goal, ...], Field(min_length=1, max_length=7, strict=False)]


class PlanOptionsBody(Body):
    """What the planner is to reach, and its limits. See docs/reports.md."""

    goals: Goals = ("repair", "balance", "leaders")
    drain_broker_ids: BrokerIds = ()
    drain_racks: Annotated[tuple[Name, ...], Field(max_length=1_000, strict=False)] = ()
    expand_broker_ids: BrokerIds = ()
    replication_factor: int | None = None
    target_broker_ids: BrokerIds = ()
    topic_names: TopicNames | None = None
    partitions: Annotated[tuple[PartitionEntry, ...], Field(max_length=PARTITIONS_MAX, strict=False)] | None = None
    exclude_topic_names: TopicNames = ()
    exclude_broker_ids: BrokerIds = ()
    max_moves: int | None = None
    max_bytes: int | None = None
    tolerance_percent: int = 5


class LogDirBody(Body):
    """A log directory of a broker."""

    broker_id: Annotated[int, Field(ge=0, le=2**31 - 1)]
    path: Annotated[str, Field(min_length=1, max_length=4_096)]


class DrainBody(Body):
    """Brokers or log directories to cordon and empty; `unregister` removes brokers once they have been stopped."""

    broker_ids: BrokerIds = ()
    log_dirs: Annotated[tuple[LogDirBody, ...], Field(max_length=1_000, strict=False)] = ()
    unregister: bool = False


class CreatePlanBody(ChangeBody):
    """A plan. Exactly one of `reassignment`, `report_id`, `options`, `drain` and `rollback_of` is given.

    `reassignment`: the content of a file of kafka-reassign-partitions. `options`: what the planner is to reach.
    `report_id`: a report whose default plan is taken. `rollback_of`: a plan whose moved partitions are brought back.
    The throttle is in bytes/s per broker and direction, null for none.
    """

    reassignment: dict[str, Any] | None = None
    options: PlanOptionsBody | None = None
    drain: DrainBody | None = None
    report_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    rollback_of: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    throttle_bytes_per_second: Throttle | None = None
    moves_per_broker: MovesPerBroker = 5
    pause_on_under_min_isr: bool = True
    stuck_minutes: StuckMinutes = 10


class ChangePlanBody(ChangeBody):
    """The members to change; a null throttle removes it."""

    throttle_bytes_per_second: Throttle | None = None
    moves_per_broker: MovesPerBroker | None = None
    pause_on_under_min_isr: bool | None = None
    stuck_minutes: StuckMinutes | None = None


class CancelPlanBody(ChangeBody):
    """What happens to partitions that are moving: `undo` returns them at once, `finish` lets them arrive."""

    begun: Literal["undo", "finish"] = "undo"


class PlanResultData(Answer):
    """The result: partitions by state, replicas added, configs that were set by what became of them, and seconds."""

    partitions: dict[str, int]
    replicas_added: int
    configs: dict[str, int]
    seconds: float | None


class PlanLogDirData(Answer):
    """A log directory of a broker."""

    broker_id: int
    path: str


class PlanData(Resource):
    """A plan. Times are in ms since 1970.

    `state`: draft, approved, running, paused, cancelling, then done, failed or cancelled. `partition_states`: number of
    partitions by state. The counts from `replicas_to_add` to `eta_seconds` are null in lists. Replicas that move to
    another log directory of their broker count as added. Bytes are those of added replicas of known size;
    `stuck_partitions` have for `stuck_minutes` neither had a new replica in the ISR nor copied more bytes. `waits_for`
    says why nothing happens now. `cordoned_broker_ids`: brokers that still have a cordon of the ended drain, for
    `:uncordon`; null in lists.
    """

    kind: Literal["KafkaPlan"]
    plan_id: int
    origin: str
    options: dict[str, Any]
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


class PlanDataList(ListOf[PlanData]):
    """Plans, newest first."""

    kind: Literal["KafkaPlanList"]


class PlanPartitionData(Answer):
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


class PlanPartitionDataList(ListOf[PlanPartitionData]):
    """Partitions of a plan, in its order."""

    kind: Literal["KafkaPlanPartitionList"]


class PlanEventData(Answer):
    """Something that happened to a plan. `actor`: who did it, null for the executor. `text`: the event in words.

    `event`: made, approved, started, changed, resumed, cancelled, then continued (by another web process), cordoned,
    throttled, rows (partitions began or ended to move), waits, stuck, paused, planned (again, for a drain), failing,
    elected, unthrottled, uncordoned, note, ended.
    """

    at: int
    event: str
    actor: str | None
    text: str


class PlanEventDataList(ListOf[PlanEventData]):
    """What happened to a plan, newest first."""

    kind: Literal["KafkaPlanEventList"]
