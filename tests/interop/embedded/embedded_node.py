"""A combined node of ours, broker and controller in one process, for tests with real clients."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.messages import MetadataRequest, MetadataResponse
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.storage.format import FormatRequest, format_storage, parse_initial_controllers
from tests.interop import conclave, kafka


@dataclass
class EmbeddedNode:
    """One node with `process.roles=broker,controller` in a folder."""

    folder: Path
    extra_settings: dict[str, object] = field(default_factory=dict)
    process: kafka.Process | None = None
    max_files: int | None = None

    def __post_init__(self) -> None:
        self.port, self.controller_port = kafka.free_ports(2)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "server.properties"
        kafka.write_properties(
            self.config,
            {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
                "log.dirs": self.data,
                "offsets.topic.replication.factor": 1,
                "offsets.topic.num.partitions": 4,
                "group.initial.rebalance.delay.ms": 0,
                **self.extra_settings,
            },
        )
        directory_id = uuid_to_text(random_uuid(None))
        voters = f"1@127.0.0.1:{self.controller_port}:{directory_id}"
        request = FormatRequest(
            node_id=1,
            cluster_id=conclave.new_cluster_id(),
            log_dirs=[self.data],
            metadata_log_dir=self.data,
            is_dynamic=True,
            has_broker_role=True,
            voters=parse_initial_controllers(voters, "CONTROLLER"),
        )
        format_storage(request, lambda line: None)

    @property
    def data(self) -> Path:
        """The log.dirs folder."""
        return self.folder / "data"

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and wait until it reports that it serves clients."""
        before = 0 if self.process is None else self.process.output.count("broker_started")
        self.process = conclave.start("node", self.config, self.max_files)
        process = self.process
        kafka.wait_until(
            lambda: process.output.count("broker_started") > before or not process.alive,
            kafka.PATIENCE_S,
            "broker_started",
            interval_s=0.02,
        )
        assert process.alive, process.output

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self.process is not None
        self.process.kill()

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code."""
        assert self.process is not None
        self.process.popen.terminate()
        return self.process.popen.wait(kafka.PATIENCE_S)

    def metadata(self) -> MetadataResponse:
        """Return the metadata of all topics from the broker."""

        async def ask() -> MetadataResponse:
            connection = await KafkaConnection.open("127.0.0.1", self.port, "test")
            try:
                response = await connection.request(MetadataRequest(topics=None))
            finally:
                connection.close()
            assert isinstance(response, MetadataResponse)
            return response

        return asyncio.run(ask())


@contextmanager
def running_node(folder: Path, *, max_files: int | None = None, **extra_settings: object) -> Iterator[EmbeddedNode]:
    """Yield a started node, killed at the end. Settings have underscores for dots."""
    settings = {name.replace("_", "."): value for name, value in extra_settings.items()}
    node = EmbeddedNode(folder, settings, max_files=max_files)
    try:
        node.start()
        yield node
    finally:
        node.kill()
