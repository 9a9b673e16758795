"""What a controller counts of its own work; plain numbers that somebody reads when asked for metrics.

The queue's times are not measured: what comes in is done within the same turn of the loop.
Source: QuorumControllerMetrics, Kafka 4.3.1.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class QuorumControllerMetrics:
    """Counts since the start of the process, whichever controller is active.

    `operations_started`: requests, periodic tasks, commits and changes of leadership that were taken up.
    `operations_timed_out`: requests whose deadline had passed before they began, heartbeats included;
    `timed_out_heartbeats` counts these alone. `new_active_controllers`: leaders that this node heard of.
    """

    operations_started: int = 0
    operations_timed_out: int = 0
    timed_out_heartbeats: int = 0
    new_active_controllers: int = 0
