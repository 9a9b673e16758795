"""The state of idempotent producers in a partition, so that a retried batch is written once.

The last five batches of each producer id are kept: a client has at most five requests in flight. The state is in memory
and, at each new segment and clean shutdown, in a `%020d.snapshot` file of Kafka's format, where Apache's broker writes
only the last batch. After a crash the state is rebuilt from the newest snapshot and the batch headers after it.

Source: KIP-98; ProducerStateManager and ProducerAppendInfo, Kafka 4.3.1.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import crc32c

from kraft_core.broker.log.log_file_utils import PRODUCER_SNAPSHOT_SUFFIX, delete_files, file_name
from kraft_core.protocol.batch_header import MAX_SEQUENCE, BatchHeader
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.storage.files import Sync, replace_file

BATCHES_TO_RETAIN: Final = 5
_SNAPSHOT_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptProducerSnapshotError(Exception):
    """An invalid producer snapshot. An older one and the batches after it replace it."""


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One batch: sequence and offset of its last record, number of records less one, timestamp in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record, with wrap-around at 2**31 - 1."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """The offset of the first record, which answers a duplicate."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerState:
    """One producer in one partition.

    `epoch` is -1 until a batch came. The state expires by `last_timestamp`, in ms.
    """

    producer_id: int
    epoch: int = -1
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of the newest record, -1 when no batch is kept."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager:
    """The producer states of one partition."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.producers: dict[int, ProducerState] = {}

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        """Return the kept batch that this one repeats, None if there is none."""
        state = self.producers.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        for known in state.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: BatchHeader) -> None:
        """Check that a client's batch is in order and not of an old epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER. An unknown producer may begin at any
        sequence: its state may have expired or been deleted with its records.
        """
        state = self.producers.get(batch.producer_id)
        if state is None or state.epoch < 0:
            return
        if batch.producer_epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {batch.producer_epoch} of producer {batch.producer_id} is older than {state.epoch}.",
            )
        expected = 0 if batch.producer_epoch > state.epoch else (state.last_sequence + 1) & MAX_SEQUENCE
        if batch.base_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} sent sequence {batch.base_sequence}, expected was {expected}.",
            )

    def update(self, batch: BatchHeader) -> None:
        """Apply a batch that is in the log. Batches without a producer id and control batches change nothing."""
        if not batch.has_producer_id or batch.is_control:
            return
        state = self.producers.get(batch.producer_id)
        if state is None:
            state = self.producers[batch.producer_id] = ProducerState(batch.producer_id)
        if batch.producer_epoch != state.epoch:
            state.epoch = batch.producer_epoch
            state.batches.clear()
        state.batches.append(
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        state.last_timestamp = batch.max_timestamp

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that have written nothing for `expiration_ms`."""
        gone = [id_ for id_, state in self.producers.items() if now_ms - state.last_timestamp >= expiration_ms]
        for producer_id in gone:
            del self.producers[producer_id]

    def clear(self) -> None:
        """Remove all producers, before the state is read again."""
        self.producers.clear()

    def take_snapshot(self, offset: int) -> Path:
        """Write the state at `offset` (exclusive) and return the file, replacing an existing one. Raises OSError."""
        entries = b"".join(self._entries())
        body = struct.pack(">i", len(entries) // _ENTRY.size) + entries
        path = self._directory / file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)
        prefix = struct.pack(">hI", _SNAPSHOT_VERSION, crc32c.crc32c(body))
        replace_file(path, prefix + body, sync=Sync.NONE)
        return path

    def _entries(self) -> Iterator[bytes]:
        """Yield an entry for each kept batch, oldest first. Apache's broker uses only the last entry of a producer.

        A client may have five batches in flight when the broker stops, and repeat them all.
        """
        for state in self.producers.values():
            for batch in state.batches or [BatchMetadata(-1, -1, 0, state.last_timestamp)]:
                yield _ENTRY.pack(
                    state.producer_id,
                    state.epoch,
                    batch.last_sequence,
                    batch.last_offset,
                    batch.offset_delta,
                    batch.timestamp,
                    state.coordinator_epoch,
                    state.current_txn_first_offset,
                )

    def load_newest_snapshot(self, log_start_offset: int, log_end_offset: int) -> int:
        """Load the newest valid snapshot between log start and log end. Return its offset, the log start without one.

        Snapshots after the log's end describe batches that are lost; they are deleted, and so are invalid ones.
        """
        self.clear()
        for offset, path in sorted(self.snapshots(), reverse=True):
            if offset > log_end_offset:
                delete_files([path])
                continue
            if offset < log_start_offset:
                break
            try:
                self._load(path)
            except CorruptProducerSnapshotError:
                self.clear()
                delete_files([path])
                continue
            return offset
        return log_start_offset

    def _load(self, path: Path) -> None:
        data = path.read_bytes()
        if len(data) < _PREFIX.size:
            raise CorruptProducerSnapshotError(f"{path.name} has only {len(data)} bytes")
        version, crc, count = _PREFIX.unpack_from(data)
        if version != _SNAPSHOT_VERSION or crc != crc32c.crc32c(data[6:]):
            raise CorruptProducerSnapshotError(f"{path.name} has version {version} or a wrong checksum")
        if count < 0 or _PREFIX.size + count * _ENTRY.size != len(data):
            raise CorruptProducerSnapshotError(f"{path.name} announces {count} entries in {len(data)} bytes")
        for index in range(count):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_offset = _ENTRY.unpack_from(
                data, _PREFIX.size + index * _ENTRY.size
            )
            known = self.producers.get(producer_id)
            batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)
            if known is not None and known.epoch == epoch:
                batches = known.batches
            if offset >= 0:
                batches.append(BatchMetadata(sequence, offset, delta, timestamp))
            self.producers[producer_id] = ProducerState(
                producer_id, epoch, batches, timestamp, coordinator_epoch, txn_offset
            )

    def snapshots(self) -> list[tuple[int, Path]]:
        """Return (offset, file) of the snapshots on disk, in no order."""
        return [
            (int(path.stem), path)
            for path in self._directory.glob("*" + PRODUCER_SNAPSHOT_SUFFIX)
            if path.stem.isdecimal()
        ]

    def delete_snapshots_before(self, offset: int) -> None:
        """Delete the snapshots before the log start."""
        for known, path in self.snapshots():
            if known < offset:
                delete_files([path])
