"""Limits of the memory that members and groups hold."""

import pytest

from kraft_core.broker.coordinator import group_memory
from kraft_core.broker.coordinator.classic_group import GroupState
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig
from kraft_core.broker.coordinator.group_memory import GROUP_BYTES_MAX, MEMBER_BYTES_MAX
from kraft_core.protocol.errors import ErrorCode
from tests.broker.group_world import REBALANCE_MS, SESSION_MS, World

LARGE = b"m" * 900_000
QUARTER = 32 * 1024 * 1024
DELAYED = GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000)


def test_a_member_with_too_much_metadata_is_rejected_and_not_kept() -> None:
    world = World()
    refused = world.join(metadata=bytes(MEMBER_BYTES_MAX + 1))[0]
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.coordinator.groups
    assert world.coordinator.memory.held_bytes == 0


def test_200_members_of_900_kb_stay_within_the_limit_of_a_group() -> None:
    world = World(DELAYED)
    codes = [answers[0].error_code for _ in range(200) if (answers := world.join(metadata=LARGE))]
    assert set(codes) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert world.coordinator.memory.held_bytes <= GROUP_BYTES_MAX
    assert len(world.coordinator.groups["g"].members) == 200 - len(codes)


def test_a_member_that_rejoins_with_more_metadata_is_charged_the_difference() -> None:
    world = World()
    member = world.join(metadata=LARGE)[0].member_id
    assert world.join(member, metadata=LARGE + b"more")[0].error_code == ErrorCode.NONE
    assert world.join(member, metadata=bytes(MEMBER_BYTES_MAX + 1))[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_all_groups_together_are_bounded_by_a_retriable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_memory, "GROUPS_BYTES_MAX", 2_000_000)
    world = World(DELAYED)
    assert not world.join(group="a", metadata=LARGE)
    assert not world.join(group="b", metadata=LARGE)
    assert world.join(group="c", metadata=LARGE)[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.memory.held_bytes <= 2_000_000
    world.pass_ms(10 * REBALANCE_MS)
    assert not world.join(group="c", metadata=LARGE), "the members of a and b never came back"


def filled(host: str, world: World) -> int:
    """Join new groups from an address until one is refused; return how many took a member."""
    for number in range(1_000):
        answers = world.join(group=f"{host}-{number}", metadata=LARGE, host=host)
        if answers:
            assert answers[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            return number
    raise AssertionError("no group was refused")


def test_the_members_of_one_address_hold_a_quarter_of_the_memory_of_all_groups_at_most() -> None:
    world = World(DELAYED)
    assert filled("10.0.0.1", world) == QUARTER // (len(LARGE) + 3_000)
    assert world.coordinator.memory.held_bytes <= QUARTER
    assert not world.join(group="other", metadata=LARGE, host="10.0.0.2"), "another address has its own share"
    world.pass_ms(10 * REBALANCE_MS)
    assert filled("10.0.0.1", world) > 0, "its former members never came back"


def test_a_member_that_moves_to_another_address_counts_there() -> None:
    """A static member may come back from elsewhere."""
    world = World(DELAYED)
    world.join(group="g", instance="i", metadata=LARGE, host="10.0.0.1")
    world.join(group="g", instance="i", metadata=LARGE, host="10.0.0.2")
    memory = world.coordinator.memory
    assert memory.by_address["/10.0.0.1"] < len(LARGE) < memory.by_address["/10.0.0.2"]


@pytest.mark.parametrize("version", [3, 4], ids=["members", "member ids"])
def test_many_small_groups_of_one_address_leave_room_for_others(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_memory, "ADDRESS_BYTES_MAX", 100_000)
    world = World(DELAYED)
    codes = [answers[0].error_code for n in range(200) if (answers := world.join(group=f"g{n}", version=version))]
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes
    assert world.coordinator.memory.held_bytes <= 100_000
    assert not world.join(group="other", host="10.0.0.2")


def test_groups_that_only_commit_count_for_the_address_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_memory, "ADDRESS_BYTES_MAX", 100_000)
    world = World()
    codes = [world.commit(1, group=f"g{number}") for number in range(200)]
    assert set(codes) == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert world.coordinator.memory.held_bytes <= 100_000


def test_member_ids_that_fill_another_clients_group_count_for_their_own_address() -> None:
    world = World(DELAYED)
    world.join(group="g", host="10.0.0.1")
    before = world.coordinator.memory.by_address["/10.0.0.1"]
    for _ in range(10):
        world.join(group="g", version=4, host="10.0.0.2")
    assert world.coordinator.memory.by_address["/10.0.0.1"] == before
    world.pass_ms(SESSION_MS)
    assert "/10.0.0.2" not in world.coordinator.memory.by_address


def test_unused_member_ids_are_bounded_and_expire_with_their_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_memory, "GROUP_MEMBERS_MAX", 50)
    world = World()
    codes = {world.join(version=4, metadata=LARGE)[0].error_code for _ in range(60)}
    assert codes == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert len(world.coordinator.groups["g"].pending_members) == 50
    world.pass_ms(SESSION_MS)
    assert not world.coordinator.groups
    assert world.coordinator.memory.held_bytes == 0


def test_a_rejected_join_or_commit_leaves_no_group() -> None:
    world = World()
    assert world.join(protocols=())[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.commit(1, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.coordinator.groups


def test_a_new_member_is_removed_if_its_first_rebalance_takes_five_minutes() -> None:
    """As ClassicGroupMember.hasSatisfiedHeartbeat: a pending request replaces heartbeats only after the first
    generation."""
    world = World()
    members, _ = world.stable()
    waiting = world.join(session_ms=1_800_000)
    group = world.coordinator.groups["g"]
    group.join_deadline_ms = world.now_ms + 10**9
    for _ in range(60):
        world.pass_ms(5_000)
        world.heartbeat(members[0], group.generation)
    assert [answer.error_code for answer in waiting] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(group.members) == members


def test_assignments_that_do_not_fit_into_a_record_fail_the_sync_and_cause_a_rebalance() -> None:
    world = World()
    member = world.join()[0].member_id
    world.log.error = ErrorCode.MESSAGE_TOO_LARGE
    assert world.sync(member, 1, {member: b"x"})[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.coordinator.groups["g"].members[member].assignment == b""


def test_a_commit_that_does_not_fit_into_a_batch_is_refused_as_kafka_does() -> None:
    world = World()
    world.log.error = ErrorCode.MESSAGE_TOO_LARGE
    assert world.commit(1) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE


def test_a_deleted_group_holds_no_memory() -> None:
    world = World()
    assert world.commit(1) == ErrorCode.NONE
    assert world.coordinator.memory.held_bytes > 0
    assert world.coordinator.delete_group("g", world.now_ms) is ErrorCode.NONE
    assert world.coordinator.memory.held_bytes == 0


def test_requests_that_change_no_deadline_leave_no_timers_behind() -> None:
    world = World()
    member = world.join()[0].member_id
    for _ in range(100):
        world.join(member)
    assert len(world.coordinator._timers) < 10
