"""The broker as a role of a process, next to a controller of the same process or alone.

Source: SharedServer and KafkaRaftServer, Kafka 4.3.1.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kraft_core.broker.broker_server import BrokerServer
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.clients.quorum_fetch import ObserverIdentity
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.metrics.metrics_http import Gauge
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.server.network.socket_server import SocketServer
from kraft_core.server.node_config import follow_connection_limits
from kraft_core.storage.meta_properties import MetaProperties


class BrokerRole:
    """Starts and stops a broker and, in a process without a controller, the metadata observer that it reads from."""

    def __init__(
        self,
        config: KafkaConfig,
        folders: Mapping[Path, MetaProperties],
        controller: MetadataSource | None,
        quotas: ConnectionQuotas,
    ) -> None:
        meta = folders[config.metadata_log_dir]
        controllers = config.quorum_addresses
        self._observer: MetadataObserver | None = None
        source = controller
        if source is None:
            assert meta.directory_id is not None, "a started node's directories have ids"
            identity = ObserverIdentity(
                replica_id=config.node_id, directory_id=meta.directory_id, cluster_id=meta.cluster_id
            )
            self._observer = source = MetadataObserver(controllers, identity, security=config.security.controllers)
            follow_connection_limits(quotas, config, source)
        directories = []
        for path in config.log_dirs:
            directory_id = folders[path].directory_id
            assert directory_id is not None, "a started node's directories have ids"
            directories.append(LogDirectory(path, directory_id))
        self.server = BrokerServer(
            config,
            source,
            cluster_id=meta.cluster_id,
            directories=directories,
            controllers=controllers,
            quotas=quotas,
        )

    @property
    def listeners(self) -> Sequence[SocketServer]:
        """The listeners, for their counters; none before `start`."""
        return self.server.listeners

    def gauges(self) -> Iterable[Gauge]:
        """Return the broker's gauges."""
        return self.server.gauges()

    @property
    def failed(self) -> "asyncio.Future[str]":
        """A future that resolves with a reason when the broker cannot continue."""
        return self.server.failed

    async def start(self) -> None:
        """Bind the listeners and start; see `BrokerServer.start`. Raises OSError."""
        if self._observer is not None:
            self._observer.start()
        await self.server.start()

    async def stop(self, timeout_ms: int) -> None:
        """Stop the broker, then the observer. The controller has `timeout_ms` to move this broker's leaderships."""
        await self.server.stop(timeout_ms)
        if self._observer is not None:
            await self._observer.stop()
