"""Lookups of offsets against virtual brokers: retries, deadlines, resets, validation by old brokers."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.partition_state import FetchPosition, LeaderAndEpoch
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut
from kraft_core.protocol.messages import ListOffsetsRequest, OffsetForLeaderEpochRequest
from tests.clients.consumer.consumer_world import EPOCHS, T0, T1, Log, World


def lookups(world: World, node_id: int) -> list[ListOffsetsRequest]:
    return [each for each in world.nodes[node_id - 1].seen if isinstance(each, ListOffsetsRequest)]


def test_offsets_come_from_the_leader_of_each_partition() -> None:
    world = World({T0: Log(leader=1, end=5), T1: Log(leader=2, end=7, start=3)})
    end = world.core.offset_fetcher.list_offsets({T0: -1, T1: -1}, world.now_ms + 1_000, world.now_ms)
    begin = world.core.offset_fetcher.list_offsets({T1: -2}, world.now_ms + 1_000, world.now_ms)
    world.run(turns=30)
    assert {key: found and found.offset for key, found in end.result().items()} == {T0: 5, T1: 7}
    assert {key: found and found.offset for key, found in begin.result().items()} == {T1: 3}
    assert lookups(world, 1)
    assert lookups(world, 2)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH]
)
def test_a_lookup_is_repeated_with_back_off_until_it_succeeds(error: ErrorCode) -> None:
    world = World()
    world.logs[T0].error = error
    pending = world.core.offset_fetcher.list_offsets({T0: -1}, world.now_ms + 60_000, world.now_ms)
    world.run()
    world.run()
    assert len(lookups(world, 1)) == 1
    world.run(1_000)
    assert len(lookups(world, 1)) == 2
    world.logs[T0].error = ErrorCode.NONE
    for _ in range(3):
        world.run(2_000)
    found = pending.result()[T0]
    assert found is not None
    assert (found.offset, found.leader_epoch) == (100, 0)


def test_a_lookup_ends_at_its_deadline_with_the_last_error() -> None:
    world = World()
    world.logs[T0].error = ErrorCode.OFFSET_NOT_AVAILABLE
    pending = world.core.offset_fetcher.list_offsets({T0: -1}, world.now_ms + 5_000, world.now_ms)
    for _ in range(6):
        world.run(1_000)
    with pytest.raises(RequestTimedOut) as late:
        pending.result()
    limit = "within 5000 ms (timeout_ms, by default default.api.timeout.ms)"
    assert late.value.message.startswith(f"no offsets of t-0 {limit}. The last error was: offset of t-0: ")
    assert world.core.offset_fetcher.topics == set()


def test_a_lookup_of_an_unknown_topic_ends_at_its_deadline() -> None:
    world = World()
    pending = world.core.offset_fetcher.list_offsets(
        {TopicPartition("none", 0): -1}, world.now_ms + 5_000, world.now_ms
    )
    for _ in range(6):
        world.run(1_000)
    assert isinstance(pending.error, RequestTimedOut)


def test_a_refused_lookup_fails_at_once() -> None:
    world = World()
    world.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    pending = world.core.offset_fetcher.list_offsets({T0: -1}, world.now_ms + 60_000, world.now_ms)
    world.run()
    world.run()
    assert isinstance(pending.error, KafkaError)
    assert pending.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_refused_reset_is_reported_once_however_often_it_is_tried() -> None:
    world = World()
    world.logs[T0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.assign(T0)
    for _ in range(10):
        world.run(1_000)
    with pytest.raises(KafkaError, match="t-0"):
        world.core.poll(world.now_ms)
    assert world.core.poll(world.now_ms) == {}


def test_a_reset_by_duration_without_a_young_record_goes_to_the_end() -> None:
    world = World(auto_offset_reset="by_duration:PT1S")
    world.assign(T0)
    world.run()
    assert world.core.subscriptions.valid_position(T0) == FetchPosition(100, None, LeaderAndEpoch(1, 0))
    assert [each.topics[0].partitions[0].timestamp for each in lookups(world, 1)] == [999_000, -1]


def test_a_broker_that_cannot_validate_is_read_without_validation() -> None:
    world = World()
    world.nodes[0].versions[EPOCHS] = (0, 2)
    world.assign(T0)
    world.core.seek(T0, 50, 0)
    assert world.read(50)[0] == 50
    assert not [each for each in world.nodes[0].seen if isinstance(each, OffsetForLeaderEpochRequest)]


def test_a_question_for_topics_ends_at_its_deadline_without_brokers() -> None:
    world = World()
    for node in world.nodes:
        node.is_up = False
    pending = world.core.topic_metadata.ask(None, world.now_ms + 3_000, world.now_ms)
    for _ in range(4):
        world.run(1_000)
    assert isinstance(pending.error, RequestTimedOut)
    assert "No metadata of all topics after 3000 ms; asked: broker-1:9092. " in pending.error.message
    assert "broker-1:9092: connection refused" in pending.error.message


def test_topics_are_asked_for_by_name_or_all() -> None:
    world = World({T0: Log(), T1: Log(leader=2)})
    one = world.core.topic_metadata.ask("t", world.now_ms + 3_000, world.now_ms)
    every = world.core.topic_metadata.ask(None, world.now_ms + 3_000, world.now_ms)
    none = world.core.topic_metadata.ask("none", world.now_ms + 3_000, world.now_ms)
    for _ in range(3):
        world.run(500)
    assert {key: found.leader for key, found in one.result()["t"].items()} == {T0: 1, T1: 2}
    assert every.result().keys() == {"t"}
    assert none.result() == {}
