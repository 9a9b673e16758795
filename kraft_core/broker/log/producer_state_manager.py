"""What a partition remembers of idempotent producers, so that a retried batch is written once.

For each producer id the last five batches are kept (a client has at most five requests in flight), in memory and, at each new segment and
clean shutdown, in a `%020d.snapshot` file of Kafka's format, which Apache's broker fills with the last batch alone. After a crash the state is rebuilt from the newest snapshot and the batch
headers behind it.

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
    """A producer snapshot that cannot be trusted; an older one and the batches behind it replace it."""


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One remembered batch: sequence and offset of its last record, the count of records less one, its timestamp in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record, across the wrap at 2**31 - 1."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """Offset of the first record; what a duplicate is answered with."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerState:
    """One producer in one partition. `epoch` is -1 until a batch came; `last_timestamp` in ms decides when it is forgotten."""

    producer_id: int
    epoch: int = -1
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, -1 when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager:
    """Producer states of one partition; `snapshot_offset` is up to where (exclusive) they are known from the log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.producers: dict[int, ProducerState] = {}

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        """The remembered batch that this one repeats, if any."""
        state = self.producers.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        for known in state.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: BatchHeader) -> None:
        """Refuse a client's batch that is out of order or from an old epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER. An unknown producer may begin at any sequence: its state
        may have expired or been deleted with its records.
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
        """Remember a batch that is in the log; batches without a producer id and control batches leave no trace here."""
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
        """Forget producers that wrote nothing for `expiration_ms`."""
        gone = [id_ for id_, state in self.producers.items() if now_ms - state.last_timestamp >= expiration_ms]
        for producer_id in gone:
            del self.producers[producer_id]

    def clear(self) -> None:
        """Forget everything; the log was emptied or its state is read anew."""
        self.producers.clear()

    def take_snapshot(self, offset: int) -> Path:
        """Write the state as of `offset` (exclusive) and return the file; one that is there already is replaced. Raises OSError."""
        entries = b"".join(self._entries())
        body = struct.pack(">i", len(entries) // _ENTRY.size) + entries
        path = self._directory / file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)
        prefix = struct.pack(">hI", _SNAPSHOT_VERSION, crc32c.crc32c(body))
        replace_file(path, prefix + body, sync=Sync.NONE)
        return path

    def _entries(self) -> Iterator[bytes]:
        """Yield an entry for each remembered batch, oldest first; Apache's broker keeps the last entry of a producer, its only one there.

        A client may have five batches in flight at a stop and repeat them all.
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
        """Load the newest good snapshot within [log start, log end]; returns its offset, or the log's start when there is none.

        Snapshots behind the log's end describe batches that are gone, and bad ones help nobody: both are deleted.
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
        """(offset, file) of the snapshots on disk, in no order."""
        return [
            (int(path.stem), path)
            for path in self._directory.glob("*" + PRODUCER_SNAPSHOT_SUFFIX)
            if path.stem.isdecimal()
        ]

    def delete_snapshots_before(self, offset: int) -> None:
        """Delete snapshots that no longer help: all below the log's start."""
        for known, path in self.snapshots():
            if known < offset:
                delete_files([path])
