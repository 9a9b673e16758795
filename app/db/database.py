"""The database: an engine, and sessions that run off the event loop.

Code that uses the database is a plain function `(session, …) -> value`. `Database.read` and `Database.write` run it in
one transaction on a worker thread, so the loop is never blocked. The returned value must not need the session: load
what is used, or return plain values. While the database cannot be used, both raise DatabaseUnavailableError at once;
see outage.
"""

import asyncio
import contextlib
import copy
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ORMExecuteState, with_loader_criteria
from sqlalchemy.orm import Session as OrmSession

from app.db.base import OfCluster
from app.db.migrate import upgrade
from app.db.outage import DatabaseUnavailableError, OutageWatch, trouble_of

P = ParamSpec("P")
T = TypeVar("T")

SQLITE_BUSY_MS = 5_000
SQLITE_MIGRATION_BUSY_MS = 600_000  # another process may be migrating
THREADS = 4
_TOUCH = "UPDATE alembic_version SET version_num = version_num"


def make_engine(url: str, *, migrates: bool = False) -> Engine:
    """Open SQLite (write-ahead log, foreign keys, full durability) or PostgreSQL through psycopg 3.

    `postgresql://` also means psycopg 3. A statement times out after some seconds, or much later for an engine that
    migrates. Raises ValueError for any other kind of database.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        from app.db.postgresql import CONNECT_SECONDS, set_timeouts  # imports psycopg, which only PostgreSQL needs

        arguments = {"connect_timeout": CONNECT_SECONDS}
        engine = create_engine(parsed, pool_size=THREADS, max_overflow=2, pool_pre_ping=True, connect_args=arguments)
        set_timeouts(engine, migrates=migrates)
        return engine
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"database '{parsed.get_backend_name()}' is not known: sqlite or postgresql")
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = create_engine(parsed)
    busy_ms = SQLITE_MIGRATION_BUSY_MS if migrates else SQLITE_BUSY_MS
    event.listen(engine, "connect", lambda connection, _record: _prepare_sqlite(connection, busy_ms))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, busy_ms: int) -> None:
    connection.isolation_level = None  # _begin_sqlite starts transactions
    for pragma in (f"busy_timeout = {busy_ms}", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """Take the writer's lock at the start: a reader that becomes a writer later may find the database locked."""
    writes = connection.get_execution_options().get("writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class _ClusterSession(OrmSession):
    """A session for the rows of one cluster, `info["cluster"]`, among those that are OfCluster."""


@event.listens_for(_ClusterSession, "do_orm_execute")
def _read_own_rows(state: ORMExecuteState) -> None:
    if not state.is_insert and not state.is_column_load and not state.is_relationship_load:
        key = state.session.info["cluster"]
        own = with_loader_criteria(OfCluster, lambda each: each.cluster == key, include_aliases=True)
        state.statement = state.statement.options(own)


@event.listens_for(_ClusterSession, "before_flush")
def _write_own_rows(session: OrmSession, _context: object, _instances: object) -> None:
    for row in session.new:
        if isinstance(row, OfCluster):
            row.cluster = session.info["cluster"]


class Database:
    """The engine and its worker threads. Close it when the process ends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._cluster: str | None = None
        self.engine = make_engine(url)
        self.outage = OutageWatch(self._probe)
        self._reading = self.engine.execution_options(writes=False)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")
        self._observing: sqlite3.Connection | None = None

    def of_cluster(self, key: str) -> "Database":
        """Return this database as the parts of one cluster see it: of tables that are OfCluster, only its own rows.

        The engine and its threads stay those of this one, which closes them.
        """
        own = copy.copy(self)
        own._cluster = key  # noqa: SLF001 - its own class
        return own

    async def read(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a read-only transaction."""
        return await self._on_thread(
            False, lambda: self._run(self._reading, lambda session: work(session, *args, **kwargs))
        )

    async def write(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a transaction, committed unless it raises."""
        return await self._on_thread(
            True, lambda: self._run(self.engine, lambda session: work(session, *args, **kwargs))
        )

    async def dry_run(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` as `write` does and roll back. It returns and raises what a write would."""
        return await self._on_thread(
            True, lambda: self._run(self.engine, lambda session: work(session, *args, **kwargs), keep=False)
        )

    def version(self) -> int | None:
        """Return a number that differs after each commit of any process, None if only a read can tell.

        Takes microseconds and waits for nothing, so it may run on the event loop. PostgreSQL has no such number.
        """
        path = self.engine.url.database
        if self.engine.dialect.name != "sqlite" or path in {None, "", ":memory:"} or self.outage.trouble is not None:
            return None
        with contextlib.suppress(sqlite3.Error):  # the read that follows reports it
            if self._observing is None:
                self._observing = sqlite3.connect(
                    f"{Path(str(path)).absolute().as_uri()}?mode=ro", timeout=0, uri=True, check_same_thread=False
                )
            (found,) = self._observing.execute("PRAGMA data_version").fetchone()
            return int(found)
        return None

    def write_now(self, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` as `write` does, on this thread. For the CLI and the start of the process."""
        return self._run(self.engine, lambda session: work(session, *args, **kwargs))

    async def _on_thread(self, writes: bool, work: Callable[[], T]) -> T:
        self.outage.check(writes=writes)

        def unless_unavailable() -> T:
            self.outage.check(writes=writes)  # an outage may have been found while this waited for a thread
            return work()

        running = asyncio.get_running_loop().run_in_executor(self._threads, unless_unavailable)
        running.add_done_callback(self._note)  # also when no caller waits for it any longer
        try:
            return await asyncio.shield(running)
        except DatabaseUnavailableError:
            raise
        except SQLAlchemyError as error:
            trouble = trouble_of(error)
            if trouble is None:
                raise
            raise DatabaseUnavailableError(trouble) from error

    def _note(self, finished: "asyncio.Future[T]") -> None:
        error = None if finished.cancelled() else finished.exception()
        if error is not None and not isinstance(error, DatabaseUnavailableError):
            self.outage.failed(error)

    async def trouble(self, seconds: float) -> str | None:
        """Probe the database for `seconds` at most. Returns a description of the failure, None without one."""
        asked = asyncio.ensure_future(self.read(lambda session: session.execute(text("SELECT 1"))))
        await asyncio.wait({asked}, timeout=seconds)
        if not asked.done():
            asked.add_done_callback(lambda late: late.cancelled() or late.exception())
            return f"the database has not answered for {seconds:g} s"
        if (error := asked.exception()) is not None:
            return f"{error}"
        found = self.outage.trouble
        return None if found is None else str(DatabaseUnavailableError(found))

    def _probe(self, writes: bool) -> None:
        """Use the database as requests do: commit a write, since only that needs the disk."""
        if writes:
            self._run(self.engine, lambda session: session.execute(text(_TOUCH)))
        else:
            self._run(self._reading, lambda session: session.execute(text("SELECT 1")))

    def _session(self, engine: Engine) -> OrmSession:
        if self._cluster is None:
            return OrmSession(engine, expire_on_commit=False)
        return _ClusterSession(engine, expire_on_commit=False, info={"cluster": self._cluster})

    def _run(self, engine: Engine, work: Callable[[OrmSession], T], *, keep: bool = True) -> T:
        with self._session(engine) as session, session.begin() as transaction:
            value = work(session)
            if not keep:
                session.flush()
                session.expunge_all()  # otherwise the rollback would expire what is returned
                transaction.rollback()
            return value

    def upgrade(self) -> None:
        """Upgrade the schema. Blocking, and patient enough for a migration by another process."""
        engine = make_engine(self.url, migrates=True)
        try:
            upgrade(engine)
        finally:
            engine.dispose()

    def close(self) -> None:
        """Wait for running work and close all connections."""
        self._threads.shutdown(wait=True)
        if self._observing is not None:
            self._observing.close()
        self.engine.dispose()
