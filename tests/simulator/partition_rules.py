"""Invariants of a partition and of each change. Numbers as in docs/invariants.md."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from kraft_core.image.topics_image import PartitionRegistration
from kraft_core.protocol.metadata_records import PartitionChangeRecord, PartitionRecord
from tests.simulator.invariant import check

NOBODY = -1
SAME_LEADER = -2
RECOVERING = 1
MIGRATING = UUID(int=0)

Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its records, replayed by other code than the product's."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int

    @classmethod
    def of(cls, record: PartitionRecord) -> "Partition":
        """Return the partition that a PartitionRecord creates."""
        return cls(
            replicas=record.replicas,
            directories=record.directories or (MIGRATING,) * len(record.replicas),
            isr=record.isr,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
            leader=record.leader,
            leader_recovery_state=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )

    def changed(self, record: PartitionChangeRecord) -> "Partition":
        """Check 25: each change raises the partition epoch; each record with a leader raises the leader epoch."""
        fields = {
            "replicas": record.replicas,
            "directories": record.directories,
            "isr": record.isr,
            "removing_replicas": record.removing_replicas,
            "adding_replicas": record.adding_replicas,
            "elr": record.eligible_leader_replicas,
            "last_known_elr": record.last_known_elr,
            "leader": None if record.leader == SAME_LEADER else record.leader,
            "leader_recovery_state": None if record.leader_recovery_state < 0 else record.leader_recovery_state,
        }
        changed = {name: value for name, value in fields.items() if value is not None}
        new = replace(self, **changed)  # type: ignore[arg-type]  # each value is of its field's type
        if len(new.directories) != len(new.replicas):
            new = replace(new, directories=(MIGRATING,) * len(new.replicas))
        return replace(
            new,
            partition_epoch=self.partition_epoch + 1,
            leader_epoch=self.leader_epoch + (record.leader != SAME_LEADER),
        )

    def directory(self, broker_id: int) -> UUID:
        """Return the directory of a replica."""
        return self.directories[self.replicas.index(broker_id)]

    def is_same(self, other: PartitionRegistration) -> bool:
        """Report whether the image has the same partition."""
        return all(getattr(self, name) == getattr(other, name) for name in Partition.__slots__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The state before a change, by which it is checked."""

    is_active: Callable[[int], bool]  # registered, not fenced, not shutting down
    is_online: Callable[[int, UUID], bool]  # the broker has this directory
    may_be_unclean: Callable[[], bool]  # the topic's config, or a request
    elr_enabled: bool


def check_shape(key: Key, now: Partition) -> None:
    """Check 23: in-sync and eligible replicas are distinct replicas; a leader is in sync."""
    replicas = set(now.replicas)
    check(len(replicas) == len(now.replicas) > 0, "replicas repeat", key, now)
    check(len(now.directories) == len(now.replicas), "replicas without directories", key, now)
    check(len(set(now.isr)) == len(now.isr), "the ISR repeats a replica", key, now)
    check(set(now.isr) <= replicas, "an in-sync replica is no replica", key, now)
    check(set(now.elr) <= replicas, "an eligible replica is no replica", key, now)
    check(not set(now.elr) & set(now.isr), "ISR and ELR overlap", key, now)
    check(len(now.last_known_elr) <= 1, "more than one last known leader", key, now)
    check(now.leader == NOBODY or now.leader in now.isr, "the leader is not in sync", key, now)
    adding, removing = set(now.adding_replicas), set(now.removing_replicas)
    check(adding | removing <= replicas and not adding & removing, "a reassignment of no replicas", key, now)


def check_creation(key: Key, now: Partition, around: Surroundings) -> None:
    """Check 23 and 24: a live broker leads a new partition, and only live ones are in sync."""
    check_shape(key, now)
    check((now.leader_epoch, now.partition_epoch) == (0, 0), "a new partition with old epochs", key, now)
    check(now.leader != NOBODY, "a new partition without leader", key, now)
    check_leader(key, now, around)
    for each in now.isr:
        check(around.is_active(each), "a broker that is not active begins in sync", key, each, now)


def check_leader(key: Key, now: Partition, around: Surroundings) -> None:
    """Check 24: an elected leader is registered, unfenced, not shutting down, and its directory is online."""
    check(around.is_active(now.leader), "a broker that is not active was elected", key, now)
    online = around.is_online(now.leader, now.directory(now.leader))
    check(online, "a broker was elected whose directory is offline", key, now)


def check_change(key: Key, was: Partition, now: Partition, record: PartitionChangeRecord, around: Surroundings) -> bool:
    """Check 23 to 26; return whether the change is an unclean election."""
    check_shape(key, now)
    if record.leader == SAME_LEADER:
        check(now.leader in now.isr or now.leader == NOBODY, "the leader left the ISR", key, was, now)
    is_unclean = record.leader >= 0 and _is_unclean(was, now)
    if record.leader >= 0:
        check_leader(key, now, around)
    if is_unclean:
        check(now.isr == (now.leader,), "an unclean leader is not alone in the ISR", key, was, now)
        check(now.leader_recovery_state == RECOVERING, "an unclean leader need not recover", key, was, now)
        is_last = around.elr_enabled and was.last_known_elr == (now.leader,) and not was.isr
        check(is_last or around.may_be_unclean(), "an unclean election without permission", key, was, now)
    elif record.leader == SAME_LEADER:
        recovers = now.leader_recovery_state == RECOVERING != was.leader_recovery_state
        check(not recovers or _is_forced_back(was, now, around), "recovering without an election", key, was, now)
    for each in set(now.isr) - set(was.isr):
        check(
            _is_forced_back(was, now, around) or around.is_active(each),
            "a broker that is not active came in sync",
            key,
            each,
            was,
            now,
        )
    if not around.elr_enabled:
        check(bool(now.isr) or not was.isr, "no replica is in sync", key, was, now)
        check(set(now.elr) <= set(was.elr), "eligible replicas without the feature", key, was, now)
    check(set(now.elr) <= {*was.elr, *was.isr}, "an eligible replica out of the blue", key, was, now)
    if record.replicas is not None:
        gone, stay = set(was.replicas) - set(now.replicas), set(now.replicas)
        keeps = not gone or bool(stay & {*was.isr, *was.elr, *now.isr})
        check(keeps or is_unclean or around.may_be_unclean(), "a reassignment dropped all copies", key, was, now)
    return is_unclean


def _is_forced_back(was: Partition, now: Partition, around: Surroundings) -> bool:
    """Report whether a reassignment was cancelled although no remaining replica was in sync or eligible.

    Then the first of them becomes the ISR, live or not, where unclean elections are allowed.
    """
    moved = was.adding_replicas or was.removing_replicas
    is_cancelled = bool(moved) and not (now.adding_replicas or now.removing_replicas)
    has_none = not set(now.replicas) & ({*was.isr, *was.elr} if around.elr_enabled else set(was.isr))
    return is_cancelled and has_none and now.leader == NOBODY and around.may_be_unclean()


def _is_unclean(was: Partition, now: Partition) -> bool:
    """Report whether the leader comes from outside the in-sync and eligible replicas.

    A reassignment's last step lets replicas into the ISR and takes the leadership from one that goes, in one record.
    """
    if now.leader in {*was.isr, *was.elr}:
        return False
    is_last_step = was.leader in was.isr and was.leader in was.removing_replicas and was.leader not in now.replicas
    return not (is_last_step and now.leader_recovery_state == was.leader_recovery_state)
