"""Classic groups whose members send requests in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kraft_core.broker.coordinator.classic_group import GroupState
from kraft_core.protocol.messages import JoinGroupResponse
from tests.broker.group_world import World


class AnyOrder(RuleBasedStateMachine):
    """Members join, leave, stop and send requests at the wrong time.

    Every request is answered, and at most one generation is active.
    """

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.joins: list[tuple[str, list[JoinGroupResponse]]] = []

    @rule(target=known, metadata=st.sampled_from([b"a", b"b"]))
    def come(self, metadata: bytes) -> list[JoinGroupResponse]:
        answers = self.world.join(metadata=metadata)
        self.joins.append(("", answers))
        return answers

    @rule(member=known, metadata=st.sampled_from([b"a", b"b"]))
    def come_again(self, member: list[JoinGroupResponse], metadata: bytes) -> None:
        if member and member[-1].member_id:
            answers = self.world.join(member[-1].member_id, metadata=metadata)
            self.joins.append((member[-1].member_id, answers))

    @rule(member=known)
    def sync(self, member: list[JoinGroupResponse]) -> None:
        if member:
            group = self.world.coordinator.groups.get("g")
            generation = member[-1].generation_id if group is None else group.generation
            self.world.sync(member[-1].member_id, generation, {member[-1].member_id: b"x"})

    @rule(member=known)
    def go(self, member: list[JoinGroupResponse]) -> None:
        if member:
            self.world.leave(member[-1].member_id)

    @rule(delta_ms=st.sampled_from([10, 5_000, 9_999, 61_000, 400_000]))
    def wait(self, delta_ms: int) -> None:
        self.world.pass_ms(delta_ms)
        if delta_ms >= 400_000:
            assert all(answers for _, answers in self.joins), "a JoinGroup was never answered"

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.world.coordinator.groups.get("g")
        if group is None:
            return
        assert (group.leader is None) == (not group.members)
        assert group.leader is None or group.leader in group.members
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state is GroupState.STABLE:
            assert group.members
            assert all(not member.is_waiting for member in group.members.values())
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert all(member.answer_join is None for member in group.members.values())
        assert all(len(answers) <= 1 for _, answers in self.joins)


TestAnyOrder = AnyOrder.TestCase
