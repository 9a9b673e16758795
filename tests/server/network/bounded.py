"""Scenarios with a time limit, each on a new event loop."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.interop.kafka import PATIENCE_S


def run(scenario: Awaitable[None]) -> None:
    """Run a scenario, for PATIENCE_S at most."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario, PATIENCE_S)

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; `run` limits the time."""
    while not condition():
        await asyncio.sleep(0.005)
