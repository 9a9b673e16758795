"""Trends that Spark computes on a lake, counted by hand from a script of records; and DuckDB as a stranger's reader."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from msgspec import structs

from app.reports.export import export_image
from app.reports.job import read_manifest
from app.reports.lake.feed import Feed
from app.reports.lake.in_report import report_to_lake
from app.reports.lake.lake import Lake
from app.reports.lake.register import register
from app.reports.lake.tables import BALANCE
from app.reports.lake.trends import trends
from tests.app.reports.clusters import CLUSTER_ID
from tests.app.reports.lake.script import (
    BROKER_FLAPS,
    BROKER_LEADERS,
    DAY,
    MINUTE,
    PARTITION_FLAPS,
    PARTITION_LEADERS,
    SCRIPT,
    START,
    change,
)
from tests.app.reports.lake.test_feed import CLUSTER, batch, replayed, snapshot_of, topic
from tests.app.reports.test_report import three_racks
from tests.image.records import partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

END = START + dt.timedelta(minutes=DAY + 30)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The script, cut into several files, with a snapshot among them."""
    made = Lake(str(tmp_path_factory.mktemp("lake")))
    feed, offset, said = Feed(made, CLUSTER, None), 0, []
    for number, (minute, records) in enumerate(SCRIPT):
        feed.add(batch(offset, *records, time_ms=round(START.timestamp() * 1000) + minute * MINUTE))
        offset += len(records)
        said += records
        if number == 8:
            feed.flush()
            state = replayed(*said, offset=offset)
            feed.add_snapshot(snapshot_of(structs.replace(state, offset=offset - 1)))
    feed.flush()
    return made


def test_a_scripted_isr_flap_and_leader_moves_are_counted_exactly(spark: "SparkSession", lake: Lake) -> None:
    found = trends(spark, lake, CLUSTER, END)
    assert found is not None
    t1 = {"topic": "t1", "topic_id": topic_text(lake, "t1")}
    assert found["isr_flaps"] == {
        "total": 3,
        "days": [{"date": "2026-03-01", "flaps": 3}],
        "partitions": [
            {**t1, "partition": index, "flaps": flaps, "out_ms": out_ms} for _, index, flaps, out_ms in PARTITION_FLAPS
        ],
        "brokers": [{"broker_id": each, "flaps": flaps, "out_ms": out_ms} for each, flaps, out_ms in BROKER_FLAPS],
    }
    assert found["leader_changes"] == {
        "total": 5,
        "days": [{"date": "2026-03-01", "changes": 3}, {"date": "2026-03-02", "changes": 2}],
        "partitions": [{**t1, "partition": index, "changes": changes} for _, index, changes in PARTITION_LEADERS],
        "brokers": [{"broker_id": each, "gained": gained, "lost": lost} for each, gained, lost in BROKER_LEADERS],
    }
    down = ("broker_id", "fencings", "down_ms", "recoveries", "recovery_ms_median", "recovery_ms_max", "is_down")
    assert [tuple(row[key] for key in down) for row in found["downtime"]] == [
        (2, 2, 20 * MINUTE, 1, 10 * MINUTE, 10 * MINUTE, 1),
        (1, 1, 30 * MINUTE, 1, 30 * MINUTE, 30 * MINUTE, 0),
    ]
    totals = ("date", "topics", "partitions", "topics_created", "topics_removed", "partitions_removed")
    assert [tuple(day[key] for key in totals) for day in found["growth"]] == [
        ("2026-03-01", 2, 3, 2, 0, 0),
        ("2026-03-02", 2, 4, 1, 1, 1),
    ]
    assert found["balance"] == []
    assert found["through_offset"] == lake.records_files(CLUSTER)[-1].last


def topic_text(lake: Lake, name: str) -> str:
    rows = [row for file in lake.records_files(CLUSTER) for row in lake.read(file.path).to_pylist()]
    return next(row["topic_id"] for row in rows if row["type"] == "TOPIC_RECORD" and row["topic"] == name)


def test_events_before_the_window_are_not_counted_but_say_what_was_before(spark: "SparkSession", lake: Lake) -> None:
    found = trends(spark, lake, CLUSTER, END + dt.timedelta(days=29, hours=12))
    assert found is not None
    assert found["isr_flaps"]["total"] == 0
    assert found["leader_changes"]["days"] == [{"date": "2026-03-02", "changes": 2}]
    assert [row["broker_id"] for row in found["downtime"]] == [2]
    assert found["growth"][0]["date"] == "2026-03-02"
    assert found["growth"][-1]["partitions"] == 4


def test_after_a_gap_the_trends_begin_with_the_snapshot_that_fills_it(spark: "SparkSession", tmp_path: Path) -> None:
    made = Lake(str(tmp_path))
    feed = Feed(made, CLUSTER, None)
    time_ms = round(START.timestamp() * 1000)
    feed.add(batch(0, topic(1), partition(1, 0), time_ms=time_ms))
    feed.add_snapshot(snapshot_of(replayed(topic(1), partition(1, 0, leader=2), partition(1, 1), offset=99), time_ms))
    feed.add(batch(100, change(1, 0, leader=3), change(1, 1, leader=1), epoch=4, time_ms=time_ms + MINUTE))
    feed.flush()
    found = trends(spark, made, CLUSTER, START + dt.timedelta(hours=1))
    assert found is not None
    assert found["leader_changes"]["brokers"] == [
        {"broker_id": 3, "gained": 1, "lost": 0},
        {"broker_id": 2, "gained": 0, "lost": 1},
    ]
    assert [(day["topics"], day["partitions"]) for day in found["growth"]] == [(1, 2)]


def test_a_lake_without_records_has_no_trends(spark: "SparkSession", tmp_path: Path) -> None:
    assert trends(spark, Lake(str(tmp_path)), CLUSTER, END) is None


def test_a_report_of_all_topics_is_registered_once_with_ids_in_place_of_indexes(
    spark: "SparkSession", tmp_path: Path
) -> None:
    made = Lake(f"file://{tmp_path}/lake")
    export_image(three_racks(), CLUSTER_ID, tmp_path / "snapshot")
    manifest = read_manifest(tmp_path / "snapshot")
    body = {"verdict": dict(zip(BALANCE, range(len(BALANCE)), strict=True))}
    time_ms = round(START.timestamp() * 1000)
    assert register(made, tmp_path / "snapshot", manifest, body, time_ms)
    assert not register(made, tmp_path / "snapshot", manifest, body, time_ms + 5)
    (path,) = made.files("partitions", CLUSTER_ID)
    assert path.endswith(f"/partitions/cluster={CLUSTER_ID}/date=2026-03-01/{1000:020d}-{7:010d}.parquet")
    rows = {(row["topic"], row["partition"]): row for row in made.read(path).to_pylist()}
    assert (rows["orders", 3]["replicas"], rows["orders", 3]["leader"]) == ([5, 1, 3], 1)
    assert (rows["logs", 1]["replicas"], rows["logs", 1]["isr"], rows["logs", 1]["leader"]) == ([4, 6], [], -1)
    (path,) = made.files("topics", CLUSTER_ID)
    topics = {row["topic"]: row for row in made.read(path).to_pylist()}
    assert (topics["orders"]["partitions"], topics["orders"]["min_isr_config"]) == (4, 2)
    assert {row["offset"] for row in topics.values()} == {1000}
    feed = Feed(made, CLUSTER_ID, None)
    feed.add(batch(0, topic(1)))
    feed.flush()
    part = {**manifest, "topic_prefix": "logs", "offset": 1001}
    assert report_to_lake(spark, made.location, {}, tmp_path / "snapshot", part, body) is not None
    found = report_to_lake(spark, made.location, {}, tmp_path / "snapshot", manifest, body)
    assert found is not None
    assert [row["offset"] for row in found["balance"]] == [1000]
    assert found["balance"][0]["moves_from_balanced"] == BALANCE.index("moves_from_balanced")


def test_a_lake_that_cannot_be_opened_leaves_the_report_without_trends(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_to_lake(spark, "nosuch://x", {}, tmp_path, {}, {}) is None
    assert "lake 'nosuch://x'" in capsys.readouterr().err


def test_duckdb_reads_the_lake_without_any_help_of_ours(lake: Lake) -> None:
    with duckdb.connect() as stranger:
        rows = stranger.sql(
            f"""SELECT cluster, date, count(*) FROM read_parquet('{lake.location}/records/**/*.parquet',
                hive_partitioning = true, hive_types = {{'date': DATE, 'cluster': VARCHAR}})
                WHERE origin = 'log' AND type = 'PARTITION_CHANGE_RECORD' GROUP BY ALL ORDER BY date"""
        ).fetchall()
        isr = stranger.sql(
            f"""SELECT isr, data::JSON->>'partitionId' FROM read_parquet('{lake.location}/records/**/*.parquet')
                WHERE leader = -1"""
        ).fetchall()
    assert rows == [(CLUSTER, dt.date(2026, 3, 1), 10), (CLUSTER, dt.date(2026, 3, 2), 3)]
    assert isr == [(None, "1")]
