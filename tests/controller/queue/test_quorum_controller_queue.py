"""The controller's event queue: order, deadlines, leadership, shutdown, faults, budget, times."""

from typing import Any

import pytest

from kraft_core.controller import controller_operations
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.quorum_controller_metrics import Histogram
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol import messages as m
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.errors import ErrorCode
from tests.controller.active_controller import ActiveController
from tests.controller.test_quorum_controller import new_topic


def new_config(name: str = "max.connections", value: str = "7") -> m.IncrementalAlterConfigsRequest:
    """Return a change that needs no broker."""
    config = m.IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name="", configs=(config,)
    )
    return m.IncrementalAlterConfigsRequest(resources=(resource,))


def config_error(answer: Any) -> tuple[int, str | None]:
    return answer.responses[0].error_code, answer.responses[0].error_message


@pytest.fixture
def active() -> ActiveController:
    active = ActiveController()
    active.start_broker(1)
    return active


def test_requests_start_in_their_order(active: ActiveController) -> None:
    before = active.writer.next_offset
    ids = [active.queue(new_topic(name)) for name in ("a", "b", "c")]
    assert active.writer.next_offset == before
    assert active.controller.next_deadline_ms(active.now_ms) == active.now_ms
    active.run(budget=2)
    assert set(active.tip.topics.by_name) == {"a", "b"}
    active.run()
    active.commit()
    assert [active.answers[each].topics[0].name for each in ids] == ["a", "b", "c"]
    assert active.controller.next_deadline_ms(active.now_ms) > active.now_ms


def test_a_request_that_expires_in_the_queue_has_no_effect(active: ActiveController) -> None:
    late = active.queue(new_topic("late"), deadline_ms=active.now_ms + 1_000)
    in_time = active.queue(new_topic("in time"), deadline_ms=active.now_ms + 1_001)
    before = active.writer.next_offset
    active.now_ms += 1_000
    active.run()
    result = active.answers[late].topics[0]
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert "late" not in active.tip.topics.by_name
    assert in_time in active.answers or active.writer.next_offset > before


def test_a_large_write_uses_more_of_the_budget(active: ActiveController) -> None:
    large, small = active.queue(new_topic("large", partitions=100)), active.queue(new_topic("small"))
    active.run(budget=10)
    assert set(active.tip.topics.by_name) == {"large"}
    active.run()
    active.commit()
    assert {large, small} <= set(active.answers)


def test_the_activation_runs_before_older_pending_requests() -> None:
    """QuorumMetaLogListener.claim prepends it."""
    active = ActiveController(activate=False)
    waiting = active.queue(new_config())
    active.controller.on_leader(1, active.now_ms)
    assert active.log() == []
    active.run()
    active.commit()
    assert isinstance(active.log()[0], r.BeginTransactionRecord)
    assert isinstance(active.log()[-1], r.ConfigRecord)
    assert config_error(active.answers[waiting]) == (0, None)


def test_a_superseded_activation_does_nothing() -> None:
    active = ActiveController(activate=False)
    active.controller.on_leader(1, active.now_ms)
    active.controller.on_resign(active.now_ms)
    active.controller.on_leader(2, active.now_ms)
    active.run()
    assert [type(record) for record in active.log()].count(r.BeginTransactionRecord) == 1


def test_requests_pending_at_the_loss_of_leadership_are_refused_in_order(active: ActiveController) -> None:
    waiting = [active.queue(new_config()) for _ in range(3)]
    before = len(active.log())
    active.writer.leader_id = 2
    active.controller.on_resign(active.now_ms)
    active.run(budget=2)
    assert [each in active.answers for each in waiting] == [True, True, False]
    active.run()
    said = {config_error(active.answers[each]) for each in waiting}
    assert said == {(ErrorCode.NOT_CONTROLLER, "The active controller appears to be node 2.")}
    assert len(active.log()) == before


def test_due_periodic_tasks_run_before_pending_requests() -> None:
    active = ActiveController(max_idle_interval_ms=500)
    active.now_ms += 500
    active.queue(new_config())
    active.run()
    assert [type(record) for record in active.log()[-2:]] == [r.NoOpRecord, r.ConfigRecord]


def test_after_an_unexpected_error_nothing_more_is_written(
    active: ActiveController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QuorumController.handleEventException renounces before the next event."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(controller_operations.WRITES, m.CreateTopicsRequest, broken)
    active.queue(new_topic("t"))
    next_one = active.queue(new_config())
    before = active.writer.next_offset
    active.run()
    assert active.controller.wants_resign
    assert config_error(active.answers[next_one])[0] == ErrorCode.NOT_CONTROLLER
    assert active.writer.next_offset == before
    assert active.controller.metrics.faults == 1


def test_a_managers_own_timeout_is_a_fault_and_not_a_late_request(
    active: ActiveController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setitem(controller_operations.WRITES, m.CreateTopicsRequest, broken)
    assert active.ask(new_topic("t")).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    metrics = active.controller.metrics
    assert (metrics.operations_timed_out, metrics.faults) == (0, 1)


def test_after_a_fault_that_ends_the_process_nothing_more_runs(
    active: ActiveController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(*_: object) -> ControllerResult[m.CreateTopicsResponse]:
        record = r.PartitionChangeRecord(partition_id=9, leader=1)
        return ControllerResult([record], m.CreateTopicsResponse())

    monkeypatch.setitem(controller_operations.WRITES, m.CreateTopicsRequest, impossible)
    active.queue(new_topic("t"))
    next_one = active.queue(new_config())
    before = active.tip
    for budget in (1, 100):
        with pytest.raises(ReplayError):
            active.controller.poll(active.now_ms, budget)
    assert active.tip is before
    answers = dict(active.controller.take_responses())
    assert config_error(answers[next_one]) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert active.controller.metrics.faults == 1, "an interrupted event is not a fault"


def test_a_fault_while_becoming_active_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    active = ActiveController(activate=False)
    monkeypatch.setattr("kraft_core.controller.quorum_controller.activation_records", lambda *_, **__: 1 / 0)
    active.controller.on_leader(1, active.now_ms)
    with pytest.raises(ZeroDivisionError):
        active.run()


def test_shutdown_answers_all_pending_requests_and_accepts_no_more(active: ActiveController) -> None:
    plain, with_deadline = active.queue(new_config()), active.queue(new_topic("t"), deadline_ms=active.now_ms + 1_000)
    active.controller.on_resign(active.now_ms)
    active.controller.close(active.now_ms)
    after = active.queue(new_topic("after"))
    active.run()
    assert config_error(active.answers[plain])[0] == ErrorCode.NOT_CONTROLLER
    for each in (with_deadline, after):
        result = active.answers[each].topics[0]
        said = (result.error_code, result.error_message)
        assert said == (ErrorCode.REQUEST_TIMED_OUT, "The controller is shutting down.")


def test_shutdown_ends_the_periodic_tasks() -> None:
    active = ActiveController(max_idle_interval_ms=500)
    before = len(active.log())
    active.controller.close(active.now_ms)
    active.advance(10_000)
    assert len(active.log()) == before


def test_an_expired_heartbeat_still_records_the_metadata_offset(active: ActiveController) -> None:
    """ReplicationControlManager.processExpiredBrokerHeartbeat."""
    active.start_broker(2)
    heartbeats = active.controller._managers.heartbeats
    for broker_id, offset in ((1, 9_000), (2, 8_000)):
        active.queue(active.beat(broker_id, current_metadata_offset=offset), deadline_ms=active.now_ms)
    active.run()
    assert heartbeats.lowest_active_offset(active.tip.cluster) == 8_000
    assert active.controller.metrics.timed_out_heartbeats == 2


def occurred(histogram: Histogram) -> dict[float, int]:
    """Return the number of values by the upper bound of their range."""
    bounds = (*histogram.BOUNDS_MS, float("inf"))
    return {bound: count for bound, count in zip(bounds, histogram.counts, strict=True) if count}


def test_the_queue_time_runs_from_arrival_to_start(active: ActiveController) -> None:
    metrics = active.controller.metrics
    metrics.event_queue_time = Histogram()
    active.queue(new_config(), received_ms=active.now_ms - 3)
    active.queue(new_config("num.partitions"))
    active.queue(new_topic("never begun"), deadline_ms=active.now_ms + 40)
    active.now_ms += 40
    active.run()
    assert occurred(metrics.event_queue_time) == {50: 2}
    assert metrics.event_queue_time.sum_ms == 83


def test_the_processing_time_of_a_write_runs_until_the_log_has_committed_it(active: ActiveController) -> None:
    """ControllerWriteEvent.complete, which the purgatory calls."""
    metrics = active.controller.metrics
    metrics.event_queue_processing_time = Histogram()
    active.send(new_config())
    active.now_ms += 7
    active.commit()
    assert occurred(metrics.event_queue_processing_time) == {10: 1}
    active.send(new_config(value="8"))
    active.now_ms += 15
    active.lose_leadership()
    assert occurred(metrics.event_queue_processing_time) == {10: 1, 20: 1}


def test_events_that_end_in_their_first_step_share_its_duration(active: ActiveController) -> None:
    metrics = active.controller.metrics
    metrics.step_took(0)
    metrics.event_queue_processing_time = Histogram()
    active.send(m.UnregisterBrokerRequest(broker_id=99))
    active.send(m.ListPartitionReassignmentsRequest(topics=None))
    active.send(new_topic("late"), deadline_ms=active.now_ms)
    metrics.step_took(1.5)
    metrics.step_took(100)
    assert occurred(metrics.event_queue_processing_time) == {1: 2}
    assert metrics.event_queue_processing_time.sum_ms == 1.5


def test_a_value_counts_in_the_first_range_that_includes_it() -> None:
    histogram = Histogram()
    for value in (0, 0.1, 0.2, 5, 5.1, 30_000, 30_001):
        histogram.update(value)
    assert occurred(histogram) == {0.1: 2, 0.5: 1, 5: 1, 10: 1, 30_000: 1, float("inf"): 1}
    assert histogram.count == 7
