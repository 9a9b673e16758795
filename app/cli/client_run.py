"""What `conclave produce` and `consume` share: signals and progress."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

PROGRESS_S: Final = 0.5
UsageError: Any = typer.BadParameter.__base__
"""A usage error without an option to name. Typer exports only its subclasses."""


class StopSignal:
    """The first SIGINT or SIGTERM, which asks for an orderly end. A second one ends the program."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._arrived = asyncio.Event()

    @property
    def exit_code(self) -> int:
        """The exit code of a program that was asked to end, as shells have it."""
        return 0 if self.number is None else 128 + self.number

    async def wait(self) -> None:
        """Wait for the signal."""
        await self._arrived.wait()

    async def wait_within(self, seconds: float) -> bool:
        """Wait for the signal, at most so long. Return whether it arrived."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def arrive(self, number: int) -> None:
        """Note the signal, and restore the handlers from before."""
        self.number = number
        self._arrived.set()
        self.release()

    def release(self) -> None:
        """Restore the handlers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def stop_signal() -> Iterator[StopSignal]:
    """Catch the first SIGINT or SIGTERM while the block runs."""
    stop = StopSignal()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.arrive, number)
    try:
        yield stop
    finally:
        stop.release()


class Progress:
    """One line on standard error that is written again twice a second, if a person sees it and nothing else does."""

    def __init__(self, text: Callable[[float], str], *, is_shown: bool) -> None:
        self._text = text
        self._is_shown = is_shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._last = self._began
        self._was_shown = False

    def update(self) -> None:
        """Write the line if it is time."""
        now = time.monotonic()
        if self._is_shown and now - self._last >= PROGRESS_S:
            self._last = now
            self._was_shown = True
            self._write("")

    def end(self) -> None:
        """Write the line once more, if it was written at all."""
        if self._was_shown:
            self._write("\n")

    def _write(self, end: str) -> None:
        elapsed = max(time.monotonic() - self._began, 0.001)
        print(f"\r\x1b[K{self._text(elapsed)}", end=end, file=sys.stderr, flush=True)


def amount(records: int, size: int, seconds: float) -> str:
    """Return records, bytes and rate for a progress line."""
    return f"{records:,} records, {size / 1e6:,.1f} MB, {records / seconds:,.0f} records/s"
