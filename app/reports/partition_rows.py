"""The partitions behind a number of a report: of a broker, of several together, of a rack, or in a certain state.

Read from `placement.arrow` of the run, without Spark, so the list is available as long as the run's files are kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.reports import definitions as d
from app.reports.aggregates import Brokers
from app.reports.states import ADDING, IN_SYNC, LEADER, ONLINE, TARGET, PartitionState
from app.reports.what_if import NoPlacementError, UnknownDomainError
from app.texts import phrase

if TYPE_CHECKING:
    from app.reports.columns import Array, Chunk, Flags

# numpy and pyarrow are imported late: most web processes never read such a list.


def _preferred(state: PartitionState, position: int) -> bool:
    return next((at for at, code in enumerate(state.codes) if code & TARGET), -1) == position


REPLICA_KINDS: Final[Mapping[str, Callable[[PartitionState, int], bool]]] = {
    "replicas": lambda state, at: bool(state.codes[at] & TARGET),
    "leaders": lambda state, at: bool(state.codes[at] & LEADER),
    "preferred": _preferred,
    "out_of_sync": lambda state, at: state.codes[at] & (TARGET | IN_SYNC) == TARGET,
    "offline_replicas": lambda state, at: not state.codes[at] & ONLINE,
    "adding": lambda state, at: bool(state.codes[at] & ADDING),
    "removing": lambda state, at: not state.codes[at] & TARGET,
}
"""Kinds of replicas. With brokers or racks, these hold such a replica; else any broker does."""
PARTITION_KINDS: Final[Mapping[str, Callable[[PartitionState], bool]]] = {
    "offline": lambda state: state.leader < 0,
    "under_min": lambda state: state.leader < 0 or state.margin < 0,
    "at_min": lambda state: state.leader >= 0 and state.margin == 0,
    "under_replicated": lambda state: state.replication_factor > state.in_sync,
    "non_preferred": lambda state: state.leader != 0,
    "fixable_by_election": lambda state: state.fixable_by_election,
    "rf1": lambda state: state.replication_factor == 1,
    "rf_is_min_isr": lambda state: state.replication_factor == state.min_isr,
}
RACK_KINDS: Final = {"rack_violated": d.RACK_VIOLATED, "rack_unknown": d.RACK_UNKNOWN}
KINDS: Final = (*REPLICA_KINDS, *PARTITION_KINDS, *RACK_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which partitions: those with a replica on each of `brokers` (ids) and in each of `racks`, of the kind `what`.

    A rack that is named twice must hold two replicas. `margin`, if given, is that of the partition.
    """

    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()
    what: str = "replicas"
    margin: int | None = None

    def check(self, body: Mapping[str, Any]) -> None:
        """Raise UnknownDomainError if the report has no such broker or rack, or if there is no such kind."""
        for broker in set(self.brokers) - {row["broker_id"] for row in body["brokers"]}:
            raise UnknownDomainError(phrase("broker %(id)s is not in the report.", id=broker))
        for rack in sorted(set(self.racks) - {row["rack"] for row in body["racks"]}):
            raise UnknownDomainError(phrase("rack '%(rack)s' is not in the report.", rack=rack[:40]))
        if self.what not in KINDS:
            raise UnknownDomainError(
                phrase("'%(what)s' is not one of %(kinds)s.", what=self.what[:40], kinds=", ".join(KINDS))
            )


def partition_rows(out: Path, wanted: RowFilter, *, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Return rows from `offset` on, sorted by topic and partition, and the number of all. `wanted` has been checked.

    `out` is the output folder of the report's run. A row has topic, partition, replicas, racks ("" for none), isr,
    leader (-1 for none) and margin. Takes about 0.2 s of one core per million partitions.

    Raises NoPlacementError if the run's files no longer exist.
    """
    from app.reports.placement_file import FILE, read_placement

    try:
        meta, name, chunks = read_placement(out / FILE)
    except FileNotFoundError as gone:
        raise NoPlacementError(phrase("The files of this report's run no longer exist; run another report.")) from gone
    brokers = Brokers(meta["brokers"])
    states = [PartitionState(tuple(codes), factor, config, bool(un)) for codes, factor, config, un in meta["states"]]
    search = _Search(wanted, states, brokers)
    rows: list[dict[str, Any]] = []
    total = 0
    for chunk in chunks:
        found = search.rows(chunk)
        start = max(0, offset - total)
        shown = found[start : start + max(0, limit - len(rows))].tolist()
        rows += [_row(chunk, row, states, brokers, name) for row in shown]
        total += len(found)
    return rows, total


def _row(
    chunk: "Chunk", row: int, states: Sequence[PartitionState], brokers: Brokers, name: Callable[[int], str]
) -> dict[str, Any]:
    indexes = chunk.replicas[chunk.offsets[row] : chunk.offsets[row + 1]].tolist()
    state, ids = states[int(chunk.state[row])], brokers.ids(indexes)
    return {
        "topic": name(int(chunk.topic[row])),
        "partition": int(chunk.partition[row]),
        "replicas": ids,
        "racks": [brokers.rows[index]["rack"] or "" for index in indexes],
        "isr": [broker for broker, code in zip(ids, state.codes, strict=True) if code & IN_SYNC],
        "leader": ids[state.leader] if state.leader >= 0 else -1,
        "margin": state.margin,
    }


class _Search:
    """A filter with what it means for the states and brokers of one report."""

    def __init__(self, wanted: RowFilter, states: Sequence[PartitionState], brokers: Brokers) -> None:
        import numpy as np

        of_partition = PARTITION_KINDS.get(wanted.what)
        of_replica = REPLICA_KINDS.get(wanted.what, REPLICA_KINDS["replicas"])
        self._states, self._brokers, self._verdict = states, brokers, RACK_KINDS.get(wanted.what)
        chosen = [
            (of_partition is None or of_partition(state)) and wanted.margin in {None, state.margin} for state in states
        ]
        self._chosen = np.array(chosen or [False])
        masks = [sum(1 << at for at in range(len(state.codes)) if of_replica(state, at)) for state in states]
        self._positions = np.array(masks or [0], np.int64)
        self._domains = list(self._domains_of(wanted, brokers))
        if not self._domains and wanted.what in REPLICA_KINDS and wanted.what != "replicas":
            self._domains = [(np.ones(len(brokers.rows) or 1, np.bool_), 1)]

    @staticmethod
    def _domains_of(wanted: RowFilter, brokers: Brokers) -> Iterator[tuple["Flags", int]]:
        """Yield the members of each broker and rack, by index, and how many of them must hold a replica."""
        import numpy as np

        for broker in wanted.brokers:
            yield np.array([row["broker_id"] == broker for row in brokers.rows]), 1
        for rack, least in Counter(wanted.racks).items():
            yield np.array([row["rack"] == rack for row in brokers.rows]), least

    def rows(self, chunk: "Chunk") -> "Array":
        """Return the rows of a chunk that match."""
        import numpy as np

        found = self._chosen[chunk.state]
        if self._domains:
            rows = chunk.rows
            counts = (self._positions[chunk.state][rows] >> chunk.positions) & 1 == 1
            for members, least in self._domains:
                held = np.bincount(rows[counts & members[chunk.replicas]], minlength=len(found))
                found = found & (held >= least)
        places = np.flatnonzero(found)
        return places if self._verdict is None else places[self._judged(chunk, places)]

    def _judged(self, chunk: "Chunk", places: "Array") -> "Flags":
        """Return which of the rows in `places` have the wanted verdict of the rack rule."""
        import numpy as np

        from app.reports.columns import numbers, pair_up

        if not len(places):
            return np.empty(0, np.bool_)
        rack_of, allowed = self._brokers.rack_of(), self._brokers.allowed()
        racks_at = np.array([*rack_of, d.NO_RACK - 1])
        size = np.diff(chunk.offsets)[places]
        keys = chunk.state[places].astype(np.int64)
        for at in range(int(size.max())):
            place = np.where(at < size, chunk.offsets[places] + at, 0)
            keys = numbers(pair_up(keys, racks_at[np.where(at < size, chunk.replicas[place], len(rack_of))] + 2))
        first = np.zeros(int(keys.max()) + 1, np.int64)
        first[keys] = np.arange(len(keys))
        verdicts = [self._rack_verdict(chunk, row, rack_of, allowed) for row in places[first].tolist()]
        found: Flags = np.array([verdict == self._verdict for verdict in verdicts])[keys]
        return found

    def _rack_verdict(
        self, chunk: "Chunk", row: int, rack_of: Sequence[int], allowed: Sequence[tuple[int, ...]]
    ) -> str:
        codes = self._states[int(chunk.state[row])].codes
        replicas = chunk.replicas[chunk.offsets[row] : chunk.offsets[row + 1]].tolist()
        racks = [rack_of[at] for at, code in zip(replicas, codes, strict=True) if code & TARGET]
        return d.rack_judgement(racks, allowed[len(racks)] if len(racks) < len(allowed) else ())[0]
