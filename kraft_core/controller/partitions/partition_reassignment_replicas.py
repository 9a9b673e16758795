"""Moving a partition to other replicas: what to add, what to remove, when it is done, how to go back.

While a reassignment runs, the partition's replicas are the target followed by the ones to be removed, and
`adding_replicas` and `removing_replicas` name the difference.

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
    """The replicas and the ISR once the removed replicas are gone."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionReassignmentReplicas:
    """A reassignment: brokers to remove, brokers to add, and all replicas while it runs."""

    removing: tuple[int, ...]
    adding: tuple[int, ...]
    replicas: tuple[int, ...]

    @classmethod
    def to(cls, partition: PartitionRegistration, target: Sequence[int]) -> PartitionReassignmentReplicas:
        """Plan the way from what a partition has to `target`, a list without repetition.

        A replica that a running reassignment adds counts as added still, so that a cancel takes it away again.
        """
        removing = tuple(sorted(set(partition.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(cls.of(partition).original_replicas)))
        return cls(removing, adding, (*target, *removing))

    @classmethod
    def of(cls, partition: PartitionRegistration) -> PartitionReassignmentReplicas:
        """Read the reassignment that a partition is in, if any."""
        return cls(partition.removing_replicas, partition.adding_replicas, partition.replicas)

    @property
    def is_in_progress(self) -> bool:
        """Whether there is anything to add or to remove."""
        return bool(self.removing or self.adding)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas without the added ones: where a cancelled reassignment goes back to."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def maybe_complete(self, target_isr: Sequence[int]) -> CompletedReassignment | None:
        """Return the end state if this ISR allows it, else None.

        It needs an in-sync replica that stays, and every added replica in sync. When the replication factor shrinks, all
        replicas that stay must be in sync, because dropping in-sync ones early would leave fewer copies than before.
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
    """The way back from a running reassignment.

    `is_unclean`: no original replica is in sync, so the first of them is taken although it may lack records; the caller
    must check that unclean elections are allowed. With eligible leader replicas an original one may be eligible: then the
    ISR is left empty, for a clean election among those, where Kafka would forget them.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_unclean: bool

    @classmethod
    def of(cls, partition: PartitionRegistration, *, elr_enabled: bool = False) -> PartitionReassignmentRevert:
        """Plan it. Raises KafkaError INVALID_REPLICA_ASSIGNMENT if every replica is an added one."""
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
