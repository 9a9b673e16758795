"""Wakeup on asyncio's event loop and on uvloop."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from kraft_core.server.wakeup import Wakeup

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=LOOPS.values(), ids=LOOPS.keys())
def make_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return request.param


def test_a_due_time_may_be_set_twice_in_one_turn(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """uvloop's `call_at(now)` returns a handle without `when`, which once stopped a node at its start."""

    async def scenario() -> int:
        woken: list[None] = []
        wakeup = Wakeup(asyncio.get_running_loop(), lambda: woken.append(None))
        wakeup.after(0)
        wakeup.after(-1)
        wakeup.after(0)
        await asyncio.sleep(0.01)
        return len(woken)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(scenario()) == 1


def test_the_earliest_time_applies_and_a_cancelled_one_does_not(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        woken: list[float] = []
        wakeup = Wakeup(loop, lambda: woken.append(loop.time() - started))
        wakeup.after(10)
        wakeup.after(0.02)
        wakeup.after(5)
        await asyncio.sleep(0.06)
        wakeup.after(0.01)
        wakeup.cancel()
        await asyncio.sleep(0.03)
        return woken

    with asyncio.Runner(loop_factory=make_loop) as runner:
        woken = runner.run(scenario())
    assert len(woken) == 1
    assert woken[0] < 5
