"""Runs a function in a forked copy of this process, which sees its objects without a copy of them.

The metadata image is large and cannot be passed to a new program cheaply. A forked process shares its memory pages with
this one until one of them writes to a page, so writing the image's Parquet files there adds nothing to this process's
memory and takes no turn of its interpreter.

A forked copy of a process with threads has only the thread that called fork, and locks of the other threads stay
locked. So `work` must only compute and write files: no log, no database, no network, no event loop. It closes every
file but the standard ones first, so that no connection of this process is used or kept open by it.
"""

import asyncio
import gc
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

PARENT_POLL_S = 0.5
NICENESS = 5


class ForkFailedError(Exception):
    """The forked process failed otherwise than by an OSError. The text says how."""


async def run_forked(work: Callable[[], bytes | None]) -> bytes:
    """Run `work` in a forked process and return what it returns. A cancelled wait kills the process.

    Raises OSError as `work` did, or when the process cannot be forked, and ForkFailedError for all other failures.
    """
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        _run(work, writer)
    os.close(writer)
    reading = asyncio.ensure_future(asyncio.to_thread(_read_to_end, reader))
    try:
        text = await asyncio.shield(reading)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        _exit_code(pid)
        with suppress(asyncio.CancelledError):
            await reading
        raise
    _raise_failure(text, _exit_code(pid))
    return text


def run_all_forked(works: Sequence[Callable[[], None]], at_once: int) -> None:
    """Run each of `works` in its own forked process, `at_once` at a time, and wait for all.

    For a process that `run_forked` has started, or another one without threads that hold locks. The processes end with
    this one. Raises as `run_forked`, after the end of those that run.
    """
    waiting = list(reversed(works))
    running: dict[int, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                reader, writer = os.pipe()
                pid = os.fork()
                if pid == 0:
                    _run(waiting[-1], writer)
                os.close(writer)
                waiting.pop()
                running[reader] = pid
            for reader in select.select(list(running), [], [])[0]:
                pid = running.pop(reader)
                _raise_failure(_read_to_end(reader), _exit_code(pid))
    finally:
        for reader, pid in running.items():
            os.kill(pid, signal.SIGKILL)
            os.close(reader)
            _exit_code(pid)


def _exit_code(pid: int) -> int:
    """Return the exit code of a process that has closed its end of the pipe, so that it has ended or is about to."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _raise_failure(text: bytes, code: int) -> None:
    if code == 0:
        return
    if code < 0:
        raise ForkFailedError(f"The forked process was killed by {signal.Signals(-code).name}.")
    failure = json.loads(text)
    if failure["errno"] is not None:
        raise OSError(failure["errno"], failure["text"])
    raise ForkFailedError(failure["text"])


def _read_to_end(reader: int) -> bytes:
    with open(reader, "rb") as pipe:
        return pipe.read()


def _run(work: Callable[[], bytes | None], writer: int) -> NoReturn:
    """Do the work in the forked process, and end it without any clean-up that belongs to the other process."""
    code = 1
    try:
        parent = os.getppid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # a collection would write to every object, and so copy all memory
        os.nice(NICENESS)
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        with open(writer, "wb", closefd=False) as pipe:
            pipe.write(work() or b"")
        code = 0
    except BaseException as error:  # noqa: BLE001 - the other process raises it
        number_of = error.errno if isinstance(error, OSError) else None
        text = (error.strerror or str(error)) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps({"errno": number_of, "text": text}).encode())
    finally:
        os._exit(code)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)
