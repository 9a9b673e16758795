"""Committed offsets without sockets: order, retries, auto commit, lookups, and the errors of each."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.group_errors import (
    CommitFailed,
    FencedInstanceId,
    GroupAuthorizationFailed,
    RebalanceInProgress,
    RetriableCommitFailed,
    TopicAuthorizationFailed,
)
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut
from kraft_core.protocol.messages import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tests.clients.consumer.virtual_group import COMMIT, FETCH, FIND, HEARTBEAT, SILENT, PatientAssignor, World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def commit(world: World, offset: int, *, retries: bool = True, partition: TopicPartition = T0) -> Pending[None]:
    deadline_ms = world.now_ms + 10_000 if retries else None
    return world.group.commit_offsets({partition: OffsetAndMetadata(offset, "m", 3)}, deadline_ms, world.now_ms)


def test_a_commit_names_generation_member_leader_epoch_and_metadata() -> None:
    world = World().joined()
    done = commit(world, 7)
    world.run()
    assert done.is_done
    assert done.error is None
    sent = world.seen(OffsetCommitRequest)[-1]
    assert (sent.group_id, sent.generation_id_or_member_epoch, sent.member_id) == ("g", 1, "me")
    each = sent.topics[0].partitions[0]
    assert (each.committed_offset, each.committed_leader_epoch, each.committed_metadata) == (7, 3, "m")


def test_a_consumer_of_assigned_partitions_commits_without_a_generation() -> None:
    world = World()
    world.subscriptions.assign_from_user([T0])
    done = commit(world, 7)
    world.run()
    assert done.is_done
    assert done.error is None
    assert world.seen(OffsetCommitRequest)[0].generation_id_or_member_epoch == -1
    assert world.seen(JoinGroupRequest) == []


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_commit_with_a_deadline_is_retried_and_one_without_is_not(code: ErrorCode) -> None:
    world = World().joined()
    world.answers[COMMIT] += [code, code]
    once = commit(world, 7, retries=False)
    world.run()
    assert isinstance(once.error, RetriableCommitFailed)
    assert once.error.retriable
    kept = commit(world, 8)
    world.pass_time(1_000)
    assert kept.is_done
    assert kept.error is None
    assert world.committed == {T0: 8}


@pytest.mark.parametrize(
    ("retries", "limit"),
    [
        (True, "within 10000 ms (timeout_ms, by default default.api.timeout.ms)"),
        (False, "within 30000 ms (request.timeout.ms)"),
    ],
)
def test_a_commit_without_a_coordinator_names_the_limit_of_its_time(*, retries: bool, limit: str) -> None:
    world = World().joined()
    world.answers[COMMIT] += [ErrorCode.NOT_COORDINATOR]
    commit(world, 6, retries=False)
    world.answers[FIND] += [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1_000
    world.run()
    late = commit(world, 7, retries=retries)
    world.pass_time(31_000)
    assert isinstance(late.error, RequestTimedOut)
    assert late.error.message.startswith(f"the offsets were not committed {limit}.")


def test_a_commit_that_finds_no_end_times_out_and_names_the_last_error() -> None:
    world = World().joined()
    world.answers[COMMIT] += [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
    done = commit(world, 7)
    world.pass_time(11_000)
    assert isinstance(done.error, RequestTimedOut)
    assert "still loading" in done.error.message
    assert len(world.seen(OffsetCommitRequest)) < 30


def test_commits_reach_the_coordinator_in_order_also_past_a_retry() -> None:
    world = World().joined()
    ended: list[int] = []
    world.answers[COMMIT].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first = commit(world, 1)
    world.run(turns=2)
    for number, pending in ((1, first), (2, commit(world, 2)), (3, commit(world, 3, retries=False))):
        pending.when_done(lambda _pending, number=number: ended.append(number))
    world.pass_time(1_000)
    assert ended == [1, 2, 3]
    assert world.committed == {T0: 3}


def test_a_retry_never_replaces_a_newer_offset() -> None:
    world = World().joined()
    world.answers[COMMIT].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first, second = commit(world, 1), commit(world, 2)
    world.pass_time(1_000)
    assert isinstance(first.error, RetriableCommitFailed)
    assert second.error is None
    assert world.committed == {T0: 2}


def test_a_commit_of_nothing_ends_after_the_commits_before_it() -> None:
    world = World().joined()
    ended: list[str] = []
    commit(world, 1).when_done(lambda _: ended.append("one"))
    world.group.commit_offsets({}, None, world.now_ms).when_done(lambda _: ended.append("nothing"))
    assert ended == []
    world.run()
    assert ended == ["one", "nothing"]


def test_commits_wait_for_the_coordinator_and_survive_a_lost_connection() -> None:
    world = World().joined()
    world.answers[COMMIT].append(SILENT)
    done = commit(world, 1)
    world.run(turns=2)
    world.network.cut(world.client, 2, world.now_ms)
    world.pass_time(1_000)
    assert done.is_done
    assert done.error is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_the_group_dropped_cannot_commit_and_loses_its_partitions(code: ErrorCode) -> None:
    world = World().joined()
    world.answers[COMMIT].append(code)
    done = commit(world, 7)
    world.run()
    assert isinstance(done.error, CommitFailed)
    assert [kind for kind, _ in world.calls] == ["assigned", "lost", "assigned"]


def test_a_commit_during_a_rebalance_says_so() -> None:
    world = World().joined()
    world.answers[COMMIT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    done = commit(world, 7)
    world.run()
    assert isinstance(done.error, RebalanceInProgress)
    assert [kind for kind, _ in world.calls] == ["assigned", "revoked", "assigned"]


def test_a_member_that_left_for_want_of_polls_cannot_commit() -> None:
    world = World(rebalance_timeout_ms=5_000).joined()
    world.pass_time(6_000, polls=False)
    done = commit(world, 7)
    world.run(polls=False)
    assert isinstance(done.error, CommitFailed)
    assert world.seen(OffsetCommitRequest) == []


def test_a_fenced_static_member_cannot_commit_and_poll_raises() -> None:
    world = World(group_instance_id="static").joined()
    world.answers[COMMIT].append(ErrorCode.FENCED_INSTANCE_ID)
    done = commit(world, 7)
    with pytest.raises(FencedInstanceId):
        world.run()
    assert isinstance(done.error, FencedInstanceId)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, KafkaError),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, KafkaError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, KafkaError),
    ],
)
def test_errors_of_a_commit_that_no_retry_heals(code: ErrorCode, kind: type[KafkaError]) -> None:
    world = World().joined()
    world.answers[COMMIT].append(code)
    done = commit(world, 7)
    world.run()
    assert type(done.error) is kind
    assert isinstance(done.error, KafkaError)
    assert done.error.code == code


def test_a_refused_lookup_fails_what_waits_for_the_coordinator() -> None:
    world = World()
    world.subscriptions.assign_from_user([T0])
    world.answers[FIND].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    done, looked_up = commit(world, 7), world.group.fetch_committed_offsets([T0], world.now_ms + 9_000, world.now_ms)
    world.run()
    assert isinstance(done.error, GroupAuthorizationFailed)
    assert isinstance(looked_up.error, GroupAuthorizationFailed)


# Auto commit


def test_auto_commit_commits_what_was_handed_out_before_the_poll() -> None:
    world = World(auto_commit_interval_ms=1_000).joined()
    world.consume(0, 5)
    world.pass_time(1_000)
    assert world.committed[T0] == 5
    world.consume(0, 9)
    world.pass_time(5_000, polls=False)
    assert world.committed[T0] == 5
    world.run()
    assert world.committed[T0] == 9


def test_auto_commit_that_fails_for_a_passing_cause_is_tried_again_soon() -> None:
    world = World(auto_commit_interval_ms=60_000).joined()
    world.consume(0, 5)
    world.answers[COMMIT].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.run(60_000)
    assert world.committed == {}
    world.pass_time(500)
    assert world.committed == {T0: 5}


def test_without_auto_commit_nothing_is_committed() -> None:
    world = World(enable_auto_commit=False, auto_commit_interval_ms=100).joined()
    world.consume(0, 5)
    world.pass_time(1_000)
    world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    assert world.seen(OffsetCommitRequest) == []
    assert len(world.seen(LeaveGroupRequest)) == 1


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_offsets_are_committed_before_a_rebalance_gives_partitions_up(is_cooperative: bool) -> None:
    world = World(*([PatientAssignor()] if is_cooperative else [])).joined()
    world.consume(0, 5)
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.run(3_000)
    assert world.committed == {T0: 5}
    kinds = [type(each) for each in world.seen(OffsetCommitRequest) + world.seen(JoinGroupRequest)]
    assert kinds.count(OffsetCommitRequest) == 1
    order = [type(each) for each in world.nodes[1].seen]
    assert order.index(OffsetCommitRequest) < len(order) - 1 - order[::-1].index(JoinGroupRequest)


def test_a_commit_before_a_rebalance_waits_for_passing_errors_but_not_for_others() -> None:
    world = World().joined()
    world.consume(0, 5)
    world.answers[COMMIT] += [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.run(3_000)
    assert len(world.seen(JoinGroupRequest)) == 1
    world.pass_time(500)
    assert len(world.seen(JoinGroupRequest)) == 2
    assert world.owned == [0, 1]


def test_closing_commits_before_the_member_leaves() -> None:
    world = World().joined()
    world.consume(0, 5)
    world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    order = [type(each) for each in world.nodes[1].seen]
    assert order.index(OffsetCommitRequest) < order.index(LeaveGroupRequest)
    assert world.committed == {T0: 5}


# Lookups


def test_committed_offsets_are_looked_up_and_partitions_without_one_have_none() -> None:
    world = World().joined()
    world.committed[T0] = 9
    found = world.group.fetch_committed_offsets([T0, T1], world.now_ms + 9_000, world.now_ms)
    world.run()
    assert found.result() == {T0: OffsetAndMetadata(9, ""), T1: None}
    assert world.seen(OffsetFetchRequest)[0].require_stable


def test_offsets_of_open_transactions_are_waited_for() -> None:
    """KIP-447."""
    world = World().joined()
    world.committed[T0] = 9
    world.answers[FETCH].append(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = world.group.fetch_committed_offsets([T0], world.now_ms + 9_000, world.now_ms)
    world.run()
    assert not found.is_done
    world.pass_time(500)
    assert found.result() == {T0: OffsetAndMetadata(9, "")}


@pytest.mark.parametrize(
    ("code", "finds"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
        (ErrorCode.STALE_MEMBER_EPOCH, 1),
        (ErrorCode.UNKNOWN_MEMBER_ID, 1),
    ],
)
def test_a_lookup_is_retried(code: ErrorCode, finds: int) -> None:
    world = World().joined()
    world.answers[FETCH].append(code)
    found = world.group.fetch_committed_offsets([T0], world.now_ms + 9_000, world.now_ms)
    world.pass_time(1_000)
    assert found.result() == {T0: None}
    assert len(world.seen(FindCoordinatorRequest)) == finds


def test_a_lookup_that_finds_no_end_times_out() -> None:
    world = World().joined()
    world.answers[FETCH] += [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
    found = world.group.fetch_committed_offsets([T0], world.now_ms + 2_000, world.now_ms)
    world.pass_time(3_000)
    assert isinstance(found.error, RequestTimedOut)


def test_a_refused_lookup_names_the_group() -> None:
    world = World().joined()
    world.answers[FETCH].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    found = world.group.fetch_committed_offsets([T0], world.now_ms + 2_000, world.now_ms)
    world.run()
    assert isinstance(found.error, GroupAuthorizationFailed)


def test_a_lookup_of_nothing_needs_no_request() -> None:
    world = World().joined()
    assert world.group.fetch_committed_offsets([], world.now_ms, world.now_ms).result() == {}


def test_commits_and_lookups_are_sent_at_once_and_need_no_further_turn() -> None:
    world = World().joined()
    commit(world, 1)
    world.group.fetch_committed_offsets([T0], world.now_ms + 9_000, world.now_ms)
    world.network.run(world.client, world.now_ms)
    assert len(world.seen(OffsetCommitRequest)) == len(world.seen(OffsetFetchRequest)) == 1


def test_auto_commits_do_not_queue_up_while_the_coordinator_is_away() -> None:
    world = World(auto_commit_interval_ms=100).joined()
    world.consume(0, 5)
    world.answers[FIND] += [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1_000
    world.answers[COMMIT].append(ErrorCode.NOT_COORDINATOR)
    world.pass_time(5_000)
    world.answers[FIND].clear()
    world.forget_seen()
    world.run(1_000)
    assert len(world.seen(OffsetCommitRequest)) <= 2  # the one that waited, and one that was due meanwhile
    assert world.committed == {T0: 5}
