"""The PartitionChangeRecord that brings one partition to its target state.

The builder takes the targets (ISR, replicas, reassignment, directories, recovery state), completes a reassignment if
the target ISR allows it, maintains the eligible leader replicas (ELR, KIP-966), elects a leader, and records only
differences.

With ELR enabled, `last_known_elr` holds at most one broker: the last leader of a partition without leader. It is
elected when it returns and no other replica is eligible.

Source: PartitionChangeBuilder, Kafka 4.3.1.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kraft_core.controller.partitions.partition_reassignment_replicas import PartitionReassignmentReplicas
from kraft_core.image.topics_image import LEADER_NONE, RECOVERING
from kraft_core.protocol.metadata_records import PartitionChangeRecord
from kraft_core.protocol.metadata_version import (
    is_directory_assignment_supported,
    is_leader_epoch_bump_required_on_isr_shrink,
)
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from uuid import UUID

    from kraft_core.image.topics_image import PartitionRegistration

NO_LEADER_CHANGE: Final = -2
"""PartitionChangeRecord.leader if the leader stays; any other value, even the same leader, raises the leader epoch."""
NO_RECOVERY_CHANGE: Final = -1


class Election(Enum):
    """How to choose a leader.

    PREFERRED: the first replica if it is in sync. ONLINE: the current leader, else any in-sync replica. UNCLEAN: as
    ONLINE, else any live replica, which may lose records.
    """

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class PartitionChangeBuilder:
    """Builds the change record of one partition. Set the `target_*` attributes that change, then call `build`.

    `is_acceptable_leader(broker_id)`: whether a broker is live and its directory online. `min_isr`: the effective
    min.insync.replicas, at most the replication factor. `default_dir(broker_id)`: the directory of a new replica.
    """

    __slots__ = (
        "_default_dir",
        "_directories",
        "_elr_enabled",
        "_is_acceptable_leader",
        "_metadata_version",
        "_min_isr",
        "_partition",
        "_partition_id",
        "_topic_id",
        "election",
        "target_adding",
        "target_elr",
        "target_isr",
        "target_leader_recovery_state",
        "target_removing",
        "target_replicas",
        "unclean_shutdown_replicas",
    )

    def __init__(
        self,
        partition: PartitionRegistration,
        topic_id: UUID,
        partition_id: int,
        *,
        is_acceptable_leader: Callable[[int], bool],
        default_dir: Callable[[int], UUID],
        metadata_version: int,
        min_isr: int,
        elr_enabled: bool,
    ) -> None:
        self._partition = partition
        self._topic_id = topic_id
        self._partition_id = partition_id
        self._is_acceptable_leader = is_acceptable_leader
        self._default_dir = default_dir
        self._metadata_version = metadata_version
        self._min_isr = min_isr
        self._elr_enabled = elr_enabled
        self._directories: dict[int, UUID] = {}
        self.election = Election.ONLINE
        self.target_isr = partition.isr
        self.target_replicas = partition.replicas
        self.target_removing = partition.removing_replicas
        self.target_adding = partition.adding_replicas
        self.target_elr = partition.elr
        self.target_leader_recovery_state = partition.leader_recovery_state
        self.unclean_shutdown_replicas: Collection[int] = ()

    def set_directory(self, broker_id: int, directory: UUID) -> None:
        """Assign the broker's replica to a log directory."""
        self._directories[broker_id] = directory

    def elect_leader(self) -> tuple[int, bool]:
        """Return the elected leader among the targets, or -1, and whether the election is unclean."""
        leader = self._partition.leader
        if self.election is Election.PREFERRED and self._is_valid_leader(self.target_replicas[0]):
            return self.target_replicas[0], False
        if self._is_valid_leader(leader):
            return leader, False
        for replica in self.target_replicas:
            if self._is_valid_leader(replica):
                return replica, False
        if self._can_elect_last_known_leader():
            return self._partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.target_replicas:
                if self._is_acceptable_leader(replica):
                    return replica, True
        return LEADER_NONE, False

    def build(self) -> PartitionChangeRecord | None:
        """Return the record, or None when nothing changes."""
        partition = self._partition
        self._complete_reassignment()
        self._populate_target_elr()
        leader, isr, recovery = self._try_election()
        if leader == NO_LEADER_CHANGE and not _contains(self.target_replicas, partition.replicas):
            leader = partition.leader  # a removed replica needs a new leader epoch, which fences its fetches
        elr = self._changed_elr(is_clean=isr is None)
        if isr is None and (self.target_isr or self._elr_enabled) and self.target_isr != partition.isr:
            isr = self.target_isr
        if leader == NO_LEADER_CHANGE and isr is not None and self._must_bump_on_shrink(isr):
            leader = partition.leader
        last_known = self._changed_last_known_elr(leader)
        directories = self._changed_directories()
        replicas = self.target_replicas if self.target_replicas and self.target_replicas != partition.replicas else None
        removing = self.target_removing if self.target_removing != partition.removing_replicas else None
        adding = self.target_adding if self.target_adding != partition.adding_replicas else None
        if self.target_leader_recovery_state != partition.leader_recovery_state:
            recovery = self.target_leader_recovery_state
        if (
            isr is None
            and elr is None
            and last_known is None
            and leader == NO_LEADER_CHANGE
            and replicas is None
            and removing is None
            and adding is None
            and recovery == NO_RECOVERY_CHANGE
            and directories is None
        ):
            return None
        return PartitionChangeRecord(
            partition_id=self._partition_id,
            topic_id=self._topic_id,
            isr=isr,
            leader=leader,
            replicas=replicas,
            removing_replicas=removing,
            adding_replicas=adding,
            leader_recovery_state=recovery,
            directories=directories,
            eligible_leader_replicas=elr,
            last_known_elr=last_known,
        )

    def _is_valid_leader(self, replica: int) -> bool:
        eligible = self.target_isr or self.target_elr
        return replica in eligible and self._is_acceptable_leader(replica)

    def _can_elect_last_known_leader(self) -> bool:
        if not self._elr_enabled or self.target_elr or self.target_isr:
            return False
        known = self._partition.last_known_elr
        return len(known) == 1 and known[0] in self.target_replicas and self._is_acceptable_leader(known[0])

    def _complete_reassignment(self) -> None:
        if not self.target_removing and not self.target_adding:
            return
        reassignment = PartitionReassignmentReplicas(self.target_removing, self.target_adding, self.target_replicas)
        completed = reassignment.maybe_complete(self.target_isr)
        if completed is not None:
            self.target_isr = completed.isr
            self.target_replicas = completed.replicas
            self.target_removing = ()
            self.target_adding = ()

    def _populate_target_elr(self) -> None:
        """Add replicas to the ELR that leave the ISR when it falls below the minimum, except after an unclean shutdown.

        A removed replica is not eligible; Kafka keeps one that a reassignment has removed.
        """
        if not self._elr_enabled:
            return
        if len(self.target_isr) >= self._min_isr:
            self.target_elr = ()
            return
        candidates = {*self.target_elr, *self._partition.isr}.intersection(self.target_replicas)
        self.target_elr = tuple(sorted(candidates.difference(self.target_isr, self.unclean_shutdown_replicas)))

    def _try_election(self) -> tuple[int, tuple[int, ...] | None, int]:
        """Return the changes of an election: leader or NO_LEADER_CHANGE, ISR or None, recovery state or -1."""
        partition = self._partition
        leader, is_unclean = self.elect_leader()
        if leader == partition.leader:
            return NO_LEADER_CHANGE, None, NO_RECOVERY_CHANGE
        if leader in self.target_elr:
            self.target_isr = (leader,)
            self.target_elr = tuple(replica for replica in self.target_elr if replica != leader)
        if not is_unclean:
            return leader, None, NO_RECOVERY_CHANGE
        recovery = NO_RECOVERY_CHANGE if partition.leader_recovery_state == RECOVERING else RECOVERING
        return leader, (leader,), recovery

    def _changed_elr(self, *, is_clean: bool) -> tuple[int, ...] | None:
        if not is_clean or not self._elr_enabled:
            self.target_elr = ()
        return self.target_elr if self.target_elr != self._partition.elr else None

    def _changed_last_known_elr(self, leader: int) -> tuple[int, ...] | None:
        partition = self._partition
        if not self._elr_enabled:
            return None
        if leader == LEADER_NONE and not partition.last_known_elr and partition.leader != LEADER_NONE:
            return (partition.leader,)
        return () if leader >= 0 and partition.last_known_elr else None

    def _must_bump_on_shrink(self, isr: tuple[int, ...]) -> bool:
        must_bump = is_leader_epoch_bump_required_on_isr_shrink(self._metadata_version)
        return must_bump and not _contains(isr, self._partition.isr)

    def _changed_directories(self) -> tuple[UUID, ...] | None:
        partition = self._partition
        replicas = self.target_replicas
        if not is_directory_assignment_supported(self._metadata_version) or not replicas:
            return None
        if not self._directories and replicas is partition.replicas:
            return None
        current = partition.directories or (DIRECTORY_MIGRATING,) * len(partition.replicas)
        placed = dict(zip(partition.replicas, current, strict=True)) | self._directories
        directories = tuple(
            placed[replica] if replica in placed else self._default_dir(replica) for replica in replicas
        )
        return directories if directories != current else None


def _contains(whole: tuple[int, ...], part: tuple[int, ...]) -> bool:
    return whole is part or set(part).issubset(whole)
