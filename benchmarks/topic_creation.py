"""Topic creation: latency one at a time; throughput with many clients, large requests and large topics."""

from benchmarks.figures import Figure
from benchmarks.frames import check_topics_created, create_topic_frames, create_topics_frame
from benchmarks.load import many_at_once, one_at_a_time, percentile
from benchmarks.plan import Plan
from benchmarks.sides import WITH_LINGER, Cluster, Side, running

CLIENTS = 64
LATENCY_BUDGET_MS = {1: 1.0, 3: 2.5}
THROUGHPUT_BUDGET = {1: 3_000.0, 3: 2_500.0}


def warm_up(cluster: Cluster, count: int) -> None:
    """Create topics before the measurement, so that the JVM has compiled and our codecs are built."""
    check_topics_created(
        many_at_once(
            cluster.leader_port, [create_topic_frames(f"warm-{client}", count // 16) for client in range(16)]
        ).answers
    )


def latency(plan: Plan) -> list[Figure]:
    """Measure creating topics of 3 partitions, RF 3, one at a time, on one and three nodes."""
    figures = []
    for size in (1, 3):
        where = "one node" if size == 1 else "three nodes"
        p50 = Figure(f"create topic, {where}, p50", "ms", LATENCY_BUDGET_MS[size])
        p99 = Figure(f"create topic, {where}, p99", "ms")
        for _, side in plan.turns(WITH_LINGER):
            with running(side, size) as cluster:
                warm_up(cluster, plan.count(1_600, 16))
                outcome = one_at_a_time(cluster.leader_port, create_topic_frames("one", plan.count(400, 5)))
                check_topics_created(outcome.answers)
                p50.add(side, percentile(outcome.latencies_ms, 0.5))
                p99.add(side, percentile(outcome.latencies_ms, 0.99))
        figures += [p50, p99]
    return figures


def _clients(cluster: Cluster, side: Side, plan: Plan, figure: Figure) -> None:
    each = plan.count(60, 2)
    frames_of = [create_topic_frames(f"client-{client}", each) for client in range(CLIENTS)]
    outcome = many_at_once(cluster.leader_port, frames_of)
    check_topics_created(outcome.answers)
    figure.add(side, outcome.per_second)


def throughput(plan: Plan) -> list[Figure]:
    """Measure 64 clients on one and three nodes; on one also 100 topics per request and 1,000-partition topics."""
    clients = {
        size: Figure(f"64 clients, {where}", "topics/s", THROUGHPUT_BUDGET[size], more_is_better=True)
        for size, where in ((1, "one node"), (3, "three nodes"))
    }
    large_requests = Figure("100 topics a request", "topics/s", 5_000, more_is_better=True)
    large_topics = Figure("1,000-partition topics", "partitions/s", 40_000, more_is_better=True)
    for _, side in plan.turns(WITH_LINGER):
        with running(side, 1) as cluster:
            warm_up(cluster, plan.count(1_600, 16))
            _clients(cluster, side, plan, clients[1])
            outcome = one_at_a_time(
                cluster.leader_port, create_topic_frames("many", plan.count(40, 2), per_request=100)
            )
            check_topics_created(outcome.answers)
            large_requests.add(side, 100 * outcome.per_second)
            names = [f"large-{number}" for number in range(plan.count(60, 2))]
            outcome = one_at_a_time(cluster.leader_port, [create_topics_frame([name], 1_000) for name in names])
            check_topics_created(outcome.answers)
            large_topics.add(side, 1_000 * outcome.per_second)
    for _, side in plan.turns(WITH_LINGER):
        with running(side, 3) as cluster:
            warm_up(cluster, plan.count(1_600, 16))
            _clients(cluster, side, plan, clients[3])
    return [clients[1], clients[3], large_requests, large_topics]
