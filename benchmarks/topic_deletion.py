"""Topic deletion: one at a time, 100 per request, and topics with many partitions."""

from benchmarks.figures import Figure
from benchmarks.frames import (
    check_topics_created,
    check_topics_deleted,
    create_topic_frames,
    create_topics_frame,
    delete_topics_frame,
)
from benchmarks.load import many_at_once, one_at_a_time, percentile
from benchmarks.plan import Plan
from benchmarks.sides import WITH_LINGER, running

AT_ONCE = 100
LARGE = 1_000


def deletion(plan: Plan) -> list[Figure]:
    """Measure deleting topics of 3 partitions, single and 100 per request, and of 1,000 partitions; one node."""
    p50 = Figure("delete topic, one node, p50", "ms")
    many = Figure(f"delete {AT_ONCE} topics a request", "topics/s", more_is_better=True)
    large = Figure(f"delete a topic of {LARGE:,} partitions, p50", "ms")
    for _, side in plan.turns(WITH_LINGER):
        with running(side, 1) as cluster:
            warm, single, groups = plan.count(400, 16), plan.count(400, 5), plan.count(20, 2)
            check_topics_created(
                many_at_once(
                    cluster.leader_port,
                    [
                        create_topic_frames("warm", warm),
                        create_topic_frames("one", single),
                        create_topic_frames("many", groups, per_request=AT_ONCE),
                        [create_topics_frame([f"large-{number}"], LARGE) for number in range(groups)],
                    ],
                ).answers
            )

            def delete(names: list[list[str]], port: int = cluster.leader_port) -> list[float]:
                outcome = one_at_a_time(port, [delete_topics_frame(each) for each in names])
                check_topics_deleted(outcome.answers)
                return outcome.latencies_ms

            delete([[f"warm-{number}-0"] for number in range(warm)])
            p50.add(side, percentile(delete([[f"one-{number}-0"] for number in range(single)]), 0.5))
            took_ms = delete([[f"many-{number}-{each}" for each in range(AT_ONCE)] for number in range(groups)])
            many.add(side, AT_ONCE * groups / sum(took_ms) * 1_000)
            large.add(side, percentile(delete([[f"large-{number}"] for number in range(groups)]), 0.5))
    return [p50, many, large]
