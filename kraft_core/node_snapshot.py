"""The bytes of a metadata snapshot: an image written as record batches, and read back in pieces.

Header first, then for kraft.version 1 the version and the voters as of the snapshot's offset, then the image's records
in batches of at most 1,024, then the footer alone. Offsets simply go on from 0; every batch carries the snapshot's epoch.
Equal images give equal bytes. Source: RecordsSnapshotWriter and RecordsSnapshotReader, KIP-630.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control_batch,
)
from kraft_core.protocol.metadata_records import encode_record
from kraft_core.protocol.metadata_version import MINIMUM_METADATA_VERSION, record_version
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.voter_set import VoterSet

RECORDS_PER_BATCH: Final = 1024
CHUNK_BYTES: Final = 1024 * 1024


def snapshot_batches(
    snapshot_id: OffsetAndEpoch, image: MetadataImage, timestamp_ms: int, kraft_version: int, voters: VoterSet
) -> Iterator[bytes]:
    """Yield the raw batches of a snapshot; `timestamp_ms` is that of the last record it contains."""
    epoch = snapshot_id.epoch
    header: list[ControlRecord] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
    if kraft_version > 0:
        header += [KRaftVersionRecord(kraft_version=kraft_version), voters.to_record()]
    yield encode_control_batch(0, epoch, timestamp_ms, header)
    offset = len(header)
    metadata_version = image.features.metadata_version or MINIMUM_METADATA_VERSION
    records = image_records(image)
    while values := [
        encode_record(record, record_version(type(record), metadata_version))
        for record in islice(records, RECORDS_PER_BATCH)
    ]:
        yield encode_batch(offset, epoch, timestamp_ms, values)
        offset += len(values)
    yield encode_control_batch(offset, epoch, timestamp_ms, [SnapshotFooterRecord()])


def read_snapshot_batches(log: RaftLog, snapshot_id: OffsetAndEpoch) -> Iterator[RecordBatch]:
    """Yield the batches of a snapshot, holding no more than a piece of it at a time.

    Raises CorruptBatch for damaged bytes, AssertionError when there is no such snapshot.
    """
    rest = b""
    for chunk in _chunks(lambda position: log.read_snapshot(snapshot_id, position, CHUNK_BYTES)):
        data = rest + chunk
        consumed = 0
        for batch in read_batches(data):
            yield batch
            consumed += batch.size
        rest = data[consumed:]


def _chunks(read: Callable[[int], tuple[bytes, int] | None]) -> Iterator[bytes]:
    position = 0
    while True:
        found = read(position)
        assert found is not None, "the snapshot vanished while it was read"
        data, size = found
        assert data or position >= size, f"the snapshot ends at byte {position} of {size}"
        yield data
        position += len(data)
        if position >= size:
            return
