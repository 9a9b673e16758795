"""The engine of large snapshots, without Spark: each file is counted as in a task, and the parts are added up."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.reports import export
from app.reports.aggregates import CUBE_RACKS_MAX, Brokers
from app.reports.arrow_engine import Task, combined, count_file
from app.reports.body import report_body
from app.reports.keyed_files import FOLDER
from app.reports.live import live_report
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID, large_random_image, random_image
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
