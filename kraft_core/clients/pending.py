"""The outcome of an operation that takes several requests, without an event loop: the sans-IO form of a future."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A value or an exception that is set once. Setting it again has no effect, so that late answers do no harm."""

    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Pending[T]], None]] = []

    @property
    def error(self) -> Exception | None:
        """The exception; None for success, and before the end."""
        return self._error

    def result(self) -> T:
        """Return the value, or raise the exception."""
        assert self.is_done, "the operation has not ended"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set by `complete`, and None only where T allows it

    def complete(self, value: T) -> None:
        """End with a value."""
        self._end(value, None)

    def fail(self, error: Exception) -> None:
        """End with an exception."""
        self._end(None, error)

    def when_done(self, callback: "Callable[[Pending[T]], None]") -> None:
        """Call with this object at the end, at once if it has ended."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _end(self, value: T | None, error: Exception | None) -> None:
        if self.is_done:
            return
        self.is_done, self._value, self._error = True, value, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
