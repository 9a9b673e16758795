"""The database: an engine, and sessions that run off the event loop.

Code that touches the database is a plain function `(session, …) -> value`; `Database.read` and `Database.write` run it
in one transaction on a worker thread, so nothing here ever blocks the loop. What a function returns must not need the
session any more: load what is wanted, or return values.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session as OrmSession

P = ParamSpec("P")
T = TypeVar("T")

SQLITE_BUSY_MS = 30_000  # as long as another process may need to migrate
THREADS = 4


def make_engine(url: str) -> Engine:
    """Open SQLite (write-ahead log, foreign keys on, full durability) or PostgreSQL through psycopg 3.

    `postgresql://` means psycopg 3 too. Raises ValueError for any other kind of database.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, pool_size=THREADS, max_overflow=2, pool_pre_ping=True)
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"database '{parsed.get_backend_name()}' is not known: sqlite or postgresql")
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = create_engine(parsed)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", f"busy_timeout = {SQLITE_BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes its lock at once: a reader that becomes a writer later may find the database locked for good."""
    writes = connection.get_execution_options().get("writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Database:
    """The engine and its worker threads. Close it when the process ends."""

    def __init__(self, url: str) -> None:
        self.engine = make_engine(url)
        self._reading = self.engine.execution_options(writes=False)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")

    async def read(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a transaction that only reads."""
        return await self._on_thread(lambda: self._run(self._reading, lambda session: work(session, *args, **kwargs)))

    async def write(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a transaction, committed unless it raises."""
        return await self._on_thread(lambda: self._run(self.engine, lambda session: work(session, *args, **kwargs)))

    async def rehearse(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` as `write` does and roll everything back: what it returns and raises is what a write would."""
        return await self._on_thread(
            lambda: self._run(self.engine, lambda session: work(session, *args, **kwargs), keep=False)
        )

    def write_now(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same on this thread; for programs without an event loop (the CLI, the start of the process)."""
        return self._run(self.engine, lambda session: work(session, *args, **kwargs))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @staticmethod
    def _run(engine: Engine, work: Callable[[OrmSession], T], *, keep: bool = True) -> T:
        with OrmSession(engine, expire_on_commit=False) as session, session.begin() as transaction:
            value = work(session)
            if not keep:
                session.flush()
                session.expunge_all()  # else the rollback would empty what is returned
                transaction.rollback()
            return value

    def close(self) -> None:
        """Wait for running work and close all connections."""
        self._threads.shutdown(wait=True)
        self.engine.dispose()
