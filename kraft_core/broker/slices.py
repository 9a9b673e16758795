"""Long work of clients on the event loop, in slices that leave room for everybody else.

A walk over the records of a batch may take a second of CPU, so it is a generator that pauses after each short step. `begin`
runs the first steps at once, which ends almost all work; `finish` queues the rest. One turn of the loop runs one slice of one job, and
the jobs take turns, so another client's request waits for a slice and not for the job.

Jobs of addresses, then of connections, that were hardly served lately come first, so that a sender of nothing but long work waits for
its own work; the rest is done one after the other.

A step yields 0, or the bytes of memory that the next steps need (a decoder's window). Such a job starts when the jobs under way
leave room for it; a part of the room is kept for owners that were hardly served lately.

Source: our own; Apache Kafka does such work on its request handler threads.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
Work = Generator[int, None, T]
"""Work that pauses after each step; see the module for what it yields."""

SLICE_S: Final = 0.002
FIRST_STEPS_A_TURN_S: Final = 0.005
"""Bound on the first slices of all requests of one turn of the loop together."""
_UNCOUNTED_S: Final = FIRST_STEPS_A_TURN_S / 5
"""Time of first slices that is carried into the next turn, so that a turn of few short ones costs no callback of the loop."""
MEMORY_BYTES: Final = 18 * 1024 * 1024
"""One zstd decoder of the largest window, or eight of the usual 2 MiB."""
RESERVED_BYTES: Final = 9 * 1024 * 1024
"""More memory, enough for a decoder of zstd's level 19, for owners that were served less than HARDLY_SERVED_S lately."""
HARDLY_SERVED_S: Final = 0.05
_HALF_LIFE_S: Final = 1.0

Owner = tuple[str, str]
"""An address, and a connection of it."""


class Job(Generic[T]):
    """Work that `Slices.begin` did not end."""

    __slots__ = ("done", "needed", "number", "owner", "work")

    def __init__(self, work: Work[T], owner: Owner, needed: int) -> None:
        self.work = work
        self.owner = owner
        self.needed = needed
        self.number = 0
        self.done: asyncio.Future[T] | None = None


class Slices:
    """The queue of jobs of one event loop. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ready: list[Job[Any]] = []
        self._waiting: list[Job[Any]] = []
        self._held_bytes = 0
        self._queued = 0
        self._served_s: dict[str | Owner, float] = {}
        self._halved_s = clock()
        self._is_pumping = False
        self._spent_s = 0.0
        self._ends_turn = False

    def begin(self, work: Work[None], owner: Owner) -> Job[None] | None:
        """Run the first steps of `work`; None when that was all, else the job for `finish`. Raises what the work raises."""
        if self._spent_s >= FIRST_STEPS_A_TURN_S:
            return Job(work, owner, 0)
        started = self._clock()
        needed = 0
        try:
            while not needed and self._clock() - started < SLICE_S:
                needed = next(work)
        except StopIteration:
            return None
        finally:
            self._spend(self._clock() - started)
        self._serve(owner, self._clock() - started)
        return Job(work, owner, needed)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        if self._spent_s > _UNCOUNTED_S and not self._ends_turn:
            self._ends_turn = True
            asyncio.get_running_loop().call_soon(self._new_turn)

    def _new_turn(self) -> None:
        self._spent_s = 0.0
        self._ends_turn = False

    async def finish(self, job: Job[T]) -> T:
        """Run the rest of a job and return its result. Raises what the work raises; a cancelled caller ends the work."""
        loop = asyncio.get_running_loop()
        job.done = loop.create_future()
        self._queued += 1
        job.number = self._queued
        self._enqueue(job)
        self._start_pump(loop)
        try:
            return await job.done
        finally:
            job.work.close()

    async def run(self, work: Work[T], owner: Owner) -> T:
        """Run work that nobody waits for in this turn; as `finish` otherwise."""
        return await self.finish(Job(work, owner, 0))

    def _enqueue(self, job: Job[Any]) -> None:
        if job.needed:
            self._waiting.append(job)
        else:
            self._ready.append(job)

    def _start_pump(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_pumping:
            self._is_pumping = True
            loop.call_soon(self._pump, loop)

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        self._admit()
        if not self._ready:
            self._is_pumping = False
            return
        job = min(self._ready, key=self._turn)
        self._ready.remove(job)
        assert job.done is not None, "queued by finish"
        if job.done.done():
            self._release(job)
        else:
            started = self._clock()
            self._run_slice(job, job.done, started + SLICE_S)
            self._serve(job.owner, self._clock() - started)
        loop.call_soon(self._pump, loop)

    def _turn(self, job: Job[Any]) -> tuple[int, float, float]:
        """Return what jobs are ordered by: first addresses that were hardly served lately, then such connections, then the least served."""
        by_address = self._served_s.get(job.owner[0], 0.0)
        by_connection = self._served_s.get(job.owner, 0.0)
        if by_address < HARDLY_SERVED_S:
            return 0, by_address, by_connection
        if by_connection < HARDLY_SERVED_S:
            return 1, by_connection, 0.0
        return 2, by_address, by_connection

    def _serve(self, owner: Owner, seconds: float) -> None:
        """Count what an owner got; it counts half as much a second later."""
        for key in (owner[0], owner):
            self._served_s[key] = self._served_s.get(key, 0.0) + seconds
        if self._clock() - self._halved_s >= _HALF_LIFE_S:
            self._halved_s = self._clock()
            self._served_s = {key: served / 2 for key, served in self._served_s.items() if served > SLICE_S / 4}

    def _run_slice(self, job: Job[Any], done: asyncio.Future[Any], deadline: float) -> None:
        try:
            while True:
                needed = next(job.work)
                if needed:
                    self._release(job)
                    job.needed = needed
                    self._enqueue(job)
                    return
                if self._clock() >= deadline:
                    self._ready.append(job)
                    return
        except StopIteration as end:
            self._release(job)
            done.set_result(end.value)
        except Exception as failure:  # noqa: BLE001  handed to the caller of `finish`
            self._release(job)
            done.set_exception(failure)

    def _release(self, job: Job[Any]) -> None:
        self._held_bytes -= job.needed
        job.needed = 0

    def _admit(self) -> None:
        """Start the waiting jobs that there is memory for."""
        self._waiting = [job for job in self._waiting if job.done is not None and not job.done.done()]
        for job in sorted(self._waiting, key=self._turn):
            room = MEMORY_BYTES - self._held_bytes
            if self._turn(job)[0] < 2:
                room += RESERVED_BYTES
            if job.needed <= room or not self._held_bytes:
                self._held_bytes += job.needed
                self._waiting.remove(job)
                self._ready.append(job)
