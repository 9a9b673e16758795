"""When a group member sends heartbeats, and when it counts as dead or stuck. Source: Heartbeat, Kafka 4.3.1.

Times are ms of a monotonic clock.
"""

from dataclasses import dataclass

from kraft_core.clients.exponential_backoff import ExponentialBackoff


@dataclass(frozen=True, slots=True)
class GroupRebalanceConfig:
    """Configs of a classic group member. Times are ms; the names are Kafka's with underscores.

    `rebalance_timeout_ms` is max.poll.interval.ms. Source: GroupRebalanceConfig.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    client_rack: str | None = None
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000


class Heartbeat:
    """Three timers: the next heartbeat, the session at the coordinator, and the application's next poll."""

    def __init__(self, config: GroupRebalanceConfig, backoff: ExponentialBackoff) -> None:
        self._config = config
        self._backoff = backoff
        self._failures = 0
        self.is_in_flight = False
        self.due_ms: float = 0
        self.session_deadline_ms: float = 0
        self.poll_deadline_ms: float = 0

    def reset_timeouts(self, now_ms: float) -> None:
        """Start all timers: the member has joined a generation."""
        self.is_in_flight = False
        self._failures = 0
        self.due_ms = now_ms + self._config.heartbeat_interval_ms
        self.reset_session_timeout(now_ms)
        self.poll(now_ms)

    def reset_session_timeout(self, now_ms: float) -> None:
        """Start the session again, since a coordinator was found."""
        self.session_deadline_ms = now_ms + self._config.session_timeout_ms

    def poll(self, now_ms: float) -> None:
        """Note that the application polls."""
        self.poll_deadline_ms = now_ms + self._config.rebalance_timeout_ms

    def should_heartbeat(self, now_ms: float) -> bool:
        """Whether a heartbeat is due, and none is in flight."""
        return not self.is_in_flight and now_ms >= self.due_ms

    def sent(self, now_ms: float) -> None:
        """Note that a heartbeat was sent."""
        self.is_in_flight = True
        self.due_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: float) -> None:
        """Note an answer that keeps the member in the group."""
        self.is_in_flight = False
        self._failures = 0
        self.reset_session_timeout(now_ms)

    def failed(self, now_ms: float) -> None:
        """Note a heartbeat without such an answer; the next one follows after a back-off."""
        self.is_in_flight = False
        self.due_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return the next time at which one of the timers expires, None if all have."""
        times = (self.session_deadline_ms, self.poll_deadline_ms, self.due_ms)
        return min((time for time in times if time > now_ms), default=None)
