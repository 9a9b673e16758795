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
LOG_OF: Final = {"out": "run.log", "again": "classes.log"}


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
    settings: ReportSettings, folder: Path, out: str, java_home: str | None, options: list[str]
) -> asyncio.subprocess.Process:
    """Start the job on the snapshot in `folder`, in its own process group. Its output goes to the log of `out`."""
    command = [sys.executable, "-m", "app.reports.job", "--snapshot", str(folder / "snapshot"), "--out"]
    command += [str(folder / out), "--master", settings.spark_master]
    command += ["--memory", settings.spark_memory, "--parent", str(os.getpid()), *options]
    if settings.lake is not None and out == "out":
        command += ["--lake", settings.lake]
    if settings.spark_files is not None:
        command += ["--spark-files", settings.spark_files]
    environment = {**python_environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}
    environment["CONCLAVE_SPARK_CONF"] = json.dumps(dict(settings.spark_conf))
    if java_home is not None:
        environment["JAVA_HOME"] = java_home
    with (folder / LOG_OF[out]).open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=environment,
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
