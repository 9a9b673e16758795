"""Work runs on another thread, results arrive on the loop."""

import asyncio
import threading

from kraft_core.server.io_thread import IoThread
from tests.interop.kafka import PATIENCE_S


def test_jobs_run_in_order_on_one_thread_and_end_on_the_loop() -> None:
    async def scenario() -> None:
        thread = IoThread("test")
        ran: list[tuple[int, int]] = []
        ended: list[tuple[int, int]] = []
        done = asyncio.Event()

        def work(number: int) -> int:
            ran.append((number, threading.get_ident()))
            return number

        def finished(number: int) -> None:
            ended.append((number, threading.get_ident()))
            if number == 99:
                done.set()

        for number in range(100):
            thread.submit(lambda number=number: work(number), finished, lambda error: None)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        thread.close()
        assert [number for number, _ in ran] == list(range(100))
        assert [number for number, _ in ended] == list(range(100))
        assert len({ident for _, ident in ran}) == 1
        assert {ident for _, ident in ended} == {threading.get_ident()} != {ran[0][1]}

    asyncio.run(scenario())


def test_a_failure_is_reported_and_the_next_job_runs() -> None:
    async def scenario() -> None:
        thread = IoThread("test")
        results: asyncio.Queue[object] = asyncio.Queue()

        def fail() -> None:
            raise OSError(28, "No space left on device")

        thread.submit(fail, results.put_nowait, results.put_nowait)
        thread.submit(lambda: 7, results.put_nowait, results.put_nowait)
        first, second = await results.get(), await results.get()
        thread.close()
        assert isinstance(first, OSError)
        assert second == 7

    asyncio.run(scenario())


def test_closing_finishes_the_submitted_jobs() -> None:
    async def scenario() -> None:
        thread = IoThread("test")
        ran: list[int] = []
        for number in range(10):
            thread.submit(lambda number=number: ran.append(number), lambda _: None, lambda _: None)
        thread.close()
        assert ran == list(range(10))

    asyncio.run(scenario())
