"""How many leaders were elected from outside the ISR, counted from committed records.

Source: TopicDelta.updateElectionStats and ControllerMetricsChanges, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.image.topics_image import RECOVERING
from kraft_core.protocol.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.wire import Message


class ElectionCounts:
    """Counts since the start of the process. `unclean`: the leader may lack records; `from_elr`: it was eligible."""

    __slots__ = ("from_elr", "unclean")

    def __init__(self) -> None:
        self.unclean = 0
        self.from_elr = 0

    def add(self, old: MetadataImage, _new: MetadataImage, records: Sequence[Message]) -> None:
        """Count the elections among the records that led from one image to the next."""
        for record in records:
            if type(record) is PartitionChangeRecord:
                self.unclean += record.leader_recovery_state == RECOVERING
                if record.leader >= 0 and record.eligible_leader_replicas is not None:  # a leader leaves the ELR
                    topic = old.topics.by_id.get(record.topic_id)
                    before = None if topic is None else topic.partitions.get(record.partition_id)
                    self.from_elr += before is not None and record.leader in (before.elr or ())
