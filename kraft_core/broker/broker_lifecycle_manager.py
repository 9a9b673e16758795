"""The lifecycle of a broker as the controller sees it: registered, caught up, unfenced, shut down.

One task sends BrokerRegistration until it is accepted, then BrokerHeartbeat every broker.heartbeat.interval.ms, and
more often while the broker starts or shuts down. STALE_BROKER_EPOCH in a heartbeat response means that the controller
has lost the registration: the broker registers again with the same incarnation id.

Source: BrokerLifecycleManager, Kafka 4.3.1; docs/protocol.md, "Start of a broker".
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.image.metadata_image import Endpoint
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    BrokerRegistrationResponse,
)
from kraft_core.protocol.metadata_version import BROKER_FEATURES

log = logging.getLogger(__name__)

_STARTING_INTERVAL_S: Final = 0.01
_SHUTDOWN_INTERVAL_S: Final = 0.05
_NO_EPOCH: Final = -1


class BrokerState(IntEnum):
    """The states of a broker, with the numbers of Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


NEXT: Final[dict[BrokerState, frozenset[BrokerState]]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.STARTING}),
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset({BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset(),
}
"""For each state the states that may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """The content of a BrokerRegistration. `previous_epoch` is -1 unless the last shutdown was clean."""

    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[uuid.UUID]
    previous_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLifecycleConfig:
    """Intervals and timeouts in ms, named after Kafka's configs."""

    heartbeat_interval_ms: int = 2_000  # broker.heartbeat.interval.ms
    registration_timeout_ms: int = 60_000  # initial.broker.registration.timeout.ms
    directory_failure_timeout_ms: int = 30_000  # log.dir.failure.timeout.ms


class BrokerLifecycleManager:
    """Registers the broker and sends its heartbeats. `metadata_offset` returns the offset of the broker's image."""

    def __init__(
        self,
        config: BrokerLifecycleConfig,
        identity: BrokerIdentity,
        controller: NodeToControllerChannelManager,
        metadata_offset: Callable[[], int],
        on_unsupported_features: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = _NO_EPOCH
        self.refusal = "no controller answered"  # why the broker is not registered yet
        self.caught_up = asyncio.Event()
        self.unfenced = asyncio.Event()
        self.shutdown_granted = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[str] = loop.create_future()
        self._config = config
        self._identity = identity
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._on_unsupported_features = on_unsupported_features
        self._ready_to_unfence = False
        self._offline: set[uuid.UUID] = set()
        self._unreported_since: float | None = None  # when the first directory failed that no heartbeat has reported
        self._wake_up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to register."""
        self._move(BrokerState.STARTING)
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def set_ready_to_unfence(self) -> None:
        """Ask to be unfenced from now on: the logs are recovered and the listeners open."""
        self._move(BrokerState.RECOVERY)
        self._ready_to_unfence = True
        self._wake_up.set()

    def propagate_directory_failure(self, directory_id: uuid.UUID) -> None:
        """Report a log directory as offline in all heartbeats; the next one is sent at once (KIP-858)."""
        self._offline.add(directory_id)
        if self._unreported_since is None:
            self._unreported_since = asyncio.get_running_loop().time()
        self._wake_up.set()

    def _check_unreported_directories(self, reported: frozenset[uuid.UUID] | None) -> None:
        """Fail the broker when a failed directory stays unreported for log.dir.failure.timeout.ms.

        Until the controller knows of the failure, no other broker can become the leader of the partitions in the
        directory. `reported` are the directories in the last accepted heartbeat, None when it failed.
        """
        if self._unreported_since is None:
            return
        if reported is not None and reported >= self._offline:
            self._unreported_since = None
            return
        waited_ms = (asyncio.get_running_loop().time() - self._unreported_since) * 1000
        if waited_ms >= self._config.directory_failure_timeout_ms and not self.failed.done():
            self.failed.set_result(
                f"The failure of a log directory could not be reported to the controller within "
                f"{self._config.directory_failure_timeout_ms} ms."
            )

    async def controlled_shutdown(self, timeout_ms: int) -> bool:
        """Ask the controller to move this broker's leaderships.

        Return True when the controller agrees to the shutdown, False after `timeout_ms`.
        """
        if self.state is not BrokerState.RUNNING:
            return False
        self._move(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._wake_up.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.shutdown_granted.wait()
        except TimeoutError:
            log.warning("controlled_shutdown_not_granted", extra={"timeout_ms": timeout_ms})
            return False
        return True

    async def stop(self) -> None:
        """Stop the heartbeats."""
        if self.state is not BrokerState.NOT_RUNNING:
            self._move(BrokerState.SHUTTING_DOWN)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the node after a bug here: a broker without heartbeats would stay fenced for no visible reason."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            log.error("broker_lifecycle_failed", exc_info=error)
            self.failed.set_result(f"The broker's heartbeats failed: {type(error).__name__}: {error}")

    def _move(self, state: BrokerState) -> None:
        if state is self.state:
            return
        assert state in NEXT[self.state], f"broker state {self.state.name} to {state.name}"
        log.info("broker_state", extra={"from": self.state.name, "to": state.name})
        self.state = state

    async def _run(self) -> None:
        if not await self._register(self._config.registration_timeout_ms):
            return
        while not self.shutdown_granted.is_set():
            await self._heartbeat()
            await self._pause()

    async def _pause(self) -> None:
        if self.state is BrokerState.STARTING:
            interval_s = (
                _STARTING_INTERVAL_S if not self.caught_up.is_set() else self._config.heartbeat_interval_ms / 1000
            )
        elif self.state is BrokerState.RECOVERY:
            interval_s = _STARTING_INTERVAL_S
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            interval_s = _SHUTDOWN_INTERVAL_S
        else:
            interval_s = self._config.heartbeat_interval_ms / 1000
        try:
            async with asyncio.timeout(interval_s):
                await self._wake_up.wait()
        except TimeoutError:
            return
        self._wake_up.clear()

    async def _register(self, timeout_ms: int) -> bool:
        """Register until the controller accepts.

        Return False, with `failed` set, when an active controller has not accepted within `timeout_ms`. Without a
        leader of the quorum the broker keeps waiting: its own process may be the voter that the quorum needs.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        interval_ms = self._config.heartbeat_interval_ms
        while loop.time() < deadline:
            began = loop.time()
            try:
                response = await self._controller.request(
                    self._registration(), BrokerRegistrationResponse, interval_ms, idempotent=True
                )
                if response.error_code == ErrorCode.NONE:
                    self.broker_epoch = response.broker_epoch
                    extra = {"broker_id": self._identity.broker_id, "broker_epoch": self.broker_epoch}
                    log.info("broker_registered", extra=extra)
                    return True
                self.refusal = ErrorCode(response.error_code).name
                if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    await self._on_unsupported_features()
            except KafkaError as error:
                self.refusal = error.message
                if not self._controller.knows_leader:
                    deadline = loop.time() + timeout_ms / 1000
            log.info("broker_not_registered_yet", extra={"reason": self.refusal})
            await asyncio.sleep(max(0.0, began + interval_ms / 1000 - loop.time()))
        if not self.failed.done():
            self.failed.set_result(f"The broker could not register within {timeout_ms} ms: {self.refusal}")
        return False

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        return BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=tuple(
                BrokerRegistrationRequestListener(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in identity.listeners
            ),
            features=tuple(
                BrokerRegistrationRequestFeature(
                    name=name, min_supported_version=feature.minimum, max_supported_version=feature.maximum
                )
                for name, feature in sorted(BROKER_FEATURES.items())
            ),
            rack=identity.rack,
            log_dirs=tuple(sorted(identity.directories, key=lambda directory: directory.int)),
            previous_broker_epoch=identity.previous_epoch,
        )

    async def _heartbeat(self) -> None:
        shutting_down = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        offline = frozenset(self._offline)
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._ready_to_unfence,
            want_shut_down=shutting_down,
            offline_log_dirs=tuple(sorted(offline, key=lambda directory: directory.int)),
            cordoned_log_dirs=() if self._ready_to_unfence else None,
        )
        try:
            response = await self._controller.request(
                request, BrokerHeartbeatResponse, self._config.heartbeat_interval_ms, idempotent=True
            )
        except KafkaError as error:
            log.info("heartbeat_failed", extra={"reason": error.message})
            self._check_unreported_directories(None)
            return
        if response.error_code == ErrorCode.STALE_BROKER_EPOCH and not shutting_down:
            log.warning("broker_epoch_stale", extra={"broker_epoch": self.broker_epoch})
            await self._register(self._config.registration_timeout_ms)
            return
        if response.error_code != ErrorCode.NONE:
            log.info("heartbeat_refused", extra={"reason": ErrorCode(response.error_code).name})
            self._check_unreported_directories(None)
            return
        self._check_unreported_directories(offline)
        self._on_heartbeat(response)

    def _on_heartbeat(self, response: BrokerHeartbeatResponse) -> None:
        if response.is_caught_up:
            self.caught_up.set()
        if not response.is_fenced and self.state is BrokerState.RECOVERY:
            self._move(BrokerState.RUNNING)
            self.unfenced.set()
        if response.should_shut_down:
            self.shutdown_granted.set()
