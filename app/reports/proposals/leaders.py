"""The best distribution of leaders over the replicas of a plan, which moves no data.

See `app.reports.leaders` for the algorithm. Here, each partition is a group of its own, since it matters which of them
gets another leader: one that prefers the new leader needs an election alone, and no new order of its replicas.
"""

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import ne

from app.reports.leaders import level_leaders


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


class _Partitions:
    """The partitions with a candidate, as `Groups` of one each. Those without a leader get the least loaded one."""

    def __init__(self, candidates: Sequence[Sequence[int]], start: Sequence[int], brokers: int) -> None:
        self._candidates = candidates
        self.leaders = list(start)
        self._led = [array("i") for _ in range(brokers)]
        self._ways: dict[int, Mapping[int, Sequence[int]]] = {}
        open_partitions = []
        for partition, leader in enumerate(start):
            if leader in candidates[partition]:
                self._led[leader].append(partition)
            else:
                self.leaders[partition] = -1
                open_partitions.append(partition)
        for partition in open_partitions:
            able = candidates[partition]
            if able:
                least = min(able, key=lambda broker: (len(self._led[broker]), broker))
                self._led[least].append(partition)
                self.leaders[partition] = least

    def loads(self) -> list[int]:
        """Return the number of leaders by broker."""
        return [len(partitions) for partitions in self._led]

    def origin(self, group: int) -> int:
        return self.leaders[group]

    def options(self, group: int) -> Sequence[int]:
        return self._candidates[group]

    def count(self, group: int) -> int:
        return 1

    def room(self, broker: int) -> dict[int, int]:
        return {other: len(partitions) for other, partitions in self.ways(broker).items()}

    def ways(self, broker: int) -> Mapping[int, Sequence[int]]:
        """Return the partitions by other candidate, those that prefer the candidate last, so that they move first."""
        known = self._ways.get(broker)
        if known is not None:
            return known
        found: defaultdict[int, list[int]] = defaultdict(list)
        preferred: defaultdict[int, list[int]] = defaultdict(list)
        for partition in self._led[broker]:
            able = self._candidates[partition]
            first = able[0]
            for other in able:
                if other != broker:
                    (preferred if other == first else found)[other].append(partition)
        for other, partitions in preferred.items():
            found[other].extend(partitions)
        self._ways[broker] = {other: array("i", partitions) for other, partitions in found.items()}
        return self._ways[broker]


def balanced_leaders(
    candidates: Sequence[Sequence[int]], start: Sequence[int], brokers: int, tolerance_percent: int = 0
) -> LeaderPlan:
    """Return leaders with the smallest possible maximum per broker, with few changes from `start`.

    `candidates[p]`: the brokers (0 to brokers - 1) that may lead partition p, the preferred one first; empty if none
    may. `start[p]`: the leader now; if it is no candidate, the partition gets the least loaded candidate.
    `tolerance_percent`: brokers may lead so much more than the average, rounded down. Takes about 1 s per million
    partitions.
    """
    partitions = _Partitions(candidates, start, brokers)
    holders = set(chain.from_iterable(candidates))
    found = level_leaders(partitions.loads(), holders, partitions, tolerance_percent)
    leaders = list(partitions.leaders)
    for broker, partition, _ in found.leadership.moved():
        leaders[partition] = broker
    changes = sum(leaders[each] >= 0 for each in compress(range(len(leaders)), map(ne, leaders, start)))
    return LeaderPlan(leaders, found.optimum, found.limit, found.proof, changes)
