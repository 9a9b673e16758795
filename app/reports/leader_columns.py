"""The leaders of all partitions as columns of numpy."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from app.reports.aggregates import Brokers
from app.reports.columns import Array, Chunk, codes_table
from app.reports.keyed_files import KeyedFile, entries
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

    def groups(self, chunk: Chunk) -> dict[str, Table]:
        """Return how many partitions are alike, by their leader and the brokers that could lead them.

        Three tables of sums with the number of partitions. "alike": the leader, if it could lead, else the first that
        could; and the sorted brokers that could, the number of brokers where there are no more. "starting": that leader
        alone. "able": each of the brokers that could.
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
        return {
            "alike": grouped([start[some], *options]),
            "starting": grouped([start[some]]),
            "able": grouped([chunk.replicas[able]]),
        }


class LedGroups:
    """The groups of all partitions for `app.reports.leaders`, read from the tables "alike" of LeaderColumns.

    A group gets its number when its broker is first read. `brokers` is the number of brokers.
    """

    def __init__(self, files: Sequence[KeyedFile], brokers: int) -> None:
        self._files = files
        self._nobody = brokers
        self._tables: dict[int, Table] = {}
        self._origins: list[int] = []
        self._begins: list[int] = []
        self._next = 0

    def _table(self, broker: int) -> Table:
        found = self._tables.get(broker)
        if found is None:
            found = self._tables[broker] = entries(self._files, broker, self._nobody)
            self._origins.append(broker)
            self._begins.append(self._next)
            self._next += found.shape[1]
        return found

    def _place(self, group: int) -> tuple[Table, int]:
        at = bisect_right(self._begins, group) - 1
        return self._tables[self._origins[at]], group - self._begins[at]

    def origin(self, group: int) -> int:
        """Return the broker that leads the group before any change."""
        return self._origins[bisect_right(self._begins, group) - 1]

    def options(self, group: int) -> list[int]:
        """Return the brokers that can lead the group."""
        table, row = self._place(group)
        return [broker for broker in table[1:-1, row].tolist() if broker < self._nobody]

    def count(self, group: int) -> int:
        """Return the number of partitions in the group."""
        table, row = self._place(group)
        return int(table[-1, row])

    def room(self, broker: int) -> dict[int, int]:
        """Return how many of the partitions that a broker leads each other broker can lead."""
        table = self._table(broker)
        total = np.zeros(self._nobody + 1, np.int64)
        for column in table[1:-1]:
            np.add.at(total, column, table[-1])
        total[[broker, self._nobody]] = 0
        others = np.flatnonzero(total)
        return dict(zip(others.tolist(), total[others].tolist(), strict=True))

    def ways(self, broker: int) -> Mapping[int, Sequence[int]]:
        """Return the groups that a broker leads by other broker that can lead them."""
        table = self._table(broker)
        begin = self._begins[self._origins.index(broker)]
        others = table[1:-1].T.ravel()
        groups = np.repeat(np.arange(begin, begin + table.shape[1], dtype=np.int32), len(table) - 2)
        chosen = (others != broker) & (others < self._nobody)
        others, groups = others[chosen], groups[chosen]
        order = np.argsort(others, kind="stable")
        others, groups = others[order], groups[order]
        starts = np.flatnonzero(np.diff(others, prepend=-1))
        return dict(zip(others[starts].tolist(), np.split(groups, starts[1:]), strict=True))
