"""The leaders of all partitions as columns of numpy."""

from collections.abc import Sequence

import numpy as np

from app.reports.aggregates import Brokers
from app.reports.columns import Array, Chunk, codes_table
from app.reports.leaders import Group, LeaderOptimum, leader_optimum
from app.reports.states import LEADER, TARGET, PartitionState
from app.reports.sums import Table, grouped


class LeaderColumns:
    """The leaders of partitions, and the brokers that could lead them."""

    def __init__(self, states: Sequence[PartitionState], brokers: Brokers) -> None:
        self._codes = codes_table(states)
        self._leader_at = np.array([*(state.leader for state in states), -1], np.int64)
        self._active = np.array([*brokers.active(), False])

    def leaders(self, chunk: Chunk) -> Array:
        """Return the leader of each row, -1 for none."""
        at = self._leader_at[chunk.state]
        led = at >= 0
        leader = np.full(len(at), -1, np.int64)
        leader[led] = chunk.replicas[chunk.offsets[:-1][led] + at[led]]
        return leader

    def groups(self, chunk: Chunk) -> Table:
        """Return how many partitions are alike, by their leader and the brokers that could lead them.

        A table of sums: the leader, if it could lead, else the first that could; the sorted brokers that could, the
        number of brokers where there are no more; and the number of partitions.
        """
        rows, positions = chunk.rows, chunk.positions
        codes = self._codes[chunk.state[rows], positions]
        able = (codes & TARGET > 0) & self._active[chunk.replicas]
        nobody = len(self._active) - 1
        options = np.full((self._codes.shape[1], len(chunk.state)), nobody, np.int32)
        options[positions[able], rows[able]] = chunk.replicas[able]
        start = np.full(len(chunk.state), -1, np.int32)
        for column in options[::-1]:
            start = np.where(column < nobody, column, start)
        leads = able & (codes & LEADER > 0)
        start[rows[leads]] = chunk.replicas[leads]
        some = start >= 0
        options = np.sort(options[:, some], axis=0)
        return grouped([start[some], *options])


def optimum_of(groups: Table, brokers: int) -> LeaderOptimum:
    """Return the optimum for the groups of all partitions. `brokers` is the number of brokers."""
    starts, options, counts = groups[0], groups[1:-1], groups[-1]
    loads = np.zeros(brokers, np.int64)
    np.add.at(loads, starts, counts)
    ends = np.searchsorted(starts, np.arange(brokers), side="right").tolist()
    begins = np.searchsorted(starts, np.arange(brokers), side="left").tolist()
    holders = np.unique(options)

    def led_by(broker: int) -> list[Group]:
        some = slice(begins[broker], ends[broker])
        found = options[:, some]
        lengths = (found < brokers).sum(axis=0).tolist()
        return [
            (tuple(row[:length]), count)
            for row, length, count in zip(found.T.tolist(), lengths, counts[some].tolist(), strict=True)
        ]

    return leader_optimum(loads.tolist(), holders[holders < brokers].tolist(), led_by)
