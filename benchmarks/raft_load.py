"""The load generator of a raft-only server and its statistics, by the rules of Apache's TestRaftServer.

The leader appends records of zeros, one per append, at a fixed rate that is paced in whole milliseconds. When it falls
behind, it appends without pause until it has caught up. The latency of a record runs from just before its append until
its committed batch is handled. Every five seconds a line has the percentiles of the current window of 30 s and the
previous one. Apache's counts whole milliseconds up to 250; ours counts hundredths up to 10 s.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kraft_core.protocol.errors import BufferExhausted, NotController
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.raft.batch_reader import BatchReader
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader

PRINT_INTERVAL_S: Final = 5.0
WINDOW_S: Final = 30.0
PER_MS: Final = 100
LONGEST: Final = 10_000 * PER_MS
APPENDS_A_TURN: Final = 250
"""Upper bound on appends per turn of the loop, so that sockets are served even when the load is behind."""


class Throttle:
    """Paces records: record n is due round(n / rate) ms after the start. Source: ThroughputThrottler."""

    def __init__(self, per_second: int) -> None:
        self._per_ms = per_second / 1000
        self._start_s = 0.0
        self.sent = 0

    def restart(self, now_s: float) -> None:
        """Restart the schedule."""
        self._start_s = now_s
        self.sent = 0

    def due(self, now_s: float) -> int:
        """Return the number of records that are due and not sent yet."""
        return max(0, int((int((now_s - self._start_s) * 1000) + 0.5) * self._per_ms) - self.sent)

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next record is due."""
        return max(0.0, self._start_s + round((self.sent + 1) / self._per_ms) / 1000 - now_s)


class WriteStats:
    """Latencies of the current and the previous window, printed every PRINT_INTERVAL_S."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._windows: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._bytes = 0
        self._started_s = self._window_s = self._printed_s = 0.0

    def restart(self, now_s: float) -> None:
        """Clear all latencies."""
        self._windows = (Counter(), Counter())
        self._bytes = 0
        self._started_s = self._window_s = self._printed_s = now_s

    def record(self, latencies: list[int], size: int, now_s: float) -> None:
        """Add latencies in hundredths of a ms, of records with `size` bytes in total."""
        if now_s - self._window_s >= WINDOW_S:
            self._windows = (self._windows[1], Counter())
            self._window_s = now_s
        self._windows[1].update(latencies)
        self._bytes += size
        if now_s - self._printed_s >= PRINT_INTERVAL_S:
            self._printed_s = now_s
            rate = self._bytes / (now_s - self._started_s)
            p75, p99, p999 = map(self._percentile, (0.75, 0.99, 0.999))
            self._write(
                f"Throughput (bytes/second): {rate:.2f}, Latency (ms): {p75:.2f} p75 {p99:.2f} p99 {p999:.2f} p999"
            )

    def _percentile(self, share: float) -> float:
        both = self._windows[0] + self._windows[1]
        total, seen = both.total(), 0
        for latency in sorted(both):
            seen += both[latency]
            if seen / total > share:
                return latency / PER_MS
        return LONGEST / PER_MS


class Workload:
    """A raft listener that appends while its node leads, one record per append, and measures commits."""

    def __init__(self, raft: KafkaRaftClient, node_id: int, per_second: int, record_size: int) -> None:
        self._raft = raft
        self._node_id = node_id
        self._values = (bytes(record_size),)
        self._throttle = Throttle(per_second)
        self._stats = WriteStats(partial(print, flush=True))
        self._epoch = -1
        self._pending: deque[tuple[int, float]] = deque()

    @property
    def is_claimed(self) -> bool:
        """Report whether the node leads, so that `run` must be called."""
        return self._epoch >= 0

    def run(self) -> float:
        """Append the records that are due, at most APPENDS_A_TURN. Return the seconds until more are due."""
        throttle, pending, now_s = self._throttle, self._pending, time.perf_counter
        raft, epoch, values = self._raft, self._epoch, self._values
        try:
            for _ in range(min(APPENDS_A_TURN, throttle.due(now_s()))):
                began_s = now_s()
                offset = raft.prepare_append(epoch, values)
                raft.schedule_prepared_append()
                pending.append((offset, began_s))
                throttle.sent += 1
        except (NotController, BufferExhausted):
            pass  # the listener is notified of a new leader; a full buffer has room in a later turn
        return throttle.wait_s(now_s())

    # -- Listener

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Start the load in an epoch that this node leads, stop it in any other."""
        now_s = time.perf_counter()
        self._epoch = leader.epoch if leader.is_leader(self._node_id) else -1
        self._pending.clear()
        self._throttle.restart(now_s)
        self._stats.restart(now_s)

    def handle_commit(self, reader: BatchReader) -> None:
        """Measure committed batches of the epoch that this node leads."""
        for batch in reader if self.is_claimed else ():
            if batch.leader_epoch == self._epoch and not batch.is_control:
                self._note(batch)
        reader.close()

    def _note(self, batch: RecordBatch) -> None:
        now_s, pending = time.perf_counter(), self._pending
        latencies = []
        for offset in range(batch.base_offset, batch.last_offset + 1):
            expected, began_s = pending.popleft()
            assert expected == offset, f"offset {offset} is committed where {expected} was to be"
            latencies.append(min(LONGEST, int((now_s - began_s) * 1000 * PER_MS)))
        self._stats.record(latencies, batch.record_count * len(self._values[0]), now_s)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Ignore a snapshot."""
        reader.close()

    def begin_shutdown(self) -> None:
        """Stop appending."""
        self._epoch = -1
