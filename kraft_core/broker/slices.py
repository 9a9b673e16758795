"""Long work of client requests on the event loop, in slices that let other requests run.

Walking over the records of a batch may take a second of CPU, so it is a generator that yields after each short step.
`begin` runs the first steps at once, which completes almost all work; `finish` queues the rest. One turn of the loop
runs one slice of one job, so another client's request waits for a slice and not for a job.

Order: a request may take time in proportion to its size; time beyond that is excess, counted per address and per
connection, and halved every second. Jobs of addresses with hardly any recent excess come first, then those of the
connection with the least, so that a client which sends only long work waits for its own work. A job keeps its place for
QUANTUM_S: most jobs are done by then and release their memory.

Memory: a step yields 0, or the bytes that the next steps need (a decoder's window). Such a job starts when the running
jobs leave room for it; later jobs do not overtake it. While it waits, the jobs that hold memory complete one after
another. A part of the room is reserved for addresses with hardly any recent excess and, in proportion to the time that
they may still take, for large requests.

Source: our own; Apache Kafka does such work on its request handler threads.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
Work = Generator[int, None, T]
"""Work that yields after each step; see the module for what it yields."""

SLICE_S: Final = 0.002
FIRST_STEPS_A_TURN_S: Final = 0.005
"""Upper bound of the first slices of all requests in one turn of the loop, together."""
_UNCOUNTED_S: Final = FIRST_STEPS_A_TURN_S / 5
"""Time of first slices that carries over to the next turn, so that few short slices need no callback of the loop."""
MEMORY_BYTES: Final = 18 * 1024 * 1024
"""One zstd decoder of the largest window, or eight of the usual 2 MiB."""
RESERVED_BYTES: Final = 9 * 1024 * 1024
"""Additional memory for addresses with an excess below HARDLY_ANY_S and, in part, for large requests.

It is enough for a decoder of zstd's level 19.
"""
HARDLY_ANY_S: Final = 0.05
ALLOWED_S: Final = 0.005
ALLOWED_S_PER_BYTE: Final = 0.25 / (1024 * 1024)
ALLOWED_S_MAX: Final = 0.1
"""Upper bound of the time without excess.

A request with 1 MiB of usual records, compressed 10 : 1, takes some 0.1 s of CPU on an idle machine.
"""
QUANTUM_S: Final = 0.05
"""How long a job runs before other jobs of its address may run."""
_HALF_LIFE_S: Final = 1.0

Owner = tuple[str, str]
"""An address, and one of its connections."""


class Job(Generic[T]):
    """Work that `Slices.begin` did not complete."""

    __slots__ = (
        "admitted",
        "allowed_s",
        "done",
        "excess_s",
        "granted_s",
        "needed",
        "number",
        "owner",
        "quantum_s",
        "work",
    )

    def __init__(self, work: Work[T], owner: Owner, size: int = 0) -> None:
        self.work = work
        self.owner = owner
        self.needed = 0
        self.number = 0
        self.admitted = 0
        self.granted_s = self.allowed_s = min(ALLOWED_S + size * ALLOWED_S_PER_BYTE, ALLOWED_S_MAX)
        self.excess_s = 0.0
        self.quantum_s = QUANTUM_S
        self.done: asyncio.Future[T] | None = None


class Slices:
    """The job queue of one event loop. `clock` and `cpu` return seconds; `cpu` is the CPU time of the loop's thread."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._ready: list[Job[Any]] = []
        self._waiting: list[Job[Any]] = []
        self._held_bytes = 0
        self._queued = 0
        self._admitted = 0
        self._excess_s: dict[str | Owner, float] = {}
        self._halved_s = clock()
        self._is_pumping = False
        self._spent_s = 0.0
        self._ends_turn = False

    def begin(self, work: Work[None], owner: Owner, size: int = 0) -> Job[None] | None:
        """Run the first steps of `work` for a request of `size` bytes.

        Return None if it is complete, else a job for `finish`.

        Raises what the work raises.
        """
        job = Job(work, owner, size)
        if self._spent_s >= FIRST_STEPS_A_TURN_S:
            return job
        started, used = self._clock(), self._cpu()
        try:
            while not job.needed and self._clock() - started < SLICE_S:
                job.needed = next(work)
        except StopIteration:
            return None
        finally:
            self._spend(self._clock() - started)
        self._serve(job, self._cpu() - used)
        return job

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        if self._spent_s > _UNCOUNTED_S and not self._ends_turn:
            self._ends_turn = True
            asyncio.get_running_loop().call_soon(self._new_turn)

    def _new_turn(self) -> None:
        self._spent_s = 0.0
        self._ends_turn = False

    async def finish(self, job: Job[T]) -> T:
        """Run the rest of a job and return its result.

        Raises what the work raises. Cancelling the caller ends the work.
        """
        loop = asyncio.get_running_loop()
        job.done = loop.create_future()
        self._queued += 1
        job.number = self._queued
        job.excess_s = self._balance(job)
        self._enqueue(job)
        self._start_pump(loop)
        try:
            return await job.done
        finally:
            job.work.close()

    async def run(self, work: Work[T], owner: Owner) -> T:
        """Run work that need not start in this turn; otherwise as `finish`."""
        return await self.finish(Job(work, owner))

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
        blocked = self._admit()
        if not self._ready:
            self._is_pumping = False
            return
        job = self._next(blocked)
        self._ready.remove(job)
        assert job.done is not None, "queued by finish"
        if job.done.done():
            self._release(job)
        else:
            used = self._cpu()
            self._run_slice(job, job.done, self._clock() + SLICE_S)
            self._serve(job, self._cpu() - used)
        loop.call_soon(self._pump, loop)

    def _next(self, blocked: Job[Any] | None) -> Job[Any]:
        """Return the job that runs next.

        While the one that precedes all others waits for memory, this is one that holds memory: of the largest requests
        the one that has held it for the longest time.
        """
        job = min(self._ready, key=self._turn)
        if blocked is not None and self._turn(blocked) < self._turn(job):
            holders = [each for each in self._ready if each.needed]
            return min(holders, key=lambda each: (-each.granted_s, each.admitted), default=job)
        return job

    def _turn(self, job: Job[Any]) -> tuple[bool, float, float, int]:
        """Return the sort key of a job: addresses with hardly any excess, the least excess, the oldest job."""
        of_address = self._excess_s.get(job.owner[0], 0.0)
        return of_address >= HARDLY_ANY_S, of_address, job.excess_s, job.number

    def _balance(self, job: Job[Any]) -> float:
        """Return the excess of the job's connection, less the time that the job may still take."""
        return self._excess_s.get(job.owner, 0.0) - max(0.0, job.allowed_s)

    def _serve(self, job: Job[Any], seconds: float) -> None:
        """Add the time that a job took beyond its allowance. It counts half as much a second later."""
        excess_s = max(0.0, seconds - max(0.0, job.allowed_s))
        job.allowed_s -= seconds
        if excess_s:
            for key in (job.owner[0], job.owner):
                self._excess_s[key] = self._excess_s.get(key, 0.0) + excess_s
        job.quantum_s -= seconds
        if job.quantum_s <= 0:
            job.quantum_s, job.excess_s = QUANTUM_S, self._balance(job)
        if self._clock() - self._halved_s >= _HALF_LIFE_S:
            self._halved_s = self._clock()
            self._excess_s = {key: excess / 2 for key, excess in self._excess_s.items() if excess > SLICE_S / 4}

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
        except Exception as failure:  # noqa: BLE001 passed to the caller of `finish`
            self._release(job)
            done.set_exception(failure)

    def _release(self, job: Job[Any]) -> None:
        self._held_bytes -= job.needed
        job.needed = 0

    def _admit(self) -> Job[Any] | None:
        """Start the waiting jobs that fit in memory, in their order, and return the first that does not fit."""
        self._waiting = [job for job in self._waiting if job.done is not None and not job.done.done()]
        for job in self._waiting:
            job.excess_s = self._balance(job)
        for job in sorted(self._waiting, key=self._turn):
            if self._held_bytes and job.needed > self._room(job):
                return job
            self._held_bytes += job.needed
            self._admitted += 1
            job.admitted = self._admitted
            self._waiting.remove(job)
            self._ready.append(job)
        return None

    def _room(self, job: Job[Any]) -> float:
        """Return how many bytes the job may have. It may use more of the reserve the more time it may still take."""
        has_excess, _, excess_s, _ = self._turn(job)
        share = min(1.0, max(0.0, -excess_s) / ALLOWED_S_MAX) if has_excess else 1.0
        return MEMORY_BYTES + share * RESERVED_BYTES - self._held_bytes
