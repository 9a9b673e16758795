"""The raft metrics, with the names and rules of Kafka's group `raft-metrics`.

Averages, maxima and rates cover two windows of 30 s and the current one; without an event in them an average or a
maximum is NaN and a rate is 0. `poll-idle-ratio-avg` covers the time since its last measurement.

Source: KafkaRaftMetrics, and SampledStat, Avg, Max, Rate, TimeRatio of Kafka 4.3.1; KIP-595, KIP-853, KIP-996.
"""

from collections.abc import Mapping
from math import nan
from typing import Final, TypeAlias

from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text
from kraft_core.raft.internals.batch_accumulator import CompletedBatch
from kraft_core.raft.internals.kraft_control_record_state_machine import BEFORE_THE_LOG
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.quorum_state import Candidate, Follower, Prospective, Resigned, State, Unattached

WINDOW_MS: Final = 30_000  # metrics.sample.window.ms
WINDOWS: Final = 2  # metrics.num.samples

MetricValue: TypeAlias = int | float | str


class _Sample:
    """Events of one window."""

    __slots__ = ("count", "largest", "last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = -nan
        self.start_ms = self.last_ms = now_ms


class SampledStat:
    """Values recorded over the last windows. Kafka has one such object for each result."""

    __slots__ = ("_current", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Record a value."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= WINDOW_MS:
            self._current = (self._current + 1) % (WINDOWS + 1)
            if self._current == len(self._samples):
                self._samples.append(_Sample(now_ms))
            sample = self._samples[self._current]
            sample.reset(now_ms)
        sample.total += value
        sample.largest = value if sample.count == 0 else max(sample.largest, value)
        sample.count += 1
        sample.last_ms = now_ms

    def average(self, now_ms: int) -> float:
        """Return the mean of the values; NaN when there are none."""
        self._purge(now_ms)
        count = sum(each.count for each in self._samples)
        return sum(each.total for each in self._samples) / count if count else nan

    def maximum(self, now_ms: int) -> float:
        """Return the largest value; NaN when there is none."""
        self._purge(now_ms)
        return max((each.largest for each in self._samples if each.count), default=nan)

    def rate(self, now_ms: int) -> float:
        """Return the sum of the values per second of the time covered, which is at least one whole window."""
        self._purge(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = now_ms - min(each.start_ms for each in self._samples)
        elapsed_ms += max(0, WINDOWS - 1 - elapsed_ms // WINDOW_MS) * WINDOW_MS
        return sum(each.total for each in self._samples) * 1000 / max(elapsed_ms, 1)

    def _purge(self, now_ms: int) -> None:
        for each in self._samples:
            if now_ms - each.last_ms >= WINDOWS * WINDOW_MS:
                each.reset(now_ms)


class TimeRatio:
    """The ratio of recorded time to the time since the last measurement; 1.0 before the first record."""

    __slots__ = ("_last_ms", "_spent_ms", "_start_ms")

    def __init__(self) -> None:
        self._start_ms = -1
        self._last_ms = -1
        self._spent_ms = 0.0

    def record(self, spent_ms: float, now_ms: int) -> None:
        """Record a period that ends at `now_ms`; the first one only sets the start."""
        if self._start_ms < 0:
            self._start_ms = now_ms
        else:
            self._spent_ms += spent_ms
            self._last_ms = now_ms

    def measure(self) -> float:
        """Return the ratio, and restart at the end of the last recorded period."""
        if self._last_ms < 0:
            return 1.0
        elapsed_ms, spent_ms = self._last_ms - self._start_ms, self._spent_ms
        self._start_ms, self._spent_ms = self._last_ms, 0.0
        return min(spent_ms / elapsed_ms, 1.0) if elapsed_ms > 0 else 1.0


class KafkaRaftMetrics:
    """The measurements of one node. Times are ms."""

    __slots__ = (
        "_appended",
        "_commit_latency",
        "_election_latency",
        "_election_start_ms",
        "_end_offset",
        "_fetched",
        "_idle",
        "_state",
    )

    def __init__(self, end_offset: int) -> None:
        self._end_offset = end_offset
        self._commit_latency = SampledStat()
        self._election_latency = SampledStat()
        self._fetched = SampledStat()
        self._appended = SampledStat()
        self._idle = TimeRatio()
        self._election_start_ms: int | None = None
        self._state: State | None = None

    def committed(self, batch: CompletedBatch, now_ms: int) -> None:
        """Record the commit of a batch that this node appended as leader: its latency, divided by its records."""
        latency_ms = max(0, now_ms - batch.timestamp_ms) / batch.record_count
        self._commit_latency.record(latency_ms, batch.timestamp_ms)

    def idle(self, idle_ms: float, now_ms: int) -> None:
        """Record that the node was idle for `idle_ms` until now."""
        self._idle.record(idle_ms, now_ms)

    def after_step(self, core: RaftCore, now_ms: int) -> None:
        """Record the changes of log and state in a step."""
        end_offset = core.log.end_offset
        if end_offset != self._end_offset:
            added = end_offset - max(self._end_offset, core.log.start_offset)  # records of a snapshot do not count
            if added > 0:
                (self._appended if isinstance(core.state, Leader) else self._fetched).record(added, now_ms)
            self._end_offset = end_offset
        if core.state is not self._state:
            self._state = core.state
            self._on_state(core.state, now_ms)

    def _on_state(self, state: State, now_ms: int) -> None:
        """Measure an election: from the last candidacy to a known leader."""
        if isinstance(state, Prospective | Candidate):
            self._election_start_ms = now_ms
        elif isinstance(state, Leader | Follower) and self._election_start_ms is not None:
            self._election_latency.record(now_ms - self._election_start_ms, now_ms)
            self._election_start_ms = None

    def values(self, core: RaftCore, now_ms: int) -> Mapping[str, MetricValue]:
        """Return all metrics by name. Metrics of a leader are absent on other nodes."""
        state = core.state
        voted = core.me if isinstance(state, Leader | Candidate) else state.voted
        control = core.control
        found: dict[str, MetricValue] = {
            "current-state": current_state(state, is_voter=core.is_voter),
            "current-leader": state.leader_id,
            "current-vote": -1 if voted is None else voted.id,
            "current-vote-directory-id": uuid_to_text(ZERO_UUID if voted is None else voted.directory_id),
            "current-epoch": state.epoch,
            "high-watermark": core.high_watermark,
            "log-end-offset": core.log.end_offset,
            "log-end-epoch": core.log.last_epoch,
            "number-unknown-voter-connections": 0,  # unused since KIP-853, but Kafka still has it
            "number-of-voters": len(control.voters),
            "ignored-static-voters": int(
                len(core.config.static_voters) > 0
                and (control.voters_offset != BEFORE_THE_LOG or control.kraft_version > 0)
            ),
            "is-observer": int(not core.is_voter),
            "commit-latency-avg": self._commit_latency.average(now_ms),
            "commit-latency-max": self._commit_latency.maximum(now_ms),
            "election-latency-avg": self._election_latency.average(now_ms),
            "election-latency-max": self._election_latency.maximum(now_ms),
            "fetch-records-rate": self._fetched.rate(now_ms),
            "append-records-rate": self._appended.rate(now_ms),
            "poll-idle-ratio-avg": self._idle.measure(),
        }
        if isinstance(state, Leader):
            found["number-of-observers"] = len(state.live_observers(now_ms))
            found["uncommitted-voter-change"] = int(state.change is not None)
        return found


def current_state(state: State, *, is_voter: bool) -> str:
    """Return Kafka's name of the state; a resigned leader counts as unattached."""
    match state:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective(voted=voted):
            return "prospective" if voted is None else "prospective-voted"
        case Follower():
            return "follower" if is_voter else "observer"
        case Unattached(voted=voted):
            return "unattached" if voted is None else "unattached-voted"
        case Resigned():
            return "unattached"
