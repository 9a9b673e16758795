"""A report's numbers: computed by hand for three racks, and compared with brute force for random clusters."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.reports import export, risk, spark_engine
from app.reports.aggregates import CUBE_RACKS_MAX
from app.reports.live import live_report
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import broker, image, large_random_image, partition, random_image
from tests.app.reports.conftest import Report
from tests.app.reports.oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def three_racks() -> MetadataImage:
    """Six brokers in racks a, b, c. `orders` is placed well except for partition 2, which has two replicas in rack a;
    `logs` has one partition with one replica and one without a leader.
    """
    brokers = [broker(number, rack) for number, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c"))]
    topics = {
        "orders": [partition("1 3 5"), partition("2 4 6"), partition("1 2 3", isr="1 2"), partition("5 1 3", leader=1)],
        "logs": [partition("6"), partition("4 6", isr="", leader=-1)],
    }
    return image(brokers, topics, {"orders": {"min.insync.replicas": "2"}})


def test_the_verdict_strip_of_three_racks_is_as_worked_by_hand() -> None:
    body = live_report(three_racks())
    strip = body["verdict"]
    assert (strip["partitions"], strip["replicas"]) == (6, 15)
    assert strip["offline"] == 1  # logs-1
    assert strip["under_min"] == 1  # logs-1: no leader counts as under
    assert strip["at_min"] == 2  # orders-2 with 2 of min 2, logs-0 with 1 of min 1
    assert strip["under_replicated"] == 2  # orders-2, logs-1
    assert strip["rack_rule"] == {"ok": 5, "violated": 1, "unknown": 0}  # orders-2
    assert strip["rack_moves_needed"] == 1
    assert strip["non_preferred"] == 2  # orders-3 is led by 1 instead of 5, logs-1 by none
    assert strip["fixable_by_election"] == 1
    # replicas by broker: 1:3 2:2 3:3 4:2 5:2 6:3, total 15, 5 a rack, so 2 or 3 each: nothing to balance, one to repair
    assert strip["moves_from_balanced"] == 1


def test_losing_a_rack_is_as_worked_by_hand() -> None:
    body = live_report(three_racks())
    racks = {row["domain"]: row for row in body["what_if"]["racks"]}
    # a dies: orders-0 keeps 3 5 (at min), -1 keeps 4 6 (at min), -2 has no in-sync replica (offline), -3 keeps 5 3
    assert racks["a"]["verdicts"] == {"lost": 0, "offline": 2, "unclean": 0, "under_min": 0, "at_min": 4, "ok": 0}
    assert (racks["a"]["newly_down"], racks["a"]["newly_refused"], racks["a"]["leaders_moved"]) == (1, 1, 3)
    # c dies: logs-0 has its only copy on 6 (lost); logs-1 has 4 left but no leader
    assert racks["c"]["verdicts"] == {"lost": 1, "offline": 1, "unclean": 0, "under_min": 0, "at_min": 4, "ok": 0}
    assert racks["c"]["newly_lost"] == 1
    assert body["verdict"]["worst_rack"] == {"rack": "c", "if_lost_down": 1, "if_lost_refused": 1}


def test_the_violations_say_where_and_why(report: Report, tmp_path: Path) -> None:
    body = report(three_racks(), tmp_path)
    assert body == live_report(three_racks())
    rows = pq.read_table(tmp_path / "out" / "violations.parquet").to_pylist()
    assert [(row["topic"], row["partition"], row["reason"]) for row in rows] == [
        ("logs", 1, "offline"),
        ("orders", 2, "rack"),
    ]
    assert rows[1]["replicas"] == [1, 2, 3]
    assert rows[1]["racks"] == ["a", "a", "b"]
    assert body["violations"] == {"total": 2, "by_reason": {"offline": 1, "rack": 1}}


def test_margins_count_what_each_partition_can_lose() -> None:
    margins = live_report(three_racks())["margins"]
    histogram = {row["margin"]: row["partitions"] for row in margins["histogram"]}
    assert histogram == {-1: 1, 0: 2, 1: 3}  # logs-1; orders-2 and logs-0; the other three of orders
    assert margins["no_redundancy"] == 1


def test_an_empty_cluster_gives_a_report_of_zeros(report: Report, tmp_path: Path) -> None:
    body = report(image([], {}), tmp_path)
    assert body == live_report(image([], {}))
    assert body["verdict"]["partitions"] == 0
    assert body["verdict"]["rack_rule"] is None
    assert body["brokers"] == []
    assert body["violations"] == {"total": 0, "by_reason": {}}


def test_spark_agrees_with_plain_python(report: Report, tmp_path: Path) -> None:
    """Plain Python is compared with brute force in test_plain.py."""
    for seed in (2, 5):
        shown = random_image(seed)
        assert report(shown, tmp_path / str(seed)) == live_report(shown)


def test_numpy_in_sparks_tasks_agrees_with_plain_python(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same code runs in test_arrow.py without Spark, on more clusters."""
    monkeypatch.setattr(export, "FILE_ROWS", 40)
    shown = large_random_image(1, ["a", "b", "c", None])
    assert report(shown, tmp_path, in_arrow=True) == live_report(shown)
    rows = pq.read_table(tmp_path / "out" / "violations.parquet").to_pylist()
    assert [(row["topic"], row["partition"], row["reason"]) for row in rows] == Oracle(shown).violations()


@pytest.mark.parametrize("racks", [["a", "b", "c", None], [f"r{number}" for number in range(200)]], ids=["few", "many"])
def test_spark_agrees_with_plain_python_on_large_clusters(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, racks: list[str | None]
) -> None:
    """With many racks the limit on listed pairs is below the number of brokers, so Spark only counts them."""
    shown = large_random_image(1, racks)
    has_matrix = len(racks) <= CUBE_RACKS_MAX
    for module in () if has_matrix else (risk, spark_engine):
        monkeypatch.setattr(module, "PAIRS_BROKERS_MAX", 23)
    body = report(shown, tmp_path)
    assert body == live_report(shown)
    assert [body["risk"][name] is not None for name in ("pair_matrix", "rack_matrix")] == [has_matrix] * 2
    assert (body["cube"] is None) == (len(racks) > CUBE_RACKS_MAX)
    rows = pq.read_table(tmp_path / "out" / "violations.parquet").to_pylist()
    listed = [(row["topic"], row["partition"], row["reason"]) for row in rows]
    assert listed == Oracle(shown).violations()
