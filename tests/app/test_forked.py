"""Work in a forked process: its memory, its failures, its end."""

import asyncio
import errno
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from app.forked import ForkFailedError, run_all_forked, run_forked


def test_the_work_sees_this_processs_objects_and_changes_none(tmp_path: Path) -> None:
    words = ["one"]

    def work() -> None:
        words.append("two")
        (tmp_path / "seen").write_text(" ".join(words))

    asyncio.run(run_forked(work))
    assert (tmp_path / "seen").read_text() == "one two"
    assert words == ["one"]


def test_a_full_disk_is_raised_here_as_it_was_there() -> None:
    def work() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/full")

    with pytest.raises(OSError, match="No space left on device") as raised:
        asyncio.run(run_forked(work))
    assert raised.value.errno == errno.ENOSPC


def test_other_failures_carry_their_type_and_text() -> None:
    def work() -> None:
        raise ValueError("no such broker: 7")

    with pytest.raises(ForkFailedError, match="ValueError: no such broker: 7"):
        asyncio.run(run_forked(work))


def test_a_killed_process_is_named_with_its_signal() -> None:
    with pytest.raises(ForkFailedError, match="killed by SIGKILL"):
        asyncio.run(run_forked(lambda: os.kill(os.getpid(), signal.SIGKILL)))


def test_the_process_keeps_no_connection_of_this_one_open() -> None:
    here, there = socket.socketpair()
    with here, there:
        descriptor = there.fileno()

        def work() -> None:
            try:
                os.fstat(descriptor)
            except OSError:
                return
            raise AssertionError("the socket is open")

        asyncio.run(run_forked(work))
        here.send(b"x")
        assert there.recv(1) == b"x"


def test_a_cancelled_wait_kills_the_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def work() -> None:
        pid_file.with_suffix(".new").write_text(str(os.getpid()))
        pid_file.with_suffix(".new").rename(pid_file)
        time.sleep(600)

    async def scenario() -> None:
        waiting = asyncio.create_task(run_forked(work))
        while not pid_file.exists():
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_the_failure_of_one_of_several_processes_ends_the_others(tmp_path: Path) -> None:
    def wait() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        (tmp_path / "waits").touch()
        time.sleep(600)

    def fail() -> None:
        while not (tmp_path / "waits").exists():
            time.sleep(0.01)
        raise OSError(errno.ENOSPC, "No space left on device", "/full")

    with pytest.raises(OSError, match="No space left on device"):
        run_all_forked([wait, fail], 2)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
