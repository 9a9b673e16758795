"""The outcome of a transactional operation. Source: TransactionalRequestResult, Kafka 4.3.1."""

from collections.abc import Callable

from kraft_core.protocol.errors import KafkaError


class TransactionalRequestResult:
    """An operation that ends with `done` or `fail`; what comes after the first of them is ignored.

    `is_acked` says that the application has seen the outcome. Until then it may only repeat the same call.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.is_completed = False
        self.is_acked = False
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> None:
        """Succeed."""
        self._complete(None)

    def fail(self, error: KafkaError) -> None:
        """Fail."""
        self._complete(error)

    def on_completion(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the operation has ended, at once if it has."""
        if self.is_completed:
            callback()
        else:
            self._callbacks.append(callback)

    def _complete(self, error: KafkaError | None) -> None:
        if self.is_completed:
            return
        self.error, self.is_completed = error, True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
