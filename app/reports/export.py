"""Write the metadata image at one offset as a snapshot folder of Parquet files, the only input of the report job.

A snapshot folder is written once and never changed:

- `brokers.parquet`: broker_idx int32 (dense, in order of id), broker_id int32, rack string?, state string (ACTIVE,
  SHUTTING_DOWN, FENCED, UNREGISTERED: seen in an assignment only), eligible bool (may take replicas)
- `topics.parquet`: topic_idx int32 (dense, in order of name), topic_id string, name string, min_isr_config int32,
  unclean bool (both effective: topic, then cluster default, then Kafka's default)
- `partitions-NNNNN.parquet`, sorted by (topic_idx, partition), files cut between topics: topic_idx, partition int32;
  replicas, isr, elr, adding, removing, offline_replicas list<int32> of broker_idx; leader int32 (broker_idx or -1),
  leader_epoch, partition_epoch int32; size_bytes int64? (null where the brokers were not asked)
- `manifest.json`: written last, so that a folder without it is no snapshot; cluster id, offset, epoch, counts and the
  SHA-256 of each file

Broker configs in the brokers' own files are not in the metadata log, so a static `min.insync.replicas` is not seen
here.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.broker_state import ACTIVE, broker_state
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, TopicImage
from kraft_core.image.trie_items import values_of
from kraft_core.storage.files import replace_file

SCHEMA_VERSION = 1
FILE_ROWS = 250_000
"""A new partitions file starts at the first topic after this many rows."""

IDS = pa.list_(pa.int32())
PARTITIONS = pa.schema(
    [
        ("topic_idx", pa.int32()),
        ("partition", pa.int32()),
        ("replicas", IDS),
        ("isr", IDS),
        ("elr", IDS),
        ("adding", IDS),
        ("removing", IDS),
        ("offline_replicas", IDS),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("size_bytes", pa.int64()),
    ]
)
BROKERS = pa.schema(
    [
        ("broker_idx", pa.int32()),
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        ("state", pa.string()),
        ("eligible", pa.bool_()),
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
    image: MetadataImage, cluster_id: str, folder: Path, sizes: Mapping[tuple[UUID, int], int] | None = None
) -> Snapshot:
    """Write `image` into `folder`, which must not exist, and return the snapshot.

    `sizes` has known sizes in bytes by (topic id, partition). Takes about 5 s per million partitions and yields to
    other threads between files. The image is immutable, so the caller may continue with newer ones. Raises
    FileExistsError if the folder exists, OSError if the disk is full.
    """
    folder.mkdir(parents=True)
    topics = sorted(values_of(image.topics.by_id), key=lambda topic: topic.name)
    index_of = _broker_indexes(image, topics)
    hashes = {
        "brokers.parquet": _write(folder / "brokers.parquet", _broker_rows(image, index_of), BROKERS),
        "topics.parquet": _write(folder / "topics.parquet", _topic_rows(image, topics), TOPICS),
    }
    partitions = 0
    for number, rows in enumerate(_partition_files(image, topics, index_of, sizes or {})):
        name = f"partitions-{number:05d}.parquet"
        hashes[name] = _write(folder / name, rows, PARTITIONS)
        partitions += len(rows["partition"])
        time.sleep(0)
    snapshot = Snapshot(folder, cluster_id, image.offset, image.epoch, len(topics), partitions, len(index_of))
    _write_manifest(snapshot, image, hashes)
    return snapshot


def _broker_indexes(image: MetadataImage, topics: list[TopicImage]) -> dict[int, int]:
    seen = set(image.cluster.brokers)
    assignments = {partition.replicas for topic in topics for partition in values_of(topic.partitions)}
    seen.update(broker for replicas in assignments for broker in replicas)
    return {broker: index for index, broker in enumerate(sorted(seen))}


def _broker_rows(image: MetadataImage, index_of: Mapping[int, int]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {name: [] for name in BROKERS.names}
    for broker_id, index in index_of.items():
        broker = image.cluster.brokers.get(broker_id)
        state = broker_state(broker)
        rows["broker_idx"].append(index)
        rows["broker_id"].append(broker_id)
        rows["rack"].append((broker.rack or None) if broker else None)
        rows["state"].append(state)
        rows["eligible"].append(broker is not None and state == ACTIVE and broker.has_uncordoned_dirs())
    return rows


def _topic_rows(image: MetadataImage, topics: list[TopicImage]) -> dict[str, list[Any]]:
    defaults = image.configs.of(BROKER, "")
    rows: dict[str, list[Any]] = {name: [] for name in TOPICS.names}
    for index, topic in enumerate(topics):
        own = image.configs.of(TOPIC, topic.name)

        def effective(key: str, otherwise: str, own: Mapping[str, str] = own) -> str:
            return own.get(key) or defaults.get(key) or otherwise

        rows["topic_idx"].append(index)
        rows["topic_id"].append(str(topic.id))
        rows["name"].append(topic.name)
        rows["min_isr_config"].append(int(effective("min.insync.replicas", "1")))
        rows["unclean"].append(effective("unclean.leader.election.enable", "false") == "true")
    return rows


def _partition_files(
    image: MetadataImage,
    topics: list[TopicImage],
    index_of: Mapping[int, int],
    sizes: Mapping[tuple[UUID, int], int],
) -> Iterator[dict[str, list[Any]]]:
    brokers = image.cluster.brokers
    rows: dict[str, list[Any]] = {name: [] for name in PARTITIONS.names}
    translated: dict[tuple[int, ...], list[int]] = {(): []}
    offline_in: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def indexes(ids: tuple[int, ...]) -> list[int]:
        found = translated.get(ids)
        if found is None:
            found = translated[ids] = [index_of[broker] for broker in ids if broker in index_of]
        return found

    for topic_index, topic in enumerate(topics):
        if len(rows["partition"]) >= FILE_ROWS:
            yield rows
            rows = {name: [] for name in PARTITIONS.names}
        for number, partition in topic.sorted_partitions():
            key = (
                partition.replicas,
                id(partition.directories),
            )  # the image keeps these objects alive; hashing the directory ids would be slow
            offline = offline_in.get(key)
            if offline is None:
                away = _offline_replicas(brokers, partition.replicas, partition.directories)
                offline = offline_in[key] = indexes(away)
            rows["topic_idx"].append(topic_index)
            rows["partition"].append(number)
            rows["replicas"].append(indexes(partition.replicas))
            rows["isr"].append(indexes(partition.isr))
            rows["elr"].append(indexes(partition.elr))
            rows["adding"].append(indexes(partition.adding_replicas))
            rows["removing"].append(indexes(partition.removing_replicas))
            rows["offline_replicas"].append(offline)
            rows["leader"].append(index_of.get(partition.leader, -1))
            rows["leader_epoch"].append(partition.leader_epoch)
            rows["partition_epoch"].append(partition.partition_epoch)
            rows["size_bytes"].append(sizes.get((topic.id, number)) if sizes else None)
    yield rows


def _offline_replicas(
    brokers: Mapping[int, BrokerRegistration], replicas: tuple[int, ...], directories: tuple[UUID, ...]
) -> tuple[int, ...]:
    """Return the replicas on a broker that is not active, or in a directory that is offline or no longer registered."""
    offline = []
    for position, broker_id in enumerate(replicas):
        broker = brokers.get(broker_id)
        placed = directories[position] if position < len(directories) else None
        if broker is None or not broker.active or (placed is not None and not broker.has_online_dir(placed)):
            offline.append(broker_id)
    return tuple(offline)


def _write(path: Path, rows: dict[str, list[Any]], schema: pa.Schema) -> str:
    pq.write_table(pa.table(rows, schema=schema), path, compression="zstd")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(snapshot: Snapshot, image: MetadataImage, hashes: Mapping[str, str]) -> None:
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": snapshot.cluster_id,
        "offset": snapshot.offset,
        "epoch": snapshot.epoch,
        "metadata_version": image.features.metadata_version,
        "elr": image.features.elr_enabled,
        "topics": snapshot.topics,
        "partitions": snapshot.partitions,
        "brokers": snapshot.brokers,
        "sha256": dict(sorted(hashes.items())),
    }
    replace_file(snapshot.folder / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
