"""The assignment while a proposal is being made: what each broker has, and the moves so far."""

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from app.reports.proposals.layout import Indexes, Layout
from app.reports.proposals.options import Options
from app.reports.proposals.rules import Rules


class State:
    """The targets as the proposal has them. All changes go through `put`.

    `target`: the replicas of each partition. `before`: the same in the layout. `count`: replicas per broker. `moves`
    and `bytes`: replicas to copy and their known bytes, relative to the layout.
    """

    def __init__(self, layout: Layout, options: Options, rules: Rules, before: list[Indexes]) -> None:
        self.layout = layout
        self.options = options
        self.rules = rules
        self.before = before
        self.target = list(before)
        counted = Counter(chain.from_iterable(before))
        self.count = [counted[broker] for broker in range(len(layout.brokers))]
        self.start_count = list(self.count)
        self.moves = 0
        self.bytes = 0
        self.changed: set[int] = set()
        self._free = [broker.free_bytes for broker in layout.brokers]
        self._lists: list[array[int]] | None = None
        self.take_only(rules.takers)

    def size(self, partition: int) -> int:
        """Return the size of one replica in bytes, 0 if unknown."""
        sizes = self.layout.sizes
        return (sizes[partition] or 0) if sizes is not None else 0

    def fits(self, partition: int, broker: int) -> bool:
        """Return whether the broker may take the replica and has space for it."""
        if broker not in self.rules.takers:
            return False
        free = self._free[broker]
        return free is None or broker in self.before[partition] or self.size(partition) <= free

    def overfull(self) -> bool:
        """Return whether a broker would get more bytes than it has space for."""
        return any(free is not None and free < 0 for free in self._free)

    def within_budget(self, partition: int, added: int = 1) -> bool:
        """Return whether `added` more replicas of the partition may be copied."""
        options = self.options
        moves_fit = options.max_moves is None or self.moves + added <= options.max_moves
        return moves_fit and (
            options.max_bytes is None or self.bytes + added * self.size(partition) <= options.max_bytes
        )

    def exchange_within_budget(self, *moves: tuple[int, int, int]) -> bool:
        """Return whether these moves (partition, source, destination) may be made together."""
        options = self.options
        if options.max_moves is None and options.max_bytes is None:
            return True
        copied, copied_bytes = self.moves, self.bytes
        for partition, source, destination in moves:
            before = self.before[partition]
            change = (destination not in before) - (source not in before)
            copied += change
            copied_bytes += change * self.size(partition)
        moves_fit = options.max_moves is None or copied <= options.max_moves
        return moves_fit and (options.max_bytes is None or copied_bytes <= options.max_bytes)

    def put(self, partition: int, assigned: Indexes) -> None:
        """Assign these replicas to the partition."""
        before, now, size = self.before[partition], self.target[partition], self.size(partition)
        for broker in now:
            if broker not in assigned:
                self._count(broker, -1)
                self._copy(partition, broker, before, -1, size)
        for broker in assigned:
            if broker not in now:
                self._count(broker, 1)
                self._copy(partition, broker, before, 1, size)
                if self._lists is not None:
                    self._lists[broker].append(partition)
        self.target[partition] = assigned
        if assigned == before:
            self.changed.discard(partition)
        else:
            self.changed.add(partition)

    def _copy(self, partition: int, broker: int, before: Indexes, sign: int, size: int) -> None:
        if broker in before:
            return
        self.moves += sign
        self.bytes += sign * size
        free = self._free[broker]
        if free is not None:
            self._free[broker] = free - sign * size

    def _count(self, broker: int, sign: int) -> None:
        self.count[broker] += sign
        if broker in self._takers:
            heapq.heappush(self._heaps[self.rules.racks.rack_of[broker]], (self.fill(broker), broker))

    def move(self, partition: int, source: int, destination: int) -> None:
        """Replace one replica by another at the same position, or return to the original order if that is the set."""
        assigned = tuple(destination if broker == source else broker for broker in self.target[partition])
        before = self.before[partition]
        self.put(partition, before if set(assigned) == set(before) else assigned)

    def fill(self, broker: int) -> int:
        """Return how far the broker is above the lower end of its band; the emptiest one is the best destination."""
        return self.count[broker] - self.rules.low[broker]

    def holders(self) -> "list[array[int]]":
        """Return the movable partitions of each broker. Later moves make entries stale: check `target`."""
        if self._lists is None:
            lists = [array("i") for _ in self.count]
            movable = self.rules.movable
            for partition, replicas in enumerate(self.target):
                if movable[partition]:
                    for broker in replicas:
                        lists[broker].append(partition)
            self._lists = lists
        return self._lists

    def take_only(self, takers: frozenset[int]) -> None:
        """Let `destination` name these brokers only."""
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(self.rules.racks.racks + 1)]
        self._takers = takers
        for broker in sorted(takers):
            heapq.heappush(self._heaps[self.rules.racks.rack_of[broker]], (self.fill(broker), broker))

    def racks_with_room(self, limits: list[int]) -> list[int]:
        """Return the racks (-1: none) in which a broker that may be named has fewer replicas than its limit."""
        rack_of = self.rules.racks.rack_of
        return sorted({rack_of[broker] for broker in self._takers if self.count[broker] < limits[broker]})

    def destination(self, partition: int, racks: Iterable[int], limits: list[int] | None = None) -> int | None:
        """Return the emptiest broker of these racks (-1: without a rack) that may take a replica of the partition.

        With `limits`, only a broker with fewer replicas than its limit.
        """
        best: tuple[int, int] | None = None
        target = self.target[partition]
        for rack in racks:
            heap, aside = self._heaps[rack], set()
            while heap:
                fill, broker = heap[0]
                if fill != self.fill(broker):
                    heapq.heappop(heap)
                elif limits is not None and self.count[broker] >= limits[broker]:
                    break
                elif broker in target or not self.fits(partition, broker):
                    aside.add(heapq.heappop(heap))
                else:
                    best = heap[0] if best is None else min(best, heap[0])
                    break
            for entry in aside:
                heapq.heappush(heap, entry)
        return best[1] if best is not None else None
