"""The report job as a child process of the web process: its command line, environment, and end."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.child_environment import python_environment
from app.reports.session import SessionOptions

TERMINATE_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Where and how reports run. An empty `java_home` is found as `app.reports.java` says.

    `spark_conf` has Spark's own settings by name. `base_url` is where users reach the web process. `lake` is the
    metadata lake's folder or URL, None for none. `spark_files` is a URL by which Spark gets the files of a report, None
    if it sees `folder`.
    """

    folder: Path
    spark_master: str = "local[*]"
    spark_memory: str = "1g"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    java_home: str = ""
    timeout_seconds: int = 900
    base_url: str = ""
    lake: str | None = None
    spark_files: str | None = None

    @property
    def session(self) -> SessionOptions:
        """Spark's part of the settings."""
        return SessionOptions(self.spark_master, self.spark_memory, self.spark_conf)


async def start_job(
    settings: ReportSettings, folder: Path, java_home: str | None, options: list[str]
) -> asyncio.subprocess.Process:
    """Start the job on the snapshot in `folder`, in its own process group. Its output goes to `run.log`."""
    command = ["app.reports.job", "--snapshot", str(folder / "snapshot"), "--out", str(folder / "out")]
    command += ["--master", settings.spark_master, "--memory", settings.spark_memory, *options]
    if settings.lake is not None:
        command += ["--lake", settings.lake]
    if settings.spark_files is not None:
        command += ["--spark-files", settings.spark_files]
    environment = {"CONCLAVE_SPARK_CONF": json.dumps(dict(settings.spark_conf))}
    if java_home is not None:
        environment["JAVA_HOME"] = java_home
    return await _start(command, folder / "run.log", environment)


async def start_recording(settings: ReportSettings, archive: Path, java_home: str) -> asyncio.subprocess.Process:
    """Start to make the archive of Spark's classes, in its own process group. Its output goes to `classes.log`."""
    command = ["app.reports.class_recording", "--archive", str(archive), "--java-home", java_home]
    return await _start(command, settings.folder / "classes.log", {})


async def _start(command: list[str], log: Path, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *command, "--parent", str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            cwd=log.parent,
            env={**python_environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )


async def end_job(child: asyncio.subprocess.Process | None) -> None:
    """End a running job with its whole process group."""
    if child is None or child.returncode is not None:
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), TERMINATE_SECONDS)
            return
