"""`conclave reports run --checkpoint FILE`: a report of one metadata snapshot file, without a web process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import typer

from app.child_environment import python_environment
from app.reports.checkpoint import cluster_id_of, export_checkpoint, outline_of
from app.reports.checkpoint_export import begin_export
from app.reports.failures import failure_of
from app.reports.java import JavaMissingError, find_java
from kraft_core.storage.files import StorageError

MASTER: Final = "local[*]"
MEMORY: Final = "1g"
PLAIN_PARTITIONS_MAX: Final = 1_000_000
"""Partitions up to which the plain reader is used, which takes 1.5 KB for each. Below, it is as fast or faster."""


class OfflineReportError(StorageError):
    """The report was not made. The message is one line with the reason."""


def report_checkpoint(checkpoint: Path, out: Path | None, *, as_json: bool) -> None:
    """Report on a checkpoint, and print the verdict, or the whole report as JSON.

    `out` receives result.json, violations.parquet, run.log and the snapshot's folder; without it nothing is kept.
    Raises typer.BadParameter when `out` has files, StorageError for a bad checkpoint, OfflineReportError.
    """
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise typer.BadParameter(f"{out} is not an empty folder; a report needs a new or empty one", param_hint="--out")
    with tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as folder:
        result = make_report(checkpoint, Path(folder))
    print(json.dumps(result, sort_keys=True) if as_json else "\n".join(_summary(result)))
    if out is not None and not as_json:
        print(f"The report is in {out / 'result.json'}, its list of violations in {out / 'violations.parquet'}.")


def make_report(checkpoint: Path, folder: Path) -> dict[str, Any]:
    """Write the snapshot of a checkpoint and its report into `folder`, and return the report.

    Raises StorageError for a bad checkpoint, OfflineReportError when the job fails or Java is missing.
    """
    outline = outline_of(checkpoint)
    partitions = sum(outline.partitions.values())
    in_parts = partitions > PLAIN_PARTITIONS_MAX
    if in_parts:
        begin_export(outline, cluster_id_of(checkpoint), folder / "snapshot")
    else:
        export_checkpoint(checkpoint, folder / "snapshot")
    try:
        java = find_java(folder)
    except JavaMissingError as missing:
        raise OfflineReportError(str(missing)) from missing
    command = [sys.executable, "-m", "app.reports.job", "--snapshot", "snapshot", "--out", "."]
    command += ["--master", MASTER, "--memory", MEMORY, "--parent", str(os.getpid())]
    if in_parts:
        command += ["--checkpoint", str(checkpoint.absolute()), "--awaited-partitions", str(partitions)]
    environment = {**python_environment(), "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java.home)}
    log = folder / "run.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        ) as job,
    ):
        try:
            code = job.wait()
        except BaseException:
            os.killpg(job.pid, signal.SIGKILL)  # the job's group has its JVM
            raise
    if code:
        raise OfflineReportError(": ".join(failure_of(code, folder, log.read_text(errors="replace"))))
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _summary(result: dict[str, Any]) -> list[str]:
    header, verdict = result["header"], result["body"]["verdict"]
    rules = verdict["rack_rule"] or {"violated": 0}
    worst = verdict["worst_rack"]
    lines = [
        (
            f"Cluster {header['cluster_id']} at offset {header['offset']}, epoch {header['epoch']}: "
            f"{header['brokers']} brokers, {header['topics']} topics, {header['partitions']} partitions."
        ),
        (
            f"Offline {verdict['offline']}, under min ISR {verdict['under_min']}, at min ISR {verdict['at_min']}, "
            f"under-replicated {verdict['under_replicated']}, rack rule violated {rules['violated']}."
        ),
        f"A balanced cluster is at least {verdict['moves_from_balanced']} replica moves away.",
    ]
    if worst is not None:
        lines.append(f"The worst rack to lose is {worst['rack']}.")
    return lines
