"""Heartbeats: fencing and unfencing, sessions, controlled shutdown, directories, unregistration."""

from uuid import UUID

import pytest

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import BrokerRegistrationChangeRecord
from tests.controller.active_controller import ActiveController


@pytest.fixture
def active() -> ActiveController:
    active = ActiveController()
    for broker_id in (1, 2):
        active.start_broker(broker_id)
    return active


def flags(response: m.BrokerHeartbeatResponse) -> tuple[bool, bool, bool]:
    return response.is_caught_up, response.is_fenced, response.should_shut_down


def test_a_broker_is_unfenced_on_request_after_it_has_read_its_registration() -> None:
    active = ActiveController()
    epoch = active.register(1).broker_epoch
    assert flags(active.heartbeat(1, current_metadata_offset=epoch - 1)) == (False, True, False)
    assert flags(active.heartbeat(1, want_fence=True)) == (True, True, False)
    assert flags(active.heartbeat(1, current_metadata_offset=epoch)) == (True, False, False)
    assert not active.tip.cluster.brokers[1].fenced


def test_the_offset_to_reach_is_that_of_the_record_behind_the_clean_up(active: ActiveController) -> None:
    active.create("t", partitions=3)
    active.now_ms += 10_000
    epoch = active.register(1, incarnation=2).broker_epoch
    record_offset = active.writer.next_offset - 1
    assert record_offset > epoch
    assert flags(active.heartbeat(1, current_metadata_offset=epoch)) == (False, True, False)
    assert flags(active.heartbeat(1, current_metadata_offset=record_offset)) == (True, False, False)


def test_the_response_that_unfences_waits_for_its_record(active: ActiveController) -> None:
    active.heartbeat(1, want_fence=True)
    first = active.send(active.beat(1))
    second = active.send(active.beat(1))
    assert first not in active.answers
    assert second not in active.answers, "it would report an unfencing that may never be committed"
    active.commit()
    assert not active.answers[second].is_fenced


def test_a_heartbeat_without_change_is_answered_at_once_despite_pending_writes(active: ActiveController) -> None:
    topic = m.CreateTopicsRequestCreatableTopic(name="t", num_partitions=1, replication_factor=1)
    active.send(m.CreateTopicsRequest(topics=(topic,)))
    before = active.writer.next_offset
    assert active.send(active.beat(1, cordoned_log_dirs=None)) in active.answers
    assert active.writer.next_offset == before


@pytest.mark.parametrize(("broker_id", "shift"), [(1, 1), (1, -1), (9, 0)])
def test_a_stale_epoch_is_refused_and_renews_no_session(broker_id: int, shift: int, active: ActiveController) -> None:
    epoch = active.tip.cluster.brokers[1].epoch + shift
    request = m.BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=10**6)
    for _ in range(4):
        active.advance(3_000)
        assert active.ask(request).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert active.tip.cluster.brokers[1].fenced


def test_silent_brokers_are_fenced_only_after_their_session(active: ActiveController) -> None:
    active.create("t", partitions=4, factor=2)
    active.advance(9_000)
    assert not active.tip.cluster.brokers[1].fenced
    active.heartbeat(2)
    active.advance(1_200)
    assert active.tip.cluster.brokers[1].fenced
    assert not active.tip.cluster.brokers[2].fenced
    assert {partition.leader for partition in active.partitions("t")} == {2}
    assert {partition.isr for partition in active.partitions("t")} == {(2,)}


def test_several_silent_brokers_are_fenced_one_batch_each_without_waiting_for_the_next_check(
    active: ActiveController,
) -> None:
    active.advance(9_100, commit=False)
    active.commit()
    batches = len(active.writer.batches)
    active.advance(1_100)
    assert all(broker.fenced for broker in active.tip.cluster.brokers.values())
    assert len(active.writer.batches) == batches + 2


def test_a_silent_fenced_broker_writes_no_record(active: ActiveController) -> None:
    active.heartbeat(1, want_fence=True)
    active.heartbeat(1, want_fence=True)
    active.heartbeat(2)
    before = active.writer.next_offset
    for _ in range(8):
        active.advance(2_000)
        active.heartbeat(2)
    assert active.writer.next_offset == before


def test_a_new_active_controller_gives_every_unfenced_broker_a_full_session(active: ActiveController) -> None:
    active.advance(8_000)
    active.lose_leadership()
    active.now_ms += 60_000
    active.win_leadership()
    active.advance(9_000)
    assert not active.tip.cluster.brokers[1].fenced
    active.advance(1_200)
    assert active.tip.cluster.brokers[1].fenced


def test_a_heartbeat_that_expires_in_the_queue_still_counts_as_contact(active: ActiveController) -> None:
    """processExpiredBrokerHeartbeat: a slow controller must not fence live brokers."""
    for _ in range(5):
        active.advance(3_000)
        answer = active.ask(active.beat(1), deadline_ms=active.now_ms - 1)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not active.tip.cluster.brokers[1].fenced
    assert active.tip.cluster.brokers[2].fenced


def test_fencing_moves_leaders_and_unfencing_elects_leaders_of_leaderless_partitions(active: ActiveController) -> None:
    active.create("t", partitions=6, factor=2)
    active.create("u", partitions=2, factor=1)
    leaders = [partition.leader for partition in active.partitions("u")]
    assert set(leaders) == {1, 2}
    active.heartbeat(1, want_fence=True)
    assert {partition.leader for partition in active.partitions("t")} == {2}
    assert sorted(partition.leader for partition in active.partitions("u")) == [-1, 2]
    active.heartbeat(1)
    assert [partition.leader for partition in active.partitions("u")] == leaders


def test_a_returning_broker_triggers_unclean_elections_where_they_are_allowed(active: ActiveController) -> None:
    """ReplicationControlManager.handleBrokerUnfenced considers every partition without leader."""
    active.start_broker(3)
    assignment = m.CreateTopicsRequestCreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2))
    active.create("t", partitions=-1, factor=-1, assignments=(assignment,))
    for broker_id in (2, 1, 3):
        active.heartbeat(broker_id, want_fence=True)
    active.heartbeat(2)
    assert [partition.leader for partition in active.partitions("t")] == [-1], "2 was out of sync"
    config = m.IncrementalAlterConfigsRequestAlterableConfig(name="unclean.leader.election.enable", value="true")
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=2, resource_name="t", configs=(config,)
    )
    active.ask(m.IncrementalAlterConfigsRequest(resources=(resource,)))
    assert [partition.leader for partition in active.partitions("t")] == [-1]
    active.heartbeat(3)
    (partition,) = active.partitions("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_a_broker_without_leaderships_may_shut_down_at_once(active: ActiveController) -> None:
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert active.tip.cluster.brokers[1].fenced


def test_controlled_shutdown_waits_until_the_others_have_read_that_leaders_moved(active: ActiveController) -> None:
    active.create("t", partitions=4, factor=2)
    active.heartbeat(2)
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, False, False)
    broker = active.tip.cluster.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (False, True)
    assert {partition.leader for partition in active.partitions("t")} == {2}
    assert {partition.isr for partition in active.partitions("t")} == {(2,)}
    moved = active.writer.next_offset - 1
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, False, False)
    active.heartbeat(2, current_metadata_offset=moved - 1)
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, False, False)
    active.heartbeat(2, current_metadata_offset=moved)
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert active.tip.cluster.brokers[1].fenced


def test_a_broker_returns_from_controlled_shutdown_by_a_new_registration(active: ActiveController) -> None:
    active.create("t", partitions=2, factor=2)
    active.heartbeat(1, want_shut_down=True)
    active.heartbeat(2)
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert active.heartbeat(1).is_fenced
    active.now_ms += 10_000
    active.register(1, incarnation=2)
    assert not active.heartbeat(1).is_fenced


def test_controlled_shutdown_continues_under_a_new_controller(active: ActiveController) -> None:
    active.create("t", partitions=4, factor=2)
    active.heartbeat(1, want_shut_down=True)
    active.lose_leadership()
    active.win_leadership()
    before = active.writer.next_offset
    assert flags(active.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert active.writer.next_offset == before + 1


def test_an_offline_directory_loses_its_leaders_and_is_taken_from_the_registration() -> None:
    active = ActiveController()
    first, second = UUID(int=5 << 64), UUID(int=6 << 64)
    active.start_broker(1, log_dirs=(first, second))
    active.start_broker(2)
    active.create("t", partitions=4, factor=2)
    topic_id = active.tip.topics.by_name["t"]
    data = m.AssignReplicasToDirsRequestPartitionData
    active.ask(
        m.AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=active.tip.cluster.brokers[1].epoch,
            directories=tuple(
                m.AssignReplicasToDirsRequestDirectoryData(
                    id=directory,
                    topics=(
                        m.AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id, partitions=tuple(data(partition_index=index) for index in indexes)
                        ),
                    ),
                )
                for directory, indexes in ((first, (0, 1)), (second, (2, 3)))
            ),
        )
    )
    response = active.heartbeat(1, offline_log_dirs=(first,))
    assert not response.is_fenced
    assert active.tip.cluster.brokers[1].directories == (second,)
    assert [1 in partition.isr for partition in active.partitions("t")] == [False, False, True, True]
    before = active.writer.next_offset
    active.heartbeat(1, offline_log_dirs=(first,))
    assert active.writer.next_offset == before


def test_a_broker_unfenced_with_a_failed_directory_leads_no_partition_in_it() -> None:
    """The heartbeat that unfences the broker also reports an offline directory."""
    active = ActiveController()
    gone, online = UUID(int=5 << 64), UUID(int=6 << 64)
    active.start_broker(1, log_dirs=(gone, online))
    active.create("t")
    topic = m.AssignReplicasToDirsRequestTopicData(
        topic_id=active.tip.topics.by_name["t"],
        partitions=(m.AssignReplicasToDirsRequestPartitionData(partition_index=0),),
    )
    active.ask(
        m.AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=active.tip.cluster.brokers[1].epoch,
            directories=(m.AssignReplicasToDirsRequestDirectoryData(id=gone, topics=(topic,)),),
        )
    )
    active.heartbeat(1, want_fence=True)
    assert not active.heartbeat(1, offline_log_dirs=(gone,)).is_fenced
    assert active.partitions("t")[0].leader == -1


def test_cordoned_directories_are_recorded_when_they_differ_and_null_changes_nothing(active: ActiveController) -> None:
    """KIP-1066: null is not the same as an empty list."""
    directory = UUID(int=1001 << 64)

    def reported(value: tuple[UUID, ...] | None) -> list[BrokerRegistrationChangeRecord]:
        before = len(active.log())
        active.heartbeat(1, cordoned_log_dirs=value)
        return [record for record in active.log()[before:] if isinstance(record, BrokerRegistrationChangeRecord)]

    assert reported(None) == []
    assert [record.cordoned_log_dirs for record in reported(())] == [()]
    assert reported(()) == []
    assert [record.cordoned_log_dirs for record in reported((directory,))] == [(directory,)]
    assert not active.tip.cluster.brokers[1].has_uncordoned_dirs()
    assert reported(None) == []


def test_cordoned_directories_are_not_recorded_below_metadata_version_30() -> None:
    active = ActiveController(bootstrap_features={"metadata.version": 29})
    active.start_broker(1)
    active.heartbeat(1, cordoned_log_dirs=())
    assert active.tip.cluster.brokers[1].cordoned_directories is None


def test_an_unregistered_broker_leaves_its_isrs_and_is_forgotten(active: ActiveController) -> None:
    active.create("t", partitions=3, factor=2)
    assert active.ask(m.UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.NONE
    assert 1 not in active.tip.cluster.brokers
    assert {(partition.leader, partition.isr) for partition in active.partitions("t")} == {(2, (2,))}
    unknown = active.ask(m.UnregisterBrokerRequest(broker_id=1))
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert active.register(1, incarnation=2).error_code == ErrorCode.NONE
