"""Runs reports: exports the image, runs the Spark job in a child process, stores its result.

One run of a cluster at a time, over all web processes of a database: the process that runs it holds the lease of
`app.reports.leases`. Runs of several clusters take turns in a process. The child has its own process group, so that
cancelling or stopping also ends its JVM, and it ends with the web process. Its output is in `run.log` of the run's
folder. A run without success changes only its own row: the last report remains.
"""

import asyncio
import contextlib
import errno
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cluster.log_dirs import LogDirs
from app.db.base import utc_now
from app.db.database import Database
from app.forked import ForkFailedError, run_forked
from app.reports import leases, store
from app.reports.class_archive import class_archive
from app.reports.failures import failure_of
from app.reports.java import JavaMissingError, find_java
from app.reports.job_process import ReportSettings, end_job, start_job, start_recording
from app.reports.webhooks import store_result
from app.tasks import cancel_tasks
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage

log = structlog.get_logger(__name__)
P = ParamSpec("P")

LOG_TAIL_BYTES = 1_000_000
RENEW_SECONDS = 1.0
"""Interval of extensions of a run's lease, which also bounds the delay of a cancel request by another process."""
SWEEP_SECONDS = 10.0
"""Interval at which each web process ends the runs whose process is gone."""
CANCEL_POLL_SECONDS = 0.2
REASON_OF = {errno.ENOSPC: "OUT_OF_DISK", errno.EDQUOT: "OUT_OF_DISK", errno.ENOMEM: "OUT_OF_MEMORY"}
RESULT: Final = "result.json"
RESULT_POLL_SECONDS = 0.1
STOP_SECONDS = 30.0
EXPORT_PROCESSES: Final = min(4, os.cpu_count() or 1)
"""How many processes write the files of a large snapshot."""
CANCEL_SECONDS = 10.0
"""How long a cancel waits for the process of the run."""


class NoImageError(Exception):
    """The quorum has not been reached yet, so there is no image to report on."""


ImageSource = Callable[[], tuple[MetadataImage, str] | None]
"""Returns the committed image and the cluster id, None before the first image."""
LogDirSource = Callable[[], Awaitable[Mapping[int, LogDirs]]]
"""Returns the log directories of the brokers that answer soon, by broker id."""


async def no_log_dirs() -> Mapping[int, LogDirs]:
    """Return nothing: all sizes are unknown."""
    return {}


class ReportRunner:
    """Runs the reports of one cluster for one web process, from `start` to `stop`."""

    def __init__(
        self,
        database: Database,
        settings: ReportSettings,
        image: ImageSource,
        log_dirs: LogDirSource = no_log_dirs,
        turn: asyncio.Semaphore | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._image = image
        self._log_dirs = log_dirs
        self._turn = turn or asyncio.Semaphore(1)
        self._task: asyncio.Task[None] | None = None
        self._run_id: int | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None
        self._ending_orphans: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to end the runs of killed web processes, including this one's predecessor."""
        self._ending_orphans = asyncio.create_task(self._end_orphaned_runs(), name="report-sweep")

    async def _end_orphaned_runs(self) -> None:
        while True:
            with contextlib.suppress(SQLAlchemyError):  # the database's outage log has it
                for run_id in await self._database.write(leases.end_expired, utc_now()):
                    log.warning("report_ended", run_id=run_id, state="lost", reason="PROCESS_GONE")
            await asyncio.sleep(SWEEP_SECONDS)

    async def stop(self) -> None:
        """End a running report. Its state becomes lost."""
        tasks = (self._ending_orphans, self._task, self._ending, self._recording)
        await cancel_tasks(*(task for task in tasks if task is not None and not task.done()))

    async def run_now(self, requested_by: str, topic_prefix: str = "") -> int:
        """Start a run over the topics whose names start with `topic_prefix`, and return its id.

        Raises NoImageError, ReportBusyError.
        """
        run_id = await self.start_run(partial(store.create_run, topic_prefix=topic_prefix), requested_by)
        assert run_id is not None, "create_run creates one"
        return run_id

    async def start_run(
        self, create: Callable[Concatenate[Session, P], int | None], *args: P.args, **kwargs: P.kwargs
    ) -> int | None:
        """Start the run that `create` adds in a transaction, and return its id; None if it adds none.

        Raises NoImageError, and what `create` raises.
        """
        source = self._image()
        if source is None:
            raise NoImageError(phrase("No metadata yet: the quorum has not been reached."))
        run_id = await self._database.write(create, *args, **kwargs)
        if run_id is not None:
            self._run_id = run_id
            self._task = asyncio.create_task(self._run_and_store_outcome(run_id, *source), name=f"report-{run_id}")
        return run_id

    async def check(self, requested_by: str) -> None:
        """Raise what `run_now` would raise: NoImageError or ReportBusyError."""
        if self._image() is None:
            raise NoImageError(phrase("No metadata yet: the quorum has not been reached."))
        await self._database.dry_run(store.create_run, requested_by)

    async def check_cancel(self, run_id: int, by: str) -> bool:
        """Return what `cancel` would return, without a change."""
        return await self._database.dry_run(leases.request_cancel, run_id, by, utc_now())

    async def cancel(self, run_id: int, by: str) -> bool:
        """Cancel an active run of any web process. Returns False when it is not active."""
        if not await self._database.write(leases.request_cancel, run_id, by, utc_now()):
            return False
        if run_id == self._run_id and self._task is not None and not self._task.done():
            await cancel_tasks(self._task)
            return True
        for _ in range(round(CANCEL_SECONDS / CANCEL_POLL_SECONDS)):
            run = await self._database.read(store.get_run, run_id)
            if run is None or run.finished_at is not None:
                break
            await asyncio.sleep(CANCEL_POLL_SECONDS)
        return True

    def folder_of(self, run_id: int) -> Path:
        """Return the run's folder: snapshot/, out/, run.log."""
        return self._settings.folder / f"run-{run_id:06d}"

    def progress(self, run_id: int) -> dict[str, Any] | None:
        """Return the last progress of the job: stage, stages, name, tasks_done, tasks. None before the first."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.folder_of(run_id) / "out" / "progress.json").read_text())
            return found
        return None

    def event_log(self, run_id: int) -> Path | None:
        """Return Spark's event log of a run, or None if this process does not have it."""
        return next((path for path in (self.folder_of(run_id) / "events").glob("*") if path.is_file()), None)

    def log_tail(self, run_id: int) -> str:
        """Return the end of the job's output, 1 MB at most."""
        with contextlib.suppress(OSError), (self.folder_of(run_id) / "run.log").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    async def _run_and_store_outcome(self, run_id: int, image: MetadataImage, cluster_id: str) -> None:
        """Run the report and store how it ended, whatever happens."""
        keeping = asyncio.create_task(self._keep_lease(run_id, asyncio.current_task()), name=f"lease-{run_id}")
        try:
            async with self._turn:  # a run of another cluster may come first
                await self._make(run_id, image, cluster_id)
        except asyncio.CancelledError:
            await self._finish(run_id, "lost", "PROCESS_GONE", "The web process was stopped during the run.")
        except TimeoutError:
            limit = self._settings.timeout_seconds
            await self._finish(run_id, "timed_out", "TIMED_OUT", f"Not finished within {limit} s.")
        except JavaMissingError as missing:
            await self._finish(run_id, "failed", "JAVA_MISSING", str(missing))
        except OSError as refused:
            await self._finish(run_id, "failed", REASON_OF.get(refused.errno or 0, "IO_ERROR"), str(refused))
        except ForkFailedError as failed:
            await self._finish(run_id, "failed", "SNAPSHOT_FAILED", str(failed))
        except JobFailedError as failed:
            await self._finish(run_id, "failed", failed.reason, str(failed))
        except Exception as unexpected:  # the row must not stay "running"; the log has the traceback
            log.exception("report_failed", run_id=run_id)
            await self._finish(run_id, "failed", "INTERNAL", f"{type(unexpected).__name__}: {unexpected}")
        finally:
            keeping.cancel()

    async def _keep_lease(self, run_id: int, run: "asyncio.Task[None] | None") -> None:
        """Extend the lease. End the run when another process requests that, or has ended it after the lease expired."""
        assert run is not None, "called from the run's own task"
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with contextlib.suppress(SQLAlchemyError):  # the next attempt sees a run that was ended meanwhile
                kept = await self._database.write(leases.renew_lease, run_id, utc_now())
                if kept is None or kept.cancelled_by is not None:
                    run.cancel()
                    return

    async def _finish(self, run_id: int, state: str, reason: str, error: str) -> None:
        if await self._database.write(leases.finish_run, run_id, state, reason, error):
            run = await self._database.read(store.get_run, run_id)
            if run is not None:  # a cancelled run has another state
                log.warning("report_ended", run_id=run_id, state=run.state, reason=run.reason)

    async def _make(self, run_id: int, image: MetadataImage, cluster_id: str) -> None:
        folder = self.folder_of(run_id)
        written = folder / "out" / RESULT
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        java = await asyncio.to_thread(self._java)
        archive = self._archive(java)
        run = await self._database.read(store.get_run, run_id)
        assert run is not None, "the caller has created it"
        where = {"cluster_id": cluster_id, "image_offset": image.offset, "image_epoch": image.epoch}
        await self._database.write(store.update_run, run_id, state="snapshotting", **where)
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                options = [
                    "--awaited-partitions",
                    str(image.topics.partition_count()),
                    "--events",
                    str(folder / "events"),
                ]
                if archive is not None:
                    options += ["--class-archive", str(archive)]
                child = await start_job(
                    self._settings, folder, java, options
                )  # Spark starts while the image is written
                self._child = child
                await self._database.write(store.update_run, run_id, process_id=child.pid)
                answers = await self._log_dirs()
                await run_forked(partial(_export, image, cluster_id, folder / "snapshot", run.topic_prefix, answers))
                await self._database.write(store.update_run, run_id, state="running")
                await _written_or_ended(child, written.exists)
        finally:
            running, self._child = self._child, None
            if not written.exists():
                await end_job(running)
            elif running is not None:
                self._ending = asyncio.create_task(_let_end(running), name=f"report-{run_id}-ends")
        if not written.exists():
            raise JobFailedError(*failure_of(child.returncode or 0, folder / "out", self.log_tail(run_id)))
        await self._database.write(store.update_run, run_id, state="storing")
        result = await asyncio.to_thread(_read_result, written)
        if not await self._database.write(store_result, run_id, result, self._settings.base_url, utc_now()):
            return
        log.info("report_done", run_id=run_id, image_offset=image.offset)
        self._maybe_record_classes(java, archive)

    def _java(self) -> str | None:
        """Return JAVA_HOME for the child, None when Spark runs elsewhere (Spark Connect)."""
        if self._settings.session.is_connect:
            return None
        return str(find_java(self._settings.folder, self._settings.java_home).home)

    # Spark's classes

    def _archive(self, java_home: str | None) -> Path | None:
        """Return the path of Spark's class archive if the JVM is our child. The archive may not exist yet."""
        if java_home is None or not self._settings.session.is_local:
            return None
        return class_archive(self._settings.folder, Path(java_home))

    def _maybe_record_classes(self, java_home: str | None, archive: Path | None) -> None:
        """After a report, create a missing class archive; tried once per process."""
        if java_home is None or archive is None or archive.exists() or self._recording is not None:
            return
        self._recording = asyncio.create_task(self._record_classes(java_home, archive), name="record-classes")

    async def _record_classes(self, java_home: str, archive: Path) -> None:
        child = await start_recording(self._settings, archive, java_home)
        try:
            code = await child.wait()
            log.info("classes_recorded" if code == 0 else "classes_not_recorded", archive=str(archive), code=code)
        finally:
            await end_job(child)


class JobFailedError(Exception):
    """The job failed. `reason` is a code of `app.reports.failures`; the text is a sentence."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def _export(
    image: MetadataImage, cluster_id: str, folder: Path, topic_prefix: str, answers: Mapping[int, LogDirs]
) -> None:
    from app.reports.export import export_image  # imports pyarrow, which the web process does not need

    export_image(image, cluster_id, folder, answers, topic_prefix=topic_prefix, processes=EXPORT_PROCESSES)


async def _written_or_ended(child: asyncio.subprocess.Process, is_written: Callable[[], bool]) -> None:
    """Wait until the job has written its result or has ended: Spark needs a second more to stop."""
    ended = asyncio.ensure_future(child.wait())
    try:
        while not ended.done() and not is_written():
            await asyncio.wait({ended}, timeout=RESULT_POLL_SECONDS)
    finally:
        ended.cancel()


async def _let_end(child: asyncio.subprocess.Process) -> None:
    """Let a job stop Spark, which completes the event log, and end it if that takes too long."""
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), STOP_SECONDS)
    finally:
        await end_job(child)


def _read_result(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
