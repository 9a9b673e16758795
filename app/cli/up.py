"""`conclave up`: one combined node and the web process under one supervisor, with all data in one folder.

The first start creates server.properties (the user's file from then on, apart from the addresses, which come from the
options), a formatted log directory, and the web process's database. Each child is a process group that logs to a file
in `logs/` (rotated at 16 MiB, five kept). A child that dies is restarted with growing pauses, and all end with the
supervisor.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from app.child_environment import child_environment
from kraft_core.protocol.host_port import host_port
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.voter_set import DEFAULT_LISTENER
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.storage.files import StorageError, create_directory, write_file
from kraft_core.storage.folder_lock import FolderInUseError, FolderLock
from kraft_core.storage.format import FormatRequest, format_storage, standalone_voters
from kraft_core.storage.meta_properties import read_meta_properties
from kraft_core.storage.properties import format_properties, parse_properties

READY_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
STOP_SECONDS: Final = {"web": 10.0, "node": 30.0}
BACKOFF_FIRST_SECONDS: Final = 1.0
BACKOFF_MAX_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
TAIL_LINES: Final = 5
LOG_BYTES_MAX: Final = 16 << 20
LOGS_KEPT: Final = 5
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared with
_PR_SET_PDEATHSIG: Final = 1
_COMMENT: Final = """Settings of the node that `conclave up` runs; the keys are Kafka's.
Change what you like: only listeners, advertised.listeners and controller.quorum.bootstrap.servers
are set again at each start, from the options of `conclave up`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `conclave up`."""

    data: Path
    host: str = "127.0.0.1"
    http_port: int = 8080
    kafka_port: int = 9092
    controller_port: int = 9093

    @property
    def reachable_host(self) -> str:
        """Name under which programs on this machine reach the listeners."""
        return "127.0.0.1" if self.host in _WILDCARDS else self.host


class UpError(StorageError):
    """`up` cannot start. The message is one line."""


@dataclass(slots=True)
class Child:
    """One supervised program."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log_file: Path
    is_given_secrets: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float | None = None
    backoff_seconds: float = field(default=BACKOFF_FIRST_SECONDS)

    def start(self) -> None:
        """Start the program in its own process group, with its output in the log file."""
        inherited = os.environ if self.is_given_secrets else child_environment()
        with self.log_file.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **self.environment},
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  # no threads here
            )
        self.started_at = time.monotonic()
        self.restart_at = None

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while the program runs."""
        return None if self.process is None else self.process.poll()

    def stop(self) -> None:
        """Stop the program by SIGTERM, and kill the whole group by SIGKILL when it takes too long."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS[self.name])
        except subprocess.TimeoutExpired:
            _print(f"{self.name} did not stop within {STOP_SECONDS[self.name]:.0f} s and is killed")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def last_log_lines(self) -> str:
        """Return the last lines of the log."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])


def _end_with_parent() -> None:
    """In the child: ask Linux for a SIGTERM when the supervisor dies, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _print(text: str) -> None:
    print(text, flush=True)


def run_up(options: UpOptions) -> int:
    """Run until Ctrl-C or SIGTERM, and return the exit code.

    Raises StorageError, ConfigError and OSError before anything is started.
    """
    data = options.data.resolve()
    create_directory(data)
    try:
        lock = FolderLock(data)
    except FolderInUseError as error:
        raise UpError(f"{data} is in use by another `conclave up`") from error
    try:
        _refuse_busy_ports(options)
        config_path = prepare_data(options, data)
        return _Supervisor(options, data, config_path, _cluster_id(config_path)).run()
    finally:
        lock.release()


def _refuse_busy_ports(options: UpOptions) -> None:
    ports = {"http": options.http_port, "kafka": options.kafka_port, "controller": options.controller_port}
    for name, port in ports.items():
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((options.host, port))
            except OSError as error:
                reason = error.strerror or str(error)
                raise UpError(
                    f"cannot listen on {host_port(options.host, port)}: {reason}; choose another with --{name}-port"
                ) from error
    if len(set(ports.values())) < len(ports):
        raise UpError("--http-port, --kafka-port and --controller-port must differ")


def prepare_data(options: UpOptions, data: Path) -> Path:
    """Write or update server.properties, format the log directory on first use, and return the properties file.

    Raises StorageError, ConfigError.
    """
    path = data / "server.properties"
    properties = parse_properties(path.read_text(encoding="utf-8")) if path.exists() else _first_properties(data)
    wanted = {**properties, **_addresses(options)}
    if not path.exists() or wanted != properties:
        write_file(path, format_properties(wanted, _COMMENT).encode())
    config = KafkaConfig.load(path)
    if read_meta_properties(config.metadata_log_dir) is None:
        listener = config.advertised_controller_listeners[0]
        name = config.controller_listener_names[0]
        request = FormatRequest(
            node_id=config.node_id,
            cluster_id=uuid_to_text(random_uuid()),
            log_dirs=config.log_dirs,
            metadata_log_dir=config.metadata_log_dir,
            is_dynamic=True,
            has_broker_role=True,
            voters=standalone_voters(config.node_id, listener.host, listener.port, name),
        )
        format_storage(request, _print)
    path.chmod(0o600)
    for folder in ("logs", "web"):  # both contain the one-time link
        create_directory(data / folder)
    for folder in ("logs", "web", "kafka", "reports"):  # an older release may have left them open to others
        if (data / folder).is_dir():
            (data / folder).chmod(0o700)
    return path


def rotate_log(path: Path, bytes_max: int = LOG_BYTES_MAX, kept: int = LOGS_KEPT) -> None:
    """Rename a log that has grown to `path.1`, the previous one to `path.2`, and so on; keep the newest `kept`.

    The child keeps writing to its open file (in append mode), so the file is copied and truncated. A line written
    between the two is lost.
    """
    if not path.exists() or path.stat().st_size <= bytes_max:
        return
    for number in range(kept, 1, -1):
        older = path.with_name(f"{path.name}.{number - 1}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number}"))
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)


def _first_properties(data: Path) -> dict[str, str]:
    """Return the settings of a single combined node: one replica of everything, since there is one broker."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": DEFAULT_LISTENER,
        "log.dirs": str(data / "kafka"),
        "num.partitions": "1",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # after a crash the broker cannot register until its old session has expired; nothing else waits for that here
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
    }


def _addresses(options: UpOptions) -> dict[str, str]:
    def url(name: str, host: str, port: int) -> str:
        return f"{name}://{host_port(host, port)}"

    bound = "" if options.host in _WILDCARDS else options.host
    shown = socket.getfqdn() if options.host in _WILDCARDS else options.host
    kafka, controller = options.kafka_port, options.controller_port
    advertised_controller = url(DEFAULT_LISTENER, options.reachable_host, controller)
    return {
        "listeners": f"{url('PLAINTEXT', bound, kafka)},{url(DEFAULT_LISTENER, bound, controller)}",
        "advertised.listeners": f"{url('PLAINTEXT', shown, kafka)},{advertised_controller}",
        "controller.quorum.bootstrap.servers": host_port(options.reachable_host, controller),
    }


def _cluster_id(config_path: Path) -> str | None:
    """Return the cluster id that the node's folder is formatted for. The web process follows this cluster."""
    properties = read_meta_properties(KafkaConfig.load(config_path).metadata_log_dir)
    return None if properties is None else properties.cluster_id


class _Supervisor:
    """Starts both children, monitors them and stops them."""

    def __init__(self, options: UpOptions, data: Path, config_path: Path, cluster_id: str | None) -> None:
        self._options = options
        self._data = data
        self._is_stopping = (
            False  # a plain flag: a signal handler must not take a lock that the interrupted code may hold
        )
        program = [sys.executable, "-P", "-m", "app.cli.main"]
        web_environment = {
            "CONCLAVE_BOOTSTRAP_CONTROLLERS": host_port(options.reachable_host, options.controller_port),
            "CONCLAVE_DATA_DIR": str(data),
            "CONCLAVE_HOST": options.host,
            "CONCLAVE_HTTP_PORT": str(options.http_port),
        }
        if cluster_id is not None and "CONCLAVE_CLUSTER_ID" not in os.environ:
            web_environment["CONCLAVE_CLUSTER_ID"] = cluster_id
        if options.host in _WILDCARDS and "CONCLAVE_ALLOWED_HOSTS" not in os.environ:
            web_environment["CONCLAVE_ALLOWED_HOSTS"] = f"{socket.gethostname()},{socket.getfqdn()}"
        logs = data / "logs"
        self._children = [
            Child("node", [*program, "node", "-c", str(config_path)], {}, logs / "node.log"),
            Child("web", [*program, "web"], web_environment, logs / "web.log", is_given_secrets=True),
        ]

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_stop_signal)
        try:
            for child in self._children:
                child.start()
            failure = self._wait_until_ready()
            if failure is not None:
                print(f"conclave: {failure}", file=sys.stderr, flush=True)
                return 1
            if not self._is_stopping:
                self._announce()
            while not self._stops_within(POLL_SECONDS):
                self._watch()
            _print("Stopping …")
        finally:
            for child in reversed(self._children):
                child.stop()
        _print("Stopped.")
        return 0

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _stops_within(self, seconds: float) -> bool:
        if not self._is_stopping:
            time.sleep(seconds)
        return self._is_stopping

    @property
    def _base_url(self) -> str:
        return f"http://{host_port(self._options.reachable_host, self._options.http_port)}"

    def _wait_until_ready(self) -> str | None:
        """Wait until the web process is ready, which needs the node. Returns the failure, None on success."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._stops_within(POLL_SECONDS):
            for child in self._children:
                if child.exit_code is not None:
                    ended = f"{child.name} ended with exit code {child.exit_code}"
                    return f"{ended}; {child.log_file} says:\n{child.last_log_lines()}"
            if _answers(f"{self._base_url}/readyz"):
                return None
            if time.monotonic() > deadline:
                return f"not ready within {READY_SECONDS:.0f} s; see {self._data / 'logs'}"
        return None

    def _announce(self) -> None:
        _print(f"Conclave is running; Ctrl-C stops it.\n  Dashboard  {self._base_url}")
        link = self._data / "web" / "login-link"
        if link.exists():
            _print(f"  Log in     {link.read_text(encoding='utf-8').strip()}  (works once)")
        kafka = host_port(self._options.reachable_host, self._options.kafka_port)
        _print(f"  Kafka      {kafka}\n  Data       {self._data}")

    def _watch(self) -> None:
        """Restart children that died, after a pause that grows while they keep dying."""
        now = time.monotonic()
        for child in self._children:
            rotate_log(child.log_file)
            if child.restart_at is not None:
                if now >= child.restart_at:
                    child.start()
            elif child.exit_code is not None:
                if now - child.started_at > STEADY_SECONDS:
                    child.backoff_seconds = BACKOFF_FIRST_SECONDS
                _print(
                    f"{child.name} ended with exit code {child.exit_code} and is restarted in "
                    f"{child.backoff_seconds:.0f} s; {child.log_file} says:\n{child.last_log_lines()}"
                )
                child.restart_at = now + child.backoff_seconds
                child.backoff_seconds = min(BACKOFF_MAX_SECONDS, child.backoff_seconds * 2)


def _answers(url: str) -> bool:
    """Return whether a GET of our own address is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # always http:// to this machine
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False
