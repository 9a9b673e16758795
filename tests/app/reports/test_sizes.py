"""Sizes that brokers give reach the report's snapshot, its numbers and its plan."""

import datetime as dt
from pathlib import Path

import pyarrow.parquet as pq

from app.cluster.log_dirs import LogDir, LogDirs, ReplicaSizes
from app.reports.export import export_image
from app.reports.proposals.snapshot import layout_from_snapshot
from app.reports.sizes import directory_space, partition_sizes
from kraft_core.protocol.messages import (
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
)
from tests.app.reports.clusters import CLUSTER_ID, broker, directory, image, partition

GIB = 2**30


def answer(sizes: dict[tuple[str, int], int], total: int | None = 100 * GIB, usable: int | None = 40 * GIB) -> LogDirs:
    """What a broker with one directory says."""
    result = DescribeLogDirsResponseDescribeLogDirsResult(
        log_dir="/data",
        topics=tuple(
            DescribeLogDirsResponseDescribeLogDirsTopic(
                name=topic,
                partitions=(
                    DescribeLogDirsResponseDescribeLogDirsPartition(partition_index=index, partition_size=size),
                ),
            )
            for (topic, index), size in sizes.items()
        ),
    )
    found = LogDir("/data", "", sum(sizes.values()), len(sizes), total, usable, is_cordoned=False)
    return LogDirs(dt.datetime.now(dt.UTC), (found,), ReplicaSizes([result]))


CLUSTER = image([broker(1, "a"), broker(2, "b")], {"t": [partition("1 2"), partition("2 1"), partition("1 2")]})
ANSWERS = {
    1: answer({("t", 0): 500, ("t", 1): 70, ("gone", 0): 9}),
    2: answer({("t", 0): 400, ("t", 1): 60, ("t", 7): 1}, total=None, usable=None),
}


def test_the_leaders_replica_gives_the_size_of_a_partition() -> None:
    (topic_id,) = CLUSTER.topics.by_id
    assert partition_sizes(CLUSTER, ANSWERS) == {(topic_id, 0): 500, (topic_id, 1): 60}
    assert partition_sizes(CLUSTER, {1: ANSWERS[1]}) == {(topic_id, 0): 500, (topic_id, 1): 70}, "else the largest"
    assert partition_sizes(CLUSTER, {}) == {}


def test_a_directory_is_found_by_the_replicas_in_it() -> None:
    space = directory_space(CLUSTER, ANSWERS)
    assert {each: list(found) for each, found in space.items()} == {1: [directory(1)]}
    assert (space[1][directory(1)].total_bytes, space[1][directory(1)].usable_bytes) == (100 * GIB, 40 * GIB)
    several = image([broker(1, "a", directories=(directory(1), directory(1, 1)))], {"t": [partition("1")]})
    assert list(directory_space(several, {1: answer({("t", 0): 5})})[1]) == [directory(1)]
    assert directory_space(several, {1: answer({})}) == {}, "one path and two directories: nobody knows which"
    assert directory_space(several, {3: answer({})}) == {}


def test_a_snapshot_has_sizes_and_free_bytes_and_null_where_nobody_knows(tmp_path: Path) -> None:
    export_image(CLUSTER, CLUSTER_ID, tmp_path / "snapshot", ANSWERS)
    rows = pq.read_table(tmp_path / "snapshot" / "partitions-00000.parquet", columns=["size_bytes"]).to_pylist()
    assert [row["size_bytes"] for row in rows] == [500, 60, None]
    layout = layout_from_snapshot(tmp_path / "snapshot")
    assert layout.sizes == [500, 60, None]
    assert [each.free_bytes for each in layout.brokers] == [30 * GIB, None]
    export_image(CLUSTER, CLUSTER_ID, tmp_path / "unknown")
    assert layout_from_snapshot(tmp_path / "unknown").sizes is None
