"""The metrics of the controller."""

from kraft_core.protocol.errors import ErrorCode
from tests.controller.active_controller import ActiveController
from tests.controller.test_quorum_controller import new_topic


def test_requests_periodic_tasks_and_commits_are_operations() -> None:
    active = ActiveController(max_idle_interval_ms=500)
    before = active.controller.metrics.operations_started
    active.send(new_topic("t"))
    assert active.controller.metrics.operations_started == before + 1
    active.commit()
    assert active.controller.metrics.operations_started == before + 2
    active.advance(500, commit=False)
    assert active.controller.metrics.operations_started > before + 2


def test_only_expired_requests_count_as_timed_out() -> None:
    active = ActiveController()
    active.start_broker(1)
    metrics = active.controller.metrics
    active.ask(new_topic("bad name"))
    active.ask(new_topic("late"), deadline_ms=active.now_ms - 1)
    assert (metrics.operations_timed_out, metrics.timed_out_heartbeats) == (1, 0)
    late = active.ask(active.beat(1), deadline_ms=active.now_ms - 1)
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (metrics.operations_timed_out, metrics.timed_out_heartbeats) == (2, 1)


def test_an_expired_heartbeat_still_renews_the_session() -> None:
    """QuorumController.processBrokerHeartbeat records the contact before it queues the request."""
    active = ActiveController(session_timeout_ms=9_000)
    active.start_broker(1)
    for _ in range(5):
        active.advance(5_000)
        active.ask(active.beat(1), deadline_ms=active.now_ms - 1)
    assert not active.committed.cluster.brokers[1].fenced
