"""The replicas of a partition during, after and on cancellation of a reassignment.

During a reassignment the partition's replicas are the target replicas followed by those to remove; `adding_replicas`
and `removing_replicas` hold the difference.

Source: PartitionReassignmentReplicas, PartitionReassignmentRevert, Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraft_core.image.topics_image import PartitionRegistration


@dataclass(frozen=True, slots=True)
class CompletedReassignment:
    """The replicas and the ISR after the completion."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionReassignmentReplicas:
    """A reassignment: replicas to remove, replicas to add, and all replicas during it."""

    removing: tuple[int, ...]
    adding: tuple[int, ...]
    replicas: tuple[int, ...]

    @classmethod
    def to(cls, partition: PartitionRegistration, target: Sequence[int]) -> PartitionReassignmentReplicas:
        """Return the reassignment of a partition to `target`, which has no duplicates.

        A replica that the current reassignment adds still counts as adding, so that a cancellation removes it.
        """
        removing = tuple(sorted(set(partition.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(cls.of(partition).original_replicas)))
        return cls(removing, adding, (*target, *removing))

    @classmethod
    def of(cls, partition: PartitionRegistration) -> PartitionReassignmentReplicas:
        """Return the current reassignment of a partition; it may be empty."""
        return cls(partition.removing_replicas, partition.adding_replicas, partition.replicas)

    @property
    def is_in_progress(self) -> bool:
        """Whether replicas are to be added or removed."""
        return bool(self.removing or self.adding)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas without the adding ones, which a cancellation restores."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def maybe_complete(self, target_isr: Sequence[int]) -> CompletedReassignment | None:
        """Return the replicas and ISR of the completed reassignment if this ISR allows it, else None.

        At least one remaining replica and every adding replica must be in sync. If the replication factor decreases,
        all remaining replicas must be in sync, because removing in-sync replicas early would leave fewer copies.
        """
        if not self.is_in_progress:
            return None
        isr = tuple(replica for replica in target_isr if replica not in self.removing)
        replicas = tuple(replica for replica in self.replicas if replica not in self.removing)
        if self.removing and not (isr and replicas):
            return None
        if not set(self.adding).issubset(isr):
            return None
        if len(self.adding) < len(self.removing) and not set(replicas).issubset(isr):
            return None
        return CompletedReassignment(replicas, isr)


@dataclass(frozen=True, slots=True)
class PartitionReassignmentRevert:
    """The cancellation of a reassignment.

    `is_unclean`: no original replica is in sync, so the first becomes the ISR although it may lack records; the caller
    must check that unclean elections are allowed. With eligible leader replicas, if an original replica is eligible,
    the ISR stays empty for a clean election among them, where Kafka drops them.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_unclean: bool

    @classmethod
    def of(cls, partition: PartitionRegistration, *, elr_enabled: bool = False) -> PartitionReassignmentRevert:
        """Return the cancellation. Raises KafkaError INVALID_REPLICA_ASSIGNMENT if every replica is an adding one."""
        replicas = PartitionReassignmentReplicas.of(partition).original_replicas
        isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
        if isr or (elr_enabled and not set(replicas).isdisjoint(partition.elr)):
            return cls(replicas, isr, is_unclean=False)
        if not replicas:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Invalid replica assignment: addingReplicas contains all replicas.",
            )
        return cls(replicas, replicas[:1], is_unclean=True)
