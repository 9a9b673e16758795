"""The KIP-848 membership without sockets: leaving, and commits in the member's name."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.group_errors import (
    CommitFailed,
    RebalanceInProgress,
    RebalanceListenerFailed,
)
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest
from tests.clients.consumer.virtual_consumer_group import (
    COMMIT,
    INTERVAL_MS,
    ConsumerGroupWorld,
)


def partitions(topic: str, *indices: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indices]


@pytest.fixture
def world() -> ConsumerGroupWorld:
    return ConsumerGroupWorld()


# Leaving


def test_a_member_that_unsubscribes_revokes_everything_and_leaves(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    left = world.group.unsubscribe(world.now_ms)
    world.finish(left)
    left.result()
    assert world.calls[-1] == ("revoked", partitions("a", 0))
    assert world.heartbeats[-1].member_epoch == -1
    world.subscriptions.unsubscribe()
    world.run(INTERVAL_MS)
    assert world.heartbeats[-1].member_epoch == -1
    world.subscribe("b")
    world.epoch, world.target = 4, {"b": {0}}
    world.run()
    world.run(100)
    assert world.owned == {"b": {0}}


def test_a_static_member_leaves_for_a_while() -> None:
    world = ConsumerGroupWorld(group_instance_id="i").joined(a={0})
    world.finish(world.group.close(world.now_ms + 1_000, world.now_ms))
    assert (world.heartbeats[-1].member_epoch, world.heartbeats[-1].instance_id) == (-2, "i")


def test_a_member_commits_before_it_leaves() -> None:
    world = ConsumerGroupWorld(enable_auto_commit=True).joined(a={0})
    world.consume("a", 0, 9)
    world.finish(world.group.close(world.now_ms + 1_000, world.now_ms))
    (commit,) = world.seen(OffsetCommitRequest)
    assert (commit.generation_id_or_member_epoch, commit.topics[0].partitions[0].committed_offset) == (1, 9)
    kinds = [type(each) for each in world.node.seen]
    assert kinds.index(OffsetCommitRequest) < len(kinds) - 1 - kinds[::-1].index(ConsumerGroupHeartbeatRequest)


def test_a_close_without_an_answer_ends_at_its_deadline(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.is_silent = True
    left = world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    assert not left.is_done
    assert world.group.next_deadline_ms(world.now_ms) == world.now_ms + 1_000
    world.run(1_000, polls=False)
    assert left.is_done


def test_a_close_without_time_commits_and_leaves_and_awaits_no_answer() -> None:
    world = ConsumerGroupWorld(enable_auto_commit=True).joined(a={0})
    world.consume("a", 0, 9)
    world.node.handlers[COMMIT] = lambda _request: None
    left = world.group.close(world.now_ms, world.now_ms)
    world.run(polls=False)
    assert left.is_done
    assert len(world.seen(OffsetCommitRequest)) == 1
    assert world.heartbeats[-1].member_epoch == -1
    assert world.calls[-1] == ("revoked", partitions("a", 0))


def test_a_listener_that_fails_while_leaving_fails_the_call_after_the_member_has_left(
    world: ConsumerGroupWorld,
) -> None:
    world.joined(a={0})
    world.listener_errors.append(ValueError("broken"))
    left = world.group.unsubscribe(world.now_ms)
    world.finish(left)
    assert isinstance(left.error, RebalanceListenerFailed)
    assert world.heartbeats[-1].member_epoch == -1


def test_a_member_fenced_while_it_leaves_sends_no_heartbeat_any_more(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.holds_callbacks = True
    world.codes.append(ErrorCode.FENCED_MEMBER_EPOCH)
    left = world.group.unsubscribe(world.now_ms)
    world.run(INTERVAL_MS, polls=False)
    count = len(world.heartbeats)
    world.holds_callbacks = False
    world.finish(left)
    assert len(world.heartbeats) == count
    assert world.state == "UNSUBSCRIBED"


# Commits


def offsets(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition("a", 0): OffsetAndMetadata(offset)}


def test_commits_name_the_member_and_its_epoch() -> None:
    world = ConsumerGroupWorld(group_instance_id="i").joined(a={0})
    commit = world.group.commit_offsets(offsets(5), world.now_ms + 1_000, world.now_ms)
    world.run()
    commit.result()
    (sent,) = world.seen(OffsetCommitRequest)
    assert (sent.member_id, sent.generation_id_or_member_epoch) == (world.heartbeats[0].member_id, 1)
    assert sent.group_instance_id == "i"
    assert world.group.group_metadata().generation_id == 1


def test_a_commit_of_an_old_epoch_is_sent_again_with_the_present_one(world: ConsumerGroupWorld) -> None:
    world.joined(a={0})
    world.commit_codes.append(ErrorCode.STALE_MEMBER_EPOCH)
    handler = world.node.handlers[COMMIT]

    def bump(request: OffsetCommitRequest) -> object:
        world.group._members.member_epoch = 2
        world.epoch = 2
        return handler(request)

    world.node.handlers[COMMIT] = bump
    commit = world.group.commit_offsets(offsets(5), world.now_ms + 1_000, world.now_ms)
    world.run()
    world.run(300)
    commit.result()
    assert [each.generation_id_or_member_epoch for each in world.seen(OffsetCommitRequest)] == [1, 2]


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_commit_of_a_member_that_is_refused_fails(world: ConsumerGroupWorld, code: ErrorCode) -> None:
    world.joined(a={0})
    world.commit_codes.append(code)
    commit = world.group.commit_offsets(offsets(5), world.now_ms + 1_000, world.now_ms)
    world.run()
    assert isinstance(commit.error, CommitFailed)


def test_a_commit_before_the_member_has_joined_is_refused(world: ConsumerGroupWorld) -> None:
    world.is_silent = True
    world.subscribe("a")
    world.run()
    commit = world.group.commit_offsets(offsets(5), world.now_ms + 1_000, world.now_ms)
    world.run()
    assert isinstance(commit.error, RebalanceInProgress)


def test_positions_are_committed_at_polls_after_the_interval() -> None:
    world = ConsumerGroupWorld(enable_auto_commit=True, auto_commit_interval_ms=2_000).joined(a={0})
    world.consume("a", 0, 3)
    world.run(1_800)
    world.run(200, polls=False)
    assert world.seen(OffsetCommitRequest) == []
    world.run()
    (commit,) = world.seen(OffsetCommitRequest)
    assert commit.topics[0].partitions[0].committed_offset == 3
