"""The placement report of 1,000,000 partitions by stage, and of a tiny cluster. Ours only: Apache has none.

The image is replayed from seeded records: 10,000 topics, 300 brokers in 6 racks, three replicas in three racks. One
partition in a hundred has a replica out of sync, one in a thousand has two replicas in one rack.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

from app.reports.export import export_image
from app.reports.java import find_java
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sides import OURS
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraft_core.protocol.uuids import random_uuid

BROKERS = 300
RACKS = 6
TOPICS = 10_000
SEED = 1
WAIT_S = 300
MEMORY = "2g"


def _brokers(random: Random, count: int) -> Iterator[MetadataRecord]:
    yield FeatureLevelRecord(name="metadata.version", feature_level=30)
    for broker_id in range(count):
        yield RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=random_uuid(random),
            broker_epoch=broker_id + 1,
            rack=f"rack-{broker_id % RACKS}",
            fenced=False,
            log_dirs=(random_uuid(random),),
        )


def _topic(random: Random, name: str, partitions: int, directories: list[UUID]) -> Iterator[MetadataRecord]:
    """Yield the records of a topic that is striped over the brokers, so that replicas are in different racks."""
    topic_id, brokers = random_uuid(random), len(directories)
    yield TopicRecord(name=name, topic_id=topic_id)
    start = random.randrange(brokers)
    for number in range(partitions):
        first = (start + number) % brokers
        step = RACKS if random.random() < 0.001 else 1
        replicas = (first, (first + step) % brokers, (first + 2 * step) % brokers)
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas[:2] if random.random() < 0.01 else replicas,
            leader=first,
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(directories[replica] for replica in replicas),
        )


def synthetic_image(topics: int, partitions: int, brokers: int = BROKERS) -> MetadataImage:
    """Return an image of `topics` topics with `partitions` partitions each, equal in every run."""
    random = Random(SEED)
    image = replay_all(MetadataImage.EMPTY, _brokers(random, brokers), brokers, 1)
    directories = [image.cluster.brokers[broker_id].directories[0] for broker_id in range(brokers)]
    records = itertools.chain.from_iterable(
        _topic(random, f"topic-{number:05d}", partitions, directories) for number in range(topics)
    )
    return replay_all(image, records, topics * (partitions + 1), 1)


def _start_job(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the report job on `folder`/snapshot. Its output goes to run.log in that folder."""
    command = [sys.executable, "-m", "app.reports.job", "--snapshot", str(folder / "snapshot")]
    command += ["--out", str(folder / "out"), "--memory", MEMORY, *options]
    java = find_java(folder, "")
    environment = {**os.environ, "JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable}
    with (folder / "run.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)


def _run_job(folder: Path, partitions: int, export: threading.Thread, classes: Path) -> list[tuple[str, float]]:
    """Run the job and the export in parallel. Return (stage, seconds) from the job's progress file."""
    stages: list[tuple[str, float]] = []
    with _start_job(folder, "--awaited-partitions", str(partitions), "--class-archive", str(classes)) as process:
        export.start()
        began, name = time.perf_counter(), "starting Python"
        while process.poll() is None:
            if time.perf_counter() - began > WAIT_S:
                process.kill()
                raise TimeoutError(f"the report took more than {WAIT_S} s")
            progress = folder / "out" / "progress.json"
            now = json.loads(progress.read_text())["name"] if progress.exists() else name
            if now != name:
                stages.append((name, time.perf_counter()))
                name = now
            time.sleep(0.05)
        stages.append((name, time.perf_counter()))
    assert process.returncode == 0, (folder / "run.log").read_text()[-3000:]
    starts = [began, *(end for _, end in stages)]
    return [(stage, end - start) for (stage, end), start in zip(stages, starts, strict=False)]


def _keep_classes(image: MetadataImage, classes: Path) -> Figure:
    """Archive the classes that a small report loads, as the web process does once after the second report."""
    figure = Figure("Spark's classes are kept, once, in the background", "s")
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as temporary:
        folder = Path(temporary)
        export_image(image, "benchmark-cluster", folder / "snapshot")
        began = time.perf_counter()
        with _start_job(folder, "--record-classes", str(classes)) as process:
            assert process.wait(WAIT_S) == 0, (folder / "run.log").read_text()[-3000:]
        figure.add(OURS, time.perf_counter() - began)
    return figure


def _report(image: MetadataImage, partitions: int, name: str, budget_s: float, classes: Path) -> list[Figure]:
    """Make a report as the web process does: the job starts Spark while a thread exports the image."""
    total = Figure(f"{name}: export and job", "s", budget_s)
    exporting = Figure(f"{name}: export, while Spark starts", "s")
    figures = [total, exporting]
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as temporary:
        folder = Path(temporary)
        began = time.perf_counter()

        def export() -> None:
            export_image(image, "benchmark-cluster", folder / "snapshot")
            exporting.add(OURS, time.perf_counter() - began)

        stages = _run_job(folder, partitions, threading.Thread(target=export), classes)
        total.add(OURS, time.perf_counter() - began)
        assert json.loads((folder / "out" / "result.json").read_text())["header"]["partitions"] == partitions
    for stage, seconds in stages:
        figure = Figure(f"{name}: {stage}", "s")
        figure.add(OURS, seconds)
        figures.append(figure)
    return figures


def report(plan: Plan) -> list[Figure]:
    """Measure reports of 1,000,000 partitions (fewer with --quick) and of 30 partitions on three brokers.

    Each is measured as the first report of a new installation, then with Spark's classes archived.
    """
    each = plan.count(100)
    large, small = synthetic_image(TOPICS, each), synthetic_image(10, 3, 3)
    name = f"report, {TOPICS * each:,} partitions"
    with tempfile.TemporaryDirectory(prefix="conclave-bench-classes-") as folder:
        classes = Path(folder) / "spark-classes.jsa"
        first = _report(large, TOPICS * each, name, 30, classes)
        first += _report(small, 30, "report, 30 partitions", 20, classes)[:1]
        kept = _keep_classes(small, classes)
        later = _report(large, TOPICS * each, f"{name}, from the third on", 30, classes)
        later += _report(small, 30, "report, 30 partitions, from the third on", 20, classes)[:1]
    return [*first, kept, *later]
