"""Brings the brokers into their bands: direct moves first, then chains of moves."""

from collections.abc import Callable, Iterable, Iterator

from app.reports.proposals.options import BALANCE, EXPAND
from app.reports.proposals.state import State

MAX_CHAIN_STEPS = 500_000
"""Upper bound on the pairs of partition and destination that the search for chains looks at."""


RECHECK = 64
"""After so many partitions that no broker could take, the racks with room are looked up again."""


class BudgetSpentError(Exception):
    """The next move is not within the budget."""


class _Bands:
    """Which brokers must or may give and take, as the state is now."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.low, self.high = state.rules.low, state.rules.high
        new = state.rules.new
        self.takers = state.rules.takers if new is None else new
        sharers = state.rules.sharers
        self.givers = sorted(sharers if new is None else sharers - self.takers)
        self.last_givers = sorted({*self.givers, *state.rules.givers})

    def over(self) -> list[int]:
        """Brokers above their bands, the fullest first. To expand, no broker must give."""
        count, high = self.state.count, self.high
        if self.state.rules.new is not None:
            return []
        return sorted(
            (each for each in self.givers if count[each] > high[each]), key=lambda each: high[each] - count[each]
        )

    def under(self) -> list[int]:
        """Brokers below their bands, the emptiest first."""
        count, low = self.state.count, self.low
        return sorted(
            (each for each in self.takers if count[each] < low[each]), key=lambda each: (count[each] - low[each], each)
        )

    def spare(self) -> list[int]:
        """Brokers that can give one and stay in their bands, the fullest first."""
        count, low = self.state.count, self.low
        return sorted(
            (each for each in self.givers if count[each] > low[each]), key=lambda each: low[each] - count[each]
        )


def balance(state: State) -> bool:
    """Move replicas from brokers above their bands to brokers below. Return False if the budget ended it.

    Order: from above to below within a rack, then between racks, then from above to brokers with room, then from
    brokers that can spare one to those below. What is left needs a chain: a move that makes another possible.
    """
    bands = _Bands(state)
    state.take_only(frozenset(bands.takers))
    try:
        for same_rack in (True, False):
            if bands.under():
                _give(state, [(each, bands.high[each]) for each in bands.over()], bands.low, same_rack=same_rack)
        _give(state, [(each, bands.high[each]) for each in bands.over()], bands.high, same_rack=False)
        for same_rack in (True, False):
            if bands.under():
                _give(state, _levels(state, bands), bands.low, same_rack=same_rack)
        if bands.under():
            _give(state, [(each, bands.low[each]) for each in bands.spare()], bands.low, same_rack=False)
        _chains(state, bands)
    except BudgetSpentError:
        return False
    finally:
        state.take_only(state.rules.takers)
    return True


def outside(state: State) -> dict[int, int]:
    """Return the brokers that the plan should have brought into their bands and has not, with the distance."""
    if not state.options.goals & {BALANCE, EXPAND}:
        return {}
    rules, count = state.rules, state.count
    found = {each: rules.low[each] - count[each] for each in (rules.takers if rules.new is None else rules.new)}
    if rules.new is None:
        for each in rules.sharers:
            found[each] = max(found.get(each, 0), count[each] - rules.high[each])
    return {each: distance for each, distance in found.items() if distance > 0}


def _levels(state: State, bands: _Bands) -> list[tuple[int, int]]:
    """Return how many replicas each broker with spare ones keeps: the fullest give what is missing elsewhere."""
    missing = sum(bands.low[each] - state.count[each] for each in bands.under())
    spare = bands.spare()
    fills = sorted((state.fill(each) for each in spare), reverse=True)
    level, given = 0, 0
    for rank, fill in enumerate(fills, 1):
        following = fills[rank] if rank < len(fills) else 0
        given += rank * (fill - following)
        if given >= missing:
            level = following + (given - missing) // rank
            break
    return [(each, bands.low[each] + level) for each in spare if state.fill(each) > level]


def _give(state: State, sources: Iterable[tuple[int, int]], limits: list[int], *, same_rack: bool) -> None:
    """Move replicas off each (broker, replicas to keep), to brokers below their limits."""
    rule = state.rules.racks
    for source, keep in sources:
        open_racks = state.racks_with_room(limits)
        if not open_racks:
            return
        failures = 0
        for partition in _in_order(state, source, state.count[source] - keep):
            if state.count[source] <= keep:
                break
            target = state.target[partition]
            if source not in target:
                continue
            racks = [rule.rack_of[source]] if same_rack else rule.racks_for(target, source, open_racks)
            destination = state.destination(partition, racks, limits)
            if destination is not None:
                if not state.within_budget(partition):
                    raise BudgetSpentError
                state.move(partition, source, destination)
                continue
            failures += 1
            if failures % RECHECK == 0 or same_rack:
                open_racks = state.racks_with_room(limits)
                if not open_racks or (same_rack and racks[0] not in open_racks):
                    break


def _in_order(state: State, source: int, amount: int) -> Iterator[int]:
    """Return the partitions of a broker in the order in which it gives them: those that it leads last.

    The small ones come first where sizes are known. Otherwise, and to fill new brokers, they are spread evenly over
    the topics.
    """
    leader, sizes = state.layout.leader, state.layout.sizes
    held = state.holders()[source]
    for leads in (False, True):
        group = (
            [each for each in held if leader[each] == source]
            if leads
            else [each for each in held if leader[each] != source]
        )
        if sizes is not None and state.rules.new is None:
            yield from sorted(group, key=state.size)
            continue
        stride = max(1, len(group) // max(1, amount))
        for start in range(stride):
            yield from group[start::stride]


def _chains(state: State, bands: _Bands) -> None:
    """Bring the brokers that are left into their bands by shortest chains of moves."""
    search = _Search(state)
    stuck: set[int] = set()
    while over := [each for each in bands.over() if each not in stuck]:
        source = over[0]
        path = search.path(source, lambda each: state.count[each] < bands.high[each], bands.takers)
        if path is None or not search.apply(path):
            stuck.add(source)
    stuck = set()
    while under := [each for each in bands.under() if each not in stuck]:
        last = under[0]
        path = search.path(last, lambda each: state.count[each] > bands.low[each], bands.last_givers, backwards=True)
        if path is None or not search.apply(path):
            stuck.add(last)


class _Search:
    """Breadth-first search for chains of moves, bounded by MAX_CHAIN_STEPS in total."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.steps = 0

    def path(
        self, start: int, is_end: Callable[[int], bool], over: Iterable[int], *, backwards: bool = False
    ) -> list[tuple[int, int, int]] | None:
        """Return (partition, source, destination) from `start` to an end, or to `start` from an end if backwards."""
        came: dict[int, tuple[int, int, int]] = {}
        level, waiting = [start], [each for each in sorted(over) if each != start]
        if not any(map(is_end, waiting)):
            return None
        while level:
            reached = []
            for broker in level:
                for other in list(waiting):
                    edge = (other, broker) if backwards else (broker, other)
                    partition = self._movable(*edge)
                    if partition is None:
                        continue
                    came[other] = (partition, *edge)
                    reached.append(other)
                    waiting.remove(other)
                    if is_end(other):
                        return self._trace(came, start, other, backwards=backwards)
            level = reached
        return None

    def _trace(
        self, came: dict[int, tuple[int, int, int]], start: int, end: int, *, backwards: bool
    ) -> list[tuple[int, int, int]]:
        steps = []
        at = end
        while at != start:
            steps.append(came[at])
            at = came[at][2] if backwards else came[at][1]
        return steps

    def _movable(self, source: int, destination: int) -> int | None:
        state = self.state
        if destination not in state.rules.takers:
            return None
        for partition in state.holders()[source]:
            if self.steps >= MAX_CHAIN_STEPS:
                return None
            self.steps += 1
            if self._fits(partition, source, destination):
                return partition
        return None

    def _fits(self, partition: int, source: int, destination: int) -> bool:
        target = self.state.target[partition]
        if source not in target or destination in target or not self.state.fits(partition, destination):
            return False
        return self.state.rules.racks.allows(target, source, destination)

    def apply(self, path: list[tuple[int, int, int]]) -> bool:
        """Make the moves of a chain, or none of them if one has made another impossible. Return whether it did.

        Raises BudgetSpentError if the chain is not within the budget.
        """
        state = self.state
        done: list[tuple[int, tuple[int, ...]]] = []
        for partition, source, destination in path:
            if self._fits(partition, source, destination):
                if not state.within_budget(partition):
                    self._undo(done)
                    raise BudgetSpentError
                done.append((partition, state.target[partition]))
                state.move(partition, source, destination)
            else:
                self._undo(done)
                return False
        return True

    def _undo(self, done: list[tuple[int, tuple[int, ...]]]) -> None:
        for partition, assigned in reversed(done):
            self.state.put(partition, assigned)
