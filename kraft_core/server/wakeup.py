"""A timer for the next deadline of an owner loop, which is often moved."""

import asyncio
from collections.abc import Callable


class Wakeup:
    """Calls `callback` once, at the earliest of the times set since the last call.

    A timer that is already earlier is kept: an early wake-up does no harm. The time is kept here, since uvloop's handle
    of a timer that is due has no `when`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self._when = 0.0

    def after(self, delay_s: float) -> None:
        """Call back in `delay_s` seconds at the latest; a negative delay counts as 0."""
        when = self._loop.time() + max(0.0, delay_s)
        if self._handle is not None:
            if self._when <= when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._wake)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self) -> None:
        self._handle = None
        self._callback()
