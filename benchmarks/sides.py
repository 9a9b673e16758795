"""The sides of a comparison, and clusters of one side: new folders, real processes, brokers registered over the wire.

Both sides get the same server.properties, formatted folders and requests. Apache's runs with the options of its start
script (G1, the full JIT) and a heap of 512 MB to 1 GB.
"""

import asyncio
import io
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from kraft_core.protocol.messages import BrokerHeartbeatRequest
from tests.interop import conclave, kafka

BROKERS = (101, 102, 103)
SETTINGS = {"broker.session.timeout.ms": 600_000, "auto.leader.rebalance.enable": "false"}
"""For both sides: the registered brokers do not run, and expired sessions or elections would disturb the figures."""
FETCH_AGE_MS = 2_000
"""Age of the last Fetch at which a follower counts as gone; it fetches every 500 ms."""
HEAP = "1g"
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class Side:
    """One side. `linger_ms` is controller.quorum.append.linger.ms, None for its default."""

    name: str
    is_apache: bool
    linger_ms: int | None = None

    @property
    def settings(self) -> dict[str, object]:
        """Return this side's configs in addition to the common ones."""
        return {} if self.linger_ms is None else {"controller.quorum.append.linger.ms": self.linger_ms}


OURS = Side("ours", is_apache=False)
APACHE = Side("apache", is_apache=True)
APACHE_NO_LINGER = Side("apache, linger 0", is_apache=True, linger_ms=0)
WITH_LINGER = (OURS, APACHE, APACHE_NO_LINGER)
PLAIN = (OURS, APACHE)


def missing_for_apache() -> str | None:
    """Return what is missing to run Apache Kafka, None when it can run."""
    try:
        kafka.fetch()
    except kafka.KafkaUnavailableError as missing:
        return str(missing)
    return None


def apache_command(heap: str = HEAP) -> list[str]:
    """Return the java command up to the class name. `heap` is the maximum heap."""
    home = kafka.fetch()
    logging = [f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}", "-Dconclave.log.level=WARN"]
    return ["java", "-Xms512m", f"-Xmx{heap}", *JVM_OPTIONS, *logging, "-cp", f"{home / 'libs'}/*"]


class Cluster:
    """Controllers of one side in new folders. Nodes are started one by one or by `start`."""

    def __init__(
        self, side: Side, folder: Path, size: int, heap: str = HEAP, features: Mapping[str, int] | None = None
    ) -> None:
        self.side = side
        self._heap = heap
        self.quorum = conclave.Quorum(folder, size, {**SETTINGS, **side.settings})
        self.leader_id = -1
        self.broker_epochs: dict[int, int] = {}
        with redirect_stdout(io.StringIO()):
            for node_id in self.quorum.node_ids:
                self.quorum.format(node_id, features=features)

    def start_node(self, node_id: int) -> kafka.Process:
        """Start one node of this side."""
        if not self.side.is_apache:
            return self.quorum.start(node_id)
        config = self.quorum.config_of(node_id)
        process = kafka.Process(
            f"apache-{node_id}", [*apache_command(self._heap), "kafka.Kafka", str(config)], config.parent
        )
        self.quorum.processes[node_id] = process
        return process

    def start(self) -> None:
        """Start all nodes and wait for a leader."""
        for node_id in self.quorum.node_ids:
            self.start_node(node_id)
        self.wait_for_leader()

    def wait_for_leader(self, timeout_s: float = 60) -> int:
        """Wait for a leader, store its id and return it."""
        self.leader_id = self.quorum.wait_for_leader(timeout_s)
        return self.leader_id

    @property
    def leader_port(self) -> int:
        """Return the port of the last known leader."""
        return self.quorum.port_of(self.leader_id)

    @property
    def leader_process(self) -> kafka.Process:
        """Return the process of the last known leader."""
        return self.quorum.processes[self.leader_id]

    def leader_epoch(self) -> int:
        """Return the epoch that the last known leader reports."""
        found = asyncio.run(conclave.describe_quorum(self.leader_port))
        assert found is not None, "the leader does not respond"
        return int(found.leader_epoch)

    def register_brokers(self) -> None:
        """Register three brokers and unfence them."""

        async def register() -> None:
            client = conclave.controller_client(self.quorum.bootstrap)
            for broker_id in BROKERS:
                broker = conclave.RawBroker(broker_id, self.quorum.cluster_id, client)
                await conclave.retry(broker.register, 30, (ConnectionError, AssertionError))
                self.broker_epochs[broker_id] = broker.epoch
            client.close()

        asyncio.run(register())

    def heartbeat_of(self, broker_id: int) -> BrokerHeartbeatRequest:
        """Return a heartbeat of a registered broker."""
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.broker_epochs[broker_id],
            current_metadata_offset=2**62,
            want_fence=False,
            want_shut_down=False,
        )

    def wait_until_caught_up(self, timeout_s: float = 60) -> None:
        """Wait until every voter runs and has the leader's log, so that the next kill leaves a majority."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.wait_for_leader()
            found = asyncio.run(conclave.describe_quorum(self.leader_port))
            if found is not None and found.high_watermark > 0:
                others = [voter for voter in found.current_voters if voter.replica_id != self.leader_id]
                now_ms = time.time() * 1000
                fresh = [now_ms - voter.last_fetch_timestamp < FETCH_AGE_MS for voter in others]
                near = [voter.log_end_offset >= found.high_watermark for voter in others]
                if len(others) == self.quorum.size - 1 and all((*fresh, *near, *map(_listens, self.quorum.ports))):
                    return
            time.sleep(0.05)
        raise AssertionError(f"a follower did not catch up within {timeout_s} s\n{self.quorum.outputs()}")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def cluster(side: Side, size: int, heap: str = HEAP, features: Mapping[str, int] | None = None) -> Iterator[Cluster]:
    """Yield a formatted cluster that is not started. Its processes are killed and its folders removed at the end."""
    with tempfile.TemporaryDirectory(prefix="conclave-bench-", ignore_cleanup_errors=True) as folder:
        found = Cluster(side, Path(folder) / "quorum", size, heap, features)
        try:
            yield found
        finally:
            found.quorum.stop_all()


@contextmanager
def running(side: Side, size: int, heap: str = HEAP, features: Mapping[str, int] | None = None) -> Iterator[Cluster]:
    """Yield a running cluster with a stable leader and three registered brokers; `features` replace default levels."""
    with cluster(side, size, heap, features) as found:
        found.start()
        found.register_brokers()
        found.wait_until_caught_up()  # the leader may change while the last node starts
        yield found
