"""The start of the web process. Its port is open from the beginning, and answers say what the process waits for.

Until the database is open, everything but health, metrics and static files is answered with 503 and the reason.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, TypeVar

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from app.db.outage import REMIND_SECONDS, trouble_of
from app.http.errors import UnavailableError
from app.security.guard import is_public
from app.tasks import cancel_tasks

log = structlog.get_logger(__name__)

T = TypeVar("T")

RETRY_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 10.0


class Startup:
    """The progress of the start. `error` is the failure that ended it, None otherwise."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.is_done = False
        self.waits_for = "the database to be opened"
        self.error: BaseException | None = None
        self._on_end = on_end
        self._began = self._reminded = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Start in the background. `on_end` is called when the start has finished or failed."""
        self._task = asyncio.create_task(self._start(work), name="start")

    async def _start(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:
            log.exception("start_failed")
            self.error, self.waits_for = error, "nothing: the start has failed"
        else:
            if self._began:
                log.warning("database_opened", after_seconds=round(time.monotonic() - self._began, 1))
            self.is_done = True
        self._on_end()

    async def stop(self) -> None:
        """Cancel an unfinished start."""
        await cancel_tasks(self._task)

    async def open_database(self, prepare: Callable[[], T]) -> T:
        """Run the blocking function `prepare` until the database can be used. Raises every error but an outage."""

        async def prepared() -> T:
            running = _on_a_thread(prepare)
            finished, _ = await asyncio.wait({running}, timeout=PATIENCE_SECONDS)
            if not finished:
                self._log_wait("no answer yet, or a migration that takes long")
            return await running

        return await self.retried(prepared)

    async def retried(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work` until the database can be used. Raises every error but an outage."""
        while True:
            try:
                return await work()
            except Exception as error:
                trouble = trouble_of(error)
                if trouble is None:
                    raise
                self._log_wait(trouble.text, error)
            await asyncio.sleep(RETRY_SECONDS)

    def _log_wait(self, why: str, error: Exception | None = None) -> None:
        """Log the wait once at its beginning, then once a minute."""
        self.waits_for = f"the database: {why}"
        now = time.monotonic()
        self._began = self._began or now
        if not self._reminded or now - self._reminded >= REMIND_SECONDS:
            self._reminded = now
            detail = " ".join(str(getattr(error, "orig", None) or error or "").split())[:300]
            log.error("waiting_for_database", cause=why, detail=detail, since_seconds=round(now - self._began))


def _on_a_thread(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run a blocking function on a thread that does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # without an error it is the result of `work`
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - raised where the result is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="start", daemon=True).start()
    return future


class StartupGate:
    """ASGI middleware that refuses requests while the process starts."""

    def __init__(self, app: ASGIApp, *, startup: Startup) -> None:
        self._app = app
        self._startup = startup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on after the start. Raises UnavailableError before."""
        if scope["type"] == "http" and not self._startup.is_done and not is_public(scope["path"]):
            message = f"Conclave is starting and waits for {self._startup.waits_for}."
            raise UnavailableError(message, code="starting", retry_after_seconds=1)
        await self._app(scope, receive, send)
