"""Write the metadata image at one offset as a snapshot folder of Parquet files, the only input of the report job.

A snapshot folder is written once and never changed:

- `brokers.parquet`: broker_idx int32 (dense, in order of id), broker_id int32, rack string?, state string (ACTIVE,
  SHUTTING_DOWN, FENCED, UNREGISTERED: seen in an assignment only), eligible bool (may take replicas), free_bytes int64?
  (what new replicas may take, null if unknown)
- `topics.parquet`: topic_idx int32 (dense, in order of name), topic_id string, name string, min_isr_config int32,
  unclean bool (both effective: topic, then cluster default, then Kafka's default)
- `partitions-NNNNN.parquet`, sorted by (topic_idx, partition), files cut between topics: topic_idx, partition int32;
  replicas, isr, elr, adding, removing, offline_replicas list<int32> of broker_idx; leader int32 (broker_idx or -1),
  leader_epoch, partition_epoch int32; size_bytes int64? (of one replica, null if unknown)
- `manifest.json`: written last, so that a folder without it is no snapshot; cluster id, offset, epoch, counts and the
  SHA-256 of each file

Broker configs in the brokers' own files are not in the metadata log, so a static `min.insync.replicas` is not seen
here.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.forked import run_all_forked
from app.reports.image_columns import ImageColumns
from app.reports.image_tables import broker_indexes, broker_table, topic_table
from app.reports.sizes import directory_space
from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.image.trie_items import values_of
from kraft_core.storage.files import replace_file

if TYPE_CHECKING:
    from app.cluster.log_dirs import LogDirs

SCHEMA_VERSION = 1
FILE_ROWS = 250_000
"""A new partitions file starts at the first topic after this many rows."""
FILES_FORKED = 2
"""The files that a forked process writes. Reading an image's objects copies their memory until the process ends."""

BROKERS = pa.schema(
    [
        ("broker_idx", pa.int32()),
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        ("state", pa.string()),
        ("eligible", pa.bool_()),
        ("free_bytes", pa.int64()),
    ]
)
TOPICS = pa.schema(
    [
        ("topic_idx", pa.int32()),
        ("topic_id", pa.string()),
        ("name", pa.string()),
        ("min_isr_config", pa.int32()),
        ("unclean", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished snapshot folder, with the image's data from its manifest."""

    folder: Path
    cluster_id: str
    offset: int
    epoch: int
    topics: int
    partitions: int
    brokers: int


def export_image(
    image: MetadataImage,
    cluster_id: str,
    folder: Path,
    log_dirs: "Mapping[int, LogDirs] | None" = None,
    *,
    topic_prefix: str = "",
    processes: int = 1,
) -> Snapshot:
    """Write `image` into `folder`, which must not exist, and return the snapshot.

    Only topics whose names start with `topic_prefix` are written. `log_dirs` has the answers of brokers about their
    log directories, by broker id. With more than one of `processes`, files are written by forked processes, so many at
    a time; the caller must then be a process that may fork (see `app.reports.forked`). The image is immutable, so the
    caller may continue with newer ones. Raises FileExistsError if the folder exists, OSError if the disk is full.
    """
    space = directory_space(image, log_dirs or {})
    folder.mkdir(parents=True)
    chosen = (topic for topic in values_of(image.topics.by_id) if topic.name.startswith(topic_prefix))
    topics = sorted(chosen, key=lambda topic: topic.name)
    index_of = broker_indexes(image, topics)
    columns = ImageColumns(image, index_of, log_dirs or {})
    files = _partition_files(topics)
    write = partial(_write_partitions, columns, folder)
    if processes > 1 and len(files) > 1:
        starts = range(0, len(files), FILES_FORKED)
        run_all_forked([partial(write, files[start : start + FILES_FORKED], start) for start in starts], processes)
    else:
        write(files, 0)
    _write(folder / "brokers.parquet", broker_table(image, index_of, space), BROKERS)
    _write(folder / "topics.parquet", topic_table(image, topics), TOPICS)
    partitions = sum(len(topic.partitions) for topic in topics)
    snapshot = Snapshot(folder, cluster_id, image.offset, image.epoch, len(topics), partitions, len(index_of))
    _write_manifest(snapshot, image, topic_prefix)
    return snapshot


def _partition_files(topics: Sequence[TopicImage]) -> list[list[tuple[int, TopicImage]]]:
    """Return the topics of each file with their indexes; one file without topics if there are none."""
    files: list[list[tuple[int, TopicImage]]] = [[]]
    rows = 0
    for each in enumerate(topics):
        if rows >= FILE_ROWS:
            files.append([])
            rows = 0
        files[-1].append(each)
        rows += len(each[1].partitions)
    return files


def _write_partitions(
    columns: ImageColumns, folder: Path, files: Sequence[Sequence[tuple[int, TopicImage]]], first: int
) -> None:
    """Write files of partitions, the first with this number."""
    for number, topics in enumerate(files, first):
        pq.write_table(columns.table(topics), folder / f"partitions-{number:05d}.parquet", compression="zstd")


def _write(path: Path, rows: Mapping[str, list[Any]], schema: pa.Schema) -> None:
    pq.write_table(pa.table(rows, schema=schema), path, compression="zstd")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(snapshot: Snapshot, image: MetadataImage, topic_prefix: str) -> None:
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": snapshot.cluster_id,
        "offset": snapshot.offset,
        "epoch": snapshot.epoch,
        "metadata_version": image.features.metadata_version,
        "elr": image.features.elr_enabled,
        "topic_prefix": topic_prefix,
        "topics": snapshot.topics,
        "partitions": snapshot.partitions,
        "brokers": snapshot.brokers,
        "sha256": {path.name: _sha256(path) for path in sorted(snapshot.folder.glob("*.parquet"))},
    }
    replace_file(snapshot.folder / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
