"""Responses of the controller, gain and loss of leadership, and periodic tasks."""

from typing import Any

import pytest

from kraft_core.controller import controller_operations
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.image_writer import image_records
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import NoOpRecord, PartitionChangeRecord
from kraft_core.protocol.wire import Message
from tests.controller.active_controller import ActiveController


def new_topic(name: str, partitions: int = 1, **fields: Any) -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return m.CreateTopicsRequest(topics=(topic,), **fields)


@pytest.fixture
def active() -> ActiveController:
    active = ActiveController()
    active.start_broker(1)
    return active


def test_a_write_is_acknowledged_only_after_its_commit(active: ActiveController) -> None:
    """QuorumControllerTest.testDelayedConfigurationOperations."""
    request_id = active.send(new_topic("t"))
    assert request_id not in active.answers
    assert "t" in active.tip.topics.by_name
    active.commit()
    assert active.answers[request_id].topics[0].error_code == ErrorCode.NONE


def test_responses_keep_the_order_of_the_log(active: ActiveController) -> None:
    ids = [active.send(new_topic(f"t{number}")) for number in range(3)]
    active.commit(batches=2)
    assert [request_id in active.answers for request_id in ids] == [True, True, False]


def test_a_response_that_depends_on_uncommitted_records_waits_for_them(active: ActiveController) -> None:
    first = active.send(new_topic("t"))
    again = active.send(new_topic("t"))
    assert not {first, again} & set(active.answers)
    active.commit()
    assert active.answers[again].topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_response_without_records_is_sent_at_once_when_no_write_is_pending(active: ActiveController) -> None:
    assert active.send(new_topic("t", validate_only=True)) in active.answers


NOTHING_ASKED = (
    m.AlterPartitionRequest(),
    m.AlterUserScramCredentialsRequest(),
    m.AlterClientQuotasRequest(),
    m.AlterConfigsRequest(),
    m.IncrementalAlterConfigsRequest(),
    m.AlterPartitionReassignmentsRequest(),
    m.CreatePartitionsRequest(),
    m.CreateTopicsRequest(),
    m.ElectLeadersRequest(topic_partitions=()),
)


@pytest.mark.parametrize("request_", NOTHING_ASKED, ids=lambda each: type(each).__name__)
def test_an_empty_request_is_answered_at_once_by_any_controller(request_: Any, active: ActiveController) -> None:
    """QuorumControllerTest.testEarlyControllerResults."""
    active.send(new_topic("t"))
    early = active.send(request_, deadline_ms=active.now_ms - 1)
    assert early in active.answers, "nothing that is uncommitted counts for it"
    active.lose_leadership()
    assert active.answers[active.send(request_)] == active.answers[early]


def test_a_request_for_all_partitions_is_not_empty(active: ActiveController) -> None:
    active.lose_leadership()
    assert active.ask(m.ElectLeadersRequest(topic_partitions=None)).error_code == ErrorCode.NOT_CONTROLLER


def test_a_request_whose_deadline_has_passed_has_no_effect(active: ActiveController) -> None:
    before = active.writer.next_offset
    answer = active.ask(new_topic("t"), deadline_ms=active.now_ms - 1)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert active.writer.next_offset == before


def test_an_operation_that_started_in_time_does_not_time_out(active: ActiveController) -> None:
    request_id = active.send(new_topic("t"), deadline_ms=active.now_ms + 1)
    active.now_ms += 60_000
    active.commit()
    assert active.answers[request_id].topics[0].error_code == ErrorCode.NONE


def test_one_request_is_one_batch(active: ActiveController) -> None:
    batches = len(active.writer.batches)
    assert active.create("t", partitions=50).error_code == ErrorCode.NONE
    assert len(active.writer.batches) == batches + 1


def test_a_request_for_more_than_10000_records_is_refused_as_a_whole(active: ActiveController) -> None:
    result = active.create("t", partitions=10_001)
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert "t" not in active.tip.topics.by_name


@pytest.mark.parametrize("request_class", [m.AlterPartitionRequest, m.AssignReplicasToDirsRequest])
def test_the_records_of_a_brokers_request_are_not_limited(request_class: type[Message]) -> None:
    result: ControllerResult[Message] = ControllerResult((NoOpRecord(),) * 10_001, request_class())
    controller_operations.check_size(request_class(), result)
    with pytest.raises(KafkaError, match="excessively large"):
        controller_operations.check_size(m.UnregisterBrokerRequest(), result)


def test_losing_leadership_answers_deferred_requests_and_drops_the_tip(active: ActiveController) -> None:
    active.create("kept")
    waiting = active.send(new_topic("lost"))
    active.lose_leadership()
    assert active.answers[waiting].topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert set(active.tip.topics.by_name) == {"kept"}
    active.win_leadership()
    assert active.create("lost").error_code == ErrorCode.NONE


def test_an_inactive_controller_names_the_active_one(active: ActiveController) -> None:
    active.lose_leadership()
    result = active.ask(new_topic("t")).topics[0]
    assert result.error_code == ErrorCode.NOT_CONTROLLER
    assert result.error_message == "The active controller appears to be node 2."


def test_an_append_that_raft_refuses_is_answered_not_controller(active: ActiveController) -> None:
    active.writer.refuse = True
    assert active.ask(new_topic("t")).topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert "t" not in active.tip.topics.by_name


def test_an_unexpected_error_is_answered_and_makes_the_controller_resign(
    active: ActiveController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(controller_operations.WRITES, m.CreateTopicsRequest, broken)
    result = active.ask(new_topic("t")).topics[0]
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert active.controller.wants_resign
    active.lose_leadership()
    assert not active.controller.wants_resign


def test_a_refused_request_is_no_reason_to_resign(active: ActiveController) -> None:
    active.ask(m.UnregisterBrokerRequest(broker_id=99))
    assert not active.controller.wants_resign


def test_a_record_that_the_tip_cannot_replay_stops_the_process(
    active: ActiveController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QuorumControllerTest.testFatalMetadataReplayErrorOnActive: it does not continue in an inconsistent state."""

    def impossible(*_: object) -> ControllerResult[m.CreateTopicsResponse]:
        record = PartitionChangeRecord(partition_id=9, leader=1)
        return ControllerResult([record], m.CreateTopicsResponse())

    monkeypatch.setitem(controller_operations.WRITES, m.CreateTopicsRequest, impossible)
    with pytest.raises(ReplayError):
        active.send(new_topic("t"))


def test_an_atomic_result_is_never_split(active: ActiveController, monkeypatch: pytest.MonkeyPatch) -> None:
    def many(*, atomic: bool) -> Any:
        result = ControllerResult([NoOpRecord()] * 25, m.AssignReplicasToDirsResponse(), is_atomic=atomic)
        return lambda *_: result

    small = ActiveController(max_records_per_batch=10)
    monkeypatch.setitem(controller_operations.WRITES, m.AssignReplicasToDirsRequest, many(atomic=False))
    before = len(small.writer.batches)
    small.ask(m.AssignReplicasToDirsRequest())
    assert len(small.writer.batches) == before + 3
    monkeypatch.setitem(controller_operations.WRITES, m.AssignReplicasToDirsRequest, many(atomic=True))
    with pytest.raises(ReplayError, match="atomically"):
        small.send(m.AssignReplicasToDirsRequest())


def test_a_noop_record_is_written_every_idle_interval() -> None:
    active = ActiveController(max_idle_interval_ms=500)
    before = len(active.log())
    active.advance(2_000)
    assert active.log()[before:] == [NoOpRecord()] * 4


def test_no_noop_record_is_written_when_the_interval_is_0() -> None:
    active = ActiveController(max_idle_interval_ms=0)
    before = active.writer.next_offset
    active.advance(60_000)
    assert active.writer.next_offset == before


def test_only_the_active_controller_runs_periodic_tasks() -> None:
    active = ActiveController(max_idle_interval_ms=500)
    active.lose_leadership()
    before = active.writer.next_offset
    active.advance(10_000)
    assert active.writer.next_offset == before


def test_a_failing_periodic_task_is_retried_later_and_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    active = ActiveController(max_idle_interval_ms=500, unclean_leader_election_interval_ms=1_000)
    calls: list[int] = []

    def fails(image: object) -> None:
        calls.append(active.now_ms)
        raise ZeroDivisionError

    monkeypatch.setattr(active.controller._managers.elections, "maybe_elect_unclean_leaders", fails)
    active.advance(400_000)
    assert len(calls) == 2  # after 1 s, then 5 minutes later
    assert active.controller.metrics.faults == 2
    assert not active.controller.wants_resign
    assert active.log()[-1] == NoOpRecord()


def test_leadership_returns_to_the_preferred_replica() -> None:
    active = ActiveController(leader_imbalance_check_interval_ms=30_000)
    for broker_id in (1, 2):
        active.start_broker(broker_id)
    active.create("t", partitions=4, factor=2)
    active.heartbeat(1, want_fence=True)
    active.heartbeat(1)
    epoch = {broker_id: active.tip.cluster.brokers[broker_id].epoch for broker_id in (1, 2)}
    for index, partition in enumerate(active.partitions("t")):
        if set(partition.isr) != {1, 2}:
            state = m.AlterPartitionRequestBrokerState
            active.ask(
                m.AlterPartitionRequest(
                    broker_id=2, broker_epoch=epoch[2],
                    topics=(m.AlterPartitionRequestTopicData(
                        topic_id=active.tip.topics.by_name["t"],
                        partitions=(m.AlterPartitionRequestPartitionData(
                            partition_index=index, leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch,
                            new_isr_with_epochs=tuple(state(broker_id=b, broker_epoch=epoch[b]) for b in (1, 2)),
                        ),),
                    ),),
                )
            )  # fmt: skip
    assert {partition.leader for partition in active.partitions("t")} == {2}
    for _ in range(6):
        active.advance(6_000)
        active.heartbeat(1)
        active.heartbeat(2)
    assert all(partition.has_preferred_leader for partition in active.partitions("t"))


def test_the_log_replays_to_the_committed_image(active: ActiveController) -> None:
    active.create("t", partitions=3)
    active.ask(m.AllocateProducerIdsRequest(broker_id=1, broker_epoch=active.tip.cluster.brokers[1].epoch))
    assert active.replayed() == active.committed == active.tip
    assert list(image_records(active.replayed())) == list(image_records(active.tip))


@pytest.mark.parametrize("request_class", list(controller_operations.WRITES), ids=lambda each: each.__name__)
def test_every_write_is_refused_by_a_node_that_does_not_lead(request_class: type[m.CreateTopicsRequest]) -> None:
    idle = ActiveController(activate=False)
    request_id = idle.send(request_class())
    assert request_id in idle.answers
    assert idle.writer.batches == []


@pytest.mark.parametrize("request_class", list(controller_operations.WRITES), ids=lambda each: each.__name__)
def test_every_write_of_defaults_is_answered(
    request_class: type[m.CreateTopicsRequest], active: ActiveController
) -> None:
    request_id = active.send(request_class())
    active.commit()
    assert request_id in active.answers
    assert not active.controller.wants_resign


def test_reads_see_committed_state_alone(active: ActiveController) -> None:
    active.send(new_topic("t"))
    resource = m.DescribeConfigsRequestDescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    request = m.DescribeConfigsRequest(resources=(resource,))
    early = active.answers[active.send(request)]
    assert early.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    active.commit()
    assert active.ask(request).results[0].error_code == ErrorCode.NONE


def test_reads_are_answered_by_a_node_that_does_not_lead(active: ActiveController) -> None:
    active.lose_leadership()
    request = m.ListPartitionReassignmentsRequest(topics=None)
    assert active.answers[active.send(request)].error_code == ErrorCode.NONE
