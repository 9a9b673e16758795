"""Logs for the tests of storage: filled, damaged, read back."""

from pathlib import Path

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch, snapshot_bytes

SMALL = LogConfig(segment_bytes=400, cache_bytes=200)


def directory_of(root: Path) -> Path:
    return root / "__cluster_metadata-0"


def filled(root: Path, count: int = 12, config: LogConfig | None = None) -> list[bytes]:
    """A log of `count` one-record batches in epoch 1, flushed and closed -> the batches."""
    log = KafkaRaftLog.open(root, config)
    batches = [batch(offset, values=(b"record %d" % offset,)) for offset in range(count)]
    for raw in batches:
        log.append(raw)
    assert log.flush() == count
    log.close()
    return batches


def contents(log: KafkaRaftLog) -> bytes:
    """Everything from the start offset on, read one batch at a time."""
    found, offset = b"", log.start_offset
    while data := log.read(offset, 1):
        found += data
        offset = int.from_bytes(data[:8]) + int.from_bytes(data[23:27]) + 1
    return found


def with_snapshot(log: KafkaRaftLog, offset: int, epoch: int = 1, *, timestamp: int = 1_000) -> OffsetAndEpoch:
    sink = log.begin_snapshot(OffsetAndEpoch(offset, epoch))
    sink.append(snapshot_bytes(epoch, timestamp=timestamp))
    sink.freeze()
    return sink.id


def damage(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
