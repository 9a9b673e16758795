"""The metadata log on disk, read without our storage layer."""

import contextlib
import struct
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from msgspec import structs

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.control_records import ControlRecord, LeaderChangeMessage, VotersRecord, decode_control
from kraft_core.protocol.metadata_records import (
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    decode_record,
)
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.storage.snapshots import snapshot_id_of

HEADER = struct.Struct(">qii")


def raw_batches(folder: Path) -> dict[int, bytes]:
    """Return every whole batch of all segments in a node's folder, by base offset.

    A segment that a running node deletes meanwhile is left out.
    """
    found: dict[int, bytes] = {}
    for segment in sorted((folder / "data" / "__cluster_metadata-0").glob("*.log")):
        data = b""
        with contextlib.suppress(FileNotFoundError):
            data = segment.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            base_offset, length, _ = HEADER.unpack_from(data, position)
            end = position + 12 + length
            if length <= 0 or end > len(data):
                break
            found[base_offset] = data[position:end]
            position = end
    return found


def committed_prefix(logs: list[dict[int, bytes]]) -> int:
    """Return the base offset of the newest batch that all logs share.

    Fails when two logs have different bytes at one base offset below the end of the shortest log, or differ where a
    majority has a batch.
    """
    shortest = min(max(log) for log in logs)
    shared = -1
    for base_offset in sorted(set().union(*logs)):
        if base_offset > shortest:
            break
        held = [log[base_offset] for log in logs if base_offset in log]
        oldest = max(min(log) for log in logs)
        if base_offset < oldest:
            continue
        assert len(held) == len(logs), f"batch {base_offset} is missing in {len(logs) - len(held)} logs"
        assert len(set(held)) == 1, f"batch {base_offset} differs"
        shared = base_offset
    return shared


def partition_folder(folder: Path) -> Path:
    """Return the folder of __cluster_metadata-0 in a node's folder."""
    return folder / "data" / "__cluster_metadata-0"


def snapshots(folder: Path) -> dict[int, Path]:
    """Return the snapshots in a node's folder by end offset, without the one that `format` writes."""
    found = {}
    for path in partition_folder(folder).glob("*.checkpoint"):
        snapshot_id = snapshot_id_of(path.name)
        if snapshot_id is not None and snapshot_id.offset > 0:
            found[snapshot_id.offset] = path
    return dict(sorted(found.items()))


def first_segment(folder: Path) -> int:
    """Return the base offset of the oldest segment."""
    return min(int(path.stem) for path in partition_folder(folder).glob("*.log"))


def snapshot_image(path: Path) -> MetadataImage:
    """Return the image of a snapshot."""
    snapshot_id = snapshot_id_of(path.name)
    assert snapshot_id is not None
    return MetadataLoader().load_snapshot(read_batches(path.read_bytes()), snapshot_id.offset, snapshot_id.epoch)


def snapshot_records(path: Path) -> tuple[list[ControlRecord], list[str]]:
    """Return the records of a snapshot: control records in order, the others in a form that is independent of order."""
    control: list[ControlRecord] = []
    data: list[str] = []
    for batch in read_batches(path.read_bytes()):
        if batch.is_control:
            found = [decode_control(each.key or b"", each.value or b"") for each in batch.records()]
            control += [each for each in found if each is not None]
        else:
            data += [_unordered(decode_record(value)) for value in batch.values()]
    return control, sorted(data)


def image_records_of(image: MetadataImage) -> list[str]:
    """Return the records of an image's snapshot in the form of `snapshot_records`."""
    return sorted(map(_unordered, image_records(image)))


def _unordered(record: MetadataRecord) -> str:
    """Return a record as text, with the features of a registration, a map in Kafka's image, sorted by name."""
    if isinstance(record, (RegisterBrokerRecord, RegisterControllerRecord)):
        record = structs.replace(record, features=tuple(sorted(record.features, key=attrgetter("name"))))
    return repr(record)


def replayed(log: dict[int, bytes], base: MetadataImage | None = None) -> Iterator[MetadataImage]:
    """Return the image after each batch of a log that starts empty or with an image; none inside a transaction."""
    loader = MetadataLoader(base or MetadataImage.EMPTY)
    for batch in _batches(log):
        if batch.base_offset > loader.last_offset:
            image = loader.apply_batch(batch)
            if image is not None:
                yield image


def _batches(log: dict[int, bytes]) -> Iterator[RecordBatch]:
    for base_offset in sorted(log):
        yield from read_batches(log[base_offset])


def leaders(log: dict[int, bytes]) -> dict[int, int]:
    """Return the leader of each epoch, by the LeaderChange records of a log."""
    found = {}
    for batch in _batches(log):
        if batch.is_control:
            for record in batch.records():
                control = decode_control(record.key or b"", record.value or b"")
                if isinstance(control, LeaderChangeMessage):
                    assert batch.leader_epoch not in found, f"two leaders wrote in epoch {batch.leader_epoch}"
                    found[batch.leader_epoch] = control.leader_id
    return found


def registrations(log: dict[int, bytes]) -> Counter[int]:
    """Return how often each controller has registered."""
    return Counter(
        record.controller_id
        for batch in _batches(log)
        if not batch.is_control
        for record in map(decode_record, batch.values())
        if isinstance(record, RegisterControllerRecord)
    )


def voter_sets(log: dict[int, bytes]) -> dict[int, dict[int, str]]:
    """Return every voter set of a log by offset, as directory ids by voter id."""
    return {
        record.offset: {voter.voter_id: uuid_to_text(voter.voter_directory_id) for voter in control.voters}
        for batch in _batches(log)
        if batch.is_control
        for record in batch.records()
        if isinstance(control := decode_control(record.key or b"", record.value or b""), VotersRecord)
    }
