"""Bytes of plans, from what brokers have told of their log directories."""

from app.cluster.log_dirs import LogDirs, ReplicaSizes
from app.reports.executor.copied import with_sizes
from kraft_core.protocol.messages import (
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
)
from tests.app.reports.clusters import broker, image, partition
from tests.app.reports.executor.simulated import rows_of

SHOWN = image(
    [broker(each, None) for each in (1, 2, 3, 4)],
    {"orders": [partition("1 2 3 4", isr="1 2 3", adding="4", removing="1"), partition("1 2 3", leader=2)]},
)
ROWS = list(rows_of(SHOWN, {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)}).values())


def answer(*sizes: int) -> LogDirs:
    """Return the answer of a broker with these sizes of orders-0, orders-1 and so on."""
    partitions = tuple(
        DescribeLogDirsResponseDescribeLogDirsPartition(partition_index=index, partition_size=size)
        for index, size in enumerate(sizes)
    )
    topic = DescribeLogDirsResponseDescribeLogDirsTopic(name="orders", partitions=partitions)
    return LogDirs(sizes=ReplicaSizes([DescribeLogDirsResponseDescribeLogDirsResult(topics=(topic,))]))


def test_a_partition_has_the_size_of_its_leaders_replica() -> None:
    answers = {1: answer(100, 900), 2: answer(70, 500), 3: LogDirs()}
    assert [row.size_bytes for row in with_sizes(ROWS, SHOWN, answers)] == [100, 500]


def test_without_the_leader_the_largest_known_replica_counts_and_without_any_the_size_is_unknown() -> None:
    assert [row.size_bytes for row in with_sizes(ROWS, SHOWN, {3: answer(30, 40), 2: answer(70)})] == [70, 40]
    assert [row.size_bytes for row in with_sizes(ROWS, SHOWN, {})] == [None, None]
