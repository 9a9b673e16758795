"""Recurring work continues after a failed run and ends on stop."""

import asyncio

import pytest

from kraft_core.broker.recurring import Recurring


def test_a_failed_run_is_logged_and_the_next_one_starts(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        turns = 0
        third = asyncio.Event()

        async def work() -> None:
            nonlocal turns
            turns += 1
            if turns == 1:
                raise OSError(28, "No space left on device")
            if turns == 2:
                raise ZeroDivisionError
            third.set()

        recurring = Recurring(1, work)
        recurring.start()
        await asyncio.wait_for(third.wait(), 10)
        await recurring.stop()

    asyncio.run(main())
    failed = [record for record in caplog.records if record.message == "recurring_work_failed"]
    assert [record.exc_info is not None for record in failed] == [False, True]


def test_no_run_starts_after_the_stop() -> None:
    async def main() -> None:
        turns = 0

        async def work() -> None:
            nonlocal turns
            turns += 1

        recurring = Recurring(1, work)
        recurring.start()
        await recurring.stop()
        before = turns
        await asyncio.sleep(0.02)
        assert turns == before

    asyncio.run(main())
