"""Long work in slices: short work completes at once, jobs take turns and memory is shared. Time is counted in steps."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from kraft_core.broker import slices
from kraft_core.broker.slices import Job, Slices, Work

STEP_S = slices.SLICE_S / 4
QUANTUM = round(slices.QUANTUM_S / STEP_S)
MIB = 1024 * 1024


class Steps:
    """A clock that each step advances by a quarter of a slice, and a log of the steps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.log: list[str] = []
        self.done = 0
        self.slices = Slices(lambda: self.now_s, lambda: self.now_s)

    def work(self, name: str, steps: int, memory: int = 0) -> Generator[int, None, None]:
        if memory:
            yield memory
        for _ in range(steps):
            self.log.append(name)
            self.now_s += STEP_S
            yield 0
        self.done += 1

    def begin(self, name: str, steps: int, owner: str = "a", memory: int = 0) -> Job[None] | None:
        return self.slices.begin(self.work(name, steps, memory), (owner, owner))


def run(scenario: Callable[[Steps], Coroutine[Any, Any, None]]) -> Steps:
    steps = Steps()
    asyncio.run(scenario(steps))
    return steps


def test_short_work_completes_at_once() -> None:
    async def scenario(steps: Steps) -> None:
        assert steps.begin("short", 3) is None
        assert steps.log == ["short"] * 3

    run(scenario)


def test_long_work_yields_after_its_first_slice() -> None:
    async def scenario(steps: Steps) -> None:
        job = steps.begin("long", 10)
        assert steps.log == ["long"] * 4
        assert job is not None
        await steps.slices.finish(job)
        assert steps.log == ["long"] * 10

    run(scenario)


def test_the_first_slices_of_one_turn_are_bounded_together() -> None:
    """The bound holds for any number of connections that send a request in one turn."""

    async def scenario(steps: Steps) -> None:
        jobs = [steps.begin(str(number), 3) for number in range(100)]
        assert len(steps.log) * STEP_S < slices.FIRST_STEPS_A_TURN_S + slices.SLICE_S
        await asyncio.gather(*(steps.slices.finish(job) for job in jobs if job is not None))
        assert sorted(steps.log) == sorted(str(number) for number in range(100) for _ in range(3))
        assert steps.begin("the next turn has room again", 1) is None

    run(scenario)


def test_one_turn_of_the_loop_runs_one_slice_of_one_job() -> None:
    async def scenario(steps: Steps) -> None:
        jobs = [Job(steps.work(name, 2 * QUANTUM), ("a", name)) for name in "abc"]
        running = [asyncio.ensure_future(steps.slices.finish(job)) for job in jobs]
        before = 0
        while not all(each.done() for each in running):
            await asyncio.sleep(0)
            assert len(steps.log) - before <= 4
            before = len(steps.log)
        first, second = steps.log[: 3 * QUANTUM], steps.log[3 * QUANTUM :]
        assert first == [name for name in "abc" for _ in range(QUANTUM)], "connections of one address take turns"
        assert sorted(second) == first

    run(scenario)


def test_a_short_job_does_not_wait_for_long_ones() -> None:
    async def scenario(steps: Steps) -> None:
        longs = [asyncio.ensure_future(steps.slices.run(steps.work("long", 1_000), ("a", "1"))) for _ in range(5)]
        await asyncio.sleep(0)
        await steps.slices.run(steps.work("short", 3), ("b", "1"))
        assert steps.log.count("long") <= 6 * 4
        await asyncio.gather(*longs)

    run(scenario)


async def memory_flood(steps: Steps) -> list[asyncio.Future[None]]:
    """Jobs of eight connections of one address; each takes a quantum and most of the memory, and some were served
    before."""
    flood = [
        asyncio.ensure_future(steps.slices.run(steps.work("greedy", QUANTUM, 6 * MIB), ("a", str(number % 8))))
        for number in range(40)
    ]
    while len(steps.log) < 10 * QUANTUM:
        await asyncio.sleep(0)
    return flood


def test_an_address_with_little_excess_does_not_wait_for_one_with_much() -> None:
    async def scenario(steps: Steps) -> None:
        flood = await memory_flood(steps)
        before = len(steps.log)
        await steps.slices.run(steps.work("other", 8, 8 * MIB), ("b", "1"))
        assert steps.log[before:].count("greedy") <= 3 * 4
        await asyncio.gather(*flood)

    run(scenario)


def test_a_connection_waits_for_the_memory_of_one_job_of_a_flood_from_its_own_address() -> None:
    """Other jobs of its address do not delay it, even if it was served before."""

    async def scenario(steps: Steps) -> None:
        await steps.slices.run(steps.work("other", 8, 8 * MIB), ("a", "other"))
        flood = await memory_flood(steps)
        before = len(steps.log)
        await steps.slices.run(steps.work("other", 8, 8 * MIB), ("a", "other"))
        assert steps.log[before:].count("greedy") <= 2 * QUANTUM
        await asyncio.gather(*flood)

    run(scenario)


def test_a_large_request_does_not_wait_for_small_ones_that_take_long() -> None:
    """Not even small ones of the same address, from a connection without history."""

    async def scenario(steps: Steps) -> None:
        flood = await memory_flood(steps)
        before = len(steps.log)
        large = Job(steps.work("large", 20, 4 * MIB), ("a", "new"), 300_000)
        await steps.slices.finish(large)
        assert steps.log[before:].count("greedy") <= 3 * 4
        await asyncio.gather(*flood)

    run(scenario)


async def large_flood(steps: Steps) -> list[asyncio.Future[None]]:
    """Forty connections of one address with large requests that need little memory and much time.

    The memory is full.
    """

    async def connection(number: int) -> None:
        for _ in range(3):
            job = Job(steps.work("greedy", 8 * QUANTUM, 2 * MIB), ("a", str(number)), 165_000)
            await steps.slices.finish(job)

    flood = [asyncio.ensure_future(connection(number)) for number in range(40)]
    while len(steps.log) < 20 * QUANTUM:
        await asyncio.sleep(0)
    return flood


@pytest.mark.parametrize("memory", [4 * MIB, 10 * MIB])
def test_smaller_requests_do_not_overtake_a_larger_one_that_waits_for_memory(memory: int) -> None:
    """They need less memory, so that what each of them releases is enough for the next of them but not for it."""

    async def scenario(steps: Steps) -> None:
        flood = await large_flood(steps)
        before = len(steps.log)
        await steps.slices.finish(Job(steps.work("large", 4 * QUANTUM, memory), ("a", "new"), 840_000))
        waited = steps.log[before:].count("greedy")
        print(f"{waited * STEP_S:.2f} s of other work")
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        assert waited * STEP_S < 1.5

    run(scenario)


def test_jobs_release_memory_one_after_another_while_others_wait_for_it() -> None:
    """All running jobs would need their memory until the last quantum otherwise."""

    async def scenario(steps: Steps) -> None:
        flood = await large_flood(steps)
        small = asyncio.ensure_future(steps.slices.run(steps.work("small", 1, 2 * MIB), ("a", "0")))
        before = len(steps.log)
        ends = [before]
        while len(ends) < 4:
            done = steps.done
            await asyncio.sleep(0)
            if steps.done > done:
                ends.append(len(steps.log))
        for each in (*flood, small):
            each.cancel()
        await asyncio.gather(*flood, small, return_exceptions=True)
        assert all(later - earlier <= 9 * QUANTUM for earlier, later in itertools.pairwise(ends))

    run(scenario)


def test_jobs_wait_for_memory() -> None:
    under_way: set[str] = set()

    async def scenario(steps: Steps) -> None:
        def work(name: str) -> Work[None]:
            yield 6 * MIB
            under_way.add(name)
            assert len(under_way) * 6 * MIB <= slices.MEMORY_BYTES + slices.RESERVED_BYTES
            yield from steps.work(name, 40)
            under_way.discard(name)

        await asyncio.gather(*(steps.slices.run(work(str(number)), ("a", str(number))) for number in range(20)))

    assert len(run(scenario).log) == 20 * 40


def test_work_that_needs_more_memory_than_there_is_runs_alone() -> None:
    async def scenario(steps: Steps) -> None:
        await steps.slices.run(steps.work("huge", 5, 500 * MIB), ("a", "1"))

    assert run(scenario).log == ["huge"] * 5


def test_an_error_of_the_work_reaches_its_caller_only() -> None:
    def failing() -> Work[int]:
        yield 0
        raise ValueError("broken")

    def counting() -> Work[int]:
        yield 0
        return 7

    async def scenario(steps: Steps) -> None:
        with pytest.raises(ValueError, match="broken"):
            await steps.slices.run(failing(), ("a", "1"))
        assert await steps.slices.run(counting(), ("a", "1")) == 7

    run(scenario)


def test_a_cancelled_caller_ends_its_work_and_frees_its_memory() -> None:
    ended: list[str] = []

    def endless() -> Work[None]:
        try:
            yield 50 * MIB
            while True:
                yield 0
        finally:
            ended.append("closed")

    async def scenario(steps: Steps) -> None:
        steps.slices = Slices()
        task = asyncio.ensure_future(steps.slices.run(endless(), ("a", "1")))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert ended == ["closed"]
        await steps.slices.run(steps.work("next", 2, 50 * MIB), ("a", "1"))

    assert run(scenario).log == ["next"] * 2
