"""The same job on every kind of master that PySpark's own package can start, and on masters that cannot be reached."""

import datetime as dt
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs as arrow_fs

from app.reports.export import export_image
from app.reports.failures import FilesNotSharedError, failure_of
from app.reports.file_systems import Place
from app.reports.java import find_java
from app.reports.lake.compaction import compact
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake
from app.reports.progress import Progress
from app.reports.session import SMALL_JVM
from app.reports.spark_files import files_for_spark
from tests.app.reports.clusters import CLUSTER_ID, random_image
from tests.app.reports.lake.test_compaction import KilledError, killed_at
from tests.app.reports.lake.test_feed import batch, topic
from tests.app.reports.object_store import jars, running_store
from tests.interop.kafka import wait_until

pytestmark = pytest.mark.spark

ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "2",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(find_java(tmp_path_factory.mktemp("java")).home)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snapshot") / "snapshot"
    export_image(random_image(3), CLUSTER_ID, folder)
    return folder


def job(
    snapshot: Path,
    out: Path,
    java: str,
    master: str,
    *options: str,
    conf: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run the report job, and return its process and the header of its result, empty without one."""
    command = [sys.executable, "-m", "app.reports.job", "--snapshot", str(snapshot), "--out", str(out)]
    environment = {**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    environment["CONCLAVE_SPARK_CONF"] = json.dumps(conf or {})
    done = subprocess.run(
        [*command, "--master", master, "--memory", "512m", *options],
        env=environment,
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    written = out / "result.json"
    return done, json.loads(written.read_text())["header"] if written.exists() else {}


@contextmanager
def spark_process(folder: Path, java: str, name: str, *arguments: str, memory: str = "256m") -> Iterator[Path]:
    """Run a main class of Spark until the end of the block, and return the path of its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "JAVA_HOME": java, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_DAEMON_MEMORY": memory, "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
    log = folder / f"{name}.log"
    command = [str(home / "bin" / "spark-class"), *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder) as process,
    ):
        try:
            yield log
        finally:
            process.terminate()


def found(log: Path, pattern: str) -> str:
    """Wait for a line in a log, and return what its group says."""

    def match() -> str | None:
        seen = re.search(pattern, log.read_text(errors="replace"))
        return seen[1] if seen else None

    return wait_until(match, 120, f"'{pattern}' in {log.name}")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, java: str, snapshot: Path) -> dict[str, str]:
    """The header of the report by a Spark in the job's own JVM."""
    done, header = job(snapshot, tmp_path_factory.mktemp("here"), java, "local[2]")
    assert done.returncode == 0, done.stderr[-3000:]
    return header


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, java: str) -> Iterator[str]:
    """The URL of a Spark Connect server that can read S3, but knows neither a store nor a key."""
    folder = tmp_path_factory.mktemp("connect")
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraClassPath": f"{jars() / 'libs'}/*",
        "spark.driver.extraJavaOptions": SMALL_JVM,
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "2",
        "spark.ui.enabled": "false",
    }
    command = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    with spark_process(folder, java, "connect", *command, "spark-internal", memory="512m") as log:
        port = found(log, r"SparkConnectService' on port (\d+)")
        yield f"sc://127.0.0.1:{port}"


def test_a_spark_connect_server_gives_the_report_of_one_process_without_a_java_here(
    tmp_path: Path, connect: str, snapshot: Path, here: dict[str, str]
) -> None:
    done, there = job(snapshot, tmp_path / "there", "/no/java/here", connect)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (there["master"], there["content_sha256"]) == (connect, here["content_sha256"])


def test_the_tasks_of_a_spark_connect_server_are_counted(tmp_path: Path) -> None:
    from pyspark.sql.connect.shell.progress import StageInfo

    class Remote:
        def registerProgressHandler(self, handler: object) -> None:  # noqa: N802 - Spark's name
            self.handler = handler

    remote = Remote()
    with Progress(tmp_path) as progress, progress.watching(remote):
        stages = [StageInfo(1, 4, 3, 0, done=False), StageInfo(2, 6, 0, 0, done=False)]
        remote.handler(stages=stages, inflight_tasks=1, operation_id="x", done=False)
        progress.stage("counting partitions")
        path = tmp_path / "progress.json"

        def counted() -> tuple[int, int]:
            state = json.loads(path.read_text()) if path.exists() else {"tasks_done": 0, "tasks": 0}
            return state["tasks_done"], state["tasks"]

        wait_until(lambda: counted() == (3, 10), 60, "the server's tasks in progress.json")


def test_a_server_that_does_not_see_the_snapshot_has_a_reason_of_its_own(
    tmp_path: Path, connect: str, snapshot: Path
) -> None:
    shutil.copytree(snapshot, tmp_path / "snapshot")
    hidden = Path("/proc/self/cwd/snapshot")  # the server's own working folder is another
    done, _ = job(hidden, tmp_path / "out", "", connect, cwd=tmp_path)
    reason, text = failure_of(done.returncode, tmp_path / "out", done.stderr)
    assert (reason, "/proc/self/cwd/snapshot" in text) == ("FILES_NOT_SHARED", True), f"{text}\n{done.stderr[-3000:]}"


def test_a_list_of_violations_on_another_machine_is_noticed(tmp_path: Path, snapshot: Path) -> None:
    with files_for_spark(snapshot, [], tmp_path, None, {}) as shared, pytest.raises(FilesNotSharedError):
        shared.fetch()


def test_the_report_the_snapshot_and_the_lake_go_through_an_object_store(
    tmp_path: Path, connect: str, snapshot: Path, here: dict[str, str]
) -> None:
    with running_store(tmp_path, "reports") as conf:
        url, lake = "s3a://reports/spark", Lake("s3://reports/lake", conf)
        feed = Feed(lake, CLUSTER_ID, None)
        for offset in range(4):
            feed.add(batch(offset, topic(offset)))
            feed.flush()
        compaction_in_a_store(lake)
        left = Place("s3a://reports/spark", conf)
        options = ["--spark-files", url, "--lake", lake.location]
        done, there = job(snapshot, tmp_path / "out", "", connect, *options, conf=conf)
        assert done.returncode == 0, done.stderr[-3000:]
        assert there["content_sha256"] == here["content_sha256"]
        listed = pq.read_table(tmp_path / "out" / "violations.parquet", columns=["partition"])
        assert listed.num_rows == there_violations(tmp_path / "out")
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert [row["offset"] for row in result["trends"]["balance"]] == [there["offset"]], done.stderr[-3000:]
        files = left.fs.get_file_info(arrow_fs.FileSelector(left.root, allow_not_found=True, recursive=True))
        assert not [info.path for info in files if info.type == arrow_fs.FileType.File], "nothing is left behind"


def compaction_in_a_store(lake: Lake) -> None:
    """A writer that is killed after it has merged, and one that completes it: each row is there once."""

    def rows() -> list[int]:
        files = lake.records_files(CLUSTER_ID)
        return [offset for file in files for offset in lake.read(file.path)["offset"].to_pylist()]

    today = dt.date(2026, 4, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "delete", killed_at(Lake, "delete", 2))
        with pytest.raises(KilledError):
            compact(lake, CLUSTER_ID, today)
    assert rows() == [0, 1, 2, 3]
    assert len(lake.files("records", CLUSTER_ID)) == 4, "the merged file and three of the others"
    assert compact(lake, CLUSTER_ID, today) == 0
    assert rows() == [0, 1, 2, 3]
    assert len(lake.files("records", CLUSTER_ID)) == 1


def there_violations(out: Path) -> int:
    return int(json.loads((out / "result.json").read_text())["body"]["violations"]["total"])


def test_a_standalone_cluster_with_two_workers_gives_the_report_of_one_process(
    tmp_path: Path, java: str, snapshot: Path, here: dict[str, str]
) -> None:
    with ExitStack() as running:
        where = "--host", "127.0.0.1", "--webui-port", "0"
        main = "org.apache.spark.deploy.master.Master"
        log = running.enter_context(spark_process(tmp_path, java, "master", main, *where, "--port", "0"))
        master = found(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(2):
            worker = ["org.apache.spark.deploy.worker.Worker", *where, "--cores", "1", "--memory", "768M"]
            worker += ["--work-dir", str(tmp_path / f"work-{number}"), master]
            running.enter_context(spark_process(tmp_path, java, f"worker-{number}", *worker))
        for number in range(2):
            found(tmp_path / f"worker-{number}.log", r"(Successfully registered)")
        done, there = job(snapshot, tmp_path / "there", java, master, conf=ON_THIS_MACHINE)
        assert done.returncode == 0, done.stderr[-3000:]
        for number in range(2):
            found(tmp_path / f"worker-{number}.log", r"(Launching command|Asked to launch executor)")
    assert (here["master"], there["master"]) == ("local[2]", master)
    assert here["content_sha256"] == there["content_sha256"]


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_unreachable_master_has_a_reason_of_its_own(tmp_path: Path, java: str, snapshot: Path, scheme: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        master = f"{scheme}://127.0.0.1:{closed.getsockname()[1]}"
        done, _ = job(snapshot, tmp_path / "out", java, master, conf=ON_THIS_MACHINE)
    reason, text = failure_of(done.returncode, tmp_path / "out", done.stderr)
    assert (reason, "refused" in text and master in text) == ("MASTER_UNREACHABLE", True), (
        f"{reason} {text}\n{done.stderr[-3000:]}"
    )


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own without any free space. Skips where no disk can be mounted."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted: {mounted.stderr.decode().strip()}")
    try:
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_has_a_reason_of_its_own(full_disk: Path, java: str, snapshot: Path) -> None:
    done, _ = job(snapshot, full_disk, java, "local[2]")
    reason, text = failure_of(done.returncode, full_disk, done.stderr)
    assert (reason, "No space left on device" in done.stderr) == ("OUT_OF_DISK", True), f"{text}\n{done.stderr[-3000:]}"
