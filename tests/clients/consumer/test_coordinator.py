"""ConsumerCoordinator without sockets: joining, rebalances, heartbeats, leaving, and the errors of each."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Subscription
from kraft_core.clients.consumer.consumer_protocol import decode_subscription
from kraft_core.clients.consumer.group_errors import (
    FencedInstanceId,
    GroupAuthorizationFailed,
    RebalanceListenerFailed,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.clients.consumer.virtual_group import (
    FIND,
    HEARTBEAT,
    JOIN,
    SILENT,
    SYNC,
    PatientAssignor,
    World,
    assignment_of,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_lone_member_joins_leads_and_owns_every_partition() -> None:
    world = World().joined()
    assert world.calls == [("assigned", [T0, T1])]
    assert world.owned == [0, 1]
    metadata = world.group.group_metadata()
    assert (metadata.group_id, metadata.generation_id, metadata.member_id) == ("g", 1, "me")


def test_the_leader_divides_the_topics_of_all_members() -> None:
    world = World()
    world.topics["u"] = {0: (1, 1)}
    world.others["other"] = Subscription(("t", "u"))
    world.joined()
    sync = world.seen(SyncGroupRequest)[-1]
    assert assignment_of(sync, "me") == [T0]
    assert assignment_of(sync, "other") == [T1, TopicPartition("u", 0)]
    assert world.owned == [0]


def test_a_follower_takes_what_the_leader_assigned() -> None:
    world = World()
    world.leader, world.assigned = "other", [T1]
    world.joined()
    assert world.owned == [1]
    assert world.seen(SyncGroupRequest)[-1].assignments == ()


def test_the_member_id_that_the_coordinator_requires_is_used() -> None:
    """KIP-394."""
    world = World()
    world.answers[JOIN].append(ErrorCode.MEMBER_ID_REQUIRED)
    world.subscribe("t")
    world.run()
    assert [each.member_id for each in world.seen(JoinGroupRequest)] == ["", "me"]
    assert world.calls == [("assigned", [T0, T1])]


def test_a_static_leader_that_returns_keeps_its_assignment_without_assigning() -> None:
    """KIP-814."""
    world = World(group_instance_id="static")
    world.answers[JOIN].append(
        JoinGroupResponse(generation_id=5, protocol_name="deal", leader="me", member_id="me", skip_assignment=True)
    )
    world.assigned = [T1]
    world.subscribe("t")
    world.run()
    assert world.owned == [1]
    assert world.seen(SyncGroupRequest)[-1].assignments == ()
    assert world.seen(JoinGroupRequest)[0].group_instance_id == "static"


def test_an_eager_member_gives_everything_up_before_it_joins_again() -> None:
    world = World().joined()
    world.forget_seen()
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.run(3_000)
    assert [kind for kind, _ in world.calls] == ["assigned", "revoked", "assigned"]
    joined = decode_subscription(world.seen(JoinGroupRequest)[0].protocols[0].metadata)
    assert joined.owned_partitions == ()
    assert joined.generation_id == 1


def test_a_cooperative_member_keeps_its_partitions_while_it_joins_and_gives_up_what_it_lacks() -> None:
    """KIP-429: revoked after the assignment, and joined again so that others get them."""
    world = World(PatientAssignor()).joined()
    world.forget_seen()
    world.others["you"] = Subscription(("t",))
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.run(3_000)
    joins = [decode_subscription(each.protocols[0].metadata) for each in world.seen(JoinGroupRequest)]
    assert [each.owned_partitions for each in joins] == [(T0, T1), (T0,)]
    syncs = world.seen(SyncGroupRequest)
    assert assignment_of(syncs[0], "you") == []
    assert assignment_of(syncs[1], "you") == [T1]
    assert world.calls[1:] == [("revoked", [T1]), ("assigned", []), ("assigned", [])]
    assert world.seen(JoinGroupRequest)[1].reason == "need to revoke partitions and re-join"


def test_nothing_is_fetched_from_revoked_or_new_partitions_while_the_listener_runs() -> None:
    world = World().joined()
    for each in (T0, T1):
        world.consume(each.partition, 5)
    world.holds_callbacks = True
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.run(3_000)
    callback = world.group.pending_callback
    assert callback is not None
    assert callback.kind.name == "REVOKED"
    assert not world.subscriptions.is_fetchable(T0)
    world.serve(callback)
    world.run()
    callback = world.group.pending_callback
    assert callback is not None
    assert callback.kind.name == "ASSIGNED"
    world.consume(0, 5)
    assert not world.subscriptions.is_fetchable(T0)
    world.serve(callback)
    assert world.subscriptions.is_fetchable(T0)


def test_no_partition_is_given_up_between_polls() -> None:
    world = World().joined()
    world.answers[HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
    world.pass_time(10_000, polls=False)
    assert world.owned == [0, 1]
    assert [kind for kind, _ in world.calls] == ["assigned"]
    assert len(world.seen(HeartbeatRequest)) >= 3
    world.run()
    assert [kind for kind, _ in world.calls] == ["assigned", "revoked", "assigned"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_partitions_are_lost_when_the_coordinator_no_longer_knows_the_generation(code: ErrorCode) -> None:
    world = World().joined()
    world.forget_seen()
    world.answers[HEARTBEAT].append(code)
    world.run(3_000)
    assert [kind for kind, _ in world.calls] == ["assigned", "lost", "assigned"]
    expected = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else "me"
    assert world.seen(JoinGroupRequest)[0].member_id == expected


def test_a_fenced_static_member_raises_on_the_next_poll() -> None:
    world = World(group_instance_id="static").joined()
    world.answers[HEARTBEAT].append(ErrorCode.FENCED_INSTANCE_ID)
    world.run(3_000, polls=False)
    with pytest.raises(FencedInstanceId, match=r"group\.instance\.id 'static'"):
        world.run()


def test_a_fenced_join_is_fatal() -> None:
    world = World(group_instance_id="static")
    world.answers[JOIN].append(ErrorCode.FENCED_INSTANCE_ID)
    world.subscribe("t")
    with pytest.raises(FencedInstanceId):
        world.run()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_of_a_join_that_no_retry_heals_are_raised_and_the_next_poll_tries_again(code: ErrorCode) -> None:
    world = World()
    world.answers[JOIN].append(code)
    world.subscribe("t")
    with pytest.raises(KafkaError, match="g") as failed:
        world.run()
    assert failed.value.code == code
    world.run(1_000)
    world.run()
    assert world.owned == [0, 1]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ],
)
@pytest.mark.parametrize("key", [JOIN, SYNC])
def test_errors_that_pass_are_retried(key: int, code: ErrorCode) -> None:
    world = World()
    world.answers[key] += [code, code]
    world.subscribe("t")
    world.pass_time(2_000)
    assert world.owned == [0, 1]
    assert len(world.seen(JoinGroupRequest)) == 3


def test_a_coordinator_that_refuses_again_and_again_is_not_asked_in_a_tight_loop() -> None:
    world = World()
    world.answers[JOIN] += [ErrorCode.REBALANCE_IN_PROGRESS] * 1_000
    world.subscribe("t")
    world.pass_time(2_000)
    assert 3 <= len(world.seen(JoinGroupRequest)) <= 8


def test_a_generation_that_ends_during_the_sync_is_joined_again() -> None:
    world = World()
    world.answers[SYNC].append(ErrorCode.ILLEGAL_GENERATION)
    world.subscribe("t")
    world.run()
    assert [each.member_id for each in world.seen(JoinGroupRequest)] == ["", "me"]
    assert world.owned == [0, 1]


def test_the_group_follows_a_coordinator_that_moves() -> None:
    world = World().joined()
    world.coordinator_id = 1
    world.answers[HEARTBEAT].append(ErrorCode.NOT_COORDINATOR)
    world.pass_time(4_000)
    assert world.owned == [0, 1]
    assert [kind for kind, _ in world.calls] == ["assigned"]
    assert any(isinstance(each, HeartbeatRequest) for each in world.nodes[0].seen)


def test_a_lost_connection_to_the_coordinator_does_not_end_the_membership() -> None:
    world = World().joined()
    world.network.cut(world.client, 2, world.now_ms)
    world.run()
    world.pass_time(4_000)
    assert len(world.seen(JoinGroupRequest)) == 1
    assert len(world.seen(FindCoordinatorRequest)) >= 2
    assert len(world.seen(HeartbeatRequest)) >= 1


def test_a_coordinator_that_stays_silent_for_the_session_timeout_is_looked_up_again() -> None:
    world = World(session_timeout_ms=6_000).joined()
    world.answers[HEARTBEAT].append(SILENT)
    world.pass_time(10_000)
    assert len(world.seen(FindCoordinatorRequest)) == 2
    assert len(world.seen(JoinGroupRequest)) == 1


def test_a_member_that_does_not_poll_leaves_and_its_partitions_are_lost_at_the_next_poll() -> None:
    world = World(rebalance_timeout_ms=5_000).joined()
    world.pass_time(6_000, polls=False)
    left = world.seen(LeaveGroupRequest)[0].members[0]
    assert (left.member_id, left.reason) == ("me", "consumer poll timeout has expired.")
    assert world.owned == [0, 1]
    world.run()
    assert [kind for kind, _ in world.calls] == ["assigned", "lost", "assigned"]


def test_a_member_that_polls_stays() -> None:
    world = World(rebalance_timeout_ms=5_000).joined()
    world.pass_time(20_000)
    assert world.seen(LeaveGroupRequest) == []
    assert 5 <= len(world.seen(HeartbeatRequest)) <= 7


def test_a_listener_that_hangs_does_not_count_as_polling() -> None:
    world = World(rebalance_timeout_ms=5_000)
    world.holds_callbacks = True
    world.subscribe("t")
    world.pass_time(6_000)
    assert len(world.seen(LeaveGroupRequest)) == 1


def test_a_changed_subscription_is_joined_with_at_the_next_poll() -> None:
    world = World()
    world.topics["u"] = {0: (1, 1)}
    world.joined("t")
    world.subscribe("t", "u")
    world.run()
    world.run(100)
    assert len(world.seen(JoinGroupRequest)) == 2
    assert TopicPartition("u", 0) in world.subscriptions.assigned_partitions()
    assert world.seen(JoinGroupRequest)[1].reason == "subscription has changed"


def test_a_cooperative_member_gives_up_topics_it_no_longer_subscribes_to() -> None:
    world = World(PatientAssignor())
    world.topics["u"] = {0: (1, 1)}
    world.joined("t", "u")
    world.subscribe("t")
    world.run()
    assert world.calls[1] == ("revoked", [TopicPartition("u", 0)])
    assert world.owned == [0, 1]


def test_the_leader_joins_again_when_partitions_were_added() -> None:
    world = World().joined()
    world.topics["t"][2] = (1, 1)
    world.client.metadata.request_update()
    world.pass_time(500)
    assert world.owned == [0, 1, 2]
    assert world.seen(JoinGroupRequest)[-1].reason == "cached metadata has changed"


def test_a_follower_leaves_metadata_to_the_leader() -> None:
    world = World()
    world.leader, world.assigned = "other", [T1]
    world.joined()
    world.topics["t"][2] = (1, 1)
    world.client.metadata.request_update()
    world.pass_time(500)
    assert len(world.seen(JoinGroupRequest)) == 1


def test_a_pattern_subscribes_to_topics_that_match_as_they_come() -> None:
    world = World()
    world.topics["team-a"] = {0: (1, 1)}
    world.subscribe_pattern("team-.*")
    world.pass_time(500)
    assert world.subscriptions.subscription == {"team-a"}
    world.topics["team-b"] = {0: (1, 1)}
    world.client.metadata.request_update()
    world.pass_time(500)
    assert {each.topic for each in world.subscriptions.assigned_partitions()} == {"team-a", "team-b"}


def test_an_assignment_of_topics_that_are_not_subscribed_is_not_taken() -> None:
    world = World()
    world.leader, world.assigned = "other", [TopicPartition("x", 0)]
    world.subscribe("t")
    world.run(turns=5)
    assert world.subscriptions.assigned_partitions() == []
    world.assigned = [T0]
    world.pass_time(500)
    assert world.owned == [0]


def test_an_error_of_the_listener_is_raised_by_poll_and_the_assignment_stays() -> None:
    world = World()
    world.listener_error = ValueError("mine")
    world.subscribe("t")
    with pytest.raises(RebalanceListenerFailed, match="mine") as failed:
        world.run()
    assert isinstance(failed.value.__cause__, ValueError)
    world.run()
    assert world.owned == [0, 1]


def test_closing_gives_up_the_partitions_and_leaves() -> None:
    world = World().joined()
    done = world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    assert done.is_done
    assert done.error is None
    assert world.calls[-1] == ("revoked", [T0, T1])
    assert world.seen(LeaveGroupRequest)[0].members[0].reason == "the consumer is being closed"


def test_closing_without_time_commits_and_leaves_and_awaits_no_answer() -> None:
    world = World(enable_auto_commit=True).joined()
    world.consume(0, 7)
    world.answers[8].append(SILENT)
    done = world.group.close(world.now_ms, world.now_ms)
    world.run(polls=False)
    assert done.is_done
    assert world.calls[-1] == ("revoked", [T0, T1])
    (order,) = [kinds for node in world.nodes if LeaveGroupRequest in (kinds := [type(each) for each in node.seen])]
    assert order.index(OffsetCommitRequest) < order.index(LeaveGroupRequest)


def test_a_static_member_closes_without_leaving() -> None:
    world = World(group_instance_id="static").joined()
    done = world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    assert done.is_done
    assert world.seen(LeaveGroupRequest) == []


def test_closing_ends_at_its_deadline_whatever_the_coordinator_does() -> None:
    world = World().joined()
    world.consume(0, 7)
    world.answers[8].append(SILENT)
    deadline_ms = world.now_ms + 1_000
    done = world.group.close(deadline_ms, world.now_ms)
    world.run(polls=False)
    assert not done.is_done
    assert (world.group.next_deadline_ms(world.now_ms) or 0) <= deadline_ms
    world.run(1_000, polls=False)
    assert done.is_done


def test_closing_a_member_that_never_joined_ends_at_once() -> None:
    world = World()
    done = world.group.close(world.now_ms + 1_000, world.now_ms)
    world.run(polls=False)
    assert done.is_done
    assert world.calls == []


def test_unsubscribing_gives_up_the_partitions_and_leaves() -> None:
    world = World().joined()
    done = world.group.unsubscribe(world.now_ms)
    world.run(polls=False)
    assert done.is_done
    assert world.calls[-1] == ("revoked", [T0, T1])
    assert len(world.seen(LeaveGroupRequest)) == 1
    assert world.group.group_metadata().generation_id == -1


def test_a_group_that_may_not_be_read_is_an_error_that_names_it() -> None:
    world = World()
    world.answers[FIND].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    world.subscribe("t")
    with pytest.raises(GroupAuthorizationFailed, match="'g'"):
        world.run()


def test_enforcing_a_rebalance_joins_again_with_the_reason() -> None:
    """KIP-568."""
    world = World().joined()
    world.group.enforce_rebalance("because", world.now_ms)
    world.run()
    assert world.seen(JoinGroupRequest)[-1].reason == "because"
    assert world.group.generation.generation_id == 2


def test_no_deadline_lies_in_the_past_while_nothing_can_be_done() -> None:
    """A deadline that has passed without an effect would turn the event loop into a busy one."""
    world = World(rebalance_timeout_ms=60_000).joined()
    world.answers[HEARTBEAT] += [ErrorCode.REBALANCE_IN_PROGRESS] * 100
    for _ in range(100):
        world.run(97, polls=False)
        due = world.group.next_deadline_ms(world.now_ms)
        assert due is None or due > world.now_ms
