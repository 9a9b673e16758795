"""The report job: a separate program, so that Spark and its JVM never run in the web process.

    python -m app.reports.job --snapshot FOLDER --out FOLDER [--master local[*]] [--memory 1g] [--awaited-partitions N]

Reads a snapshot folder (see `app.reports.export`), writes `violations.parquet` and then `result.json` into the output
folder. A folder without `result.json` has no report. With --awaited-partitions, the parent process may still be writing
the snapshot, which will have about so many partitions, and Spark starts meanwhile. --parent: end with that process.
`progress.json` has the stage and its tasks and is updated twice a second. --class-archive and --record-classes: see
`app.reports.class_archive`. Exit codes: 0 done, 1 failed (`failure.json` has the reason, see `app.reports.failures`),
2 wrong use.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from app.reports import definitions as d
from app.reports.body import Aggregates, Brokers, report_body
from app.reports.class_archive import keep, recording, using
from app.reports.failures import BadSnapshotError, write_failure
from kraft_core.storage.files import Sync, replace_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT_VERSION = 1
MANIFEST_POLL_S = 0.05
PARENT_POLL_S = 0.5
SMALL_PARTITIONS = 100_000
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LARGE_JVM = "-XX:+UseParallelGC"
SPARK_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}
STAGES = (
    "starting Spark",
    "reading the snapshot",
    "counting partitions",
    "counting replicas and leaders",
    "losing each broker",
    "losing each rack",
    "listing violations",
    "writing the report",
)

VIOLATIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("reason", pa.string()),
        ("replicas", pa.list_(pa.int32())),
        ("racks", pa.list_(pa.string())),
        ("isr", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("rf", pa.int32()),
        ("min_isr", pa.int32()),
        ("margin", pa.int32()),
        ("rack_moves", pa.int32()),
        ("size_bytes", pa.int64()),
    ]
)
"""Schema of `violations.parquet`, sorted by topic and partition.

Brokers are ids, `racks` has the rack of each replica ("" for none), and leader is -1 for none.
"""


class Progress:
    """The progress of the run, written for the web process twice a second by a thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "progress.json"
        self._stage = 0
        self._spark: SparkSession | None = None
        self._asking = threading.Lock()
        self._news = threading.Event()
        self._done = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    @contextmanager
    def watching(self, spark: "SparkSession") -> Iterator[None]:
        """Count the tasks of this session (classic sessions only) until the end of the block."""
        self._spark = spark
        try:
            yield
        finally:
            with self._asking:
                self._spark = None

    def stage(self, name: str) -> None:
        """Note that a stage of STAGES starts."""
        self._stage = STAGES.index(name)
        self._news.set()

    def _tasks(self) -> tuple[int, int]:
        context = getattr(self._spark, "sparkContext", None)
        if context is None:
            return 0, 0
        tracker = context.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [info for info in infos if info is not None]
        return sum(info.numCompletedTasks for info in running), sum(info.numTasks for info in running)

    def _write(self) -> None:
        with self._asking:
            done, total = self._tasks()
        state = {
            "stage": self._stage + 1,
            "stages": len(STAGES),
            "name": STAGES[self._stage],
            "tasks_done": done,
            "tasks": total,
        }
        replace_file(self._path, json.dumps(state).encode(), sync=Sync.NONE)

    def _run(self) -> None:
        while not self._done:
            self._write()
            self._news.wait(0.5)
            self._news.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._news.set()
        self._thread.join()


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


def wait_for_manifest(snapshot: Path) -> None:
    """Wait until the parent has written the manifest, the snapshot's last file, or `end_with` ends the job."""
    while not (snapshot / "manifest.json").exists():
        time.sleep(MANIFEST_POLL_S)


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


@contextmanager
def spark_session(master: str, memory: str, partitions: int = 0, java_options: str = "") -> Iterator["SparkSession"]:
    """Return a session on `master`: local[*], spark://…, yarn, k8s://…, or sc://… for Spark Connect.

    A local JVM is tuned to the number of partitions. A small report ends before the second compiler pays off, which
    takes half of the processor time; a large one gets faster by it.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("conclave placement report")
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.inMemoryColumnarStorage.compressed": "false",
            "spark.sql.session.timeZone": "UTC",
        }
        remote = not master.startswith("local")
        if not remote:
            fitted = SMALL_JVM if partitions <= SMALL_PARTITIONS else LARGE_JVM
            settings["spark.driver.extraJavaOptions"] = f"{fitted} {java_options}".strip()
        for key, value in settings.items():
            if not (remote and key in {"spark.driver.bindAddress", "spark.driver.host"}):
                builder = builder.config(key, value)
        builder = builder.master(master)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def collect(frame: "DataFrame") -> list[dict[str, Any]]:
    """Return all rows of a small result as dictionaries."""
    return [row.asDict() for row in frame.collect()]


def read_table(spark: "SparkSession", files: Sequence[Path]) -> "DataFrame":
    """Read files of one table with the schema of the first, so that Spark needs no job to infer it."""
    columns = []
    for field in pq.read_schema(files[0]):
        is_list = pa.types.is_list(field.type)
        name = SPARK_TYPES[field.type.value_type if is_list else field.type]
        columns.append(f"{field.name} {f'array<{name}>' if is_list else name}")
    return spark.read.schema(", ".join(columns)).parquet(*map(str, files))


def build(
    spark: "SparkSession", manifest: Mapping[str, Any], snapshot: Path, out: Path, progress: Progress
) -> dict[str, Any]:
    """Compute the report's body (see `app.reports.body`), write its list of violations, and return the body."""
    from app.reports import transforms as t

    brokers = Brokers(sorted(pq.read_table(snapshot / "brokers.parquet").to_pylist(), key=_by_index))
    topics = read_table(spark, [snapshot / "topics.parquet"])
    partitions = read_table(spark, sorted(snapshot / name for name in manifest["sha256"] if name.startswith("part")))
    rack_of, sizes = brokers.rack_of(), brokers.rack_sizes()
    rf_max = 1 + max(len(brokers.rows), 1)
    allowed = [d.even_spread(rf, sizes) for rf in range(min(rf_max, 64))]
    facts = t.partition_facts(partitions, topics, rack_of or [-1], allowed).persist()
    progress.stage("counting partitions")
    totals, now = collect(t.totals(facts)), collect(t.verdicts_now(facts))
    progress.stage("counting replicas and leaders")
    replicas, leaders = collect(t.replicas_per_broker(facts)), collect(t.leaders_per_broker(facts))
    scatter = collect(t.scatter_width(facts))
    progress.stage("losing each broker")
    broker_losses = collect(t.broker_losses(facts, elr=manifest["elr"]))
    progress.stage("losing each rack")
    rack_losses = collect(t.rack_losses(facts, rack_of or [-1], elr=manifest["elr"]))
    progress.stage("listing violations")
    by_reason = write_violations(t.violations(facts, topics), brokers, out, has_racks=bool(brokers.racks))
    found = Aggregates(totals, replicas, leaders, scatter, now, broker_losses, rack_losses, by_reason)
    return report_body(brokers, found)


def _by_index(row: Mapping[str, Any]) -> int:
    return int(row["broker_idx"])


def write_violations(listed: "DataFrame", brokers: Brokers, out: Path, *, has_racks: bool) -> dict[str, int]:
    """Write the list as one Parquet file with broker ids and rack names. Returns the number of rows per reason."""
    ids = [row["broker_id"] for row in brokers.rows]
    racks = [row["rack"] or "" for row in brokers.rows]
    counts: dict[str, int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in VIOLATIONS.names}
    for row in listed.toLocalIterator():
        if row["reason"] == "rack_unknown" and not has_racks:
            continue
        counts[row["reason"]] = counts.get(row["reason"], 0) + 1
        for name in ("topic", "partition", "reason", "rf", "min_isr", "margin", "rack_moves", "size_bytes"):
            columns[name].append(row[name])
        columns["replicas"].append([ids[index] for index in row["replicas"]])
        columns["racks"].append([racks[index] for index in row["replicas"]])
        columns["isr"].append([ids[index] for index in row["isr"]])
        columns["leader"].append(ids[row["leader"]] if row["leader"] >= 0 else -1)
    unfinished = out / "violations.part"
    pq.write_table(pa.table(columns, schema=VIOLATIONS), unfinished, compression="zstd")
    unfinished.replace(out / "violations.parquet")
    return dict(sorted(counts.items()))


def run(
    snapshot: Path, out: Path, master: str, memory: str, awaited: int | None = None, *, java_options: str = ""
) -> None:
    """Compute the report of one snapshot. With `awaited` partitions, the snapshot may still be being written.

    Raises BadSnapshotError and Spark's exceptions.
    """
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    partitions = read_manifest(snapshot)["partitions"] if awaited is None else awaited
    with Progress(out) as progress, spark_session(master, memory, partitions, java_options) as spark:
        with progress.watching(spark):
            progress.stage("reading the snapshot")
            wait_for_manifest(snapshot)
            manifest = read_manifest(snapshot)
            body = build(spark, manifest, snapshot, out, progress)
        progress.stage("writing the report")
        version = spark.version
    text = json.dumps(body, sort_keys=True)
    header = {key: manifest[key] for key in manifest if key != "sha256"}
    result = {
        "report_version": REPORT_VERSION,
        "header": {
            **header,
            "engine": f"Spark {version}",
            "master": master,
            "duration_ms": round((time.monotonic() - started) * 1000),
            "content_sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
        "body": body,
    }
    replace_file(out / "result.json", (json.dumps(result, sort_keys=True, indent=1) + "\n").encode())


def record_classes(archive: Path, snapshot: Path, out: Path, master: str, memory: str) -> bool:
    """Run the report once more and archive its classes. Returns False if this Java cannot write an archive."""
    from pyspark import SparkContext

    run(snapshot, out, master, memory, java_options=recording(archive))
    gateway: Any = SparkContext._gateway  # noqa: SLF001  # the JVM writes the archive when it ends; no public API waits for that
    gateway.shutdown()
    gateway.proc.stdin.close()
    return gateway.proc.wait() == 0 and keep(archive)


def main() -> int:
    """Run the job; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m app.reports.job", description="Make one placement report.")
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--awaited-partitions", type=int, metavar="N")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process, which has started the job")
    parser.add_argument("--class-archive", type=Path, metavar="FILE", help="start Spark's JVM with it, if it is there")
    parser.add_argument(
        "--record-classes", type=Path, metavar="FILE", help="write a class archive, and no report to keep"
    )
    options = parser.parse_args()
    where = options.snapshot, options.out, options.master, options.memory
    os.nice(
        10 if options.record_classes is None else 19
    )  # the web process and a node on the same machine have priority
    if options.parent is not None:
        end_with(options.parent)
    try:
        if options.record_classes is not None:
            return 0 if record_classes(options.record_classes, *where) else 1
        run(*where, options.awaited_partitions, java_options=using(options.class_archive))
    except Exception as error:
        write_failure(options.out, error)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
