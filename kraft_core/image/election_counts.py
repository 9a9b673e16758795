"""The number of leaders elected from outside the ISR, counted from committed records.

Source: TopicDelta.updateElectionStats and ControllerMetricsChanges, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.image.topics_image import RECOVERING
from kraft_core.protocol.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.wire import Message


class ElectionCounts:
    """Counts since the process started. `unclean`: the leader may lack records; `from_elr`: it was eligible."""

    __slots__ = ("from_elr", "unclean")

    def __init__(self) -> None:
        self.unclean = 0
        self.from_elr = 0

    def add(self, old: MetadataImage, _new: MetadataImage, records: Sequence[Message]) -> None:
        """Count the elections among the records between two images."""
        changed: dict[tuple[UUID, int], tuple[int, ...]] = {}  # the ELRs set by the records read so far
        for record in records:
            if type(record) is PartitionChangeRecord:
                self.unclean += record.leader_recovery_state == RECOVERING
                if record.eligible_leader_replicas is not None:
                    partition = record.topic_id, record.partition_id
                    if record.leader >= 0:  # the leader is removed from the ELR
                        elr = changed[partition] if partition in changed else _elr(old, *partition)
                        self.from_elr += record.leader in elr
                    changed[partition] = record.eligible_leader_replicas


def _elr(image: MetadataImage, topic_id: UUID, index: int) -> tuple[int, ...]:
    partition = image.topics.partition(topic_id, index)
    return () if partition is None else partition.elr
