"""The best distribution of leaders that moves no data: an optimal semi-matching.

Source: Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing" (2006). A partition may
be led by any of its candidates. While a broker leads more than the cap, leaders move along a shortest path to a broker
below it. If there is no path, the brokers reached are a certificate: together they lead only partitions without a
candidate outside, so one of them leads at least the average, and the cap rises to it.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise


@dataclass(frozen=True, slots=True)
class LeaderPlan:
    """Leaders by partition (-1: no candidate). No distribution has a busiest broker that leads fewer than `optimum`.

    `limit`: what no broker exceeds, the optimum or more if the caller tolerates it. `certificate`: brokers that cannot
    all lead fewer than the optimum. `changes`: partitions led by another broker than at the start.
    """

    leaders: list[int]
    optimum: int
    limit: int
    certificate: tuple[int, ...]
    changes: int


class _Matching:
    """The leaders on the way to the optimum, with the partitions each broker leads, by other candidate."""

    def __init__(self, candidates: Sequence[Sequence[int]], start: Sequence[int], brokers: int) -> None:
        self.candidates = candidates
        self.leaders = list(start)
        self.count = [0] * brokers
        self.led = [array("i") for _ in range(brokers)]
        self.others: dict[int, dict[int, array[int]]] = {}
        open_partitions = []
        for partition, leader in enumerate(start):
            if leader in candidates[partition]:
                self.count[leader] += 1
                self.led[leader].append(partition)
            else:
                self.leaders[partition] = -1
                open_partitions.append(partition)
        for partition in open_partitions:
            able = candidates[partition]
            if able:
                self._lead(partition, min(able, key=lambda broker: (self.count[broker], broker)))

    def _lead(self, partition: int, broker: int) -> None:
        self.leaders[partition] = broker
        self.count[broker] += 1
        self.led[broker].append(partition)

    def choices(self, broker: int) -> "dict[int, array[int]]":
        """Return the partitions that `broker` leads by other candidate, those that prefer the candidate last.

        Entries can be stale: check `leaders`.
        """
        found = self.others.get(broker)
        if found is None:
            preferred: dict[int, array[int]] = {}
            found = {}
            for partition in self.led[broker]:
                able = self.candidates[partition]
                for other in able:
                    if other != broker:
                        into = preferred if other == able[0] else found
                        into.setdefault(other, array("i")).append(partition)
            for other, partitions in preferred.items():
                found.setdefault(other, array("i")).extend(partitions)
            self.others[broker] = found
        return found

    def movable(self, broker: int, other: int) -> int | None:
        """Return a partition that `broker` leads and `other` could lead, or None."""
        stack = self.choices(broker).get(other, array("i"))
        while stack and self.leaders[stack[-1]] != broker:
            stack.pop()
        return stack[-1] if stack else None

    def move(self, broker: int, other: int) -> bool:
        """Let `other` lead one more partition of `broker`. Return whether there is one."""
        partition = self.movable(broker, other)
        if partition is None:
            return False
        self.others[broker][other].pop()
        self.count[broker] -= 1
        self._lead(partition, other)
        if other in self.others:
            for third in self.candidates[partition]:
                if third != other:
                    self.others[other].setdefault(third, array("i")).append(partition)
        return True

    def path(self, start: int, cap: int) -> tuple[list[int] | None, set[int]]:
        """Return a shortest path from `start` to a broker below the cap, or None, and the brokers reached."""
        before = {start: start}
        level = [start]
        while level:
            ends = {
                other: broker
                for broker in level
                for other in self.choices(broker)
                if self.count[other] < cap and other not in before and self.movable(broker, other) is not None
            }
            if ends:
                end = min(ends, key=lambda broker: (self.count[broker], broker))
                path = [end, ends[end]]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1], set(before)
            reached = []
            for broker in level:
                for other in self.choices(broker):
                    if other not in before and self.movable(broker, other) is not None:
                        before[other] = broker
                        reached.append(other)
            level = reached
        return None, set(before)

    def lower(self, cap: int) -> tuple[int, ...] | None:
        """Move leaders until no broker leads more than the cap. Return the brokers that prevent it, or None."""
        while True:
            over = max(range(len(self.count)), key=lambda broker: (self.count[broker], -broker))
            if self.count[over] <= cap:
                return None
            path, reached = self.path(over, cap)
            if path is None:
                return tuple(sorted(reached))
            while self.count[over] > cap and self.count[path[-1]] < cap and self._shift(path):
                pass

    def _shift(self, path: list[int]) -> bool:
        steps = list(pairwise(path))
        if any(self.movable(broker, other) is None for broker, other in steps):
            return False
        for broker, other in reversed(steps):
            assert self.move(broker, other)
        return True


def balanced_leaders(
    candidates: Sequence[Sequence[int]], start: Sequence[int], brokers: int, tolerance_percent: int = 0
) -> LeaderPlan:
    """Return leaders with the smallest possible maximum per broker, with few changes from `start`.

    `candidates[p]`: the brokers (0 to brokers - 1) that may lead partition p, the preferred one first; empty if none
    may. `start[p]`: the leader now; if it is no candidate, the partition gets the least loaded candidate.
    `tolerance_percent`: brokers may lead so much more than the average, rounded down. Takes about 1 s per million
    partitions.
    """
    able = sorted(set(chain.from_iterable(candidates)))
    matching = _Matching(candidates, start, brokers)
    total = sum(matching.count)
    cap, certificate = (-(-total // len(able)), tuple(able)) if able else (0, ())
    restart = False
    while (stuck := matching.lower(cap)) is not None:
        cap, certificate = -(-sum(matching.count[broker] for broker in stuck) // len(stuck)), stuck
        restart = True
    limit = max(cap, total * (100 + tolerance_percent) // (100 * len(able))) if able else 0
    if restart or limit > cap:  # from the start again, so that no leader moves for a cap that is not the last one
        matching = _Matching(candidates, start, brokers)
        assert matching.lower(limit) is None
    changes = sum(now >= 0 and now != then for now, then in zip(matching.leaders, start, strict=True))
    return LeaderPlan(matching.leaders, cap, limit, certificate, changes)
