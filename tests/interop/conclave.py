"""Our nodes as processes, and requests to any controller, ours or Apache's."""

import asyncio
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    UnregisterBrokerRequest,
)
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.protocol.wire import Message
from kraft_core.storage.format import FormatRequest, format_storage, parse_initial_controllers
from tests.interop import kafka

T = TypeVar("T")


def start(name: str, config: Path, max_files: int | None = None) -> kafka.Process:
    """Start one of our nodes, with at most `max_files` descriptors if given."""
    command = [sys.executable, "-m", "kraft_core", str(config)]
    if max_files is not None:
        command = ["sh", "-c", f'ulimit -n {max_files} && exec "$@"', "sh", *command]
    return kafka.Process(name, command, config.parent)


def new_cluster_id() -> str:
    """Return a random cluster id."""
    return uuid_to_text(random_uuid(None))


@dataclass
class Quorum:
    """Controllers in one folder, formatted with one voter set. Each may run as ours or as Apache's."""

    folder: Path
    size: int
    extra_settings: dict[str, object] = field(default_factory=dict)
    cluster_id: str = field(default_factory=new_cluster_id)
    ports: list[int] = field(default_factory=list)
    processes: dict[int, kafka.Process] = field(default_factory=dict)
    frozen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ports = kafka.free_ports(self.size)
        self.directory_ids = [uuid_to_text(random_uuid(None)) for _ in range(self.size)]
        for node_id in self.node_ids:
            folder = self.folder_of(node_id)
            folder.mkdir(parents=True)
            settings = kafka.controller_settings(node_id, self.port_of(node_id), folder, self.bootstrap)
            kafka.write_properties(self.config_of(node_id), {**settings, **self.extra_settings})

    @property
    def node_ids(self) -> range:
        """Node ids, from 1."""
        return range(1, self.size + 1)

    @property
    def bootstrap(self) -> str:
        """host:port of every controller, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def initial_controllers(self) -> str:
        """The voter set in the form of `format --initial-controllers`."""
        return ",".join(
            f"{node_id}@127.0.0.1:{self.port_of(node_id)}:{self.directory_ids[node_id - 1]}"
            for node_id in self.node_ids
        )

    def port_of(self, node_id: int) -> int:
        """Return the port of a controller."""
        return self.ports[node_id - 1]

    def folder_of(self, node_id: int) -> Path:
        """Return the folder of a controller, with its configuration, output and data."""
        return self.folder / f"node-{node_id}"

    def config_of(self, node_id: int) -> Path:
        """Return the path of a controller's server.properties."""
        return self.folder_of(node_id) / "server.properties"

    def format(
        self, node_id: int, initial_controllers: str | None = None, features: Mapping[str, int] | None = None
    ) -> None:
        """Format with `conclave format --initial-controllers`."""
        folder = self.folder_of(node_id) / "data"
        request = FormatRequest(
            node_id=node_id,
            cluster_id=self.cluster_id,
            log_dirs=[folder],
            metadata_log_dir=folder,
            is_dynamic=True,
            voters=parse_initial_controllers(initial_controllers or self.initial_controllers, "CONTROLLER"),
            features=features or {},
        )
        format_storage(request, print)

    def format_static(self, node_id: int) -> None:
        """Format with `conclave format` for voters named in the configuration."""
        folder = self.folder_of(node_id) / "data"
        request = FormatRequest(
            node_id=node_id, cluster_id=self.cluster_id, log_dirs=[folder], metadata_log_dir=folder, is_dynamic=False
        )
        format_storage(request, print)

    def format_apache(self, node_id: int, features: Mapping[str, int] | None = None) -> None:
        """Format with Apache's command."""
        levels = [part for name, level in (features or {}).items() for part in ("--feature", f"{name}={level}")]
        kafka.format_storage(
            self.config_of(node_id), self.cluster_id, "--initial-controllers", self.initial_controllers, *levels
        )

    def start(self, node_id: int) -> kafka.Process:
        """Start one of our controllers."""
        self.processes[node_id] = start(f"conclave-{node_id}", self.config_of(node_id))
        return self.processes[node_id]

    def start_apache(self, node_id: int) -> kafka.Process:
        """Start one of Apache's controllers."""
        self.processes[node_id] = kafka.start(f"apache-{node_id}", self.config_of(node_id))
        return self.processes[node_id]

    def freeze(self, node_id: int) -> None:
        """Send SIGSTOP. A stopped node is no longer asked for the leader."""
        self.frozen.add(node_id)
        self.processes[node_id].send(signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        """Send SIGCONT."""
        self.processes[node_id].send(signal.SIGCONT)
        self.frozen.discard(node_id)

    def stop_all(self) -> None:
        """Kill the processes that still run."""
        for process in self.processes.values():
            process.kill()

    def printed(self) -> str:
        """Return everything that the processes have printed."""
        return "\n".join(each.output for each in self.processes.values())

    def outputs(self) -> str:
        """Return the ends of all output files, for a failing test."""
        return "\n".join(f"--- {each.name}\n{each.output[-2500:]}" for each in self.processes.values())

    async def leader(self) -> tuple[int, int] | None:
        """Return (node id, epoch) of the leader, from DescribeQuorum on the running nodes; None when none leads."""
        for node_id, process in self.processes.items():
            if process.alive and node_id not in self.frozen:
                found = await describe_quorum(self.port_of(node_id))
                if found is not None and found.leader_id == node_id:
                    return node_id, found.leader_epoch
        return None

    def wait_for_leader(self, timeout_s: float = kafka.PATIENCE_S, *, other_than: int = -1) -> int:
        """Wait for a leader and return its id."""

        async def poll() -> int:
            deadline = time.monotonic() + timeout_s
            while time.monotonic() < deadline:
                found = await self.leader()
                if found is not None and found[0] != other_than:
                    return found[0]
                await asyncio.sleep(0.02)
            raise AssertionError(f"no leader within {timeout_s} s\n{self.outputs()}")

        return asyncio.run(poll())


def make_static(found: Quorum) -> None:
    """Change the configuration to name the voters (kraft.version 0), and format without a voter set."""
    voters = ",".join(f"{node_id}@127.0.0.1:{found.port_of(node_id)}" for node_id in found.node_ids)
    for node_id in found.node_ids:
        folder = found.folder_of(node_id)
        settings = kafka.controller_settings(node_id, found.port_of(node_id), folder, found.bootstrap)
        del settings["controller.quorum.bootstrap.servers"]
        settings["controller.quorum.voters"] = voters
        kafka.write_properties(found.config_of(node_id), {**settings, **found.extra_settings})
        found.format_static(node_id)


@contextmanager
def quorum(folder: Path, size: int, **settings: object) -> Iterator[Quorum]:
    """Yield a quorum whose processes are killed at the end. Settings have underscores for dots."""
    found = Quorum(folder, size, {key.replace("_", "."): value for key, value in settings.items()})
    try:
        yield found
    finally:
        found.stop_all()


@contextmanager
def running_quorum(folder: Path, size: int, **settings: object) -> Iterator[Quorum]:
    """Yield a formatted and started quorum of our controllers that has a leader."""
    with quorum(folder, size, **settings) as found:
        for node_id in found.node_ids:
            found.format(node_id)
        for node_id in found.node_ids:
            found.start(node_id)
        found.wait_for_leader()
        yield found


async def describe_quorum(port: int):
    """Return the partition of a DescribeQuorum response, None when the node does not answer as leader."""
    from kraft_core.protocol.messages import (
        DescribeQuorumRequest,
        DescribeQuorumRequestPartitionData,
        DescribeQuorumRequestTopicData,
    )

    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
    )
    try:
        answer = await call(port, DescribeQuorumRequest(topics=(topic,)), 2, timeout_s=2)
    except (OSError, EOFError, TimeoutError):
        return None
    if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
        return None
    return answer.topics[0].partitions[0]


async def call(port: int, message: Message, version: int, *, timeout_s: float = 10, client_id: str = "test"):
    """Send one request on its own connection and return the response."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(encode_request(message, version, 1, client_id))
            size = int.from_bytes(await reader.readexactly(4))
            return decode_response(message.API_KEY, version, await reader.readexactly(size))[1]
        finally:
            writer.close()


async def retry(
    action: Callable[[], Awaitable[T]], timeout_s: float, errors: tuple[type[Exception], ...], pause_s: float = 0.02
) -> T:
    """Repeat `action` while it raises one of `errors`. Raises the last one after the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return await action()
        except errors:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(pause_s)


FEATURES = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}


class RawBroker:
    """A broker that only registers and sends heartbeats, so that topics can have replicas."""

    def __init__(
        self,
        broker_id: int,
        cluster_id: str,
        client: ControllerClient,
        listener_name: str = "PLAINTEXT",
        rack: str | None = None,
    ) -> None:
        self.broker_id = broker_id
        self._rack = rack
        self._listener_name = listener_name
        self._cluster_id = cluster_id
        self._client = client
        self._incarnation_id = uuid4()
        self.epoch = -1

    async def register(self, *, until_unfenced: bool = True) -> None:
        """Register and be unfenced, or stay fenced. Retries when the leader is lost meanwhile."""
        answer = await self._client.request(
            BrokerRegistrationRequest(
                broker_id=self.broker_id,
                cluster_id=self._cluster_id,
                incarnation_id=self._incarnation_id,
                rack=self._rack,
                listeners=(
                    BrokerRegistrationRequestListener(
                        name=self._listener_name, host="127.0.0.1", port=9000 + self.broker_id, security_protocol=0
                    ),
                ),
                features=tuple(
                    BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in FEATURES.items()
                ),
                log_dirs=(random_uuid(None),),
            ),
            idempotent=True,
        )
        assert answer.error_code == 0, answer
        self.epoch = answer.broker_epoch
        async with asyncio.timeout(kafka.PATIENCE_S):
            while until_unfenced and (await self.heartbeat()).is_fenced:
                await asyncio.sleep(0.01)

    async def heartbeat(self, *, want_fence: bool = False):
        """Send one heartbeat that claims to be caught up."""
        answer = await self._client.request(
            BrokerHeartbeatRequest(
                broker_id=self.broker_id,
                broker_epoch=self.epoch,
                current_metadata_offset=2**62,
                want_fence=want_fence,
                want_shut_down=False,
            ),
            idempotent=True,
        )
        assert answer.error_code == 0, answer
        return answer

    async def leave(self) -> None:
        """Fence and unregister the broker, so that a later test finds none."""
        await self.heartbeat(want_fence=True)
        answer = await self._client.request(UnregisterBrokerRequest(broker_id=self.broker_id), idempotent=True)
        assert answer.error_code in {ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED}, answer

    async def keep_alive(self, interval_s: float = 1.0) -> None:
        """Send heartbeats until cancelled. Errors of an unreachable controller are ignored."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.heartbeat()
            except (ConnectionError, AssertionError):
                continue


def controller_client(bootstrap: str) -> ControllerClient:
    """Yield a client of the active controller."""
    addresses = [address.rpartition(":") for address in bootstrap.split(",")]
    return ControllerClient([(host, int(port)) for host, _, port in addresses])


def create_topics(names: Sequence[str], partitions: int = 1, replication_factor: int = 1) -> CreateTopicsRequest:
    """Return a CreateTopics request."""
    return CreateTopicsRequest(
        timeout_ms=10_000,
        topics=tuple(
            CreateTopicsRequestCreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replication_factor
            )
            for name in names
        ),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value at `share` of a sorted list."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def resident_mb(process: kafka.Process) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024
