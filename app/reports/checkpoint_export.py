"""Writes the snapshot folder of a large checkpoint with Spark, a part of the file at a time.

The plain way (`app.reports.checkpoint`) holds all partitions as Python objects. This one holds the rows of a few parts,
and decodes on all cores; it needs Spark's session, so small checkpoints are faster the plain way.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.checkpoint_outline import Outline
from app.reports.export import BROKERS, FILE_ROWS, SCHEMA_VERSION, TOPICS
from app.reports.image_tables import broker_table, topic_table
from kraft_core.image.trie_items import values_of
from kraft_core.storage.files import replace_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTLINE: Final = "outline.pickle"
TOPIC_FILES: Final = "topic-files.arrow"
_ORDER: Final = ("bucket", "topic_idx", "partition")


def begin_export(outline: Outline, cluster_id: str, folder: Path) -> None:
    """Write the tables of brokers and topics, and what `finish_export` needs, into a new folder. Raises OSError."""
    folder.mkdir(parents=True)
    image = outline.image
    topics = sorted(values_of(image.topics.by_id), key=lambda topic: topic.name)
    index_of = {broker: index for index, broker in enumerate(sorted(outline.brokers))}
    pq.write_table(
        pa.table(broker_table(image, index_of), schema=BROKERS), folder / "brokers.parquet", compression="zstd"
    )
    pq.write_table(pa.table(topic_table(image, topics), schema=TOPICS), folder / "topics.parquet", compression="zstd")
    buckets, bucket, rows = [], 0, 0
    for topic in topics:
        if rows >= FILE_ROWS:
            bucket, rows = bucket + 1, 0
        rows += outline.partitions.get(topic.id, 0)
        buckets.append(bucket)
    columns = {
        "topic_id": pa.array([topic.id.bytes for topic in topics], pa.binary()),
        "topic_idx": pa.array(range(len(topics)), pa.int32()),
        "bucket": pa.array(buckets, pa.int32()),
    }
    pq.write_table(pa.table(columns), folder / TOPIC_FILES)
    outline.save(folder / OUTLINE)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": cluster_id,
        "offset": image.offset,
        "epoch": image.epoch,
        "metadata_version": image.features.metadata_version,
        "elr": image.features.elr_enabled,
        "topic_prefix": "",
        "topics": len(topics),
        "partitions": sum(outline.partitions.values()),
        "brokers": len(index_of),
    }
    (folder / "manifest.part").write_text(json.dumps(manifest))


def finish_export(spark: "SparkSession", checkpoint: Path, folder: Path) -> None:
    """Write the partitions of the checkpoint and then the manifest. Raises Spark's exceptions and OSError."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    from app.reports.checkpoint_source import FORMAT, CheckpointSource

    spark.dataSource.register(CheckpointSource)
    topics = spark.createDataFrame(pq.read_table(folder / TOPIC_FILES))
    files = folder / "partitions"
    outline = str((folder / OUTLINE).absolute())
    rows = spark.read.format(FORMAT).option("outline", outline).load(str(checkpoint.absolute()))
    (
        rows.join(F.broadcast(topics), on="topic_id")
        .withColumn("size_bytes", F.lit(None).cast("bigint"))
        .drop("topic_id")
        .repartition("bucket")
        .sortWithinPartitions(*_ORDER)
        .write.partitionBy("bucket")
        .option("compression", "zstd")
        .parquet(files.absolute().as_uri())
    )
    for path in files.glob("bucket=*/*.parquet"):
        path.rename(folder / f"partitions-{int(path.parent.name.partition('=')[2]):05d}.parquet")
    shutil.rmtree(files)
    for name in (OUTLINE, TOPIC_FILES):
        (folder / name).unlink()
    _write_manifest(folder)


def _write_manifest(folder: Path) -> None:
    part = folder / "manifest.part"
    manifest: Mapping[str, object] = json.loads(part.read_text())
    hashes = {}
    for path in sorted(folder.glob("*.parquet")):
        with path.open("rb") as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    text = json.dumps({**manifest, "sha256": hashes}, indent=1) + "\n"
    replace_file(folder / "manifest.json", text.encode())
    part.unlink()
