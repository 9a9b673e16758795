"""What a controller counts of its own work; plain numbers that somebody reads when asked for metrics.

The controller reads no clock, so times are those of its owner. The processing time of an event whose answer waits for
the log runs from the step that began it to the step in which the log had committed it. What ends in the step that
began it gets its share of the time that the owner measured for that step, raft's part in it included.
Source: QuorumControllerMetrics, Kafka 4.3.1.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True)
class Histogram:
    """How many values fell into each range; only ever added to.

    `counts[i]` is of those above `BOUNDS_MS[i - 1]` and up to `BOUNDS_MS[i]`, the last one of all above.
    """

    BOUNDS_MS: ClassVar = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)

    counts: list[int] = field(default_factory=lambda: [0] * (len(Histogram.BOUNDS_MS) + 1))
    sum_ms: float = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def update(self, value_ms: float, times: int = 1) -> None:
        """Count a value, as often as it occurred."""
        self.counts[bisect_left(self.BOUNDS_MS, value_ms)] += times
        self.sum_ms += value_ms * times


@dataclass(slots=True)
class QuorumControllerMetrics:
    """Counts since the start of the process, whichever controller is active.

    `operations_started`: requests, periodic tasks, commits and changes of leadership that were taken up.
    `operations_timed_out`: requests whose deadline had passed before they began, heartbeats included;
    `timed_out_heartbeats` counts these alone. `new_active_controllers`: leaders that this node heard of. `faults`: events
    that failed as they should not. `event_queue_time`: of requests, from when they came to when they were begun.
    `event_queue_processing_time`: of requests and of what the controller does by itself; see the module.
    """

    operations_started: int = 0
    operations_timed_out: int = 0
    timed_out_heartbeats: int = 0
    new_active_controllers: int = 0
    faults: int = 0
    event_queue_time: Histogram = field(default_factory=Histogram)
    event_queue_processing_time: Histogram = field(default_factory=Histogram)
    ended_in_step: int = 0

    def step_took(self, step_ms: float) -> None:
        """Note how long the owner's step took, for the events that began and ended in it."""
        if self.ended_in_step:
            self.event_queue_processing_time.update(step_ms / self.ended_in_step, self.ended_in_step)
            self.ended_in_step = 0
