"""Keeps the lake up to date: starts the program `app.reports.lake.append` at intervals, from the web process.

The program is a child process, so that nothing of the lake is on the path of a page. The web process only waits for it
and extends the lease.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.child_environment import python_environment
from app.db.base import utc_now
from app.db.database import Database
from app.reports.lake.leases import lake_key, release_lease, take_lease
from app.tasks import cancel_tasks

log = structlog.get_logger(__name__)

START_SECONDS: Final = 60.0
"""Time after the start of the web process until the first run: nothing is lost by it, and a short life has none."""
RENEW_SECONDS: Final = 15.0
OUTPUT_BYTES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where the lake is, what it contains, and how often it is brought up to date.

    `spark_conf` has the settings of its object store, in Spark's names.
    """

    location: str
    days: int
    interval_seconds: int
    start_seconds: float = START_SECONDS
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster, and the folder of its history."""

    cluster_id: str
    history: Path


class LakeKeeper:
    """Runs the writer of one lake for one web process, from `start` to `stop`.

    `source` returns None while the cluster is not known, or its history is not kept on disk.
    """

    def __init__(self, database: Database, settings: LakeSettings, source: Callable[[], Source | None]) -> None:
        self._database = database
        self._settings = settings
        self._source = source
        self._holder = secrets.token_hex(16)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the first run after `start_seconds`."""
        self._task = asyncio.create_task(self._run(), name="lake-keeper")

    async def stop(self) -> None:
        """Stop; a run in progress is killed and continued by the next process."""
        await cancel_tasks(self._task)

    async def _run(self) -> None:
        await asyncio.sleep(self._settings.start_seconds)
        while True:
            source = self._source()
            try:
                if source is not None and await self._take_lease(source):
                    await self._append(source)
            except (OSError, SQLAlchemyError) as error:
                log.warning("lake_not_written", lake=self._settings.location, cause=str(error))
            await asyncio.sleep(self._settings.interval_seconds)

    def _lake(self, source: Source) -> str:
        return lake_key(self._settings.location, source.cluster_id)

    async def _take_lease(self, source: Source) -> bool:
        return await self._database.write(take_lease, self._lake(source), self._holder, utc_now())

    async def _append(self, source: Source) -> None:
        """Run the writer once while the lease can be extended; kill it otherwise."""
        child = await asyncio.create_subprocess_exec(
            *self._command(source),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**python_environment(), "CONCLAVE_SPARK_CONF": json.dumps(dict(self._settings.spark_conf))},
            start_new_session=True,
        )
        assert child.stderr is not None, "it is a pipe"
        output = asyncio.create_task(child.stderr.read(), name="lake-output")
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), RENEW_SECONDS)
                    break
                if not await self._take_lease(source):
                    raise OSError("another web process has taken the lease of the lake")
            lines = (await output)[-OUTPUT_BYTES_MAX:].decode(errors="replace").strip()
            if child.returncode or lines:
                log.warning(
                    "lake_not_written" if child.returncode else "lake_written",
                    cause=lines,
                    lake=self._settings.location,
                )
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
            await cancel_tasks(output)
            with contextlib.suppress(SQLAlchemyError):  # then it expires
                await self._database.write(release_lease, self._lake(source), self._holder)

    def _command(self, source: Source) -> list[str]:
        settings = self._settings
        command = [sys.executable, "-m", "app.reports.lake.append", "--lake", settings.location]
        command += ["--cluster", source.cluster_id, "--history", str(source.history)]
        return [*command, "--days", str(settings.days), "--parent", str(os.getpid())]
