"""A broker with a replica of 20,000 partitions is fenced, returns, or shuts down in a controlled way.

Three nodes, three brokers, three replicas each: every failure changes all partitions and elects another leader for at
least a third of them. The time runs from the request that causes it until its answer, which is sent once all resulting
records are committed. Then the log is read and replayed to verify the result. Both sides refuse to unregister such a
broker before it is fenced: that would take more than 10,000 records.
"""

from benchmarks.figures import Figure
from benchmarks.frames import (
    alter_partition_frame,
    check_heartbeats,
    check_partitions_altered,
    check_topics_created,
    create_topics_frame,
    heartbeat_frame,
)
from benchmarks.load import many_at_once, one_at_a_time
from benchmarks.log_reader import committed_image
from benchmarks.plan import Plan
from benchmarks.sides import BROKERS, PLAIN, Cluster, running

TOPICS = 20
PARTITIONS_A_TOPIC = 1_000
TIMES = 5
NODES = 3
IN_A_REQUEST = 500
"""Partitions per AlterPartition request. A leader has one in flight and collects further changes meanwhile."""


def _strike(cluster: Cluster, broker_id: int, heartbeat: bytes) -> float:
    """Send the heartbeat that removes the broker. Return the ms until all its partitions have another leader."""
    outcome = one_at_a_time(cluster.leader_port, [heartbeat])
    check_heartbeats(outcome.answers)
    for topic in committed_image(cluster).topics.by_id.values():
        for index, partition in topic.partitions.items():
            assert partition.leader not in {-1, broker_id}, f"{topic.name}-{index}: {partition}"
            assert broker_id not in partition.isr, f"{topic.name}-{index}: {partition}"
    return outcome.latencies_ms[0]


def _fence(cluster: Cluster, broker_id: int) -> float:
    """Fence by a heartbeat with WantFence: the same work as an expired session, at a known time. Return ms."""
    return _strike(cluster, broker_id, heartbeat_frame(cluster, broker_id, want_fence=True))


def _come_back(cluster: Cluster, broker_id: int) -> float:
    """Unfence the broker and let each leader add it to the ISR on a separate connection. Return seconds."""
    check_heartbeats(one_at_a_time(cluster.leader_port, [heartbeat_frame(cluster, broker_id)]).answers)
    frames_of: dict[int, list[bytes]] = {leader: [] for leader in BROKERS if leader != broker_id}
    topics = committed_image(cluster).topics.by_id.values()
    for topic in topics:
        for leader, frames in frames_of.items():
            led = [(index, partition) for index, partition in topic.sorted_partitions() if partition.leader == leader]
            for start in range(0, len(led), IN_A_REQUEST):
                partitions = dict(led[start : start + IN_A_REQUEST])
                epochs = cluster.broker_epochs
                frames.append(alter_partition_frame(leader, epochs[leader], topic.id, partitions, epochs))
    outcome = many_at_once(cluster.leader_port, list(frames_of.values()))
    check_partitions_altered(outcome.answers)
    for topic in committed_image(cluster).topics.by_id.values():
        assert all(len(partition.isr) == len(BROKERS) for partition in topic.partitions.values()), topic.name
    return outcome.seconds


def broker_failure(plan: Plan) -> list[Figure]:
    """Measure five fencings, the AlterPartition requests after each, and a controlled shutdown."""
    each = plan.count(PARTITIONS_A_TOPIC, 2)
    name = f"a broker with {TOPICS * each:,} partitions"
    first = Figure(f"{name} is fenced, the first time", "ms")
    again = Figure(f"{name} is fenced, p50 of the next", "ms")
    storm = Figure(f"{name} is in sync again: AlterPartition", "partitions/s", more_is_better=True)
    shut_down = Figure(f"{name} shuts down", "ms")
    for _, side in plan.once().turns(PLAIN):
        with running(side, NODES) as cluster:
            frames = [create_topics_frame([f"failing-{number}"], each) for number in range(TOPICS)]
            check_topics_created(one_at_a_time(cluster.leader_port, frames).answers)
            for number in range(1 + plan.count(TIMES, 2)):
                broker_id = BROKERS[number % len(BROKERS)]
                (again if number else first).add(side, _fence(cluster, broker_id))
                storm.add(side, TOPICS * each / _come_back(cluster, broker_id))
            leaving = heartbeat_frame(cluster, BROKERS[0], want_shut_down=True)
            shut_down.add(side, _strike(cluster, BROKERS[0], leaving))
    return [first, again, storm, shut_down]
