"""Apache Kafka 4.3.1 for the tests: its jars, its nodes as processes, its tools.

`python -m tests.interop.kafka` fetches the jars with Maven into the user's cache folder and prints their path; a test
does the same on first use. Without a JDK or Maven a test is skipped with one line, but fails with the environment
variable CI=true.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

import pytest

from conclave.testing.free_ports import free_ports

T = TypeVar("T")

VERSION = "4.3.1"
PATIENCE_S = 90
"""How long to wait for what must happen. It is no measurement, but long enough for a busy machine."""
JVM_OPTIONS = ("-Xmx512m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
ARTIFACTS = ("kafka_2.13", "kafka-tools", "kafka-shell")
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
{dependencies}
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
<version>2.25.4</version></dependency>
</dependencies></project>
"""
DEPENDENCY = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
LOG4J = """<Configuration status="WARN"><Appenders><Console name="out">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="${sys:conclave.log.level:-INFO}"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


class KafkaUnavailableError(Exception):
    """Apache Kafka cannot be run here; the message says what is missing."""


def cache_folder() -> Path:
    """Return the folder of the jars, shared by all checkouts of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "apache-kafka" / VERSION


def fetch() -> Path:
    """Return the folder of the jars, after fetching them with Maven if missing. Raises KafkaUnavailableError."""
    home = cache_folder()
    if shutil.which("javac") is None:
        raise KafkaUnavailableError("A JDK is missing (apt install default-jdk-headless)")
    if not (home / "libs" / f"kafka_2.13-{VERSION}.jar").exists() or not (home / "done").exists():
        if shutil.which("mvn") is None:
            raise KafkaUnavailableError(
                "Maven is missing (apt install maven), and Apache Kafka's jars are not in the cache folder"
            )
        (home / "pom").mkdir(parents=True, exist_ok=True)
        dependencies = "\n".join(DEPENDENCY.format(artifact, VERSION) for artifact in ARTIFACTS)
        (home / "pom" / "pom.xml").write_text(POM.format(dependencies=dependencies))
        command = ["mvn", "-q", "-B", "-f", str(home / "pom" / "pom.xml"), "dependency:copy-dependencies"]
        outcome = subprocess.run([*command, f"-DoutputDirectory={home / 'libs'}"], capture_output=True, text=True)
        if outcome.returncode:
            raise KafkaUnavailableError(
                f"Maven could not fetch Apache Kafka {VERSION}: {outcome.stdout.strip()[-500:]}"
            )
        (home / "done").touch()
    if not (home / "log4j2.xml").exists() or (home / "log4j2.xml").read_text() != LOG4J:
        (home / "log4j2.xml").write_text(LOG4J)
    return home


def require() -> Path:
    """Return the folder of the jars. Without them, skip the test, or fail it in CI."""
    try:
        return fetch()
    except KafkaUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(f"Apache Kafka is not available: {error}")


def wait_until(
    condition: Callable[[], T],
    timeout_s: float,
    what: str,
    interval_s: float = 0.1,
    not_yet: tuple[type[Exception], ...] = (),
) -> T:
    """Poll until `condition` is true and return its value. After the deadline the test fails with `what`.

    Exceptions in `not_yet` count as false.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        raised: Exception | None = None
        try:
            value = condition()
            if value:
                return value
        except not_yet as error:
            raised = error
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout_s} s: {what}{'' if raised is None else f'; {raised!r}'}"
            ) from raised
        time.sleep(interval_s)


class Process:
    """A child process with its output in a file, killed only by its own id."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log_file = folder / f"{name}.out"
        with self.log_file.open("ab") as output:
            self.popen = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, **(env or {})}
            )

    @property
    def output(self) -> str:
        """Return everything that the process has printed."""
        return self.log_file.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.popen.poll() is None

    def wait_for_output(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the process has printed `text`. Fails if it ends first."""

        def seen() -> bool:
            if text in self.output:
                return True
            assert self.alive, f"{self.name} ended with {self.popen.returncode}:\n{self.output[-3000:]}"
            return False

        try:
            wait_until(seen, timeout_s, f"{self.name} prints {text!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output[-3000:]}") from None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self.alive:
            self.popen.kill()
        self.popen.wait(PATIENCE_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.popen.send_signal(number)

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Send SIGTERM, wait and return the exit code; SIGKILL when it takes too long."""
        if self.alive:
            self.popen.terminate()
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop within {timeout_s} s:\n{self.output[-3000:]}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def java(main_class: str, *arguments: str, log_level: str = "INFO") -> list[str]:
    """Return the command line that runs a class of Apache Kafka."""
    home = require()
    logging = [f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}", f"-Dconclave.log.level={log_level}"]
    return ["java", *JVM_OPTIONS, *logging, "-cp", f"{home / 'libs'}/*", main_class, *arguments]


def tool(main_class: str, *arguments: str, stdin: str = "", timeout_s: float = 2 * PATIENCE_S) -> str:
    """Run one of Kafka's tools and return its output. The test fails if the tool fails."""
    outcome = subprocess.run(
        java(main_class, *arguments, log_level="ERROR"), input=stdin, capture_output=True, text=True, timeout=timeout_s
    )
    assert outcome.returncode == 0, f"{main_class} {' '.join(arguments)}:\n{outcome.stdout}\n{outcome.stderr}"
    return outcome.stdout


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    """Write a server.properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def format_storage(config: Path, cluster_id: str, *arguments: str) -> None:
    """Format a folder with Apache's kafka-storage."""
    tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config), *arguments)


def start(name: str, config: Path) -> Process:
    """Start one of Apache's nodes with the roles of its server.properties."""
    return Process(name, java("kafka.Kafka", str(config)), config.parent)


def controller_settings(node_id: int, port: int, folder: Path, bootstrap: str) -> dict[str, object]:
    """Return the settings of a controller in a dynamic quorum, for Apache's node or ours."""
    return {
        "process.roles": "controller",
        "node.id": node_id,
        "controller.quorum.bootstrap.servers": bootstrap,
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": folder / "data",
    }


def broker_settings(node_id: int, port: int, folder: Path, bootstrap: str) -> dict[str, object]:
    """Return the settings of a broker whose internal topics have one replica."""
    return {
        "process.roles": "broker",
        "node.id": node_id,
        "controller.quorum.bootstrap.servers": bootstrap,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }


@contextmanager
def broker(
    folder: Path, node_id: int, bootstrap: str, cluster_id: str, **more: object
) -> Iterator[tuple[Process, str]]:
    """Yield the process and bootstrap address of one of Apache's brokers. Settings have underscores for dots."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    settings = broker_settings(node_id, port, folder, bootstrap)
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    config = write_properties(folder / "server.properties", settings)
    format_storage(config, cluster_id, "-N")
    with start(f"apache-broker-{node_id}", config) as process:
        yield process, f"127.0.0.1:{port}"


if __name__ == "__main__":
    try:
        print(fetch())
    except KafkaUnavailableError as error:
        sys.exit(f"Apache Kafka {VERSION} is not available: {error}")
