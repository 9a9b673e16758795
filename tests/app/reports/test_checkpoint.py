"""Reports of a metadata snapshot file, here one that an Apache Kafka controller wrote."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from app.cli import reports_offline
from app.cli.reports_offline import make_report, report_checkpoint
from app.reports import checkpoint_export, checkpoint_source
from app.reports.checkpoint import cluster_id_of, export_checkpoint, outline_of, read_checkpoint
from app.reports.checkpoint_export import begin_export, finish_export
from app.reports.checkpoint_source import CheckpointSource
from app.reports.job import read_manifest
from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.trie_items import values_of
from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, encode_control_batch
from kraft_core.protocol.metadata_records import encode_record
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.storage.files import StorageError
from tests.app.cli.test_commands import refused
from tests.app.reports.clusters import large_random_image

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parents[2] / "golden" / "metadata"
CHECKPOINT = GOLDEN / "00000000000000000058-0000000001.checkpoint"
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def partitions(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("partitions-*.parquet"))


def test_a_snapshot_folder_is_made_from_apaches_checkpoint(tmp_path: Path) -> None:
    snapshot = export_checkpoint(CHECKPOINT, tmp_path / "snapshot")
    assert (snapshot.offset, snapshot.epoch, snapshot.partitions) == (57, 1, 8)
    assert partitions(tmp_path / "snapshot") == 8
    manifest = read_manifest(tmp_path / "snapshot")
    assert (manifest["offset"], manifest["cluster_id"]) == (57, CLUSTER)


def test_the_cluster_id_is_read_from_the_log_directory_of_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (tmp_path / "data" / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    assert cluster_id_of(folder / CHECKPOINT.name) == CLUSTER
    (tmp_path / "data" / "meta.properties").write_text("version=9\n")  # of a future Kafka
    assert cluster_id_of(folder / CHECKPOINT.name) == "unknown"


def test_a_checkpoint_under_another_name_is_refused_because_its_offset_is_unknown(tmp_path: Path) -> None:
    copy = shutil.copy(CHECKPOINT, tmp_path / "copy.checkpoint")
    with pytest.raises(StorageError, match=r"copy\.checkpoint does not have the name"):
        read_checkpoint(copy)


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_checkpoint_that_was_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    copy = tmp_path / CHECKPOINT.name
    copy.write_bytes(CHECKPOINT.read_bytes()[:-cut])
    with pytest.raises(StorageError, match=CHECKPOINT.name):
        read_checkpoint(copy)


def test_a_damaged_checkpoint_is_refused_with_the_place(tmp_path: Path) -> None:
    copy = tmp_path / CHECKPOINT.name
    raw = bytearray(CHECKPOINT.read_bytes())
    raw[len(raw) // 2] ^= 1
    copy.write_bytes(raw)
    with pytest.raises(StorageError, match="at byte"):
        read_checkpoint(copy)
    assert "at byte" in refused("reports", "run", "--checkpoint", copy)


def test_a_folder_with_files_is_no_place_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert "not an empty folder" in refused("reports", "run", "--checkpoint", CHECKPOINT, "--out", tmp_path, code=2)
    assert "--checkpoint" in refused("reports", "run", "--out", tmp_path, code=2)


def checkpoint_of(image: MetadataImage, folder: Path) -> Path:
    """Write a checkpoint with small batches."""
    time_ms = 1_700_000_000_000
    data = bytearray(encode_control_batch(0, image.epoch, time_ms, [SnapshotHeaderRecord()]))
    records = list(image_records(image))
    for start in range(0, len(records), 7):
        values = [encode_record(record, type(record).VERSIONS[1]) for record in records[start : start + 7]]
        data += encode_batch(1 + start, image.epoch, time_ms, values)
    data += encode_control_batch(1 + len(records), image.epoch, time_ms, [SnapshotFooterRecord()])
    path = folder / f"{image.offset + 1:020d}-{image.epoch:010d}.checkpoint"
    path.write_bytes(data)
    return path


def test_the_parts_of_a_checkpoint_have_each_partition_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = large_random_image(5, ["a", "b", None])
    path = checkpoint_of(image, tmp_path)
    outline = outline_of(path)
    assert sum(outline.partitions.values()) == image.topics.partition_count()
    assert outline.image.topics.partition_count() == 0
    monkeypatch.setattr(checkpoint_source, "SPLIT_BYTES", 5_000)
    monkeypatch.setattr(checkpoint_source, "ROWS_MAX", 5)
    reader = CheckpointSource({"path": str(path)}).reader(None)
    parts = reader.partitions()
    assert len(parts) > 3
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    found = {(row["topic_id"], row["partition"]): (row["replicas"], row["isr"], row["leader"]) for row in rows}
    assert len(found) == len(rows)
    assert found == {
        (topic.id.bytes, number): (list(partition.replicas), list(partition.isr), partition.leader)
        for topic in values_of(image.topics.by_id)
        for number, partition in topic.sorted_partitions()
    }


@pytest.mark.spark
def test_spark_writes_the_snapshot_of_the_plain_reader(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_export, "FILE_ROWS", 50)
    path = checkpoint_of(large_random_image(5, ["a", "b", None]), tmp_path)
    export_checkpoint(path, tmp_path / "plain")
    begin_export(outline_of(path), "unknown", tmp_path / "parts")
    finish_export(spark, path, tmp_path / "parts")
    plain, parts = read_manifest(tmp_path / "plain"), read_manifest(tmp_path / "parts")
    assert len(parts["sha256"]) > len(plain["sha256"]), "more than one file of partitions"
    assert parts | {"sha256": {}} == plain | {"sha256": {}}
    assert {file.name for file in (tmp_path / "parts").iterdir()} == {"manifest.json", *parts["sha256"]}
    for table in ("brokers", "topics", "partitions-*"):
        one, other = (
            [row for file in sorted(folder.glob(f"{table}.parquet")) for row in pq.read_table(file).to_pylist()]
            for folder in (tmp_path / "plain", tmp_path / "parts")
        )
        assert one == other, table


@pytest.mark.slow
@pytest.mark.spark
def test_a_large_checkpoint_is_read_by_spark_with_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = make_report(CHECKPOINT, tmp_path / "plain")
    monkeypatch.setattr(reports_offline, "PLAIN_PARTITIONS_MAX", 0)
    parts = make_report(CHECKPOINT, tmp_path / "parts")
    assert parts["header"]["content_sha256"] == plain["header"]["content_sha256"]
    assert parts["header"]["partitions"] == 8


@pytest.mark.spark
def test_a_report_is_made_of_a_checkpoint_without_a_web_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report").mkdir()
    report_checkpoint(CHECKPOINT, tmp_path / "report", as_json=False)
    assert capsys.readouterr().out.startswith(f"Cluster {CLUSTER} at offset 57, epoch 1: ")
    result = json.loads((tmp_path / "report" / "result.json").read_text())
    assert result["header"]["offset"] == 57
    assert result["body"]["verdict"]["partitions"] == 8
    assert (tmp_path / "report" / "violations.parquet").exists()
