"""Classic groups under a clock that the test sets."""

import pytest

from kraft_core.broker.coordinator.classic_group import NEXT, GroupState
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig
from kraft_core.broker.coordinator.group_coordinator_service import java_hash, partition_for
from kraft_core.broker.coordinator.group_records import GroupRecord
from kraft_core.protocol.errors import ErrorCode
from tests.broker.group_world import REBALANCE_MS, SESSION_MS, Log, World


def test_members_get_what_the_leader_assigned() -> None:
    world = World()
    first = world.join()[0]
    waiting = world.join()
    assert not waiting
    assert world.heartbeat(first.member_id, first.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(first.member_id)[0]
    second = waiting[0]

    assert again.generation_id == second.generation_id == 2
    assert again.leader == second.leader == first.member_id
    assert {member.member_id for member in again.members} == {first.member_id, second.member_id}
    assert second.members == ()
    follower = world.sync(second.member_id, 2)
    assert not follower
    leader = world.sync(first.member_id, 2, {first.member_id: b"one", second.member_id: b"two"})
    assert [leader[0].assignment, follower[0].assignment] == [b"one", b"two"]
    assert world.state is GroupState.STABLE


def test_a_new_member_since_version_4_must_join_again_with_its_id() -> None:
    """KIP-394."""
    world = World()
    refused = world.join(version=4)[0]
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert world.state is GroupState.EMPTY

    assert world.join(refused.member_id, version=4)[0].error_code == ErrorCode.NONE


def test_a_member_id_that_is_not_used_in_time_expires() -> None:
    world = World()
    refused = world.join(version=4)[0]

    world.pass_ms(SESSION_MS)

    assert world.join(refused.member_id, version=4)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_waits_for_more_members_before_its_first_generation() -> None:
    world = World(GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000))
    first = world.join()
    world.pass_ms(2_000)
    second = world.join()
    world.pass_ms(1_000)
    assert not first, "a member that came meanwhile prolongs the wait"
    world.pass_ms(3_000)

    assert first[0].generation_id == second[0].generation_id == 1


def test_a_member_without_heartbeats_is_removed_after_its_session() -> None:
    world = World()
    (leader, other), generation = world.stable(2)
    world.pass_ms(SESSION_MS - 1)
    assert world.heartbeat(leader, generation) == ErrorCode.NONE
    world.pass_ms(1)

    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(other, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(leader)[0].generation_id == generation + 1


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    world = World()
    (leader, other), generation = world.stable(2)
    joined = world.join(leader, metadata=b"changed")
    for _ in range(REBALANCE_MS // 5_000):
        assert not joined
        world.pass_ms(5_000)
        if not joined:
            world.heartbeat(other, generation)

    assert [member.member_id for member in joined[0].members] == [leader]


def test_a_leader_that_does_not_sync_is_removed() -> None:
    world = World()
    (leader, other), generation = world.stable(2)
    world.join(leader, metadata=b"changed")
    world.join(other)
    waiting = world.sync(other, generation + 1)
    world.pass_ms(REBALANCE_MS)

    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader not in world.coordinator.groups["g"].members


def test_a_rebalance_waits_for_a_member_that_was_given_its_id() -> None:
    world = World()
    (leader,), generation = world.stable()
    world.join(version=4)
    joined = world.join(leader, metadata=b"changed")
    assert not joined

    world.pass_ms(SESSION_MS)

    assert joined[0].generation_id == generation + 1


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    world = World()
    static = world.join(instance="i", version=5, session_ms=200_000)[0].member_id
    world.join()
    world.join(static, instance="i", version=5, session_ms=200_000)
    group = world.coordinator.groups["g"]
    other = next(name for name in group.members if name != static)
    world.sync(other, group.generation)
    world.sync(static, group.generation, {static: b"s", other: b"o"}, instance="i")
    joined = world.join(other, metadata=b"changed")

    world.pass_ms(REBALANCE_MS)

    assert joined[0].error_code == ErrorCode.NONE
    assert static in world.coordinator.groups["g"].members


def test_a_live_member_that_does_not_sync_in_time_is_removed() -> None:
    world = World()
    (leader, other), generation = world.stable(2)
    world.join(leader, metadata=b"changed")
    world.join(other)
    waiting = world.sync(other, generation + 1)
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(leader, generation + 1)
        world.pass_ms(5_000)

    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(world.coordinator.groups["g"].members) == [other]


def test_leaving_rebalances_and_the_last_one_empties_the_group() -> None:
    world = World()
    (leader, other), generation = world.stable(2)

    assert world.leave(other, "nobody") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.leave(leader) == [ErrorCode.NONE]
    assert world.state is GroupState.EMPTY
    assert world.coordinator.groups["g"].generation == generation + 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"protocols": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_does_not_fit_is_refused(arguments: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.stable()

    assert world.join(**arguments)[0].error_code == error


def test_the_protocol_that_most_prefer_is_chosen_among_the_common_ones() -> None:
    world = World()
    first = world.join(protocols=("a", "b", "c"))[0].member_id
    world.join(protocols=("c", "b"))
    third = world.join(protocols=("b", "c", "d"))
    world.join(first, protocols=("a", "c", "b"))

    assert third[0].protocol_name == "c"


def test_a_full_group_rejects_more_members() -> None:
    world = World(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_group_size=1))
    world.stable()

    assert world.join()[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_returns_without_a_rebalance_and_fences_its_old_id() -> None:
    """KIP-345."""
    world = World()
    old = world.join(instance="i", version=5)[0]
    world.sync(old.member_id, 1, {old.member_id: b"mine"}, instance="i")

    new = world.join(instance="i", version=9)[0]

    assert new.generation_id == old.generation_id
    assert new.member_id != old.member_id
    assert new.skip_assignment
    assert world.sync(new.member_id, 1, instance="i")[0].assignment == b"mine"
    assert world.heartbeat(old.member_id, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.state is GroupState.STABLE


def test_a_static_leader_that_returns_with_other_metadata_causes_no_rebalance() -> None:
    """KIP-814. A consumer's metadata names its generation, so it differs after a restart."""
    world = World()
    old = world.join(instance="i", version=5)[0]
    world.sync(old.member_id, 1, {old.member_id: b"mine"}, instance="i")

    new = world.join(instance="i", version=9, metadata=b"changed")[0]

    assert (new.generation_id, new.skip_assignment) == (old.generation_id, True)
    assert world.state is GroupState.STABLE


def test_a_commit_needs_the_members_generation() -> None:
    world = World()
    (member,), generation = world.stable()

    assert world.commit(5, member, generation) == ErrorCode.NONE
    assert world.commit(6, member, generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(6, "stranger", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.committed("g")["t", 0].offset == 5


def test_a_commit_without_a_group_creates_one_and_bad_partitions_are_rejected() -> None:
    world = World()

    assert world.commit(1) == ErrorCode.NONE
    assert world.commit(1, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.commit(1, note="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.commit(1, "m", 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_that_is_not_written_does_not_count() -> None:
    world = World()
    world.log.error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert world.commit(7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.committed("g") == {}


def test_an_assignment_that_is_not_written_is_not_sent() -> None:
    world = World()
    joined = world.join()[0]
    world.log.error = ErrorCode.NOT_COORDINATOR

    assert world.sync(joined.member_id, 1, {joined.member_id: b"x"})[0].error_code == ErrorCode.NOT_COORDINATOR
    assert world.state is GroupState.PREPARING_REBALANCE


def test_groups_and_offsets_are_the_same_after_loading_the_log() -> None:
    world = World()
    members, generation = world.stable(2)
    world.commit(42, members[0], generation)

    later = World(log=Log(list(world.log.records)))
    records: dict[str, GroupRecord] = {}
    later.coordinator.replay(later.log.records, records)
    list(later.coordinator.loaded(records, later.now_ms))

    assert later.coordinator.committed("g")["t", 0].offset == 42
    assert [later.heartbeat(member, generation) for member in members] == [ErrorCode.NONE] * 2
    assert later.coordinator.groups["g"].members[members[1]].assignment == members[1].encode()
    later.pass_ms(SESSION_MS)
    assert later.state is GroupState.EMPTY


def test_offsets_of_an_empty_group_expire_and_so_does_the_group() -> None:
    world = World(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=100_000))
    (member,), generation = world.stable()
    world.commit(1, member, generation)
    world.leave(member)

    world.now_ms += 99_999
    world.coordinator.expire_offsets(world.now_ms)
    assert world.coordinator.committed("g")
    world.now_ms += 1
    world.coordinator.expire_offsets(world.now_ms)
    assert "g" not in world.coordinator.groups
    records: dict[str, GroupRecord] = {}
    again = World()
    again.coordinator.replay(world.log.records, records)
    list(again.coordinator.loaded(records, 0))
    assert again.coordinator.groups == {}
    assert again.coordinator.offsets.by_group == {}


def test_only_an_empty_group_is_deleted() -> None:
    world = World()
    (member,), _ = world.stable()

    assert world.coordinator.delete_group("g", world.now_ms) == ErrorCode.NON_EMPTY_GROUP
    assert world.coordinator.delete_group("other", world.now_ms) == ErrorCode.GROUP_ID_NOT_FOUND
    world.leave(member)
    assert world.coordinator.delete_group("g", world.now_ms) == ErrorCode.NONE
    assert "g" not in world.coordinator.groups


def test_pending_requests_fail_when_another_broker_becomes_coordinator() -> None:
    world = World()
    world.stable()
    waiting = world.join()

    world.coordinator.unload(lambda group_id: True)

    assert waiting[0].error_code == ErrorCode.NOT_COORDINATOR
    assert world.coordinator.groups == {}


@pytest.mark.parametrize("before", list(GroupState))
@pytest.mark.parametrize("after", list(GroupState))
def test_a_group_changes_state_only_as_the_table_allows(before: GroupState, after: GroupState) -> None:
    world = World()
    world.stable()
    group = world.coordinator.groups["g"]
    group.state = before

    if after in NEXT[before]:
        group.move(after, 5)
        assert (group.state, group.state_since_ms) == (after, 5)
    else:
        with pytest.raises(AssertionError):
            group.move(after, 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_a_groups_partition_is_that_of_javas_hash(text: str, value: int) -> None:
    assert java_hash(text) == value
    assert partition_for(text, 50) == (value & 0x7FFFFFFF) % 50
