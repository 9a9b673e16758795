"""Commits in the background (enable.auto.commit): at polls, before partitions are given up, and at the end.

Positions are committed only in a poll, when all records handed out before count as processed. Source:
CommitRequestManager, Kafka 4.3.1.
"""

import logging

from kraft_core.clients.consumer.group_offsets import GroupOffsets
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import KafkaError

log = logging.getLogger(__name__)


class AutoCommit:
    """The timer of auto.commit.interval.ms. Without enable.auto.commit nothing is committed."""

    def __init__(
        self, offsets: GroupOffsets, subscriptions: SubscriptionState, config: GroupRebalanceConfig, retry_ms: float
    ) -> None:
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._config = config
        self._retry_ms = retry_ms
        self._due_ms: float | None = None
        self._last: Pending[None] | None = None

    def maybe_commit(self, now_ms: float) -> None:
        """Commit the positions of all partitions if the interval has passed; the application polls.

        A commit that still waits for the coordinator delays the next one.
        """
        if not self._config.enable_auto_commit or not (self._last is None or self._last.is_done):
            return
        if self._due_ms is None:
            self.reset_timer(now_ms)
        elif now_ms >= self._due_ms:
            self.reset_timer(now_ms)
            self._last = self._offsets.commit(self._subscriptions.all_consumed(), None, now_ms)
            self._last.when_done(lambda done: self._committed(done, now_ms))

    def commit_all(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Commit the positions of all partitions, until the deadline; the outcome is logged."""
        if not self._config.enable_auto_commit:
            done: Pending[None] = Pending()
            done.complete(None)
            return done
        consumed = self._subscriptions.all_consumed()
        commit = self._offsets.commit(consumed, deadline_ms, now_ms, retries_unknown_topics=False)
        commit.when_done(lambda done: self._committed(done, now_ms))
        return commit

    def last_commit(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Commit the positions of all partitions; return what ends with that and all earlier commits.

        The owner may end it earlier, which leaves the commits in flight.
        """
        self.commit_all(deadline_ms, now_ms)
        ended: Pending[None] = Pending()
        self._offsets.commit({}, None, now_ms).when_done(lambda _commit: ended.complete(None))
        return ended

    def reset_timer(self, now_ms: float) -> None:
        """Start the interval: the assignment has changed."""
        self._due_ms = now_ms + self._config.auto_commit_interval_ms

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when the interval ends; None if it has ended or does not matter."""
        is_ahead = self._config.enable_auto_commit and self._due_ms is not None and self._due_ms > now_ms
        return self._due_ms if is_ahead else None

    def _committed(self, commit: Pending[None], now_ms: float) -> None:
        error = commit.error
        if isinstance(error, KafkaError):
            level = logging.WARNING
            if error.retriable:
                self._due_ms = now_ms + self._retry_ms
                level = logging.DEBUG
            log.log(level, "auto_commit_failed", extra={"group": self._config.group_id, "error": error.message})
