"""The most even distribution of leaders that moves no data, and a proof that none is more even.

A partition can be led by any replica of its target on an active broker. The largest number of leaders per broker is
minimal when no cost-reducing path starts at a fullest broker (optimal semi-matching: Harvey, Ladner, Lovász, Tamir,
2006). The brokers that such a search reaches are the proof: their partitions have no replica elsewhere, so one of these
brokers leads at least the average of them, rounded up.

Reports and plans use the same search. Its input are groups of partitions that are alike, in any storage that has the
methods of `Groups`; a group may be a single partition. Groups are read only where leaders move.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol


class Groups(Protocol):
    """Numbered groups of partitions that are alike: with the same leader before any change, and the same brokers able.

    Brokers are indexes 0..n-1.
    """

    def origin(self, group: int) -> int:
        """Return the broker that leads the group before any change."""
        ...

    def options(self, group: int) -> Sequence[int]:
        """Return the brokers that can lead the group."""
        ...

    def count(self, group: int) -> int:
        """Return the number of partitions in the group."""
        ...

    def room(self, broker: int) -> dict[int, int]:
        """Return how many of the partitions that a broker leads before any change each other broker can lead."""
        ...

    def ways(self, broker: int) -> Mapping[int, Sequence[int]]:
        """Return the groups that a broker leads before any change by other broker that can lead them.

        Leaders of the last group of a sequence move first.
        """
        ...


class ListedGroups:
    """Groups in a list: the broker that leads, the brokers that can lead, and the number of partitions."""

    def __init__(self, groups: Sequence[tuple[int, Sequence[int], int]]) -> None:
        self._groups = groups
        self._led: defaultdict[int, list[int]] = defaultdict(list)
        for group, (origin, _, _) in enumerate(groups):
            self._led[origin].append(group)

    def origin(self, group: int) -> int:
        """Return the broker that leads the group before any change."""
        return self._groups[group][0]

    def options(self, group: int) -> Sequence[int]:
        """Return the brokers that can lead the group."""
        return self._groups[group][1]

    def count(self, group: int) -> int:
        """Return the number of partitions in the group."""
        return self._groups[group][2]

    def room(self, broker: int) -> dict[int, int]:
        """Return how many of the partitions that a broker leads each other broker can lead."""
        return {other: sum(map(self.count, groups)) for other, groups in self.ways(broker).items()}

    def ways(self, broker: int) -> Mapping[int, Sequence[int]]:
        """Return the groups that a broker leads by other broker that can lead them."""
        found: dict[int, list[int]] = {}
        for group in self._led[broker]:
            for other in self.options(group):
                if other != broker:
                    found.setdefault(other, []).append(group)
        return found


@dataclass(frozen=True, slots=True)
class LeaderOptimum:
    """The least possible maximum of leaders per broker, how many leaders change to reach it, and its proof.

    The partitions that only `brokers` can lead give one of them `bound` leaders at least, and `bound` is `maximum`.
    """

    maximum: int = 0
    changes: int = 0
    brokers: tuple[int, ...] = ()
    bound: int = 0


class _Way:
    """The groups that a broker leads and another one can lead: a stack of which the lower part is not copied."""

    __slots__ = ("_first", "_left", "_more")

    def __init__(self) -> None:
        self._first: Sequence[int] = ()
        self._left = 0
        self._more: list[int] = []

    def start_with(self, groups: Sequence[int]) -> None:
        """Put these groups below all others."""
        self._first, self._left = groups, len(groups)

    def add(self, group: int) -> None:
        self._more.append(group)

    def last(self) -> int:
        return self._more[-1] if self._more else int(self._first[self._left - 1])

    def drop_last(self) -> None:
        if self._more:
            self._more.pop()
        else:
            self._left -= 1


class Leadership:
    """Leaders that move along paths. What a broker leads at first is read when a path first visits the broker."""

    def __init__(self, loads: Sequence[int], groups: Groups) -> None:
        self.loads = list(loads)
        self._groups = groups
        self._left: dict[int, int] = {}
        """By group: the partitions that its first broker still leads, if not all."""
        self._moved: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By broker and group: the partitions that the broker leads and did not lead at first."""
        self._room: dict[int, dict[int, int]] = {}
        """By broker and next broker: the number of partitions that can go there, if there are any."""
        self._ways: defaultdict[int, defaultdict[int, _Way]] = defaultdict(lambda: defaultdict(_Way))
        """By broker and next broker: the groups that can go there. Groups used up are removed when met."""
        self._read: set[int] = set()
        """The brokers whose ways have the groups that they lead at first."""
        self._arrived: defaultdict[int, list[tuple[Sequence[int], int]]] = defaultdict(list)
        """By broker whose room is not read yet: what has come since, by the brokers that can lead it."""

    def next_brokers(self, broker: int) -> dict[int, int]:
        """Return how many partitions of a broker each other broker can take over."""
        if broker not in self._room:
            self._room[broker] = self._groups.room(broker)
            for options, count in self._arrived.pop(broker, ()):
                self._open(broker, options, count)
        return self._room[broker]

    def _held(self, broker: int, group: int) -> int:
        if self._groups.origin(group) == broker:
            left = self._left.get(group)
            return self._groups.count(group) if left is None else left
        return self._moved[broker].get(group, 0)

    def _hold(self, broker: int, group: int, count: int) -> None:
        if self._groups.origin(group) == broker:
            self._left[group] = count
        else:
            self._moved[broker][group] = count

    def _add(self, broker: int, group: int, options: Sequence[int], count: int) -> None:
        held = self._held(broker, group)
        self._hold(broker, group, held + count)
        if not held:
            ways = self._ways[broker]
            for other in options:
                if other != broker:
                    ways[other].add(group)
        if broker in self._room:
            self._open(broker, options, count)
        else:
            self._arrived[broker].append((options, count))

    def _open(self, broker: int, options: Sequence[int], count: int) -> None:
        room = self._room[broker]
        for other in options:
            if other != broker:
                total = room.get(other, 0) + count
                if total:
                    room[other] = total
                else:
                    del room[other]

    def _take(self, broker: int, to: int, count: int) -> list[tuple[int, Sequence[int], int]]:
        """Take leaders that can go from the broker to another one: groups, the brokers able, and how many."""
        ways = self._ways[broker]
        if broker not in self._read:
            self._read.add(broker)
            for other, groups in self._groups.ways(broker).items():
                ways[other].start_with(groups)
        way, taken = ways[to], []
        while count:
            group = way.last()
            held = self._held(broker, group)
            some = min(count, held)
            if some:
                options = self._groups.options(group)
                taken.append((group, options, some))
                self._hold(broker, group, held - some)
                self._open(broker, options, -some)
                count -= some
            if some == held:
                way.drop_last()
        return taken

    def move(self, path: Sequence[int], count: int) -> None:
        """Move `count` leaders from each broker of the path to the next one."""
        taken = [self._take(one, other, count) for one, other in pairwise(path)]
        for broker, groups in zip(path[1:], taken, strict=True):
            for group, options, some in groups:
                self._add(broker, group, options, some)
        self.loads[path[0]] -= count
        self.loads[path[-1]] += count

    def room(self, path: Sequence[int]) -> int:
        """Return how many leaders can move along the path."""
        return min(self.next_brokers(one)[other] for one, other in pairwise(path))

    def moved(self) -> Iterator[tuple[int, int, int]]:
        """Yield the changes: a broker, a group that it did not lead at first, and how many partitions of it."""
        for broker, groups in self._moved.items():
            for group, count in groups.items():
                if count:
                    yield broker, group, count

    def level(self, limit: int) -> list[int]:
        """Move leaders until no broker has more than `limit`. Return the brokers reached if that is impossible."""
        while True:
            over = [broker for broker, load in enumerate(self.loads) if load > limit]
            if not over:
                return []
            path, reached = self._shortest(over, limit)
            if not path:
                return reached
            self.move(path, min(self.loads[path[0]] - limit, limit - self.loads[path[-1]], self.room(path)))

    def _shortest(self, over: list[int], limit: int) -> tuple[list[int], list[int]]:
        """Return a shortest path from the fullest brokers to the emptiest one, or the brokers that can be reached."""
        loads = self.loads
        before = dict.fromkeys(sorted(over, key=lambda broker: (-loads[broker], broker)), -1)
        level = list(before)
        unseen = set(range(len(loads))).difference(before)
        ends = {broker for broker in unseen if loads[broker] < limit}
        while level:
            for broker in level:
                room = self.next_brokers(broker)
                if not ends.isdisjoint(room):
                    path = [min(ends.intersection(room), key=lambda other: (loads[other], other)), broker]
                    while before[path[-1]] >= 0:
                        path.append(before[path[-1]])
                    return path[::-1], []
            reached: list[int] = []
            for broker in level:
                found = sorted(unseen.intersection(self.next_brokers(broker)))
                before.update(dict.fromkeys(found, broker))
                reached += found
                unseen.difference_update(found)
            level = reached
        return [], sorted(before)


@dataclass(frozen=True, slots=True)
class Levelled:
    """Leaders of which no broker has more than `limit`.

    That is the least possible maximum, `optimum`, or what the caller tolerates. `proof`: brokers of which one leads
    `optimum` partitions in every distribution.
    """

    optimum: int
    limit: int
    proof: tuple[int, ...]
    leadership: Leadership


def level_leaders(loads: Sequence[int], holders: Iterable[int], groups: Groups, tolerance_percent: int = 0) -> Levelled:
    """Distribute the leaders of brokers 0..n-1 that lead `loads` partitions now.

    `holders` are the brokers that can lead a partition. They may lead `tolerance_percent` more than the average,
    rounded down. Partitions that no active broker can lead are left out by the caller. Few leaders change, which is not
    proven to be the fewest.
    """
    brokers = tuple(sorted(holders))
    total = sum(loads)
    leadership = Leadership(loads, groups)
    if not total:
        return Levelled(0, 0, (), leadership)
    optimum, proof = -(-total // len(brokers)), brokers
    while reached := leadership.level(optimum):
        optimum = -(-sum(leadership.loads[broker] for broker in reached) // len(reached))
        proof = tuple(reached)
    limit = max(optimum, total * (100 + tolerance_percent) // (100 * len(brokers)))
    if proof != brokers or limit > optimum:  # moves towards a limit too low are not needed
        leadership = Leadership(loads, groups)
        leadership.level(limit)
    return Levelled(optimum, limit, proof, leadership)


def leader_optimum(loads: Sequence[int], holders: Iterable[int], groups: Groups) -> LeaderOptimum:
    """Return the optimum for what `level_leaders` distributes."""
    found = level_leaders(loads, holders, groups)
    changes = sum(count for _, _, count in found.leadership.moved())
    return LeaderOptimum(found.optimum, changes, found.proof, found.optimum)
