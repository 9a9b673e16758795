"""Parts of a rebalance that take several turns: waiting for a commit, for an answer, or for the application's listener.

A `RebalanceTask` is a generator that yields what it waits for and is resumed with its error, None for success.
"""

from collections.abc import Generator
from typing import TypeAlias

from kraft_core.clients.consumer.coordinator import RebalanceCallback
from kraft_core.clients.consumer.group_errors import RebalanceListenerFailed
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import KafkaError

RebalanceTask: TypeAlias = Generator[RebalanceCallback | Pending[None], Exception | None, None]


def raise_listener_error(error: Exception | None) -> None:
    """Raise the error of a listener as a KafkaError; None is no error."""
    if isinstance(error, KafkaError):
        raise error
    if error is not None:
        raise RebalanceListenerFailed(error) from error


class RebalanceTaskRunner:
    """Runs one task at a time. `failure` is the KafkaError that ended a task, until the owner takes it."""

    def __init__(self) -> None:
        self.pending_callback: RebalanceCallback | None = None
        self.failure: KafkaError | None = None
        self._task: RebalanceTask | None = None
        self._awaited: Pending[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a task waits."""
        return self._task is not None

    def run(self, task: RebalanceTask) -> None:
        """Run a task as far as it gets; it replaces one that waits."""
        self._task, self._awaited, self.pending_callback = task, None, None
        self._resume(None)

    def callback_completed(self, callback: RebalanceCallback, error: Exception | None) -> None:
        """Continue after the listener returned or raised `error`; a call that nothing waits for is ignored."""
        if callback is self.pending_callback:
            self.pending_callback = None
            self._resume(error)

    def advance(self) -> None:
        """Continue if the operation that the task waits for has ended."""
        if self._awaited is not None and self._awaited.is_done:
            error, self._awaited = self._awaited.error, None
            self._resume(error)

    def _resume(self, error: Exception | None) -> None:
        task = self._task
        assert task is not None, "only a task that waits is resumed"
        while True:
            try:
                waits_for = task.send(error)
            except StopIteration:
                self._task = None
                return
            except KafkaError as failure:
                self._task = None
                self.failure = failure
                return
            if isinstance(waits_for, RebalanceCallback):
                self.pending_callback = waits_for
                return
            if not waits_for.is_done:
                self._awaited = waits_for
                return
            error = waits_for.error
