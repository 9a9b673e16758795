"""One replica of this broker: its registration in the metadata and, while the broker leads it, its log.

Source: Partition, Kafka 4.3.1.
"""

import uuid
from dataclasses import dataclass

from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.image.metadata_image import RECOVERED, PartitionRegistration


@dataclass(slots=True)
class Partition:
    """A partition with a replica on this broker.

    `log` is None unless this broker leads the partition, while the log waits to be opened, and after a disk error.
    """

    topic: str
    index: int
    topic_id: uuid.UUID
    registration: PartitionRegistration
    log: UnifiedLog | None
    known_high_watermark: int = 0
    is_failure_logged: bool = False  # whether the log has been reported as not opened

    def is_sole_candidate(self, broker_id: int) -> bool:
        """Return whether no other replica can become leader cleanly: no other one is in the ISR or the ELR (KIP-966).

        Other replicas have no copy of the log in this version. Until this holds, no write is acknowledged and the high
        watermark does not advance.
        """
        registration = self.registration
        return registration.isr == (broker_id,) and registration.elr in ((), (broker_id,))

    def has_isr_to_alter(self, broker_id: int) -> bool:
        """Return whether the controller must shrink the ISR or record the recovery after an unclean election."""
        registration = self.registration
        return registration.isr != (broker_id,) or registration.leader_recovery_state != RECOVERED

    def high_watermark(self, broker_id: int) -> int:
        """Return the offset up to which (exclusive) consumers may read."""
        assert self.log is not None
        if self.is_sole_candidate(broker_id):
            self.known_high_watermark = self.log.log_end_offset
        return max(self.log.log_start_offset, min(self.known_high_watermark, self.log.log_end_offset))
