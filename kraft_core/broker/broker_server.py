"""The broker of a node: listeners, registration, metadata, logs and request handlers.

Start, in this order: bind the listeners (requests are queued), register, catch up with the metadata until they contain
the registration, recover the logs that the metadata assign to this broker, follow the image, answer requests, ask the
controller to unfence the broker.

Stop, in this order: controlled shutdown, close the listeners, close the logs, write the clean-shutdown files.

Source: BrokerServer, Kafka 4.3.1.
"""

import asyncio
import logging
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kraft_core.broker.alter_partition_manager import AlterPartitionManager
from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.kafka_apis import KafkaApis
from kraft_core.broker.assignments_manager import AssignmentsManager
from kraft_core.broker.auto_topic_creation_manager import AutoTopicCreationManager
from kraft_core.broker.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleConfig, BrokerLifecycleManager
from kraft_core.broker.caught_up_image import CaughtUpImage, is_caught_up
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig
from kraft_core.broker.coordinator.group_coordinator_service import GroupCoordinatorService
from kraft_core.broker.feature_levels import FeatureLevels
from kraft_core.broker.log.checkpoints import CorruptCheckpointError
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.broker.producer_id_manager import ProducerIdManager
from kraft_core.broker.recurring import Recurring
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.broker.slices import Slices
from kraft_core.broker.waiting_requests import WaitingRequests
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import Endpoint, MetadataImage
from kraft_core.protocol.metadata_records import ConfigRecord
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.protocol.wire import Message
from kraft_core.server.clock import Clock
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.metrics.metrics_http import Gauge
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.server.network.listener_logins import listener_logins, token_finder
from kraft_core.server.network.request import Request
from kraft_core.server.network.socket_server import SocketServer
from kraft_core.server.node_config import socket_limits

log = logging.getLogger(__name__)

_ASSIGNMENT_INTERVAL_MS: Final = 500
_ISR_INTERVAL_MS: Final = 100
_REMINDER_S: Final = 60
_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, never bound


class BrokerServer:
    """One broker.

    `failed` resolves with a reason when the broker cannot continue; `running` is set once the broker is unfenced.
    """

    def __init__(
        self,
        config: KafkaConfig,
        source: MetadataSource,
        *,
        cluster_id: str,
        directories: Sequence[LogDirectory],
        controllers: Sequence[tuple[str, int]],
        quotas: ConnectionQuotas,
    ) -> None:
        self.config = config
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.running = asyncio.Event()
        self._source = source
        self._quotas = quotas
        self._cluster_id = cluster_id
        self._incarnation_id = uuid.uuid4()
        self._clock = Clock()
        node_id = config.node_id
        self._channels = [
            NodeToControllerChannelManager(source, controllers, node_id, cluster_id, config.security.controllers)
            for _ in range(2)
        ]
        heartbeats, forwarding = self._channels
        self._metadata = MetadataCache(source, node_id, config.originals)
        self.logs = LogManager(
            list(directories), _log_manager_config(config), self._metadata.log_config, self._clock.now_ms
        )
        self.replicas = ReplicaManager(node_id, self.logs, self._clock.now_ms)
        self.logs.failures.on_failure(self._directory_failed)
        self._heartbeats = heartbeats
        self._lifecycle: BrokerLifecycleManager | None = None
        self._context = self._make_context(forwarding)
        self._apis = KafkaApis(self._context)
        alter_partition = AlterPartitionManager(self.replicas, forwarding, self._broker_epoch)
        self._recurring = [Recurring(_ISR_INTERVAL_MS, alter_partition.shrink_isrs)]
        if len(directories) > 1:  # a single directory needs no assignment
            assignments = AssignmentsManager(self.replicas, forwarding, self._broker_epoch)
            self._recurring.append(Recurring(_ASSIGNMENT_INTERVAL_MS, assignments.assign))
        self._waiting: WaitingRequests | None = WaitingRequests()
        self._servers: list[SocketServer] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._starting: asyncio.Task[None] | None = None

    def _make_context(self, forwarding: NodeToControllerChannelManager) -> BrokerContext:
        context: BrokerContext
        config = self.config

        def spawn(work: object) -> None:
            context.spawn(work)  # type: ignore[arg-type] # checked where spawn is passed on

        topic_creation = AutoTopicCreationManager(config, forwarding, spawn)
        slices = Slices()
        coordinator = GroupCoordinatorService(
            _coordinator_config(config),
            self._metadata,
            self.replicas,
            topic_creation,
            self._clock.now_ms,
            spawn,
            slices,
        )
        context = BrokerContext(
            config=config,
            cluster_id=self._cluster_id,
            metadata=self._metadata,
            replicas=self.replicas,
            controller=forwarding,
            coordinator=coordinator,
            producer_ids=ProducerIdManager(config.node_id, self._broker_epoch, forwarding),
            topic_creation=topic_creation,
            slices=slices,
            clock_ms=self._clock.now_ms,
            broker_epoch=self._broker_epoch,
        )
        return context

    def _broker_epoch(self) -> int:
        return -1 if self._lifecycle is None else self._lifecycle.broker_epoch

    @property
    def ports(self) -> list[int]:
        """Ports of the listeners, in the order of the configuration."""
        return [server.port for server in self._servers]

    @property
    def listeners(self) -> Sequence[SocketServer]:
        """The listeners, for their counters."""
        return self._servers

    def gauges(self) -> Iterable[Gauge]:
        """Return the gauges of the group coordinator."""
        return self._context.coordinator.groups.gauges()

    # -- start

    async def start(self) -> None:
        """Bind the listeners and start the rest in the background. Raises OSError when a listener cannot be bound."""
        tokens = token_finder(lambda: self._source.image, self.config.delegation_token_secret_key, self._clock)
        login_of = listener_logins(self.config.security, self._apis.api_versions, lambda: self._source.image, tokens)
        for listener in self.config.broker_listeners:
            server = SocketServer(
                listener.host,
                listener.port,
                self._handle,
                socket_limits(self.config),
                listener_name=listener.name,
                login=login_of(listener.name),
                quotas=self._quotas,
            )
            await server.start()
            self._servers.append(server)
        self._starting = asyncio.create_task(self._guarded_start())

    async def _guarded_start(self) -> None:
        try:
            await self._start()
        except (OSError, CorruptCheckpointError) as error:
            self._fail(f"A log directory cannot be used: {error}")
        except Exception as error:  # a bug must end the node, not leave it half started
            log.exception("broker_start_failed")
            self._fail(f"The broker could not start: {error}")

    async def _start(self) -> None:
        self._lifecycle = lifecycle = await self._register()
        caught_up = await self._catch_up(lifecycle)
        await self.logs.load(caught_up)
        image = self._source.image
        self._unsubscribe = self._source.subscribe(self._on_image)
        self.replicas.on_image(MetadataImage.EMPTY, caught_up.image, ())
        self.replicas.on_image(caught_up.image, image, ())
        self.logs.update_configs()
        self.logs.start()
        self._context.coordinator.start()
        for recurring in self._recurring:
            recurring.start()
        self._serve()
        lifecycle.set_ready_to_unfence()
        await lifecycle.unfenced.wait()
        self.running.set()
        extra = {"broker_id": self.config.node_id, "ports": ",".join(map(str, self.ports))}
        log.info("broker_started", extra=extra)

    async def _register(self) -> BrokerLifecycleManager:
        """Start the registration. The logs stay untouched until the quorum has committed it."""
        previous_epoch = await self.logs.run_io(self.logs.previous_broker_epoch)
        lifecycle = BrokerLifecycleManager(
            BrokerLifecycleConfig(
                heartbeat_interval_ms=self.config.broker_heartbeat_interval_ms,
                registration_timeout_ms=self.config.initial_broker_registration_timeout_ms,
                directory_failure_timeout_ms=self.config.log_dir_failure_timeout_ms,
            ),
            BrokerIdentity(
                broker_id=self.config.node_id,
                cluster_id=self._cluster_id,
                incarnation_id=self._incarnation_id,
                listeners=self._endpoints(),
                rack=self.config.broker_rack,
                directories=[directory.directory_id for directory in self.logs.directories],
                previous_epoch=previous_epoch,
            ),
            self._heartbeats,
            lambda: self._source.image.offset,
            FeatureLevels(self.config.node_id, lambda: self._source.image, self._heartbeats).lower,
        )
        lifecycle.failed.add_done_callback(lambda failed: self._fail(failed.result()))
        lifecycle.start()
        return lifecycle

    async def _catch_up(self, lifecycle: BrokerLifecycleManager) -> CaughtUpImage:
        """Wait for metadata that contain this registration; log every minute what is missing."""
        node_id, incarnation_id = self.config.node_id, self._incarnation_id
        ready = asyncio.Event()

        def seen(old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
            if is_caught_up(new, node_id, incarnation_id):
                ready.set()

        end = self._source.subscribe(seen)
        seen(MetadataImage.EMPTY, self._source.image, ())
        while not ready.is_set():
            try:
                async with asyncio.timeout(_REMINDER_S):
                    await ready.wait()
            except TimeoutError:
                extra = {"node_id": node_id, "cluster_id": self._cluster_id, "waits_for": self._missing(lifecycle)}
                log.warning("broker_waits", extra=extra)
        end()
        return CaughtUpImage(self._source.image, node_id, incarnation_id)

    def _missing(self, lifecycle: BrokerLifecycleManager) -> str:
        """Return a description of what the start waits for."""
        if lifecycle.broker_epoch < 0 and self._source.leader() is None:
            return f"a leader of the quorum: {lifecycle.refusal}"
        if lifecycle.broker_epoch < 0:
            return f"the active controller to register it: {lifecycle.refusal}"
        offset = self._source.image.offset
        return f"metadata up to its registration at offset {lifecycle.broker_epoch}; they are at {offset}"

    def _endpoints(self) -> list[Endpoint]:
        bound = {
            listener.name: server.port
            for listener, server in zip(self.config.broker_listeners, self._servers, strict=True)
        }
        endpoints = []
        for listener in self.config.advertised_broker_listeners:
            host = socket.getfqdn() if listener.host in _WILDCARDS else listener.host
            port = listener.port or bound[listener.name]
            endpoints.append(Endpoint(listener.name, host, port, SecurityProtocol[listener.security_protocol]))
        return endpoints

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Report the failed directory to the controller.

        The broker ends if the metadata directory failed or no directory is left.
        """
        if directory.path == self.config.metadata_log_dir:
            self._fail(f"The metadata log directory {directory.path} has failed.")
        elif not self.logs.failures.online:
            self._fail(f"Every log directory has failed, {directory.path} last.")
        elif self._lifecycle is not None:
            self._lifecycle.propagate_directory_failure(directory.directory_id)

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    # -- serving

    def _handle(self, request: Request) -> None:
        if self._waiting is not None:
            self._waiting.add(request)
        else:
            self._apis.handle(request)

    def _serve(self) -> None:
        """Answer the requests that arrived during the start, and all later ones at once."""
        waiting, self._waiting = self._waiting, None
        for request in () if waiting is None else waiting.open():
            try:
                self._apis.handle(request)
            except Exception:  # one bad request must not block the others
                log.exception("request_failed", extra={"api_key": request.header.api_key})
                request.close("request handler failed")

    def _on_image(self, old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
        self.replicas.on_image(old, new, records)
        if records:
            configs = [record for record in records if isinstance(record, ConfigRecord)]
            if any(record.resource_type == BROKER for record in configs):
                self.logs.update_configs()
            elif configs:
                self.logs.update_configs(record.resource_name for record in configs if record.resource_type == TOPIC)
        else:
            self.logs.update_configs()

    # -- stop

    async def stop(self, timeout_ms: int) -> None:
        """Stop the broker. The controller has `timeout_ms` to move the partitions that this broker leads."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        epoch = self._broker_epoch()
        if self._lifecycle is not None:
            if self.config.controlled_shutdown_enable and timeout_ms > 0:
                await self._lifecycle.controlled_shutdown(timeout_ms)
            await self._lifecycle.stop()
        for server in self._servers:
            await server.stop()
        if self._unsubscribe is not None:
            self._unsubscribe()
        for recurring in self._recurring:
            await recurring.stop()
        self._context.coordinator.stop()
        self._context.producer_ids.close()
        await self._context.stop()
        self._apis.close()
        await self.logs.stop(epoch)
        for channel in self._channels:
            channel.close()


def _log_manager_config(config: KafkaConfig) -> LogManagerConfig:
    return LogManagerConfig(
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        flush_scheduler_interval_ms=config.log_flush_scheduler_interval_ms,
        flush_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        cleaner_enable=config.log_cleaner_enable,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
    )


def _coordinator_config(config: KafkaConfig) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_group_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
    )
