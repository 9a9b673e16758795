"""One replica of this broker: its registration in the metadata and, while the broker leads it, its log.

Source: Partition, Kafka 4.3.1.
"""

import uuid
from dataclasses import dataclass

from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.image.metadata_image import RECOVERED, PartitionRegistration


@dataclass(slots=True)
class Partition:
    """One replica of ours. `log` is None when we do not lead, while it waits to be opened, or when the disk refused."""

    topic: str
    index: int
    topic_id: uuid.UUID
    registration: PartitionRegistration
    log: UnifiedLog | None
    known_high_watermark: int = 0
    is_refused: bool = False  # that its log could not be opened was said

    def is_sole_candidate(self, broker_id: int) -> bool:
        """Whether no other replica can become leader cleanly: none is in the ISR, and none is eligible outside it (KIP-966).

        Other replicas have no copy of our log in this version, so nothing is acknowledged, and no high watermark rises, while one could lead.
        """
        registration = self.registration
        return registration.isr == (broker_id,) and registration.elr in ((), (broker_id,))

    def has_isr_to_alter(self, broker_id: int) -> bool:
        """Whether the controller must hear of a smaller ISR, or that we recovered after an unclean election."""
        registration = self.registration
        return registration.isr != (broker_id,) or registration.leader_recovery_state != RECOVERED

    def high_watermark(self, broker_id: int) -> int:
        """Offset up to which (exclusive) consumers may read."""
        assert self.log is not None
        if self.is_sole_candidate(broker_id):
            self.known_high_watermark = self.log.log_end_offset
        return max(self.log.log_start_offset, min(self.known_high_watermark, self.log.log_end_offset))
