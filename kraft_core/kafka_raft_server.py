"""KafkaRaftServer: a node as a process, with the roles of process.roles.

`conclave node` calls `run_node`. A start locks the folders, checks meta.properties, recovers the log, then listens. A
failed start is one line of log and exit code 1; nothing is written before the check that failed. SIGTERM and SIGINT
cause an orderly stop; a fatal error ends the process with exit code 1.
Source: Kafka, KafkaRaftServer and SharedServer, Kafka 4.3.1.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from kraft_core.clients.channel_manager import Result
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.messages import ControllerRegistrationRequest
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.voter_set import ReplicaKey
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.controller_registration import ControllerRegistrationManager, Identity
from kraft_core.server.controller_server import ControllerServer
from kraft_core.server.metrics.metrics_http import Gauge, MetricsHttpServer
from kraft_core.server.network.file_limit import raise_file_limit, warn_of_few_files
from kraft_core.server.network.socket_server import SocketServer
from kraft_core.server.node_config import (
    advertised_endpoints,
    connection_quotas,
    follow_connection_limits,
    node_config,
    socket_limits,
)
from kraft_core.server.process_memory import FreeMemory
from kraft_core.storage.files import StorageError
from kraft_core.storage.folder_lock import FolderLock
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from kraft_core.storage.meta_properties import MetaProperties, load_meta_properties
from kraft_core.storage.quorum_state_store import QuorumStateStore

try:
    import uvloop
except ImportError:  # not available on every platform; asyncio's loop is slower
    LOOP_FACTORY: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    LOOP_FACTORY = uvloop.new_event_loop

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_MS: Final = 5_000
"""How long a stopping leader waits for a successor. Source: the shutdown timeout of KafkaRaftClient."""
GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Messages and images are immutable and mostly untracked, so that collections rarely find garbage."""
SWITCH_INTERVAL_S: Final = 0.0005
"""Short, so that the thread of a finished flush can post its result while the event loop is busy."""


class StartupError(Exception):
    """The node cannot start; the message is one line."""


class Role(Protocol):
    """A role of the process: controller or broker."""

    @property
    def listeners(self) -> Sequence[SocketServer]:
        """The listeners of the role, for their counters."""
        ...

    async def stop(self, timeout_ms: int) -> None:
        """Stop in an orderly way within about `timeout_ms`."""


class BrokerPart(Role, Protocol):
    """The interface of the broker role that the process uses."""

    def gauges(self) -> Iterable[Gauge]:
        """Return the gauges of the broker."""
        ...


class KafkaRaftServer:
    """One process with its roles. `failed` resolves with the reason after a fatal error."""

    def __init__(self, config: KafkaConfig) -> None:
        self.config = config
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.controller: ControllerServer | None = None
        self._registration: ControllerRegistrationManager | None = None
        self._broker: BrokerPart | None = None
        self._metrics: MetricsHttpServer | None = None
        self._locks: list[FolderLock] = []
        self._quotas = connection_quotas(config)

    async def start(self) -> None:
        """Start every role. Raises StartupError; nothing is left running then."""
        try:
            properties = self._open_folders()
            meta = properties[self.config.metadata_log_dir]
            if self.config.is_controller:
                await self._start_controller(meta)
            if self.config.is_broker:
                await self._start_broker(properties)
            await self._start_metrics()
        except (StorageError, CorruptBatch) as error:
            await self.stop(0)
            raise StartupError(str(error)) from error
        except OSError as error:
            await self.stop(0)
            listeners = ", ".join(map(str, self.config.listeners))
            raise StartupError(f"Cannot listen on {listeners}: {error.strerror or error}") from error

    def _open_folders(self) -> dict[Path, MetaProperties]:
        """Lock the log directories and check their meta.properties."""
        config = self.config
        folders = list(dict.fromkeys([config.metadata_log_dir, *config.log_dirs]))
        if not config.metadata_log_dir.is_dir():
            raise StartupError(
                f"No readable meta.properties files found. {config.metadata_log_dir} does not exist: "
                "run `conclave format` with this configuration first."
            )
        self._locks = [FolderLock(folder) for folder in folders if folder.is_dir()]
        return load_meta_properties(list(config.log_dirs), config.metadata_log_dir, config.node_id)

    async def _start_controller(self, meta: MetaProperties) -> None:
        config = self.config
        assert meta.directory_id is not None, "load_meta_properties gives every directory an id"
        settings = node_config(config, meta.cluster_id, meta.directory_id, advertised_endpoints(config))
        log_config = LogConfig(segment_bytes=config.metadata_segment_bytes, segment_ms=config.metadata_log_segment_ms)
        store = QuorumStateStore(config.metadata_log_dir)
        store.read()  # raises before the log is touched
        raft_log = KafkaRaftLog.open(config.metadata_log_dir, log_config)
        self.controller = ControllerServer(
            settings,
            raft_log,
            store,
            [(each.name, each.host, each.port) for each in config.controller_listeners],
            limits=socket_limits(config),
            retention=(config.metadata_max_retention_bytes, config.metadata_max_retention_ms),
            security=config.security,
            quotas=self._quotas,
        )
        follow_connection_limits(self._quotas, config, self.controller)
        self.controller.failed.add_done_callback(self._role_failed)
        self._registration = self._register(self.controller, random_uuid())
        await self.controller.start()
        extra = {
            "node_id": config.node_id,
            "cluster_id": meta.cluster_id,
            "directory_id": uuid_to_text(meta.directory_id),
            "ports": ",".join(map(str, self.controller.ports)),
        }
        log.info("controller_started", extra=extra)
        _warn_of_another_directory(self.controller)

    def _register(self, controller: ControllerServer, incarnation_id: UUID) -> ControllerRegistrationManager:
        raft = controller.config.raft
        identity = Identity(
            raft.node_id,
            incarnation_id,
            raft.endpoints,
            {each.name: SecurityProtocol[each.security_protocol] for each in self.config.controller_listeners},
            {name: (feature.minimum, feature.maximum) for name, feature in FEATURES.items()},
        )

        def send(message: ControllerRegistrationRequest, on_done: Callable[[Result], None]) -> None:
            controller.request_active(message, 0, on_done)

        return ControllerRegistrationManager(identity, controller, send)

    async def _start_broker(self, folders: dict[Path, MetaProperties]) -> None:
        from kraft_core.broker.broker_role import BrokerRole  # a controller does not need to load it

        broker = BrokerRole(self.config, folders, self.controller, self._quotas)
        broker.failed.add_done_callback(self._role_failed)
        self._broker = broker
        await broker.start()

    async def _start_metrics(self) -> None:
        """Serve the metrics if `conclave.metrics.port` is set. Raises StartupError."""
        host, port = self.config.conclave_metrics_host, self.config.conclave_metrics_port
        if port is None:
            return
        from kraft_core.server.metrics.node_metrics import (
            NodeMetrics,  # loaded only by a node that serves metrics
        )

        roles: list[Role] = [role for role in (self.controller, self._broker) if role is not None]
        gauges = (lambda: ()) if self._broker is None else self._broker.gauges
        metrics = NodeMetrics(self.controller, lambda: [each for role in roles for each in role.listeners], gauges)
        self._metrics = MetricsHttpServer(host, port, metrics.page)
        try:
            await self._metrics.start()
        except OSError as error:
            await self.stop(0)
            raise StartupError(f"Cannot serve metrics on {host}:{port}: {error.strerror or error}") from error

    def _role_failed(self, failed: "asyncio.Future[str]") -> None:
        if not self.failed.done():
            self.failed.set_result(failed.result())

    async def stop(self, timeout_ms: int) -> None:
        """Stop the broker, which needs a controller for its shutdown, then the controller; release the folders."""
        if self._metrics is not None:
            await self._metrics.stop()
        if self._registration is not None:
            self._registration.close()
        for role in (self._broker, self.controller):
            if role is not None:
                await role.stop(timeout_ms)
        for lock in self._locks:
            lock.release()
        self._locks = []


def _warn_of_another_directory(controller: ControllerServer) -> None:
    """Log if the voter set has this node with another directory id: it will neither vote nor lead (KIP-853)."""
    mine = controller.config.raft
    voters = controller.node.raft.voters
    known = voters.by_id.get(mine.node_id)
    if known is not None and not known.is_voter(ReplicaKey(mine.node_id, mine.directory_id)):
        extra = {
            "node_id": mine.node_id,
            "directory_id": uuid_to_text(mine.directory_id),
            "voter_directory_id": uuid_to_text(known.key.directory_id),
            "remedy": "restore the directory of that id, or remove the old voter and add this one",
        }
        log.error("not_a_voter_with_this_directory", extra=extra)
    elif not voters.by_id:
        extra = {
            "node_id": mine.node_id,
            "meaning": "the metadata log is empty: this node follows until it is added as a voter",
            "remedy": "add it; if it was a voter, its metadata directory is lost: "
            "format it again, remove the old voter, add this one",
        }
        log.error("no_voter_set", extra=extra)


def run_node(config: KafkaConfig) -> int:
    """Run a node until SIGTERM, SIGINT or a fatal error; return the exit code. The caller configures logging."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    warn_of_few_files(raise_file_limit())
    with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
        return runner.run(_run(config))


async def _run(config: KafkaConfig) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = KafkaRaftServer(config)
    try:
        await server.start()
    except StartupError as error:
        log.error("node_not_started", extra={"reason": str(error)})  # noqa: TRY400  # one line, no traceback
        return 1
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    free_memory = FreeMemory()
    free_memory.start()
    server.failed.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    has_failed = server.failed.done()
    if has_failed:
        log.error("node_fatal", extra={"reason": server.failed.result()})
    else:
        log.info("node_stopping", extra={"node_id": config.node_id})
    free_memory.stop()
    await server.stop(0 if has_failed else SHUTDOWN_TIMEOUT_MS)
    log.info("node_stopped", extra={"node_id": config.node_id})
    return 1 if has_failed else 0
