"""PostgreSQL connections with timeouts: psycopg alone waits indefinitely for a server that hangs."""

import time
from collections.abc import Generator
from typing import Any, Final

import psycopg
from sqlalchemy import Engine, event

CONNECT_SECONDS: Final = 3
PING_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 15.0
WAKE_SECONDS: Final = 0.1


class TimeLimitedConnection(psycopg.Connection[Any]):
    """A connection that closes when a statement is not answered within ANSWER_SECONDS."""

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: Any, interval: float = WAKE_SECONDS, *more: Any, **options: Any) -> Any:
        """Wait as psycopg does, for a bounded time. Raises psycopg.OperationalError and closes the connection."""
        try:
            return super().wait(_bounded(gen, self.answer_seconds), interval, *more, **options)
        except _TooLateError:
            self.close()
            raise psycopg.OperationalError(f"the server did not answer within {self.answer_seconds:.0f} s") from None


class MigrationConnection(TimeLimitedConnection):
    """A connection for migrations, which may wait for another process and rewrite tables."""

    answer_seconds = 3600.0


def set_timeouts(engine: Engine, *, migrates: bool) -> None:
    """Give an engine connections with timeouts, and a shorter one for the ping before each use."""
    kind = MigrationConnection if migrates else TimeLimitedConnection
    event.listen(engine, "do_connect", lambda _dialect, _record, args, named: kind.connect(*args, **named))
    ping = engine.dialect.do_ping

    def quick_ping(connection: Any) -> bool:
        connection.answer_seconds = PING_SECONDS
        try:
            return ping(connection)
        finally:
            connection.answer_seconds = kind.answer_seconds

    engine.dialect.do_ping = quick_ping  # type: ignore[assignment, method-assign]  # of this engine alone


class _TooLateError(Exception):
    pass


def _bounded(inner: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Run psycopg's generator until it ends or times out; the wait function wakes it every WAKE_SECONDS."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(inner)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= deadline:
                raise _TooLateError
            wanted = inner.send(ready)
    except StopIteration as done:
        return done.value
