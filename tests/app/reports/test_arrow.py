"""The engine of large snapshots, without Spark: each file is counted as in a task, and the parts are added up."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from app.reports import export
from app.reports.aggregates import CUBE_RACKS_MAX, Brokers
from app.reports.arrow_engine import Task, combined, count_file
from app.reports.body import report_body
from app.reports.image_tables import offline_replicas
from app.reports.keyed_files import FOLDER
from app.reports.live import live_report
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import (
    CLUSTER_ID,
    broker,
    directory,
    image,
    large_random_image,
    partition,
    random_image,
)
from tests.app.reports.oracle import Oracle


def made(image: MetadataImage, folder: Path) -> dict[str, Any]:
    export.export_image(image, CLUSTER_ID, folder / "snapshot")
    (folder / "out").mkdir()
    brokers = Brokers(pq.read_table(folder / "snapshot" / "brokers.parquet").to_pylist())
    files = sorted(path.name for path in (folder / "snapshot").glob("partitions-*"))
    task = Task(str(folder / "snapshot"), files, brokers, image.features.elr_enabled, str(folder / "out"))
    return report_body(brokers, combined(task, [count_file(task, number) for number in range(len(files))]))


def listed(folder: Path) -> list[tuple[str, int, str]]:
    rows = pq.read_table(folder / "out" / "violations.parquet").to_pylist()
    return [(row["topic"], row["partition"], row["reason"]) for row in rows]


@pytest.mark.parametrize("file_rows", [1, 250_000], ids=["a file per topic", "one file"])
def test_numpy_agrees_with_plain_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file_rows: int) -> None:
    """Plain Python is compared with brute force in test_plain.py."""
    monkeypatch.setattr(export, "FILE_ROWS", file_rows)
    for seed in range(20):
        shown = random_image(seed)
        folder = tmp_path / str(seed)
        assert made(shown, folder) == live_report(shown)
        assert listed(folder) == Oracle(shown).violations()
        assert not (folder / "out" / FOLDER).exists()


@pytest.mark.parametrize("racks", [["a", "b", "c", None], [f"r{number}" for number in range(200)]], ids=["few", "many"])
def test_numpy_agrees_with_plain_python_on_large_clusters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, racks: list[str | None]
) -> None:
    monkeypatch.setattr(export, "FILE_ROWS", 50)
    shown = large_random_image(3, racks)
    body = made(shown, tmp_path)
    assert body == live_report(shown)
    assert (body["cube"] is None) == (len(racks) > CUBE_RACKS_MAX)
    assert listed(tmp_path) == Oracle(shown).violations()


def test_several_processes_write_the_same_snapshot_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(export, "FILE_ROWS", 30)
    monkeypatch.setattr(export, "FILES_FORKED", 2)
    shown = large_random_image(4, ["a", "b", None])
    manifests = []
    for processes in (1, 3):
        export.export_image(shown, CLUSTER_ID, tmp_path / str(processes), processes=processes)
        manifests.append((tmp_path / str(processes) / "manifest.json").read_text())
    assert manifests[0] == manifests[1]
    assert manifests[0].count("partitions-") > 6


def test_a_snapshot_says_which_replicas_are_offline(tmp_path: Path) -> None:
    """Of directories that are lost, not yet assigned, of another broker, or not given; and of brokers that are gone."""
    unassigned, lost = UUID(int=1), UUID(int=2)
    placed = [(directory(1), directory(2)), (directory(2), unassigned), (lost,), (), (lost, lost, lost)]
    rows = [structs.replace(partition("1 2", isr="1 77"), directories=each) for each in placed]
    rows += [structs.replace(rows[1]), structs.replace(partition("2 9 3 1"), directories=(directory(2),))]
    brokers = [broker(1, "a"), broker(2, None), broker(3, None, fenced=True)]
    shown = image(brokers, {"t": rows, "u": [partition("")]})
    export.export_image(shown, CLUSTER_ID, tmp_path / "snapshot")
    table = pq.read_table(tmp_path / "snapshot" / "partitions-00000.parquet")
    assert table["offline_replicas"].to_pylist() == [[], [0], [0], [], [0, 1], [0], [3, 2], []]
    assert table["replicas"].to_pylist() == [[0, 1]] * 6 + [[1, 3, 2, 0], []]
    assert table["isr"].to_pylist() == [[0]] * 6 + [[1, 3, 2, 0], []]
    expected = [offline_replicas(shown.cluster.brokers, each.replicas, each.directories) for each in rows]
    ids = pq.read_table(tmp_path / "snapshot" / "brokers.parquet")["broker_id"].to_pylist()
    assert [tuple(ids[at] for at in found) for found in table["offline_replicas"].to_pylist()[:-1]] == expected
