"""The values of a plan's execution: the plan, its partitions, the configs that it set, and the steps on the cluster."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.cluster.partitions import Partition
from app.reports.proposals.formats import ANY_LOG_DIR
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from kraft_core.protocol.uuids import uuid_from_text

DRAFT, APPROVED, RUNNING, PAUSED, CANCELLING = "draft", "approved", "running", "paused", "cancelling"
DONE, PLAN_FAILED, CANCELLED = "done", "failed", "cancelled"
ACTIVE_STATES: Final = (RUNNING, PAUSED, CANCELLING)
FINAL_STATES: Final = (DONE, PLAN_FAILED, CANCELLED)
STATES: Final = (DRAFT, APPROVED, *ACTIVE_STATES, *FINAL_STATES)

PENDING, BEGINNING, MOVING, UNDOING = "pending", "beginning", "moving", "undoing"
MOVED, UNCHANGED, STALE, FAILED, UNDONE, SKIPPED = "moved", "unchanged", "stale", "failed", "undone", "skipped"
IN_PROGRESS: Final = (BEGINNING, MOVING, UNDOING)
OPEN_ROWS: Final = (PENDING, *IN_PROGRESS)
ROW_STATES: Final = (*OPEN_ROWS, MOVED, UNCHANGED, STALE, FAILED, UNDONE, SKIPPED)
"""See PlanPartitionData for what they mean."""

FINISH, FAIL = "finish", "fail"
"""What a cancelled plan does with the partitions that are moving, if they are not undone. `fail`: they are undone, and
the plan ends as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One partition of a plan. `caught_up` of its copies are complete, and there was progress at `changed_at`.

    Copies are new replicas, complete in the ISR, and replicas that move to another log directory of their broker.
    `copied_bytes`: what the incomplete ones have, as far as the brokers have told.

    `log_dirs`: path of the directory of each proposed replica, or `any`; empty when all are any. `original_log_dirs`:
    the same of the original replicas, `any` where unknown; empty when `log_dirs` is.

    `size_bytes`: of one replica when the plan was made, None where no broker has told.

    `topic_id` is the topic's id in Kafka's form: a topic that was deleted and created again is another one.
    """

    topic: str
    topic_id: str
    partition: int
    original: tuple[int, ...]
    proposed: tuple[int, ...]
    state: str = PENDING
    caught_up: int = 0
    changed_at: dt.datetime | None = None
    error: str | None = None
    size_bytes: int | None = None
    log_dirs: tuple[str, ...] = ()
    original_log_dirs: tuple[str, ...] = ()
    copied_bytes: int = 0

    @property
    def key(self) -> Partition:
        """Topic name and partition."""
        return self.topic, self.partition

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(each for each in self.proposed if each not in self.original)

    @property
    def wanted_dirs(self) -> dict[int, str]:
        """Wanted log directory by broker, of the replicas for which the plan names one."""
        return named_dirs(self.proposed, self.log_dirs)

    @property
    def copies(self) -> tuple[int, ...]:
        """Brokers that copy; see copying_brokers."""
        return copying_brokers(self.original, self.proposed, self.log_dirs, self.original_log_dirs)

    @property
    def relocated(self) -> tuple[int, ...]:
        """Brokers that keep their replica and move it to another log directory."""
        return tuple(each for each in self.copies if each in self.original)

    def registration(self, image: MetadataImage) -> PartitionRegistration | None:
        """Return the partition of the same topic id in the image, or None."""
        return image.topics.partition(uuid_from_text(self.topic_id), self.partition)


def named_dirs(replicas: Sequence[int], log_dirs: Sequence[str]) -> dict[int, str]:
    """Return the log directory of each replica that has one which is not `any`, by broker."""
    return {broker: path for broker, path in zip(replicas, log_dirs, strict=False) if path != ANY_LOG_DIR}


def copying_brokers(
    original: Sequence[int], proposed: Sequence[int], log_dirs: Sequence[str], original_log_dirs: Sequence[str]
) -> tuple[int, ...]:
    """Return the brokers that get a replica, and those that move theirs to another log directory."""
    now = named_dirs(original, original_log_dirs)
    wanted = named_dirs(proposed, log_dirs)
    return tuple(
        each for each in proposed if each not in original or (each in wanted and wanted[each] != now.get(each))
    )


SETTING, SET, CLEARED, LEFT = "setting", "set", "cleared", "left"
"""States of a config: about to be set, set, restored, and left as it is since another caller has changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A config that the plan has set. `before` None: it was not set. `ours`: the plan's values, the newest last."""

    resource_type: int
    resource_name: str
    name: str
    before: str | None
    ours: tuple[str, ...]
    state: str = SETTING

    @property
    def key(self) -> "SettingKey":
        """Resource and name."""
        return self.resource_type, self.resource_name, self.name


SettingKey = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan while it is executed.

    `throttle`: bytes/s per broker and direction, None for none. `drain`: brokers to empty. `drain_log_dirs`: log
    directories to empty, as (broker id, path). `known_under_min`:
    partitions outside the plan, as `topic-partition`, that were under min ISR at the start or at the last resume;
    None: not looked yet. `offset`: of the plan's newest change in the metadata log. `ending`: the final state, once
    everything else is done and the throttles are being cleared. `rounds`: how often a drain was planned again.
    `stuck_minutes`: after how long without progress a moving partition counts as stuck.
    """

    id: int
    state: str = RUNNING
    cancel_begun: str | None = None
    throttle: int | None = None
    moves_per_broker: int = 5
    pause_on_under_min: bool = True
    stuck_minutes: int = 10
    drain: tuple[int, ...] = ()
    drain_log_dirs: tuple[tuple[int, str], ...] = ()
    unregister: bool = False
    known_under_min: tuple[str, ...] | None = None
    offset: int = -1
    elected: bool = False
    ending: str | None = None
    rounds: int = 0
    waits_for: str | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alter:
    """Set throttles, or restore what was before them, by (resource type, resource name); None removes a config."""

    changes: Mapping[tuple[int, str], Mapping[str, str | None]]
    clears: bool = False


@dataclass(frozen=True, slots=True)
class Cordon:
    """Set cordoned.log.dirs, which only the broker itself accepts."""

    broker_id: int
    value: str


@dataclass(frozen=True, slots=True)
class Reassign:
    """Begin reassignments; None cancels one. `log_dirs`: where their brokers are to create new replicas."""

    wanted: Mapping[Partition, tuple[int, ...] | None]
    log_dirs: Mapping[int, Mapping[Partition, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Move replicas to log directories of their brokers, by broker. `undo`: back to those in which they still are."""

    wanted: Mapping[int, Mapping[Partition, str]]
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect the preferred replicas of partitions."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Unregister:
    """Unregister an empty broker that is down."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """Propose new places for the replicas that drained brokers and log directories still hold."""

    brokers: tuple[int, ...]
    log_dirs: tuple[tuple[int, str], ...] = ()


Step = Alter | Cordon | Reassign | Place | Elect | Unregister | PlanAgain


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Everything that SQL keeps of a running plan."""

    plan: Plan
    rows: Mapping[Partition, Row]
    settings: Mapping[SettingKey, Setting] = field(default_factory=dict)

    def after(self, decision: "Decision") -> "Execution":
        """Return the execution with the changes of a decision."""
        return Execution(
            plan=decision.plan,
            rows={**self.rows, **decision.rows},
            settings={**self.settings, **decision.settings},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to store, and then the step to carry out, if any. `rows` and `settings` are those that change."""

    plan: Plan
    rows: Mapping[Partition, Row]
    settings: Mapping[SettingKey, Setting]
    step: Step | None = None
