"""ControllerServer: the controller role at run time; it owns the node, its sockets, files and timers.

Events that arrive in one turn of the loop go to the node together; its effects are carried out in order. An election is
stored at once, before any later effect. The log is flushed on an I/O thread; the completion is an event, so that all
appends during one flush share the next.

A failed disk, a broken invariant or a record that cannot be replayed is fatal: the node stops before any other effect.
Source: ControllerServer, SharedServer, KafkaRaftClientDriver and ProcessTerminatingFaultHandler, Kafka 4.3.1.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

from kraft_core.clients.channel_manager import ChannelConfig, ChannelManager, Result
from kraft_core.clients.metadata_source import LeaderEndpoint, MetadataListener, MetadataListeners
from kraft_core.image.election_counts import ElectionCounts
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node import (
    CleanLog,
    CreateSnapshot,
    ImageChanged,
    Node,
    NodeConfig,
    NodeEffect,
    NodeEvent,
    SnapshotFailed,
)
from kraft_core.node_snapshot import SnapshotEmitterMetrics, write_image
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Destination, Flush, Respond, SendRequest, Stopped, StoreElection
from kraft_core.raft.events import (
    FailureReason,
    Flushed,
    PeerDisconnected,
    RequestFailed,
    ResponseReceived,
    Shutdown,
    SnapshotCreated,
    Timer,
)
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.security.controller_authorization import ControllerAuthorization
from kraft_core.server.api_versions import ApiVersionsAnswers, controller_features, controller_versions
from kraft_core.server.clock import Clock
from kraft_core.server.config.node_security import NodeSecurity
from kraft_core.server.controller_apis import URGENT_APIS, ControllerApis
from kraft_core.server.io_thread import IoThread
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.server.network.listener_logins import listener_logins, token_finder
from kraft_core.server.network.socket_server import SocketServer
from kraft_core.server.runtime_logger_manager import RuntimeLoggerManager
from kraft_core.server.wakeup import Wakeup
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.quorum_state_store import QuorumStateStore

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS: Final = 5_000
"""Timeout of a request of this process to the active controller on another node."""


class ControllerServer:
    """One controller, from `start` to `stop`. A MetadataSource for the rest of the process.

    `failed` resolves with the reason after a fatal error.
    """

    def __init__(
        self,
        config: NodeConfig,
        raft_log: KafkaRaftLog,
        store: QuorumStateStore,
        listeners: Sequence[tuple[str, str, int]],
        *,
        limits: SocketServerLimits | None = None,
        retention: tuple[int, int] = (-1, -1),
        random: Random | None = None,
        security: NodeSecurity | None = None,
        quotas: ConnectionQuotas | None = None,
    ) -> None:
        self.config = config
        self.clock = Clock()
        self.node_id = config.raft.node_id
        self._log = raft_log
        self._store = store
        self._retention = retention
        self._random = random or Random()  # noqa: S311  # election jitter and identifiers, no secrets
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[str] = self._loop.create_future()
        self._stopped = asyncio.Event()
        self.node = Node(config, raft_log, store.read(), self._random, self.clock.now_ms())
        api_versions = ApiVersionsAnswers(
            controller_versions(), FEATURES, lambda: controller_features(self.node.image, self.node.raft.kraft_version)
        )
        self._is_loaded = False
        self._apis = self._make_apis(api_versions)
        secured = security or NodeSecurity()
        self._socket_servers = self._make_listeners(listeners, api_versions, secured, limits, quotas)
        self._channels = ChannelManager(
            ChannelConfig(client_id=f"raft-client-{self.node_id}", security=secured.controllers),
            self._random,
            self._peer_disconnected,
        )
        self._admin_channels = ChannelManager(
            ChannelConfig(client_id=str(self.node_id), security=secured.controllers), self._random
        )
        self._flusher = IoThread("flush")
        self._snapshotter = IoThread("snapshot")
        self._events: list[NodeEvent] = []
        self._scheduled = False
        self._resting_since_s = self._loop.time()
        self._idle_s = 0.0
        self._wakeup = Wakeup(self._loop, lambda: self.post(Timer()))
        self._flushing = False
        self._clean_wanted = False
        self._started = False
        self._ended = False
        self._metadata_listeners = MetadataListeners()
        self.snapshot_emitter = SnapshotEmitterMetrics(self.clock.now_ms())
        self._snapshot_failures = 0
        self.elections = ElectionCounts()
        self.subscribe(self.elections.add)

    def _make_apis(self, api_versions: ApiVersionsAnswers) -> ControllerApis:
        settings = self.config.controller
        authorization = None
        if settings.authorizer is not None:
            authorization = ControllerAuthorization(
                settings.authorizer, lambda: self.node.image, lambda: self.is_loaded
            )
        loggers = RuntimeLoggerManager(self.node_id)
        return ControllerApis(self, api_versions, settings.heartbeat_interval_ms, loggers, authorization)

    def _make_listeners(
        self,
        listeners: Sequence[tuple[str, str, int]],
        api_versions: ApiVersionsAnswers,
        security: NodeSecurity,
        limits: SocketServerLimits | None,
        quotas: ConnectionQuotas | None,
    ) -> list[SocketServer]:
        secret_key = self.config.controller.delegation_token_secret_key
        tokens = token_finder(lambda: self.node.image, secret_key, self.clock)
        login_of = listener_logins(
            security, api_versions, lambda: self.node.image, tokens, self._log, self.config.bootstrap_records
        )
        return [
            SocketServer(
                host,
                port,
                self._apis.handle,
                limits,
                listener_name=name,
                login=login_of(name),
                quotas=quotas,
                urgent_apis=URGENT_APIS,
            )
            for name, host, port in listeners
        ]

    # -- MetadataSource

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self.node.image

    @property
    def high_watermark(self) -> int:
        """Offset up to which (exclusive) the log is known to be committed."""
        return self.node.raft.high_watermark

    def leader(self) -> LeaderEndpoint | None:
        """Return the active controller as this node knows it."""
        endpoint = self.node.raft.leader_endpoint
        return None if endpoint is None else LeaderEndpoint(self.node.leader_id, endpoint.host, endpoint.port)

    @property
    def is_loaded(self) -> bool:
        """Whether the image has once reached the high watermark. Source: MetadataLoader."""
        if not self._is_loaded:
            node = self.node
            self._is_loaded = node.is_active or 0 <= node.raft.high_watermark <= node.applied_offset
        return self._is_loaded

    @property
    def metadata_errors(self) -> int:
        """Number of failures of metadata listeners, snapshots and controller events."""
        return self._metadata_listeners.failures + self._snapshot_failures + self.node.controller.metrics.faults

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` after each change of the committed image; the result ends the subscription."""
        return self._metadata_listeners.add(listener)

    # -- start and stop

    @property
    def ports(self) -> list[int]:
        """Ports of the listeners, in their order."""
        return [server.port for server in self._socket_servers]

    @property
    def listeners(self) -> Sequence[SocketServer]:
        """The listeners, for their counters."""
        return self._socket_servers

    async def start(self) -> None:
        """Bind the addresses, start the node, then accept connections, so that no client waits for a large snapshot.

        Raises OSError if an address cannot be bound.
        """
        for server in self._socket_servers:
            await server.bind()
        self._started = True
        self._guarded(lambda: self.node.start(self.clock.now_ms()))
        for server in self._socket_servers:
            await server.start()

    async def stop(self, timeout_ms: int) -> None:
        """Resign leadership, answer pending requests, flush and close, within about `timeout_ms`."""
        if self._started and not self._ended:
            self.post(Shutdown(timeout_ms))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), timeout_ms / 1000 + 1)
        self._end()
        for server in self._socket_servers:
            await server.stop()
        self._flusher.close()
        self._snapshotter.close()
        if not self.failed.done():  # after a fatal error nothing is written
            self._log.close()

    def _end(self) -> None:
        self._ended = True
        self._channels.close()
        self._admin_channels.close()
        self._wakeup.cancel()

    # -- the owner loop

    def now_ms(self) -> int:
        """Return the node's time."""
        return self.clock.now_ms()

    def post(self, event: NodeEvent) -> None:
        """Queue an event; the node handles it with all others that arrive in the same turn of the loop."""
        self._events.append(event)
        if not self._scheduled and not self._ended:
            self._scheduled = True
            self._idle_s = self._loop.time() - self._resting_since_s
            self._loop.call_soon(self._run)

    def request_active(self, message: Message, version: int, on_done: Callable[[Result], None]) -> None:
        """Send a request of this process to the active controller, which may be this node."""
        leader = self.leader()
        if leader is None:
            self._loop.call_soon(on_done, FailureReason.DISCONNECTED)
        elif leader.node_id == self.node_id:
            self._apis.submit(message, version, on_done)
        else:
            destination = Destination(leader.node_id, leader.host, leader.port)
            self._admin_channels.request(destination, message, REQUEST_TIMEOUT_MS, on_done)

    def _run(self) -> None:
        self._scheduled = False
        events, self._events = self._events, []
        if events and not self._ended:
            now_ms = self.clock.now_ms()
            self.node.raft.record_idle(now_ms, self._idle_s * 1000)
            self._guarded(lambda: self._step(events, now_ms))
            self._resting_since_s = self._loop.time()

    def _step(self, events: Sequence[NodeEvent], now_ms: int) -> list[NodeEffect]:
        began_s = time.monotonic()
        effects = self.node.step_all(events, now_ms)
        self.node.controller.metrics.step_took((time.monotonic() - began_s) * 1000)
        return effects

    def _guarded(self, step: Callable[[], list[NodeEffect]]) -> None:
        """Run a step and carry out its effects; any exception is fatal."""
        try:
            for effect in step():
                self._carry_out(effect)
                if self._ended:
                    return
            self._wakeup.after((self.node.next_deadline_ms() - self.clock.now_ms()) / 1000)
        except Exception as error:
            log.exception("node_failed")
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        self._end()
        self._stopped.set()
        if not self.failed.done():
            self.failed.set_result(reason)

    # -- effects

    def _carry_out(self, effect: NodeEffect) -> None:
        match effect:
            case Respond():
                self._apis.answered(effect.request_id, effect.message)
            case SendRequest():
                self._send(effect)
            case Flush():
                self._flush()
            case StoreElection():
                self._store.write(effect.election, effect.kraft_version)
            case ImageChanged():
                self._metadata_listeners.notify(effect.old, effect.new, effect.records)
            case CreateSnapshot():
                self._snapshotter.submit(
                    partial(self._write_snapshot, effect), self._snapshot_written, self._snapshot_failed
                )
            case CleanLog():
                self._clean_wanted = True
                self._clean()
            case Stopped():
                self._stopped.set()

    def _send(self, effect: SendRequest) -> None:
        on_done = partial(self._request_done, effect.correlation)
        self._channels.request(
            effect.destination, effect.message, effect.timeout_ms, on_done, min_version=effect.min_version
        )

    def _request_done(self, correlation: int, result: Result) -> None:
        if isinstance(result, FailureReason):
            self.post(RequestFailed(correlation, result))
        else:
            self.post(ResponseReceived(correlation, result))

    def _peer_disconnected(self, node_id: int) -> None:
        if node_id >= 0:
            self.post(PeerDisconnected(node_id))

    def _flush(self) -> None:
        assert not self._flushing, "raft requests one flush at a time"
        self._flushing = True
        self._flusher.submit(self._log.flush, self._flushed, self._disk_failed)

    def _flushed(self, offset: int) -> None:
        self._flushing = False
        self.post(Flushed(offset))
        self._clean()

    def _clean(self) -> None:
        if self._clean_wanted and not self._flushing:
            self._clean_wanted = False
            retention_bytes, retention_ms = self._retention
            self._guarded(partial(self._clean_now, retention_bytes, retention_ms))

    def _clean_now(self, retention_bytes: int, retention_ms: int) -> list[NodeEffect]:
        self._log.clean(retention_bytes, retention_ms, self.clock.now_ms())
        return []

    def _disk_failed(self, error: Exception) -> None:
        log.error("flush_failed", extra={"cause": str(error)})
        self._fail(f"The metadata log cannot be flushed: {error}")

    # -- snapshots

    def _write_snapshot(self, effect: CreateSnapshot) -> tuple[OffsetAndEpoch, int]:
        """Write a snapshot; runs on the snapshot thread."""
        return effect.id, write_image(effect.image, effect.writer)

    def _snapshot_written(self, written: tuple[OffsetAndEpoch, int]) -> None:
        snapshot_id, size_bytes = written
        self.snapshot_emitter = SnapshotEmitterMetrics(self.clock.now_ms(), size_bytes)
        log.info("snapshot_created", extra={"offset": snapshot_id.offset, "epoch": snapshot_id.epoch})
        self.post(SnapshotCreated(snapshot_id))

    def _snapshot_failed(self, error: Exception) -> None:
        log.error("snapshot_failed", extra={"cause": str(error)})
        self._snapshot_failures += 1
        self.post(SnapshotFailed())
