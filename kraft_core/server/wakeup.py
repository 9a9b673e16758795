"""One timer that is moved again and again: an owner loop's next deadline."""

import asyncio
from collections.abc import Callable


class Wakeup:
    """Calls `callback` once at the earliest moment asked for since the last call.

    A timer that is early already is left as it is: waking too soon does no harm. The moment is kept here, since what
    uvloop gives back for a moment that is now has no `when`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self._when = 0.0

    def after(self, delay_s: float) -> None:
        """Wake in `delay_s` seconds at the latest; one that is over counts as now."""
        when = self._loop.time() + max(0.0, delay_s)
        if self._handle is not None:
            if self._when <= when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._wake)

    def cancel(self) -> None:
        """Do not wake any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self) -> None:
        self._handle = None
        self._callback()
