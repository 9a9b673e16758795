"""Reads a metadata snapshot file of a controller (`<end offset>-<epoch>.checkpoint`), of Conclave or of Apache Kafka.

So a report needs neither a web process nor a running cluster: a copy of one file is enough. The whole metadata is held
in memory, about 1.5 GB per million partitions; `app.reports.checkpoint_export` is for large files.

Source: KIP-630; Snapshots, RecordsSnapshotReader, Kafka 4.3.1.
"""

from pathlib import Path
from typing import Final

from app.reports.checkpoint_outline import Outline, read_outline
from app.reports.export import Snapshot, export_image
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.dump_log import file_batches
from kraft_core.storage.files import StorageError
from kraft_core.storage.meta_properties import read_meta_properties
from kraft_core.storage.snapshots import snapshot_id_of

UNKNOWN_CLUSTER: Final = "unknown"
"""The cluster id of a checkpoint without a `meta.properties` near it."""


def outline_of(path: Path) -> Outline:
    """Return what a checkpoint contains beside its partitions, in little memory. Raises as `read_checkpoint`."""
    snapshot_id = _id_of(path)
    try:
        return read_outline(path, snapshot_id.offset, snapshot_id.epoch)
    except (CorruptBatch, ReplayError) as bad:
        raise StorageError(f"{path}: {bad}") from bad


def _id_of(path: Path) -> OffsetAndEpoch:
    snapshot_id = snapshot_id_of(path.name)
    if snapshot_id is None:
        raise StorageError(
            f"{path} does not have the name of a metadata snapshot: "
            "<end offset, 20 digits>-<epoch, 10 digits>.checkpoint"
        )
    return snapshot_id


def read_checkpoint(path: Path) -> MetadataImage:
    """Return the image of a checkpoint, at the last offset it contains.

    The file's name must be Kafka's, since only the name says the offset and the epoch. Raises StorageError for another
    name, an unreadable or damaged file, and one that was cut short.
    """
    snapshot_id = _id_of(path)
    batches = (batch for _, batch in file_batches(path))
    try:
        return MetadataLoader().load_snapshot(batches, snapshot_id.offset, snapshot_id.epoch)
    except (CorruptBatch, ReplayError) as bad:
        raise StorageError(f"{path}: {bad}") from bad


def cluster_id_of(path: Path) -> str:
    """Return the cluster id from the `meta.properties` of a checkpoint's log directory, or beside the checkpoint.

    A checkpoint does not contain it. Returns UNKNOWN_CLUSTER for a lone copy.
    """
    here = path.absolute().parent
    for folder in (here, here.parent):
        try:
            found = read_meta_properties(folder)
        except StorageError:
            continue
        if found is not None:
            return found.cluster_id
    return UNKNOWN_CLUSTER


def export_checkpoint(path: Path, folder: Path) -> Snapshot:
    """Write the metadata of a checkpoint into the snapshot folder `folder`, the input of the report job.

    Raises StorageError as `read_checkpoint`, FileExistsError if the folder exists, OSError if the disk is full.
    """
    return export_image(read_checkpoint(path), cluster_id_of(path), folder)
