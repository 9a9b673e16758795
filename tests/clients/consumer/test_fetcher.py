"""Fetches of a consumer against virtual brokers: sessions, leaders, truncation, resets, buffers."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_errors import LogTruncation, OffsetOutOfRange
from kraft_core.clients.consumer.partition_state import FetchPosition, LeaderAndEpoch
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchResponseLeaderIdAndEpoch, OffsetForLeaderEpochRequest
from tests.clients.consumer.consumer_world import T0, T1, Log, World


def test_records_are_handed_out_once_in_order_and_no_more_than_max_poll_records() -> None:
    world = World(max_poll_records=7)
    world.assign(T0)
    seen = []
    while len(seen) < 100:
        polled = world.poll()
        assert len(polled) <= 7
        seen += polled
    assert seen == list(range(100))
    assert world.poll() == []


def test_after_a_full_fetch_only_changed_partitions_are_named() -> None:
    world = World({T0: Log(end=100), T1: Log(end=0)})
    world.assign(T0, T1)
    world.read(100)
    first, *later = world.fetches(1)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [each.partition for topic in first.topics for each in topic.partitions] == [0, 1]
    assert later
    for epoch, fetch in enumerate(later, 1):
        assert (fetch.session_id, fetch.session_epoch) == (7, epoch)
        assert [each.partition for topic in fetch.topics for each in topic.partitions] in ([0], [])
        assert fetch.forgotten_topics_data == ()


def test_paused_and_unassigned_partitions_are_forgotten_by_the_session() -> None:
    world = World({T0: Log(end=5), T1: Log(end=5)})
    world.assign(T0, T1)
    assert sorted(world.read(10)) == sorted([*range(5), *range(5)])
    world.core.subscriptions.pause(T1)
    world.logs[T0].end = 8
    world.read(3)
    forgotten = [each for fetch in world.fetches(1) for each in fetch.forgotten_topics_data]
    assert [(each.topic, each.partitions) for each in forgotten] == [("t", (1,))]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ],
)
def test_an_error_of_the_session_begins_a_new_one_and_loses_nothing(error: ErrorCode) -> None:
    world = World()
    world.assign(T0)
    seen = world.read(30)
    world.session_error = error
    while len(seen) < 100:
        world.run(1_000)
        seen += world.poll()
    assert seen == list(range(100))
    full = [fetch for fetch in world.fetches(1) if fetch.session_epoch == 0]
    assert len(full) == 2
    assert full[1].session_id == (0 if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 7)


def test_a_cut_connection_begins_a_new_session_and_loses_nothing() -> None:
    world = World()
    world.assign(T0)
    seen = world.read(30)
    world.network.cut(world.core.network, 1, world.now_ms)
    while len(seen) < 100:
        world.run(1_000)
        seen += world.poll()
    assert seen == list(range(100))


def test_a_moved_leader_is_found_by_metadata_and_the_position_validated() -> None:
    world = World()
    world.assign(T0)
    seen = world.read(20)
    world.logs[T0].leader, world.logs[T0].epoch = 2, 1
    while len(seen) < 100:
        world.run(1_000)
        seen += world.poll()
    assert seen == list(range(100))
    asked = [each for each in world.nodes[1].seen if isinstance(each, OffsetForLeaderEpochRequest)]
    assert [(each.current_leader_epoch, each.leader_epoch) for each in asked[0].topics[0].partitions] == [(1, 0)]


def test_a_leader_named_in_the_answer_is_used_without_metadata() -> None:
    """KIP-951."""
    world = World()
    world.assign(T0)
    seen = world.read(20)
    before = sum(node.seen.count(request) for node in world.nodes for request in node.seen if request.API_KEY == 3)
    world.logs[T0].extra["current_leader"] = FetchResponseLeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    world.logs[T0].leader, world.logs[T0].epoch = 2, 1
    seen += world.read(80)
    assert seen == list(range(100))
    after = sum(node.seen.count(request) for node in world.nodes for request in node.seen if request.API_KEY == 3)
    assert after - before <= 1  # asked for all the same, but not waited for
    assert world.fetches(2)


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_truncated_log_moves_the_position_back_or_is_an_error(reset: str) -> None:
    """KIP-320."""
    world = World(auto_offset_reset=reset)
    world.assign(T0)
    world.core.seek(T0, 50, 0)
    world.run()
    seen = world.read(20)
    assert seen[0] == 50
    log = world.logs[T0]
    position = world.core.subscriptions.position(T0)
    assert position is not None
    log.leader, log.epoch, log.end, log.epoch_ends = 2, 1, 65, {0: (0, 60)}
    if reset == "none":
        with pytest.raises(LogTruncation) as refused:
            world.poll_for_long()
        assert refused.value.divergent_offsets[T0].offset == 60
    else:
        for _ in range(20):
            world.run(1_000)
            seen += world.poll()
        assert seen[-5:] == [60, 61, 62, 63, 64]


def test_a_fenced_or_unknown_epoch_is_retried_with_new_metadata_and_not_at_once() -> None:
    for error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE):
        world = World()
        world.assign(T0)
        world.read(20)
        world.logs[T0].error = error
        world.poll()
        world.poll()
        before = len(world.fetches(1))
        world.run()
        assert len(world.fetches(1)) - before <= 1
        world.logs[T0].error = ErrorCode.NONE
        world.run(2_000)
        world.run(2_000)
        assert world.poll()


def test_an_offset_out_of_range_is_reset_or_an_error_with_the_offset() -> None:
    world = World()
    world.assign(T0)
    world.core.seek(T0, 1_000)
    assert world.read(10)[0] == 0
    world = World(auto_offset_reset="none")
    world.assign(T0)
    world.core.seek(T0, 1_000)
    world.run()
    with pytest.raises(OffsetOutOfRange) as refused:
        world.poll()
    assert refused.value.offsets == {T0: 1_000}
    world.core.seek(T0, 95)
    assert world.read(5) == [95, 96, 97, 98, 99]


def test_the_preferred_replica_is_read_until_it_fails_then_the_leader() -> None:
    """KIP-392."""
    world = World(client_rack="r")
    world.assign(T0)
    world.logs[T0].extra["preferred_read_replica"] = 3
    seen = world.read(50)
    assert world.fetches(3)
    assert world.fetches(3)[0].rack_id == "r"
    world.logs[T0].extra.clear()
    before = len(world.fetches(1))
    while len(seen) < 100:
        world.run(1_000)
        seen += world.poll()
    assert seen == list(range(100))
    assert len(world.fetches(1)) > before


def test_paused_answers_are_kept_and_handed_out_after_the_pause() -> None:
    world = World({T0: Log(end=10), T1: Log(end=10)}, max_poll_records=3)
    world.assign(T0, T1)
    world.run()
    fetched = len(world.fetches(1))
    world.core.subscriptions.pause(T0)
    assert world.read(10) == list(range(10))
    world.core.subscriptions.resume(T0)
    world.held.add(1)
    assert world.read(9)[:9] == list(range(9))
    assert fetched > 0


def test_answers_fetched_before_a_seek_are_dropped() -> None:
    world = World()
    world.assign(T0)
    world.poll()
    world.core.seek(T0, 70)
    assert world.read(30)[:30] == list(range(70, 100))


def test_answers_of_partitions_that_are_no_longer_assigned_are_dropped() -> None:
    world = World({T0: Log(end=100), T1: Log(end=5)})
    world.assign(T0, T1)
    world.run()
    world.assign(T1)
    assert world.read(5) == list(range(5))
    assert world.core.poll(world.now_ms) == {}


def test_at_most_two_answers_a_broker_are_kept() -> None:
    world = World({T0: Log(end=10_000, batch=10), T1: Log(end=10_000, batch=10)})
    world.assign(T0, T1)
    for _ in range(20):
        world.run(100)
    assert len(world.fetches(1)) == 2


def test_a_refused_topic_is_an_error_until_access_is_given() -> None:
    world = World()
    world.assign(T0)
    world.read(10)
    world.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError) as refused:
        world.poll_for_long()
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_closing_ends_the_session_at_the_broker() -> None:
    world = World({T0: Log(end=5)})
    world.assign(T0)
    world.read(5)
    world.run()
    world.core.close(world.now_ms + 1_000, world.now_ms)
    world.run()
    last = world.fetches(1)[-1]
    assert (last.session_id, last.session_epoch, last.topics) == (7, -1, ())


def test_the_current_leader_epoch_is_sent_with_each_fetch() -> None:
    world = World({T0: Log(end=5, epoch=4)})
    world.assign(T0)
    world.read(5)
    assert world.fetches(1)[0].topics[0].partitions[0].current_leader_epoch == 4
    assert world.core.subscriptions.position(T0) == FetchPosition(5, 4, LeaderAndEpoch(1, 4))


def test_each_partition_gets_its_turn() -> None:
    partitions = [TopicPartition("t", number) for number in range(5)]
    world = World({each: Log(end=1_000) for each in partitions}, max_poll_records=10)
    world.assign(*partitions)
    counts = dict.fromkeys(partitions, 0)
    for _ in range(50):
        world.run()
        for partition, records in world.core.poll(world.now_ms).items():
            counts[partition] += len(records)
    assert sum(counts.values()) == 500
    assert max(counts.values()) - min(counts.values()) <= 20


def test_a_partition_that_waits_does_not_keep_the_consumer_due_while_its_broker_is_asked() -> None:
    world = World({T0: Log(end=100), T1: Log(end=100)})
    world.assign(T0, T1)
    world.read(20)
    world.logs[T1].error = ErrorCode.UNKNOWN_LEADER_EPOCH
    for _ in range(10):
        world.poll()
    world.held.add(1)
    world.run(200)
    world.run(200)
    due = world.core.next_deadline_ms(world.now_ms)
    assert due is None or due > world.now_ms
