"""The assignment of members with different subscriptions: owned partitions first, then moves until it is balanced.

1. Each member keeps what it owns, still subscribes to, and what its rack allows.
2. Unassigned partitions go to the subscriber with the fewest, first within the partition's racks, then to any.
3. Partitions move to subscribers with fewer while that improves the balance, new ones before owned ones. A move that
   would undo another one of the topic takes that other one back instead. If this brings no better balance, the
   assignment of step 2 stays.

Source: AbstractStickyAssignor.GeneralAssignmentBuilder of Kafka 4.3.1, KIP-54.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import PartitionsPerTopic
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Subscription
from kraft_core.clients.consumer.assignors.rack_info import RackInfo

PreviousOwners = Mapping[TopicPartition, str]
"""The owners of partitions in an earlier generation than the current one."""
Owned = dict[str, dict[TopicPartition, None]]


class GeneralAssignment:
    """One run of the algorithm. `owned` becomes the assignment."""

    def __init__(
        self,
        partitions: PartitionsPerTopic,
        rack_info: RackInfo,
        owned: Owned,
        subscriptions: Mapping[str, Subscription],
        previous: PreviousOwners,
    ) -> None:
        self._partitions = partitions
        self._racks = rack_info
        self._current = owned
        self._previous = previous
        self._topics_of = {
            member: frozenset(topic for topic in subscription.topics if topic in partitions)
            for member, subscription in subscriptions.items()
        }
        self._consumers_of: dict[str, list[str]] = {topic: [] for topic in partitions}
        for member, topics in self._topics_of.items():
            for topic in topics:
                self._consumers_of[topic].append(member)
        self._owner_of: dict[TopicPartition, str] = {}
        self._sorted: list[tuple[int, str]] = []  # members by the number of their partitions, then by id
        self._movements = _PartitionMovements()
        self._holders: dict[str, Counter[str]] = {}  # how many partitions of a shared topic each member has
        self._is_balanced: bool | None = None  # None: to be found
        self._unbalanced_topic: str | None = None  # the last one found

    def build(self) -> Owned:
        """Return the partitions of each member."""
        revoked = self._drop_unusable()
        self._owner_of = {partition: member for member, owned in self._current.items() for partition in owned}
        by_consumers = sorted(self._partitions, key=lambda topic: (len(self._consumers_of[topic]), topic))
        every = [TopicPartition(topic, index) for topic in by_consumers for index in self._partitions[topic]]
        unassigned = [partition for partition in every if partition not in self._owner_of]
        self._sorted = sorted((len(owned), member) for member, owned in self._current.items())
        was_empty = self._sorted[-1][0] == 0
        if self._racks.is_used:
            unassigned_in_racks = [partition for partition in unassigned if not self._assign(partition, in_rack=True)]
        else:
            unassigned_in_racks = unassigned
        for partition in unassigned_in_racks:
            self._assign(partition, in_rack=False)
        self._balance(every, unassigned, was_empty=was_empty, revoked=revoked)
        return self._current

    def _drop_unusable(self) -> bool:
        """Take from each member what it does not subscribe to or what has no replica in its rack; whether any was."""
        dropped = False
        for member, owned in self._current.items():
            for partition in list(owned):
                if partition.topic not in self._topics_of[member] or self._racks.is_mismatch(member, partition):
                    del owned[partition]
                    dropped = True
        return dropped

    def _assign(self, partition: TopicPartition, *, in_rack: bool) -> bool:
        for _, member in self._sorted:
            if partition.topic not in self._topics_of[member]:
                continue
            if in_rack and self._racks.is_mismatch(member, partition):
                continue
            self._forget_size(member)
            self._current[member][partition] = None
            self._note_size(member)
            self._owner_of[partition] = member
            return True
        return False

    def _forget_size(self, member: str) -> None:
        del self._sorted[bisect_left(self._sorted, (len(self._current[member]), member))]

    def _note_size(self, member: str) -> None:
        insort(self._sorted, (len(self._current[member]), member))

    def _balance(
        self, every: list[TopicPartition], unassigned: list[TopicPartition], *, was_empty: bool, revoked: bool
    ) -> None:
        shared = {topic for topic, consumers in self._consumers_of.items() if len(consumers) >= 2}
        self._holders = {topic: Counter() for topic in shared}
        for partition, member in self._owner_of.items():
            if partition.topic in shared:
                self._holders[partition.topic][member] += 1
        fixed = {member: self._current[member] for member in self._current if not self._can_take_part(member, shared)}
        for member in fixed:
            self._forget_size(member)
            del self._current[member]
        before = {member: dict(owned) for member, owned in self._current.items()}
        if not revoked:
            self._reassign([partition for partition in unassigned if partition.topic in shared])
        has_moved = self._reassign([partition for partition in every if partition.topic in shared])
        if has_moved and not was_empty and _balance_score(self._current) >= _balance_score(before):
            self._current = before
        self._current.update(fixed)

    def _can_take_part(self, member: str, shared: set[str]) -> bool:
        """Whether the member could have more partitions, or has some that others could have."""
        most = sum(len(self._partitions[topic]) for topic in self._topics_of[member])
        owned = self._current[member]
        return len(owned) < most or any(partition.topic in shared for partition in owned)

    def _reassign(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions until no move improves the balance; return whether any was moved."""
        has_moved = False
        while True:
            has_moved_now = False
            for partition in partitions:
                if self._is_in_balance():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._reassign_partition(partition, target)
                    has_moved_now = True
            if not has_moved_now:
                return has_moved
            has_moved = True

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Return the previous owner, or the subscriber with the fewest, if it has at least two fewer than the owner."""
        size = len(self._current[self._owner_of[partition]])
        previous = self._previous.get(partition)
        if previous is not None and size > len(self._current[previous]) + 1:
            return previous
        for fewest, member in self._sorted:
            if size <= fewest + 1:
                return None
            if partition.topic in self._topics_of[member]:
                return member
        return None

    def _is_in_balance(self) -> bool:
        """Whether no partition could move to a subscriber that has at least two fewer than its owner."""
        if self._is_balanced is None:
            self._is_balanced = self._find_balance()
        return self._is_balanced

    def _find_balance(self) -> bool:
        if self._sorted[0][0] >= self._sorted[-1][0] - 1:
            return True
        if self._unbalanced_topic is not None and self._is_unbalanced(self._unbalanced_topic):
            return False
        self._unbalanced_topic = next(filter(self._is_unbalanced, self._holders), None)
        return self._unbalanced_topic is None

    def _is_unbalanced(self, topic: str) -> bool:
        fewest = min(len(self._current[member]) for member in self._consumers_of[topic])
        return any(count and len(self._current[holder]) > fewest + 1 for holder, count in self._holders[topic].items())

    def _reassign_partition(self, partition: TopicPartition, target: str) -> None:
        moved = self._movements.actual_partition(partition, self._owner_of[partition], target)
        owner = self._owner_of[moved]
        self._forget_size(owner)
        if target != owner:
            self._forget_size(target)
        self._movements.move(moved, owner, target)
        del self._current[owner][moved]
        self._current[target][moved] = None
        self._owner_of[moved] = target
        self._note_size(target)
        if target != owner:
            self._note_size(owner)
        holders = self._holders[moved.topic]
        holders[owner] -= 1
        holders[target] += 1
        self._is_balanced = None


class _PartitionMovements:
    """The moves of this run by topic: none shall have moves in both directions between two members."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}
        self._pair_of: dict[TopicPartition, tuple[str, str]] = {}

    def actual_partition(self, partition: TopicPartition, owner: str, target: str) -> TopicPartition:
        """Return the partition to move instead: one of the topic that has moved from the target to the owner."""
        source = self._pair_of[partition][0] if partition in self._pair_of else owner
        opposite = self._by_topic.get(partition.topic, {}).get((target, source))
        return next(iter(opposite)) if opposite else partition

    def move(self, partition: TopicPartition, owner: str, target: str) -> None:
        """Record a move; moves of one partition count as one from its first owner to its last."""
        pairs = self._by_topic.setdefault(partition.topic, {})
        source = owner
        if partition in self._pair_of:
            earlier = self._pair_of.pop(partition)
            del pairs[earlier][partition]
            source = earlier[0]
        if source != target:
            self._pair_of[partition] = (source, target)
            pairs.setdefault((source, target), {})[partition] = None


def _balance_score(assignment: Owned) -> int:
    """Return the sum of the differences in size of all pairs of members; 0 is perfect."""
    sizes = sorted(map(len, assignment.values()))
    smaller = accumulate(sizes, initial=0)
    return sum(size * rank - next(smaller) for rank, size in enumerate(sizes))
