"""The report job: a separate program, so that Spark and its JVM never run in the web process.

    python -m app.reports.job --snapshot FOLDER --out FOLDER [--master local[*]] [--memory 1g] [--awaited-partitions N]

Reads a snapshot folder (see `app.reports.export`), writes `violations.parquet` and then `result.json` into the output
folder. A folder without `result.json` has no report. With --awaited-partitions, the parent process may still be writing
the snapshot, which will have about so many partitions, and Spark starts meanwhile. --parent: end with that process.
`progress.json` has the stage and its tasks and is updated twice a second. --class-archive: see
`app.reports.class_archive`. The process ends when Spark has stopped, up to a second after it has written the result.
Exit codes: 0 done, 1 failed (`failure.json` has the reason, see `app.reports.failures`), 2 wrong use.
"""

import argparse
import hashlib
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.reports.class_archive import using
from app.reports.failures import BadSnapshotError, write_failure
from app.reports.progress import Progress
from app.reports.session import SessionOptions, spark_session
from kraft_core.storage.files import replace_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from app.reports.spark_files import SparkFiles

MANIFEST_POLL_S = 0.05
PARENT_POLL_S = 0.5
NATIVE_PARTITIONS_MAX = 2_000_000
SPARK_TYPES = {"int32": "int", "int64": "bigint", "string": "string", "bool": "boolean"}
CONF_VARIABLE = "CONCLAVE_SPARK_CONF"
"""Environment variable with Spark's settings as a JSON object. They may be secret, so they are not arguments."""


def read_manifest(snapshot: Path) -> dict[str, Any]:
    """Return a snapshot's manifest after checking its files against their hashes. Raises BadSnapshotError."""
    try:
        manifest: dict[str, Any] = json.loads((snapshot / "manifest.json").read_text())
    except (OSError, ValueError) as error:
        raise BadSnapshotError(f"'{snapshot}' is not a snapshot: {error}") from error
    for name, expected in manifest["sha256"].items():
        try:
            with (snapshot / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise BadSnapshotError(f"snapshot file '{name}' cannot be read: {error}") from error
        if found != expected:
            raise BadSnapshotError(f"snapshot file '{name}' is damaged: its SHA-256 is not the manifest's")
    return manifest


def wait_for_manifest(snapshot: Path, given_up: threading.Event) -> None:
    """Wait until the parent has written the manifest, the snapshot's last file, or the event is set."""
    while not (snapshot / "manifest.json").exists() and not given_up.wait(MANIFEST_POLL_S):
        pass


def plan_when_written(snapshot: Path, out: Path, given_up: threading.Event) -> dict[str, Any]:
    """Return the block of the default plan, once the snapshot is written. Raises BadSnapshotError."""
    from app.reports.proposals.default_plan import make_default_plan

    wait_for_manifest(snapshot, given_up)
    manifest = read_manifest(snapshot)
    return make_default_plan(snapshot, out, manifest["partitions"], manifest["offset"], manifest["epoch"])


def end_with(parent: int) -> None:
    """End this job with its JVM, the whole process group, as soon as its parent process is gone.

    A killed web process cannot end its job, and the next run must not share the machine with it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        os.write(2, b"The web process that started this report has ended, so the job ends too.\n")
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def read_table(spark: "SparkSession", schema: "pa.Schema", paths: Sequence[str]) -> "DataFrame":
    """Read files of one table with a known schema, so that Spark needs no job to infer it."""
    columns = []
    for field in schema:
        is_list = field.type.num_fields > 0
        name = SPARK_TYPES[str(field.type.value_type if is_list else field.type)]
        columns.append(f"{field.name} {f'array<{name}>' if is_list else name}")
    return spark.read.schema(", ".join(columns)).parquet(*paths)


def uses_arrow(options: SessionOptions, partitions: int, spark_files: str | None) -> bool:
    """Return whether Spark's tasks count with numpy (`app.reports.arrow_engine`) instead of native expressions.

    On this machine always, which takes less than half of the processor time. Executors elsewhere may not have this
    package, so reports up to NATIVE_PARTITIONS_MAX do not need it there. Tasks read and write the folders themselves,
    so not where Spark's files are at a URL.
    """
    return spark_files is None and (options.is_local or partitions > NATIVE_PARTITIONS_MAX)


def build(
    spark: "SparkSession",
    manifest: Mapping[str, Any],
    snapshot: Path,
    out: Path,
    progress: Progress,
    shared: "SparkFiles",
    *,
    in_arrow: bool,
) -> dict[str, Any]:
    """Compute the report's body (see `app.reports.body`), write its list of violations, and return the body.

    `in_arrow`: with the engine for which `uses_arrow` asks; the body is the same.
    """
    import pyarrow.parquet as pq

    from app.reports.aggregates import Brokers
    from app.reports.body import report_body

    brokers = Brokers(sorted(pq.read_table(snapshot / "brokers.parquet").to_pylist(), key=_by_index))
    files = sorted(name for name in manifest["sha256"] if name.startswith("partitions-"))
    if in_arrow:
        from app.reports import arrow_engine

        progress.stage("counting partitions")
        task = arrow_engine.Task(str(snapshot.resolve()), files, brokers, manifest["elr"], str(out.resolve()))
        return report_body(brokers, arrow_engine.aggregate(spark, task, progress.stage))
    from app.reports import transforms as t
    from app.reports.columns_engine import complete
    from app.reports.export import TOPICS
    from app.reports.image_columns import PARTITIONS
    from app.reports.spark_engine import Tables, aggregate, facts_of
    from app.reports.violation_writer import write_violations

    topics = read_table(spark, TOPICS, [shared.path_of("topics.parquet")])
    partitions = read_table(spark, PARTITIONS, [shared.path_of(name) for name in files])
    tables = Tables(spark, partitions, topics, brokers, manifest["elr"])
    facts = facts_of(tables).persist()
    found = aggregate(tables, facts, progress.stage)
    progress.stage("listing violations")
    write_violations(t.violations(facts, topics), brokers.rows, shared.violations)
    shared.fetch()
    progress.stage("counting topics and leaders")
    found = complete(found, snapshot, files, out, brokers, elr=manifest["elr"])
    return report_body(brokers, found)


def _load(*, in_arrow: bool) -> None:
    """Import what the job needs beside Spark. This takes a second, in which Spark's JVM starts."""
    for name in ("body", "spark_files", "arrow_engine" if in_arrow else "columns_engine"):
        importlib.import_module(f"app.reports.{name}")


def _by_index(row: Mapping[str, Any]) -> int:
    return int(row["broker_idx"])


def run(
    snapshot: Path,
    out: Path,
    options: SessionOptions,
    awaited: int | None = None,
    *,
    java_options: str = "",
    lake: str | None = None,
    spark_files: str | None = None,
    checkpoint: Path | None = None,
) -> None:
    """Compute the report of one snapshot. With `awaited` partitions, the snapshot may still be being written.

    With the location of a `lake`, the report is registered there and contains its trends. With the URL `spark_files`,
    Spark reads and writes there instead of in the two folders. With a `checkpoint`, Spark completes the snapshot that
    `begin_export` has begun.

    Raises BadSnapshotError and Spark's exceptions.
    """
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    partitions = read_manifest(snapshot)["partitions"] if awaited is None else awaited
    in_arrow = uses_arrow(options, partitions, spark_files)
    trends = None
    given_up = threading.Event()
    with Progress(out) as progress, ThreadPoolExecutor(1, "plan") as pool, ExitStack() as ending:
        ending.callback(given_up.set)
        importlib.import_module("pyspark.sql")  # first, since the JVM starts with it and the rest need not
        loading = pool.submit(_load, in_arrow=in_arrow)
        plan = pool.submit(plan_when_written, snapshot, out, given_up)  # while Spark's JVM starts and computes
        spark = ending.enter_context(spark_session(options, 0 if in_arrow else partitions, java_options))
        with progress.watching(spark):
            progress.stage("reading the snapshot")
            loading.result()
            from app.reports.spark_files import files_for_spark

            if checkpoint is not None:
                from app.reports.checkpoint_export import finish_export

                finish_export(spark, checkpoint, snapshot)
            wait_for_manifest(snapshot, given_up)
            manifest = read_manifest(snapshot)
            with files_for_spark(snapshot, list(manifest["sha256"]), out, spark_files, options.conf) as shared:
                body = build(spark, manifest, snapshot, out, progress, shared, in_arrow=in_arrow)
            progress.stage("making the default plan")
            body["proposal"] = plan.result()
            if lake is not None:
                from app.reports.lake.in_report import report_to_lake

                progress.stage("reading the lake")
                trends = report_to_lake(spark, lake, options.conf, snapshot, manifest, body)
            progress.stage("writing the report")
            engine = f"Spark {spark.version}", options.master
            _write_result(out, manifest, body, trends, engine, time.monotonic() - started)  # before Spark has stopped


def _write_result(
    out: Path,
    manifest: Mapping[str, Any],
    body: Mapping[str, Any],
    trends: Mapping[str, Any] | None,
    engine: tuple[str, str],
    took_s: float,
) -> None:
    """Write `result.json`, which is the report. `engine`: Spark with its version, and the master."""
    from app.reports.body import REPORT_VERSION

    text = json.dumps(body, sort_keys=True)
    header = {key: manifest[key] for key in manifest if key != "sha256"}
    result = {
        "report_version": REPORT_VERSION,
        "header": {
            **header,
            "engine": engine[0],
            "master": engine[1],
            "duration_ms": round(took_s * 1000),
            "content_sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
        "body": body,
        "trends": trends,
    }
    replace_file(out / "result.json", (json.dumps(result, sort_keys=True, indent=1) + "\n").encode())


def main() -> int:
    """Run the job; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m app.reports.job", description="Make one placement report.")
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--events", type=Path, metavar="FOLDER", help="write Spark's event log into this new folder")
    parser.add_argument("--java-options", default="", help="further options of a local JVM")
    parser.add_argument("--awaited-partitions", type=int, metavar="N")
    parser.add_argument("--lake", metavar="LOCATION", help="register the report in this lake and add its trends")
    parser.add_argument("--spark-files", metavar="URL", help="where Spark reads the snapshot and writes its list")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="read the snapshot's partitions from this file")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process, which has started the job")
    parser.add_argument("--class-archive", type=Path, metavar="FILE", help="start Spark's JVM with it, if it is there")
    options = parser.parse_args()
    os.nice(10)  # the web process and a node on the same machine have priority
    if options.parent is not None:
        end_with(options.parent)
    conf = json.loads(os.environ.pop(CONF_VARIABLE, "{}"))
    where = options.snapshot, options.out, SessionOptions(options.master, options.memory, conf, options.events)
    try:
        if options.events is not None:
            options.events.mkdir(parents=True, exist_ok=True)
        java_options = f"{using(options.class_archive)} {options.java_options}".strip()
        run(
            *where,
            options.awaited_partitions,
            java_options=java_options,
            lake=options.lake,
            spark_files=options.spark_files,
            checkpoint=options.checkpoint,
        )
    except Exception as error:
        write_failure(options.out, error)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
