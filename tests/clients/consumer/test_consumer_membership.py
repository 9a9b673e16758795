"""The KIP-848 membership without sockets: joining, reconciliation, fencing, errors."""

import re
from itertools import product

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.group_errors import (
    CommitFailed,
    FencedInstanceId,
    GroupAuthorizationFailed,
    RebalanceListenerFailed,
)
from kraft_core.clients.consumer.member_state import NEXT, MemberState
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest
from tests.clients.consumer.virtual_consumer_group import (
    COMMIT,
    HEARTBEAT,
    INTERVAL_MS,
    ConsumerGroupWorld,
    topic_id,
)


def partitions(topic: str, *indices: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indices]


def topic_partitions(request: ConsumerGroupHeartbeatRequest) -> dict[object, tuple[int, ...]] | None:
    found = request.topic_partitions
    return None if found is None else {each.topic_id: each.partitions for each in found}


@pytest.fixture
def world() -> ConsumerGroupWorld:
    return ConsumerGroupWorld()


def test_the_transitions_of_a_member_are_those_of_the_table(world: ConsumerGroupWorld) -> None:
    for before, after in product(MemberState, MemberState):
        world.group._members.state = before
        if after in NEXT[before]:
            world.group._members.transition_to(after)
        else:
            with pytest.raises(AssertionError):
                world.group._members.transition_to(after)


# Joining


def test_nothing_is_sent_without_a_subscription(world: ConsumerGroupWorld) -> None:
    world.run()
    assert world.heartbeats == []
    assert world.group.next_deadline_ms(world.now_ms) is None


def test_a_member_joins_in_a_poll_with_all_its_fields() -> None:
    world = ConsumerGroupWorld("range", group_instance_id="i", client_rack="r", rebalance_timeout_ms=60_000)
    world.subscribe("b", "a")
    world.run(polls=False)
    assert world.heartbeats == []
    world.run()
    joined = world.heartbeats[0]
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", joined.member_id)
    assert (joined.group_id, joined.member_epoch, joined.instance_id) == ("g", 0, "i")
    assert (joined.rack_id, joined.rebalance_timeout_ms, joined.server_assignor) == ("r", 60_000, "range")
    assert (joined.subscribed_topic_names, joined.topic_partitions) == (("a", "b"), ())


def test_the_member_id_comes_from_the_given_random() -> None:
    assert ConsumerGroupWorld().group._members.member_id == ConsumerGroupWorld().group._members.member_id


def test_a_member_takes_the_assignment_and_acknowledges_it(world: ConsumerGroupWorld) -> None:
    world.joined(a={0, 2}, b={1})
    assert world.owned == {"a": {0, 2}, "b": {1}}
    assert world.calls == [("assigned", [*partitions("a", 0, 2), *partitions("b", 1)])]
    acknowledged = world.heartbeats[1]
    assert topic_partitions(acknowledged) == {topic_id("a"): (0, 2), topic_id("b"): (1,)}
    assert acknowledged.member_epoch == 1
    assert acknowledged.subscribed_topic_names is None
    assert len(world.heartbeats) == 2


def test_heartbeats_follow_the_brokers_interval_and_carry_what_has_changed(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    count = len(world.heartbeats)
    deadline = world.group.next_deadline_ms(world.now_ms)
    assert deadline is not None
    assert deadline <= world.now_ms + INTERVAL_MS
    world.run(INTERVAL_MS - 200)
    assert len(world.heartbeats) == count
    world.run(200)
    sent = world.heartbeats[count]
    assert (sent.subscribed_topic_names, sent.topic_partitions, sent.rebalance_timeout_ms) == (None, None, -1)
    world.subscribe("a")
    world.run(INTERVAL_MS)
    assert world.heartbeats[-1].subscribed_topic_names == ("a",)


def test_an_empty_assignment_makes_a_member_stable(world: ConsumerGroupWorld) -> None:
    world.joined()
    assert world.owned == {}


def test_a_join_answered_without_an_assignment_is_followed_by_heartbeats_at_the_interval(
    world: ConsumerGroupWorld,
) -> None:
    world.subscribe("a")
    world.epoch = 1
    world.run()
    world.run(1_000)
    assert len(world.heartbeats) == 1
    world.run(INTERVAL_MS)
    assert len(world.heartbeats) == 2


# Reconciliation


def test_partitions_are_revoked_before_others_are_assigned(world: ConsumerGroupWorld) -> None:
    world.joined(a={0, 1})
    world.calls.clear()
    world.epoch, world.target = 2, {"a": {1, 2}}
    world.run(INTERVAL_MS)
    assert world.calls == [("revoked", partitions("a", 0)), ("assigned", partitions("a", 2))]
    assert world.owned == {"a": {1, 2}}
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (1, 2)}


def test_partitions_are_only_revoked_in_a_poll_and_not_fetched_meanwhile(world: ConsumerGroupWorld) -> None:
    world.joined(a={0, 1})
    for index in (0, 1):
        world.consume("a", index, 5)
    world.epoch, world.target = 2, {"a": {1}}
    world.run(INTERVAL_MS, polls=False)
    assert world.owned == {"a": {0, 1}}
    world.holds_callbacks = True
    world.run()
    assert not world.subscriptions.is_fetchable(TopicPartition("a", 0))
    assert world.subscriptions.is_fetchable(TopicPartition("a", 1))
    world.holds_callbacks = False
    world.run()
    assert world.owned == {"a": {1}}


def test_heartbeats_continue_while_the_listener_runs(world: ConsumerGroupWorld) -> None:
    world.holds_callbacks = True
    world.subscribe("a")
    world.epoch, world.target = 1, {"a": {0}}
    world.run()
    count = len(world.heartbeats)
    assert not world.subscriptions.is_fetchable(TopicPartition("a", 0))
    world.run(INTERVAL_MS)
    assert len(world.heartbeats) == count + 1
    assert topic_partitions(world.heartbeats[-1]) in (None, {})
    world.holds_callbacks = False
    world.run()
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (0,)}


def test_nothing_more_is_taken_until_the_coordinator_has_the_last_report(world: ConsumerGroupWorld) -> None:
    """A report that arrives after a newer target would say that the member has given up what it takes now."""
    world.holds_callbacks = True
    world.subscribe("a")
    world.epoch, world.target = 1, {"a": {0}}
    world.run()
    world.target = {"a": {0, 1}}
    world.run(INTERVAL_MS)
    world.holds_callbacks, world.is_silent = False, True
    world.run()
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (0,)}
    assert world.owned == {"a": {0}}
    world.is_silent = False
    world.run(world.client.config.request_timeout_ms)
    world.run(1_000)
    assert world.owned == {"a": {0, 1}}


def test_a_new_coordinator_learns_of_partitions_whose_listener_still_runs(world: ConsumerGroupWorld) -> None:
    world.holds_callbacks = True
    world.subscribe("a")
    world.epoch, world.target = 1, {"a": {0}}
    world.run()
    world.codes.append(ErrorCode.NOT_COORDINATOR)
    world.run(INTERVAL_MS)
    world.run(1_000)
    assert world.heartbeats[-1].subscribed_topic_names == ("a",), "all fields are sent again"
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (0,)}


def test_topics_that_the_metadata_lacks_are_taken_when_their_names_are_known(world: ConsumerGroupWorld) -> None:
    world.known_topics = {"a"}
    world.subscribe("a", "b")
    world.epoch, world.target = 1, {"a": {0}, "b": {1}}
    world.run()
    world.run(100)
    assert world.owned == {"a": {0}}
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (0,)}
    count = len(world.heartbeats)
    world.run(300)
    assert len(world.heartbeats) == count, "an acknowledged part is not acknowledged again"
    world.known_topics = {"a", "b"}
    for _ in range(5):
        world.run(500)
    assert world.owned == {"a": {0}, "b": {1}}
    assert topic_partitions(world.heartbeats[-1]) == {topic_id("a"): (0,), topic_id("b"): (1,)}


def test_the_topics_of_a_brokers_pattern_are_looked_up_by_id(world: ConsumerGroupWorld) -> None:
    world.subscribe_pattern("^a.*")
    world.epoch, world.target = 1, {"a": {3}}
    for _ in range(5):
        world.run(200)
    assert world.heartbeats[0].subscribed_topic_regex == "^a.*"
    assert world.heartbeats[0].subscribed_topic_names == ()
    assert world.heartbeats[-1].subscribed_topic_regex is None
    assert world.owned == {"a": {3}}


def test_a_pattern_that_is_replaced_by_names_is_taken_back(world: ConsumerGroupWorld) -> None:
    world.subscribe_pattern("^a.*")
    world.epoch, world.target = 1, {}
    world.run()
    world.run(100)
    world.subscriptions.unsubscribe()
    world.subscribe("b")
    world.run(INTERVAL_MS)
    assert world.heartbeats[-1].subscribed_topic_regex == ""
    assert world.heartbeats[-1].subscribed_topic_names == ("b",)


def test_a_listener_that_fails_is_seen_in_the_poll_and_called_again_in_the_next(world: ConsumerGroupWorld) -> None:
    world.subscribe("a")
    world.epoch, world.target = 1, {"a": {0}}
    world.listener_errors.append(ValueError("broken"))
    with pytest.raises(RebalanceListenerFailed, match="broken"):
        world.run()
    assert not world.subscriptions.is_fetchable(TopicPartition("a", 0))
    world.run()
    world.consume("a", 0, 0)
    assert world.state == "STABLE"
    assert world.subscriptions.is_fetchable(TopicPartition("a", 0))
    assert world.calls == [("assigned", partitions("a", 0)), ("assigned", [])]


def test_positions_are_committed_before_partitions_are_given_up() -> None:
    world = ConsumerGroupWorld(enable_auto_commit=True).joined(a={0, 1})
    world.consume("a", 0, 7)
    world.epoch, world.target = 2, {"a": {1}}
    world.node.handlers[COMMIT] = lambda _request: None
    world.run(INTERVAL_MS)
    (commit,) = world.seen(OffsetCommitRequest)[-1:]
    assert commit.topics[0].partitions[0].committed_offset == 7
    assert world.owned == {"a": {0, 1}}, "the partition is kept until the commit has ended"
    world.node.handlers[COMMIT] = world._commit
    world.run(30_000)
    for _ in range(5):
        world.run(500)
    assert world.owned == {"a": {1}}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID])
def test_a_topic_that_was_deleted_does_not_hold_the_assignment_back(code: ErrorCode) -> None:
    """Its position cannot be committed before it is given up, however often that is tried."""
    world = ConsumerGroupWorld(enable_auto_commit=True).joined(a={0}, b={0})
    world.consume("b", 0, 7)
    world.commit_codes.extend([code] * 100)
    world.epoch, world.target = 2, {"a": {0, 1}}
    world.run(INTERVAL_MS)
    assert world.owned == {"a": {0, 1}}


def test_a_topic_that_was_created_again_is_read_from_its_beginning() -> None:
    """The same name and number, but another topic id: the old position is neither kept nor committed."""
    world = ConsumerGroupWorld(enable_auto_commit=True, auto_commit_interval_ms=3_600_000).joined(a={0}, b={0})
    for topic in "ab":
        world.consume(topic, 0, 7)
    world.calls.clear()
    world.ids["b"] = topic_id("c")
    world.client.metadata.request_update()
    world.run(200)
    world.epoch, world.target = 2, {"a": {0}, "b": {0}}
    for _ in range(4):
        world.run(INTERVAL_MS / 2)
    assert world.owned == {"a": {0}, "b": {0}}
    assert world.calls == [("lost", partitions("b", 0)), ("assigned", partitions("b", 0))]
    assert not world.subscriptions.has_valid_position(TopicPartition("b", 0))
    assert world.subscriptions.has_valid_position(TopicPartition("a", 0))
    committed = {topic.topic_id for commit in world.seen(OffsetCommitRequest) for topic in commit.topics}
    assert committed == {topic_id("a")}


# Fencing


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_joins_again_at_once(
    world: ConsumerGroupWorld, code: ErrorCode
) -> None:
    world.joined(a={0})
    world.calls.clear()
    world.codes.append(code)
    world.epoch, world.target = 8, {"a": {1}}
    member_id = world.heartbeats[0].member_id
    count = len(world.heartbeats)
    world.run(INTERVAL_MS)
    world.run(100)
    assert world.calls == [("lost", partitions("a", 0)), ("assigned", partitions("a", 1))]
    refused, joined, acknowledged = world.heartbeats[count:]
    assert (refused.member_epoch, joined.member_epoch, acknowledged.member_epoch) == (1, 0, 8)
    assert joined.member_id == member_id
    assert (joined.subscribed_topic_names, joined.topic_partitions) == (("a", "b"), ())


def test_a_fenced_member_cannot_commit(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.holds_callbacks = True
    world.codes.append(ErrorCode.FENCED_MEMBER_EPOCH)
    world.run(INTERVAL_MS)
    assert world.state == "FENCED"
    commit = world.group.commit_offsets(
        {TopicPartition("a", 0): OffsetAndMetadata(5)}, world.now_ms + 1_000, world.now_ms
    )
    world.run()
    assert isinstance(commit.error, CommitFailed)


def test_a_member_that_does_not_poll_in_time_leaves_and_joins_again_at_the_next_poll() -> None:
    world = ConsumerGroupWorld(rebalance_timeout_ms=20_000).joined(a={0})
    for _ in range(3):
        world.run(INTERVAL_MS, polls=False)
    assert world.heartbeats[-1].member_epoch == 1
    deadline = world.group.next_deadline_ms(world.now_ms)
    assert deadline is not None
    assert deadline <= world.now_ms + INTERVAL_MS
    world.run(INTERVAL_MS, polls=False)
    assert world.heartbeats[-1].member_epoch == -1
    assert world.state == "STALE"
    assert world.calls[-1] == ("lost", partitions("a", 0))
    assert world.owned == {}
    world.target, world.epoch = {"a": {0}}, 3
    world.run()
    world.run(100)
    assert world.owned == {"a": {0}}


# Errors


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, KafkaError, "the group 'g' refused the member: the reason"),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceId, "group.instance.id"),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedVersion, "does not support group.protocol=consumer"),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, KafkaError, "the reason"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, KafkaError, "the reason"),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, KafkaError, "the reason"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed, "not authorized to access the group 'g'"),
    ],
)
def test_errors_that_no_retry_heals_are_raised_by_every_poll(
    world: ConsumerGroupWorld, code: ErrorCode, kind: type[KafkaError], message: str
) -> None:
    world.joined(a={0})
    world.codes.append(code)
    with pytest.raises(kind, match=message) as raised:
        world.run(INTERVAL_MS)
    assert raised.value.code == code
    world.serve()
    assert world.calls[-1] == ("lost", partitions("a", 0))
    count = len(world.heartbeats)
    with pytest.raises(kind):
        world.run(INTERVAL_MS)
    assert len(world.heartbeats) == count
    assert world.owned == {}


def test_a_cluster_without_the_protocol_is_named_in_the_first_poll(world: ConsumerGroupWorld) -> None:
    del world.node.versions[HEARTBEAT]
    world.subscribe("a")
    with pytest.raises(UnsupportedVersion, match=r"use group\.protocol=classic"):
        world.run()


def test_a_cluster_that_matches_no_patterns_is_named(world: ConsumerGroupWorld) -> None:
    world.node.versions[HEARTBEAT] = (0, 0)
    world.subscribe_pattern("^a")
    with pytest.raises(UnsupportedVersion, match="does not match subscription patterns"):
        world.run()


def test_a_topic_that_may_not_be_read_is_raised_once_and_the_member_stays(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError) as raised:
        world.run(INTERVAL_MS)
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.run(1_000)
    assert world.state == "STABLE"
    assert world.heartbeats[-1].subscribed_topic_names == ("a", "b"), "all fields are sent again after a failure"


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_moved_or_loads_is_asked_again(world: ConsumerGroupWorld, code: ErrorCode) -> None:
    world.joined(a={0})
    world.codes.append(code)
    world.run(INTERVAL_MS)
    count = len(world.heartbeats)
    for _ in range(4):
        world.run(500)
    assert len(world.heartbeats) > count
    assert (world.state, world.owned) == ("STABLE", {"a": {0}})


def test_a_group_that_may_not_be_read_fails_the_poll(world: ConsumerGroupWorld) -> None:
    world.find_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.subscribe("a")
    with pytest.raises(GroupAuthorizationFailed):
        world.run()


def test_a_lost_connection_is_retried_and_the_member_stays(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.is_silent = True
    world.run(INTERVAL_MS)
    world.network.cut(world.client, 1, world.now_ms)
    world.is_silent = False
    for _ in range(10):
        world.run(500)
    assert (world.state, world.owned) == ("STABLE", {"a": {0}})
    assert world.heartbeats[-1].member_epoch == 1
