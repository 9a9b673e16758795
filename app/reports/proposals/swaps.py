"""Balances the bytes within racks by swaps: two replicas change places, so no broker's number of replicas changes.

While a broker of a rack is further from its share of the rack's bytes than the tolerance, a replica of a fuller broker
changes places with a smaller one of an emptier broker. The sizes differ by less than the brokers do, so neither of the
two is then fuller than the fuller one was: the maximum never rises, and the swaps end. The problem is NP-hard; the
result is compared with a lower bound and never called optimal.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from itertools import compress
from math import ceil, floor
from operator import not_
from typing import Final

from app.reports.proposals.numbers import bytes_after
from app.reports.proposals.proposal import ByteShare
from app.reports.proposals.replicas import largest_replicas, replicas_by_size
from app.reports.proposals.state import State

MAX_PAIRS: Final = 40_000
"""Upper bound on the pairs of brokers whose replicas are compared, in all racks."""
TRIED: Final = 96
"""Of a broker with more replicas, so many are compared: the largest, as one half, and others in even steps."""
NEIGHBOURS: Final = 32
"""So many replicas about the ideal size are tried in exchange."""
NEARLY: Final = 0.9
"""Among the swaps that gain at least this part of the most, the one that copies least is made."""
NEGLIGIBLE: Final = Fraction(1, 1000)
"""A broker so near to its share, as a fraction of it, is even: to bring it nearer, ever more bytes would be copied."""

Swap = tuple[int, int]
"""A partition of the fuller broker and one of the emptier broker."""


def unknown_sizes(state: State) -> list[int]:
    """Return the partitions of unknown size that may move, or that have a replica on a broker which takes part."""
    sizes, rules = state.layout.sizes, state.rules
    if sizes is not None and None not in sizes:
        return []
    return [
        partition
        for partition, replicas in enumerate(state.before)
        if (sizes is None or sizes[partition] is None)
        and (rules.movable[partition] or not rules.takers.isdisjoint(replicas))
    ]


class ByteBalance:
    """The brokers that may get replicas, by rack; those without a rack are one group. All sizes must be known.

    `before`: bytes by broker in the layout. `swaps` that were made; `within_budget`: whether none was left out for
    lack of moves or bytes.
    """

    def __init__(self, state: State, before: list[int]) -> None:
        self.state = state
        self.swaps = 0
        self.within_budget = True
        self._pairs = 0
        groups: dict[int, list[int]] = {}
        for broker in sorted(state.rules.takers):
            groups.setdefault(state.rules.racks.rack_of[broker], []).append(broker)
        self.sizes = [size or 0 for size in state.layout.sizes or ()]
        self._held: list[_Held] | None = None
        now = _Bytes(state, self.sizes, before)
        self._racks = [_Rack(self, brokers, now) for _, brokers in sorted(groups.items())]

    def even_out(self) -> None:
        """Swap replicas until every broker is within the tolerance of its share, or no swap helps."""
        for rack in self._racks:
            rack.even_out()

    def shares(self) -> tuple[ByteShare, ...]:
        """Return each rack in numbers."""
        return tuple(rack.share() for rack in self._racks)

    def outside(self) -> list[int]:
        """Return the brokers that are further from their shares than the tolerance."""
        return [broker for rack in self._racks for broker in rack.brokers if rack.is_outside(broker)]

    def held(self) -> "list[_Held]":
        """Return what each broker holds."""
        if self._held is None:
            state = self.state
            parts = replicas_by_size(state.target, self.sizes, state.rules.movable, len(state.count))
            self._held = [_Held(self.sizes, partitions) for partitions in parts]
        return self._held

    def may_compare(self) -> bool:
        """Count a pair of brokers. Return False when there were too many."""
        self._pairs += 1
        return self._pairs <= MAX_PAIRS


class _Bytes:
    """What each broker has: all of its bytes, now and before; those that may not move, and the largest replica now."""

    def __init__(self, state: State, sizes: list[int], before: list[int]) -> None:
        self.before = before
        self.all = bytes_after(state, before)
        self.fixed = [0] * len(state.count)
        self.largest = largest_replicas(state.target, sizes, len(state.count))
        for partition in compress(range(len(sizes)), map(not_, state.rules.movable)):
            for broker in state.target[partition]:
                self.fixed[broker] += sizes[partition]


class _Rack:
    """The brokers of one rack, with the bytes that each of them has now."""

    def __init__(self, balance: ByteBalance, brokers: list[int], now: _Bytes) -> None:
        self.brokers = brokers
        self._balance = balance
        self._state = balance.state
        self._before = [now.before[broker] for broker in brokers]
        self._load = {broker: now.all[broker] for broker in brokers}
        share = Fraction(sum(self._load.values()), len(brokers))
        slack = share * max(NEGLIGIBLE, Fraction(self._state.options.tolerance_percent, 100))
        self._low, self._high = ceil(share - slack), floor(share + slack)
        self._bound = max(ceil(share), *(max(now.largest[broker], now.fixed[broker]) for broker in brokers))
        self._changes = dict.fromkeys(brokers, 0)
        self._hopeless: dict[tuple[int, int], tuple[int, int]] = {}

    def is_outside(self, broker: int) -> bool:
        """Whether a broker is further from its share than the tolerance."""
        return not self._low <= self._load[broker] <= self._high

    def even_out(self) -> None:
        """Swap replicas while that helps."""
        while (found := self._next()) is not None:
            self._swap(*found)

    def share(self) -> ByteShare:
        """Return the rack in numbers."""
        return ByteShare(
            self._state.layout.brokers[self.brokers[0]].rack,
            len(self.brokers),
            before_max=max(self._before),
            before_min=min(self._before),
            after_max=max(self._load.values()),
            after_min=min(self._load.values()),
            bound=self._bound,
        )

    def _next(self) -> tuple[int, int, Swap] | None:
        """Return the next swap: of the fullest broker with the emptiest one, if there is one that helps."""
        order = sorted(self.brokers, key=lambda broker: (-self._load[broker], broker))
        for full in order:
            for empty in reversed(order):
                if self._load[empty] >= self._load[full]:
                    break
                if not (self.is_outside(full) or self.is_outside(empty)):
                    continue
                state = (self._changes[full], self._changes[empty])
                if self._hopeless.get((full, empty)) == state:
                    continue
                if not self._balance.may_compare():
                    return None
                found = self._best(full, empty)
                if found is not None:
                    return full, empty, found
                self._hopeless[full, empty] = state
        return None

    def _best(self, full: int, empty: int) -> Swap | None:
        """Return the swap that brings the two brokers nearest to each other; of about equal ones, the cheapest."""
        difference = self._load[full] - self._load[empty]
        found = []
        held = self._balance.held()
        for partition, size in held[full].selection():
            if empty in self._state.target[partition] or not self._state.fits(partition, empty):
                continue
            for other, less in held[empty].about(size - difference // 2):
                change = size - less
                if 0 < change < difference and self._is_possible(partition, full, other, empty):
                    found.append((min(change, difference - change), size + less, partition, other))
                    break
        if not found:
            return None
        enough = NEARLY * max(gain for gain, _, _, _ in found)
        leader = self._state.layout.leader
        _, _, partition, other = min(
            (each for each in found if each[0] >= enough),
            key=lambda each: ((leader[each[2]] == full) + (leader[each[3]] == empty), each[1], each[2], each[3]),
        )
        return partition, other

    def _is_possible(self, partition: int, full: int, other: int, empty: int) -> bool:
        """Whether the other replica may come in exchange, and both are within the budget."""
        state = self._state
        if full in state.target[other] or not state.fits(other, full):
            return False
        if state.exchange_within_budget((partition, full, empty), (other, empty, full)):
            return True
        self._balance.within_budget = False
        return False

    def _swap(self, full: int, empty: int, swap: Swap) -> None:
        self._balance.swaps += 1
        for partition, source, destination in ((swap[0], full, empty), (swap[1], empty, full)):
            self._state.move(partition, source, destination)
            size = self._balance.sizes[partition]
            self._balance.held()[source].remove(partition)
            self._balance.held()[destination].add(partition)
            self._load[source] -= size
            self._load[destination] += size
            self._changes[source] += 1


class _Held:
    """The movable replicas of a broker in order of size, then of partition."""

    def __init__(self, sizes: list[int], partitions: "array[int]") -> None:
        self.partitions = partitions
        self._sizes = sizes

    def _place(self, size: int) -> int:
        return bisect_left(self.partitions, size, key=self._sizes.__getitem__)

    def add(self, partition: int) -> None:
        """Add a replica."""
        self.partitions.insert(self._place(self._sizes[partition]), partition)

    def remove(self, partition: int) -> None:
        """Remove a replica."""
        del self.partitions[self.partitions.index(partition, self._place(self._sizes[partition]))]

    def selection(self) -> Iterator[tuple[int, int]]:
        """Yield replicas with their sizes, the largest first: all, or TRIED of them."""
        count = len(self.partitions)
        top = count if count <= TRIED else TRIED // 2
        step = max(1, (count - top) // max(1, TRIED - top))
        for chosen in (range(count - 1, count - top - 1, -1), range(count - top - 1, -1, -step)):
            for at in chosen:
                partition = self.partitions[at]
                yield partition, self._sizes[partition]

    def about(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the replicas nearest to a size, at most NEIGHBOURS, with their sizes."""
        held, sizes = self.partitions, self._sizes
        above = self._place(size)
        below = above - 1
        for _ in range(min(NEIGHBOURS, len(held))):
            if below < 0 or (above < len(held) and sizes[held[above]] - size <= size - sizes[held[below]]):
                nearest, above = held[above], above + 1
            else:
                nearest, below = held[below], below - 1
            yield nearest, sizes[nearest]
