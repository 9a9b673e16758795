"""A plan in the formats of Apache Kafka's tools, and the default plan of a snapshot folder."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from app.reports.export import export_image
from app.reports.proposals import default_plan
from app.reports.proposals.default_plan import make_default_plan
from app.reports.proposals.formats import elect_json, reassign_json, rollback_json
from app.reports.proposals.proposal import Change
from tests.app.reports.clusters import CLUSTER_ID, broker, image, partition

CHANGES = (
    Change("b", UUID(int=2), 0, (1, 2), (1, 3), 1, 1, None),
    Change("a", UUID(int=1), 10, (1,), (2,), 1, 2, None),
    Change("a", UUID(int=1), 9, (1,), (2,), 1, 2, None),
)


def test_a_plan_is_written_as_the_tool_writes_it() -> None:
    assert reassign_json(CHANGES[:1]) == (
        b'{"version":1,"partitions":[{"topic":"b","partition":0,"replicas":[1,3],"log_dirs":["any","any"]}]}\n'
    )
    assert elect_json([("b", 1), ("a", 2)]) == (
        b'{"partitions":[{"topic":"a","partition":2},{"topic":"b","partition":1}]}\n'
    )


def test_a_plan_is_sorted_by_topic_and_number_and_its_rollback_has_the_present_replicas() -> None:
    rows = json.loads(rollback_json(CHANGES))["partitions"]
    assert [(row["topic"], row["partition"], row["replicas"]) for row in rows] == [
        ("a", 9, [1]),
        ("a", 10, [1]),
        ("b", 0, [1, 2]),
    ]


def three_brokers(tmp_path: Path) -> Path:
    racks = [broker(1, "a"), broker(2, "a"), broker(3, "b")]
    metadata = image(racks, {"t": [partition("1 2", leader=1), partition("3 1", leader=1)]})
    export_image(metadata, CLUSTER_ID, tmp_path / "snapshot")
    (tmp_path / "out").mkdir()
    return tmp_path / "snapshot"


def test_the_default_plan_of_a_snapshot_is_stored_and_summarised(tmp_path: Path) -> None:
    block = make_default_plan(three_brokers(tmp_path), tmp_path / "out", 2, 1000, 7)
    # t-0 must leave rack a once; t-1 goes back to its preferred leader 3
    assert (block["moves"], block["bound"], block["gap"], block["exact"]) == (1, 1, 0, True)
    assert (block["partitions"], block["elections"], block["leader_optimum"]) == (1, 1, 1)
    assert block["before"]["rack_violated"] == 1
    assert block["after"]["rack_violated"] == 0
    reassign = json.loads((tmp_path / "out" / "reassign.json").read_bytes())
    assert [(row["partition"], row["replicas"]) for row in reassign["partitions"]] == [(0, [1, 3])]
    assert json.loads((tmp_path / "out" / "elect.json").read_bytes()) == {
        "partitions": [{"topic": "t", "partition": 1}]
    }
    assert block == make_default_plan(tmp_path / "snapshot", tmp_path / "out", 2, 1000, 7)
    assert json.loads(json.dumps(block)) == block


def test_a_cluster_too_large_for_a_default_plan_gets_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_plan, "MAX_PARTITIONS", 1)
    block = make_default_plan(three_brokers(tmp_path), tmp_path / "out", 2, 1000, 7)
    (reason,) = block["refused"]
    assert reason == (
        "The cluster has 2 partitions; a default plan is made for at most 1. "
        "Make a plan of its own on the page Plans or by REST."
    )
    assert list((tmp_path / "out").iterdir()) == []
