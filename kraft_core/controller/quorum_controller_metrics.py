"""Counters of the controller's work, read by the metrics endpoint.

The controller reads no clock; times come from its owner. The processing time of an event with a deferred response runs
from the step that started the event to the step that saw its commit. An event that ends in the step that started it
gets an equal share of the measured duration of that step, which includes raft's work. Source: QuorumControllerMetrics,
Kafka 4.3.1.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True)
class Histogram:
    """Cumulative counts of values by range.

    `counts[i]` counts the values above `BOUNDS_MS[i - 1]` and up to `BOUNDS_MS[i]`; the last one all values above.
    """

    BOUNDS_MS: ClassVar = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)

    counts: list[int] = field(default_factory=lambda: [0] * (len(Histogram.BOUNDS_MS) + 1))
    sum_ms: float = 0.0

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def update(self, value_ms: float, times: int = 1) -> None:
        """Count a value that occurred `times` times."""
        self.counts[bisect_left(self.BOUNDS_MS, value_ms)] += times
        self.sum_ms += value_ms * times


@dataclass(slots=True)
class QuorumControllerMetrics:
    """Counts since the start of the process, whichever controller is active.

    - `operations_started`: requests, periodic tasks, commits and leader changes.
    - `operations_timed_out`: requests that expired in the queue, heartbeats included.
    - `timed_out_heartbeats`: the heartbeats among them.
    - `new_active_controllers`: leaders that this node heard of.
    - `faults`: events that failed unexpectedly.
    - `event_queue_time`: time of requests from their arrival to their start.
    - `event_queue_processing_time`: time of requests and periodic tasks from their start to their end; see the module.
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
        """Record the duration of a step for the events that began and ended in it."""
        if self.ended_in_step:
            self.event_queue_processing_time.update(step_ms / self.ended_in_step, self.ended_in_step)
            self.ended_in_step = 0
