"""What Spark's expressions count (`app.reports.transforms`), for one chunk of partitions with numpy.

Tables of sums, with states as indexes of the chunk's own states:

- "judged": state, index in `definitions.RACK_VERDICTS`, rack moves; partitions
- "held": broker, state, position; partitions
- "rack hits": rack, state, lost positions; partitions
- "cube": state, rack by position (-1 none, ABSENT after the last replica); partitions
- "pairs": first and second broker; shared, down, refused, lost
- "targets": the sorted brokers of a target, ABSENT after the last; partitions
- "sizes": broker; bytes, known sizes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import pyarrow as pa

from app.reports import definitions as d
from app.reports.aggregates import CUBE_RACKS_MAX, Brokers
from app.reports.columns import Array, Chunk, Flags, codes_table, numbers, pair_up, rack_hits
from app.reports.plain import pair_effect
from app.reports.states import TARGET, Outcomes, PartitionState
from app.reports.sums import Table, grouped

ABSENT: Final = -2
COUNTS: Final[Mapping[str, int]] = {
    "judged": 1, "held": 1, "rack hits": 1, "cube": 1, "pairs": 4, "sizes": 2,
}  # fmt: skip
"""The number of values of each table. The targets have one, in a file of their own (`app.reports.keyed_files`)."""


@dataclass(frozen=True, slots=True)
class RackKinds:
    """The distinct combinations of a state and the racks by position: `of` is that of each row of the chunk."""

    of: Array
    keys: Array
    """A row with the state, and a row with the rack of each position."""
    verdicts: Sequence[tuple[str, int]]
    """The verdict of the rack rule, and the moves needed."""


def rack_kinds(chunk: Chunk, states: Sequence[PartitionState], brokers: Brokers) -> RackKinds:
    """Return the combinations of states and racks in a chunk, judged by the rack rule."""
    racks = _by_position(chunk, np.array([*brokers.rack_of(), d.NO_RACK], np.int64)[chunk.replicas])
    keys = np.stack([chunk.state.astype(np.int64), *racks])
    of = keys[0]
    for column in racks:
        of = numbers(pair_up(of, column - ABSENT))
    first = np.zeros(int(of.max(initial=-1)) + 1, np.int64)
    first[of[::-1]] = np.arange(len(of) - 1, -1, -1)
    distinct = keys[:, first]
    allowed = brokers.allowed()
    known: dict[tuple[int, ...], tuple[str, int]] = {}
    verdicts = []
    for state, *places in distinct.T.tolist():
        codes = states[state].codes
        target = tuple(sorted(rack for rack, code in zip(places, codes, strict=False) if code & TARGET))
        if target not in known:
            known[target] = d.rack_judgement(target, allowed[len(target)] if len(target) < len(allowed) else ())
        verdicts.append(known[target])
    return RackKinds(of, distinct, verdicts)


def _by_position(chunk: Chunk, values: Array) -> Array:
    """Return the values of replicas as a row per position, ABSENT where a partition has no such position."""
    width = int(np.diff(chunk.offsets).max(initial=1))
    table = np.full((width, len(chunk.state)), ABSENT, np.int64)
    table[chunk.positions, chunk.rows] = values
    return table


def counts_of(
    chunk: Chunk, table: pa.Table, states: Sequence[PartitionState], kinds: RackKinds, brokers: Brokers
) -> dict[str, Table]:
    """Return the tables of a chunk; `table` is the file that it was made from."""
    alike = np.bincount(kinds.of, minlength=len(kinds.verdicts))
    verdicts = np.array([d.RACK_VERDICTS.index(verdict) for verdict, _ in kinds.verdicts], np.int64)
    moves = np.array([each for _, each in kinds.verdicts], np.int64)
    hits = rack_hits(chunk, brokers.rack_of())
    rows, positions = chunk.rows, chunk.positions
    state = chunk.state[rows].astype(np.int64)
    inside = codes_table(states)[state, positions] & TARGET > 0
    found = {
        "judged": grouped([kinds.keys[0], verdicts, moves], [alike]),
        "held": grouped([chunk.replicas.astype(np.int64), state, positions]),
        "rack hits": grouped([hits.domain, chunk.state[hits.row].astype(np.int64), hits.lost]),
        "pairs": _pairs(chunk, states),
        "targets": _targets(chunk, inside),
        "sizes": _sizes(chunk, table, rows, inside),
    }
    if len(brokers.racks) <= CUBE_RACKS_MAX:
        found["cube"] = grouped(list(kinds.keys), [alike])
    return found


def _pairs(chunk: Chunk, states: Sequence[PartitionState]) -> Table:
    outcomes = Outcomes(states)
    replicas = _by_position(chunk, chunk.replicas.astype(np.int64))
    tables = []
    for one, other in combinations(range(len(replicas)), 2):
        effects = np.array(
            [
                pair_effect(outcomes, state, one, other) if other < len(each.codes) else (0, 0, 0, 0)
                for state, each in enumerate(states)
            ],
            np.int64,
        )
        has = replicas[other] != ABSENT
        first, second = replicas[one][has], replicas[other][has]
        keys = [np.minimum(first, second), np.maximum(first, second)]
        tables.append(grouped(keys, list(effects[chunk.state[has]].T)))
    if not tables:
        return np.empty((6, 0), np.int64)
    every = np.concatenate(tables, axis=1)
    return grouped(list(every[:2]), list(every[2:]))


def _targets(chunk: Chunk, inside: Flags) -> Table:
    none = np.iinfo(np.int32).max
    members = _by_position(chunk, np.where(inside, chunk.replicas, none))
    members[members == ABSENT] = none
    members.sort(axis=0)
    members[members == none] = ABSENT
    return grouped(list(members.astype(np.int32)))


def _sizes(chunk: Chunk, table: pa.Table, rows: Array, inside: Flags) -> Table:
    column = table["size_bytes"].combine_chunks()
    known = column.is_valid().to_numpy(zero_copy_only=False)[rows] & inside
    if not known.any():
        return np.empty((3, 0), np.int64)
    sizes = column.fill_null(0).to_numpy()[rows[known]]
    return grouped([chunk.replicas[known].astype(np.int64)], [sizes, np.ones(len(sizes), np.int64)])
