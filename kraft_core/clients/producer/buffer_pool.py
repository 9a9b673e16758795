"""The memory of records that wait to be sent or acknowledged: a count of bytes with a limit, and a queue of waiters.

Source: BufferPool, Kafka 4.3.1.
"""

from collections import deque
from collections.abc import Callable


class BufferWaiter:
    """An append that waits for `size` bytes. `is_granted` once they are reserved for it."""

    __slots__ = ("is_granted", "on_granted", "size")

    def __init__(self, size: int, on_granted: Callable[[], None]) -> None:
        self.size = size
        self.on_granted = on_granted
        self.is_granted = False


class BufferPool:
    """`total_bytes` to give out, never more. Waiters are served in the order in which they came."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self._waiters: deque[BufferWaiter] = deque()

    @property
    def queued(self) -> int:
        """How many appends wait."""
        return len(self._waiters)

    def allocate(self, size: int) -> bool:
        """Reserve bytes; False if there are not enough, or if others wait for some."""
        if self._waiters or size > self.available_bytes:
            return False
        self.available_bytes -= size
        return True

    def wait(self, size: int, on_granted: Callable[[], None]) -> BufferWaiter:
        """Queue an append. `on_granted` is called once the bytes are reserved; `size` must not exceed `total_bytes`."""
        assert size <= self.total_bytes, "a record larger than the pool is refused before"
        waiter = BufferWaiter(size, on_granted)
        self._waiters.append(waiter)
        self._serve()
        return waiter

    def cancel(self, waiter: BufferWaiter) -> None:
        """Give up waiting, or return what was granted."""
        if waiter.is_granted:
            self.deallocate(waiter.size)
        else:
            self._waiters.remove(waiter)
            self._serve()

    def deallocate(self, size: int) -> None:
        """Return bytes, and serve the waiters for whom there are enough now."""
        self.available_bytes += size
        assert self.available_bytes <= self.total_bytes, "more bytes were returned than reserved"
        self._serve()

    def _serve(self) -> None:
        while self._waiters and self._waiters[0].size <= self.available_bytes:
            waiter = self._waiters.popleft()
            self.available_bytes -= waiter.size
            waiter.is_granted = True
            waiter.on_granted()
