"""The rows behind a report's numbers: as many as the number says, and the same ones as by brute force."""

from pathlib import Path
from typing import Any

import pytest

from app.reports.live import live_report
from app.reports.partition_rows import PARTITION_KINDS, RowFilter, partition_rows
from app.reports.what_if import NoPlacementError, UnknownDomainError
from tests.app.reports.clusters import large_random_image, random_image
from tests.app.reports.oracle import Oracle
from tests.app.reports.test_what_if import FEW_RACKS, completed

Rows = list[dict[str, Any]]


def rows_of(out: Path, **wanted: Any) -> Rows:
    rows, total = partition_rows(out, RowFilter(**wanted), offset=0, limit=10_000)
    assert len(rows) == total
    return rows


def check_numbers(body: dict[str, Any], out: Path) -> None:
    """Compare each number of a report with the number of rows that it stands for."""
    for row in body["brokers"]:
        for kind in ("replicas", "leaders", "preferred", "out_of_sync", "offline_replicas", "adding", "removing"):
            assert len(rows_of(out, brokers=(row["broker_id"],), what=kind)) == row[kind], kind
    for kind in PARTITION_KINDS.keys() & body["verdict"].keys():
        assert len(rows_of(out, what=kind)) == body["verdict"][kind], kind
    if body["verdict"]["rack_rule"]:
        for verdict in ("violated", "unknown"):
            assert len(rows_of(out, what=f"rack_{verdict}")) == body["verdict"]["rack_rule"][verdict]
    for row in body["margins"]["histogram"]:
        assert len(rows_of(out, margin=row["margin"])) == row["partitions"]
        assert len(rows_of(out, margin=row["margin"], what="offline")) == row["leaderless"]
    assert len(rows_of(out, what="rf1")) == body["margins"]["no_redundancy"]
    assert len(rows_of(out, what="rf_is_min_isr")) == body["margins"]["no_write_survives_a_loss"]


def check_matrices(risk: dict[str, Any], out: Path) -> None:
    for matrix, key, kind in ((risk["pair_matrix"], "brokers", "brokers"), (risk["rack_matrix"], "racks", "racks")):
        for name, line in zip(matrix[key], matrix["shared"], strict=True) if matrix else ():
            for other, shared in zip(matrix[key], line, strict=True):
                assert len(rows_of(out, **{kind: (name, other)})) == shared, (name, other)


def test_every_number_has_as_many_rows(tmp_path: Path) -> None:
    for seed in range(20):
        shown = random_image(seed)
        completed(shown, tmp_path / str(seed))
        body = live_report(shown)
        check_numbers(body, tmp_path / str(seed) / "out")
        check_matrices(body["risk"], tmp_path / str(seed) / "out")


def test_the_rows_are_those_of_the_cluster_page_by_page(tmp_path: Path) -> None:
    shown = large_random_image(3, FEW_RACKS)
    completed(shown, tmp_path)
    oracle = Oracle(shown)
    expected = [
        (topic, number, list(each.replicas), list(each.isr), each.leader)
        for topic, number, each in oracle.partitions
        if {1, 2} <= set(oracle.target(each))
    ]
    assert len(expected) > 2
    both = RowFilter(brokers=(1, 2))
    rows: Rows = []
    while True:
        page, total = partition_rows(tmp_path / "out", both, offset=len(rows), limit=2)
        assert total == len(expected)
        if not page:
            break
        rows += page
    found = [(row["topic"], row["partition"], row["replicas"], row["isr"], row["leader"]) for row in rows]
    assert [(*row[:3], sorted(row[3]), row[4]) for row in found] == [
        (*row[:3], sorted(row[3]), row[4]) for row in expected
    ]
    assert rows[0]["racks"] == [oracle.rack(broker) or "" for broker in rows[0]["replicas"]]


def test_what_the_report_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    body = live_report(random_image(1))
    for wanted, message in (
        (RowFilter(brokers=(12345,)), "broker 12345 is not in the report"),
        (RowFilter(racks=("<b>",)), "rack '<b>' is not in the report"),
        (RowFilter(what="x" * 2000), "'x{40}' is not one of replicas, leaders"),
    ):
        with pytest.raises(UnknownDomainError, match=message):
            wanted.check(body)
    with pytest.raises(NoPlacementError, match="no longer exist"):
        partition_rows(tmp_path, RowFilter(), offset=0, limit=1)
