"""Loading a partition of __consumer_offsets into the group coordinator.

Source: CoordinatorLoaderImpl, Kafka 4.3.1.
"""

from collections.abc import Callable
from typing import Final

from kraft_core.broker.coordinator.group_coordinator import GroupCoordinator
from kraft_core.broker.coordinator.group_coordinator_config import KeyAndValue
from kraft_core.broker.coordinator.group_records import GroupRecord
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.slices import Work
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch

_BYTES_A_READ: Final = 1024 * 1024
_RECORDS_A_STEP: Final = 64


class CoordinatorLoader:
    """Loads one partition while `is_leader` returns True.

    `skipped` counts the batches and records that cannot be read; `first_cause` is the reason for the first one.
    """

    def __init__(self, groups: GroupCoordinator, is_leader: Callable[[], bool], clock_ms: Callable[[], int]) -> None:
        self.skipped = 0
        self.first_cause = ""
        self._groups = groups
        self._is_leader = is_leader
        self._clock_ms = clock_ms
        self._records: dict[str, GroupRecord] = {}

    def load(self, partition_log: UnifiedLog) -> Work[int | None]:
        """Replay the batches of the log and restore its groups.

        Return the number of groups, None if this broker stopped being the leader meanwhile. Raises OSError.
        """
        offset = partition_log.log_start_offset
        while batches := partition_log.some_batches(offset, _BYTES_A_READ):
            offset = batches[-1].last_offset + 1
            for batch in batches:
                try:
                    yield batch.decoder_bytes
                    yield from self._replay_batch(batch)
                except KafkaError as error:
                    self._skip(f"batch at offset {batch.base_offset}: {error}")
                if not self._is_leader():
                    return None
        yield from self._groups.loaded(self._records, self._clock_ms())
        return len(self._records) if self._is_leader() else None

    def _replay_batch(self, batch: RecordBatch) -> Work[None]:
        if batch.is_control:
            return
        some: list[KeyAndValue] = []
        for record in batch.paced_records():
            if record is not None:
                some.append((record.key or b"", record.value))
            if record is None or len(some) == _RECORDS_A_STEP:
                self._replay(batch, some)
                some.clear()
                yield 0
        self._replay(batch, some)

    def _replay(self, batch: RecordBatch, records: list[KeyAndValue]) -> None:
        for cause in self._groups.replay(records, self._records):
            self._skip(f"record of the batch at offset {batch.base_offset}: {cause}")

    def _skip(self, cause: str) -> None:
        self.skipped += 1
        self.first_cause = self.first_cause or cause
