"""Partitions as columns of numpy: what needs single partitions rather than counts.

A snapshot's files are read one at a time, and each becomes a `Chunk`. Files are cut between topics.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.aggregates import EXAMPLES, Row
from app.reports.states import (
    ADDING,
    ELIGIBLE,
    IN_SYNC,
    LEADER,
    ONLINE,
    TARGET,
    VERDICTS,
    Outcomes,
    PartitionState,
)

Array = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

CODE_BITS = 7
CODES_PACKED = 8
"""Codes of 7 bits that fit into one int64."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """Some partitions: `replicas` holds the brokers of all, and those of row r are at offsets[r]:offsets[r + 1]."""

    topic: Ints
    partition: Ints
    state: Ints
    replicas: Ints
    offsets: Ints

    @property
    def rows(self) -> Array:
        """The row of each replica."""
        return np.repeat(np.arange(len(self.state)), np.diff(self.offsets))

    @property
    def positions(self) -> Array:
        """The position of each replica in its assignment."""
        return _positions(self.offsets)


def _positions(offsets: Ints) -> Array:
    counts = np.diff(offsets)
    return np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), counts)


def _sums(values: Array, offsets: Ints) -> Array:
    """Return the sum of each row's values. Rows may be empty."""
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
    sums: Array = total[offsets[1:]] - total[offsets[:-1]]
    return sums


def topic_names(snapshot: Path) -> list[str]:
    """Return the names of a snapshot's topics by index."""
    return list(pq.read_table(snapshot / "topics.parquet", columns=["name"])["name"].to_pylist())


def topic_settings(snapshot: Path) -> list[tuple[int, bool]]:
    """Return (min_isr_config, unclean) of a snapshot's topics by index."""
    configs = pq.read_table(snapshot / "topics.parquet", columns=["min_isr_config", "unclean"])
    return list(zip(configs["min_isr_config"].to_pylist(), configs["unclean"].to_pylist(), strict=True))


def codes_table(states: Sequence[PartitionState]) -> Array:
    """Return the codes of states by position, 0 where there are no more, with an empty state at the end."""
    codes = np.zeros((len(states) + 1, max((len(state.codes) for state in states), default=1)), np.int64)
    for number, state in enumerate(states):
        codes[number, : len(state.codes)] = state.codes
    return codes


def read_chunks(
    snapshot: Path, files: Sequence[str], index: Mapping[PartitionState, int], *, elr: bool
) -> Iterator[Chunk]:
    """Yield the partitions of a snapshot, a chunk per file. `index` has all their states."""
    settings = topic_settings(snapshot)
    for name in files:
        table = pq.read_table(snapshot / name).combine_chunks()
        if table.num_rows:
            yield chunk_of(table, settings, index, elr=elr)


def chunk_of(
    table: pa.Table, settings: Sequence[tuple[int, bool]], index: Mapping[PartitionState, int], *, elr: bool
) -> Chunk:
    """Return the partitions of a file as a chunk. `settings` has (min_isr_config, unclean) of each topic."""
    replicas, offsets = list_column(table, "replicas")
    codes = _codes(table, replicas, offsets, elr=elr)
    topic = table["topic_idx"].to_numpy()
    adding = np.diff(list_column(table, "adding")[1])
    kinds = {setting: number for number, setting in enumerate(dict.fromkeys(settings))}
    kind_of = np.array([kinds[setting] for setting in settings], np.int64)
    keys = numbers(pair_up(pair_up(kind_of[topic], adding), np.diff(offsets)))
    positions = _positions(offsets)
    for start in range(0, int(positions.max(initial=0)) + 1, CODES_PACKED):
        inside = (positions >= start) & (positions < start + CODES_PACKED)
        shifted = np.where(inside, codes << (CODE_BITS * np.where(inside, positions - start, 0)), 0)
        keys = numbers(pair_up(keys, numbers(_sums(shifted, offsets))))
    first = np.zeros(int(keys.max()) + 1, np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    states = []
    for row in first.tolist():
        own = tuple(codes[offsets[row] : offsets[row + 1]].tolist())
        states.append(index[PartitionState(own, len(own) - int(adding[row]), *settings[int(topic[row])])])
    return Chunk(topic, table["partition"].to_numpy(), np.array(states, np.int32)[keys], replicas, offsets)


def pair_up(one: Array, other: Array) -> Array:
    """Return numbers that are equal where both are. Both are small."""
    paired: Array = one * (int(other.max(initial=0)) + 1) + other
    return paired


def numbers(keys: Array) -> Array:
    """Return 0, 1, … for the distinct keys, in their order. Few distinct keys are found without sorting all."""
    some = np.unique(keys[:: max(1, len(keys) // 1000)])
    places = np.minimum(np.searchsorted(some, keys), len(some) - 1)
    missing = keys[some[places] != keys]
    if not len(missing):
        return places
    every = np.union1d(some, missing)
    return np.searchsorted(every, keys)


def list_column(table: pa.Table, name: str) -> tuple[Ints, Ints]:
    """Return the values of a column of lists, and the offset of each list and of their end."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    offsets: Ints = column.offsets.to_numpy()
    values: Ints = column.values.to_numpy()
    return values[offsets[0] : offsets[-1]], offsets - offsets[0]


def _codes(table: pa.Table, replicas: Ints, offsets: Ints, *, elr: bool) -> Array:
    """Return the code of each replica, see `app.reports.states`."""
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    width = int(replicas.max(initial=0)) + 1
    keys = rows * width + replicas
    codes = np.full(len(replicas), TARGET | IN_SYNC | ONLINE, np.int64)

    def mark(name: str, select: Flags, inside: int, outside: int) -> None:
        """Add to the codes of the selected rows: `inside` for replicas in the list, `outside` for others."""
        if not select.any():
            return
        values, starts = list_column(table, name)
        holders = np.repeat(np.arange(len(counts), dtype=np.int64), np.diff(starts))
        listed = select[holders] & (values < width)
        members = np.sort(holders[listed] * width + values[listed])
        chosen = np.flatnonzero(select[rows])
        places = np.searchsorted(members, keys[chosen])
        found = np.append(members, -1)[places] == keys[chosen]
        codes[chosen] += np.where(found, inside, outside)

    def some(name: str) -> Flags:
        return np.diff(list_column(table, name)[1]) > 0

    mark("isr", np.diff(list_column(table, "isr")[1]) != counts, 0, -IN_SYNC)
    mark("removing", some("removing"), -TARGET, 0)
    mark("offline_replicas", some("offline_replicas"), -ONLINE, 0)
    mark("adding", some("adding"), ADDING, 0)
    if elr:
        mark("elr", some("elr"), ELIGIBLE, 0)
    leader = table["leader"].to_numpy()
    return codes + np.where(replicas == leader[rows], LEADER, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Hits:
    """Rows that lose positions: a row, the domain that is lost, and the bit mask of the positions."""

    row: Array
    domain: Array
    lost: Array


def broker_hits(chunk: Chunk) -> Hits:
    """Return what each single broker holds."""
    return Hits(chunk.rows, chunk.replicas.astype(np.int64), np.left_shift(1, chunk.positions))


def rack_hits(chunk: Chunk, rack_of: Sequence[int]) -> Hits:
    """Return what each rack holds."""
    racks = np.array(rack_of, np.int64)[chunk.replicas]
    known = racks >= 0
    width = max(rack_of, default=0) + 1
    keys, bits = (chunk.rows * width + racks)[known], np.left_shift(1, chunk.positions)[known]
    order = np.argsort(keys, kind="stable")
    keys, bits = keys[order], bits[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    lost = np.add.reduceat(bits, starts) if len(starts) else bits
    return Hits(keys[starts] // width, keys[starts] % width, lost)


def set_hits(chunk: Chunk, dead: Flags) -> Hits:
    """Return what a set of brokers holds, as one domain 0. `dead` says for each broker whether it is in the set."""
    lost = _sums(np.where(dead[chunk.replicas], np.left_shift(1, chunk.positions), 0), chunk.offsets)
    row = np.flatnonzero(lost)
    return Hits(row, np.zeros(len(row), np.int64), lost[row])


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The outcomes of hits: `kinds` are the distinct (state, lost) and `kind` is that of each hit."""

    kinds: Sequence[tuple[int, int]]
    kind: Array
    heir: Array
    """The broker that takes over leadership, -1 if none does."""
    rank: Array
    """The index in VERDICTS where the partition newly is down, refuses writes or is lost, else -1."""


def judge(chunk: Chunk, hits: Hits, outcomes: Outcomes) -> Judgement:
    """Return the outcomes of hits."""
    if not len(hits.row):
        return Judgement([], np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    mask = numbers(hits.lost)
    kind = numbers(pair_up(chunk.state[hits.row].astype(np.int64), mask))
    first = np.zeros(int(kind.max()) + 1, np.int64)
    first[kind] = np.arange(len(kind))
    kinds = list(zip(chunk.state[hits.row[first]].tolist(), hits.lost[first].tolist(), strict=True))
    after = [outcomes.after(*each) for each in kinds]
    heirs = np.array([each.heir for each in after], np.int64)
    ranks = np.array(
        [
            VERDICTS.index(result.verdict) if any(outcomes.newly(*each)) else -1
            for each, result in zip(kinds, after, strict=True)
        ],
        np.int64,
    )
    at = heirs[kind]
    taken = at >= 0
    heir = np.full(len(kind), -1, np.int64)
    heir[taken] = chunk.replicas[chunk.offsets[hits.row[taken]] + at[taken]]
    return Judgement(kinds, kind, heir, ranks[kind])


class Worst:
    """The first page of partitions that each domain's loss harms, the worst verdicts first."""

    def __init__(self, limit: int = EXAMPLES) -> None:
        self._limit = limit
        self.rows = np.empty((4, 0), np.int64)

    def add(self, chunk: Chunk, hits: Hits, judgement: Judgement) -> None:
        """Add the harmed partitions of a chunk."""
        harmed = judgement.rank >= 0
        row = hits.row[harmed]
        if len(row):
            self.add_rows(
                np.stack([hits.domain[harmed], judgement.rank[harmed], chunk.topic[row], chunk.partition[row]])
            )

    def add_rows(self, rows: Array) -> None:
        """Add the rows of another one."""
        self.rows = self._first(np.concatenate([self.rows, rows], axis=1))

    def _first(self, rows: Array) -> Array:
        rows = rows[:, np.lexsort(rows[::-1])]
        starts = np.flatnonzero(np.diff(rows[0], prepend=-1))
        place = np.arange(rows.shape[1]) - np.repeat(starts, np.diff(starts, append=rows.shape[1]))
        kept: Array = rows[:, place < self._limit]
        return kept

    def pages(self, name: Callable[[int], str]) -> dict[int, list[Row]]:
        """Return the rows `partitions` of what_if by domain. `name` returns the name of a topic by its index."""
        found: dict[int, list[Row]] = {}
        for domain, rank, topic, partition in self.rows.T.tolist():
            row = {"topic": name(topic), "partition": partition, "verdict": VERDICTS[rank]}
            found.setdefault(domain, []).append(row)
        return found
