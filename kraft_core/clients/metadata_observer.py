"""MetadataObserver: a replica outside the quorum that fetches the metadata log and holds its image in memory.

It finds the leader from any node, follows it through elections, loads a snapshot if the log starts too late for it, and
applies committed records. The web process and nodes that are only brokers use it.

With replica id -1 the quorum does not list it; a node gives its id and directory id and is listed as an observer.
Source: KafkaRaftClient (observer side), MetadataLoader; docs/protocol.md, "Raft RPCs".
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from kraft_core.clients.kafka_client import ConnectionLost, KafkaConnection, RequestTimedOut
from kraft_core.clients.metadata_source import LeaderEndpoint, MetadataListener, MetadataListeners
from kraft_core.clients.observed_log import CommittedChange, LogDiverged, ObservedLog
from kraft_core.clients.quorum_fetch import (
    ObserverIdentity,
    endpoint_of,
    fetch_partition,
    fetch_request,
    fetch_snapshot,
)
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.control_records import VotersRecord
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchResponse, FetchResponsePartitionData, FetchResponseSnapshotId
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity

log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS: Final = 500
FETCH_TIMEOUT_MS: Final = 2_000  # controller.quorum.fetch.timeout.ms; a live leader answers long before
FETCH_MAX_BYTES: Final = 4 * 1024 * 1024
SNAPSHOT_CHUNK_BYTES: Final = 4 * 1024 * 1024
CONNECT_TIMEOUT_MS: Final = 2_000
RETRY_MS: Final = 20  # controller.quorum.retry.backoff.ms
RETRY_MAX_MS: Final = 500
NOT_LEADING: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE}
APPLY_SLICE_SECONDS: Final = 0.01  # longest turn of the event loop while records are applied

ChangeListener = Callable[[CommittedChange], None]
"""Called with every committed change, in order, also while the first image is being built."""

SnapshotListener = Callable[[MetadataImage], None]
"""Called when a snapshot replaced the image, or an empty image from which the whole log is read again."""

LossKind = Literal["closed", "silent", "resigned"]
"""How a leader was lost: it closed the connection, did not answer in time, or answered that it no longer leads."""


@dataclass(frozen=True, slots=True)
class LeaderLoss:
    """The loss of an epoch's leader. The same leader may be found again if only the connection broke."""

    epoch: int
    leader_id: int
    how: LossKind
    at_ms: int  # time of day


LeaderLostListener = Callable[[LeaderLoss], None]
LeaderFoundListener = Callable[[int, int], None]
"""Called with (epoch, time of day in ms) when a leader first answers in an epoch, and when it answers after a loss."""

LeadershipListener = Callable[[], None]
"""Called when `epoch` or `confirmed_leader` of the observer has changed."""


class MetadataObserver:
    """A MetadataSource that fetches from the quorum. `start` it on the event loop, `stop` it before the loop ends."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        identity: ObserverIdentity | None = None,
        client_id: str | None = None,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.identity = identity or ObserverIdentity()
        replica = self.identity.replica_id
        self._client_id = client_id or (f"raft-client-{replica}" if replica >= 0 else "conclave-observer")
        self._security = security
        self._bootstrap = list(bootstrap)
        self._next_bootstrap = 0
        self._log = ObservedLog()
        self._published = MetadataImage.EMPTY
        self._unpublished: list[MetadataRecord] = []
        self._restarted = True  # the next published image does not continue the last one: no records lie between
        self._leader: LeaderEndpoint | None = None
        self._listeners = MetadataListeners()
        self._change_listeners: list[ChangeListener] = []
        self._snapshot_listeners: list[SnapshotListener] = []
        self._leader_listeners: list[tuple[LeaderLostListener, LeaderFoundListener]] = []
        self._leadership_listeners: list[LeadershipListener] = []
        self.on_diverged: Callable[[], None] = lambda: None  # called when the quorum has lost what was committed here
        self._leadership: tuple[int, LeaderEndpoint | None] = (
            0,
            None,
        )  # epoch and confirmed leader of the last notification
        self._confirmed_epoch = -1  # epoch of the leader that answered last and has not been lost since
        self._confirmed_over: KafkaConnection | None = None  # the connection over which that leader answers
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self.epoch = 0
        self.log_start_offset = -1
        self.last_update_monotonic: float | None = None
        self.last_error: str | None = None

    # MetadataSource

    @property
    def image(self) -> MetadataImage:
        """The newest committed image; EMPTY until the log was read up to the high watermark once."""
        return self._published

    @property
    def high_watermark(self) -> int:
        """Offset up to which (exclusive) the log is known to be committed; -1 when unknown."""
        return self._log.high_watermark

    @property
    def applied_offset(self) -> int:
        """Last applied offset, also of a batch that changed nothing; -1 before the first image."""
        return self._log.applied_offset if self.is_ready else -1

    @property
    def log_end_offset(self) -> int:
        """Offset (exclusive) up to which the log was fetched."""
        return self._log.end_offset

    @property
    def is_ready(self) -> bool:
        """Whether an image has been published."""
        return self._published.offset >= 0

    @property
    def snapshot_time_ms(self) -> int:
        """Time of the newest record in the snapshot that was loaded last, 0 without one."""
        return self._log.snapshot_time_ms

    @property
    def voters(self) -> VotersRecord | None:
        """The voter set as the log has it; None with static voters (kraft.version 0)."""
        return self._log.voters

    def leader(self) -> LeaderEndpoint | None:
        """Return the active controller, None while no leader is known."""
        return self._leader

    @property
    def confirmed_leader(self) -> LeaderEndpoint | None:
        """The leader that answered a fetch of this process in `epoch` and has not been lost since.

        `leader` may also be a node that only another node named: a voter may not have noticed its leader's death yet.
        """
        return self._leader if self._confirmed_over is not None and self._confirmed_epoch == self.epoch else None

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` with (old image, new image, records between) after each change; the result ends it."""
        return self._listeners.add(listener)

    def subscribe_log(self, on_change: ChangeListener, on_snapshot: SnapshotListener) -> Callable[[], None]:
        """Call `on_change` for each committed change and `on_snapshot` for each snapshot; the result ends both."""
        self._change_listeners.append(on_change)
        self._snapshot_listeners.append(on_snapshot)

        def end() -> None:
            self._change_listeners.remove(on_change)
            self._snapshot_listeners.remove(on_snapshot)

        return end

    def subscribe_leader(self, on_lost: LeaderLostListener, on_found: LeaderFoundListener) -> None:
        """Call `on_lost` when a leader is lost and `on_found` when a leader answers."""
        self._leader_listeners.append((on_lost, on_found))

    def subscribe_leadership(self, listener: LeadershipListener) -> None:
        """Call `listener` when the epoch or the confirmed leader has changed."""
        self._leadership_listeners.append(listener)

    # running

    def resume(self, stored: ObservedLog) -> None:
        """Continue from what was read before, instead of from the log's start. Call it before `start`."""
        assert self._task is None, "an observer resumes before it is started"
        self._log = stored

    def start(self) -> None:
        """Start the task that follows the quorum."""
        assert self._task is None, "an observer is started once"
        self._task = asyncio.create_task(self._run(), name="metadata-observer")

    async def stop(self) -> None:
        """Stop following; the image stays."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def wait_for_offset(self, offset: int, timeout_ms: int) -> bool:
        """Wait until the image contains `offset`; False when `timeout_ms` passes first."""
        if self.applied_offset < offset:
            try:
                async with asyncio.timeout(timeout_ms / 1000), self._moved:
                    await self._moved.wait_for(lambda: self.applied_offset >= offset)
            except TimeoutError:
                return self.applied_offset >= offset
        return True

    async def _run(self) -> None:
        retry_ms = RETRY_MS
        while True:
            for host, port in self._candidates():
                if await self._try(host, port):
                    retry_ms = RETRY_MS
                if self._leader is not None and (self._leader.host, self._leader.port) != (host, port):
                    break  # this node named the leader: connect to it first
            await asyncio.sleep((RETRY_MS if self._leader is not None else retry_ms) / 1000)
            retry_ms = min(RETRY_MAX_MS, retry_ms * 2)

    async def _try(self, host: str, port: int) -> bool:
        """Follow one node until that fails; return whether any fetch succeeded."""
        try:
            connection = await KafkaConnection.open(host, port, self._client_id, CONNECT_TIMEOUT_MS, self._security)
        except (ConnectionError, KafkaError) as cause:
            self._failed(host, port, cause, None)
            return False
        before = self.last_update_monotonic
        try:
            await self._follow(connection)
        except (LogDiverged, ReplayError) as cause:
            self._failed(host, port, cause, connection)
            if isinstance(cause, LogDiverged):
                self.on_diverged()
            self._restart()
            return False
        except (ConnectionError, KafkaError) as cause:
            self._failed(host, port, cause, connection)
        except Exception as bug:  # without a retry this process would keep an old image
            log.exception("observer_failed", extra={"host": host, "port": port})
            self._failed(host, port, bug, connection)
            self._restart()
            return False
        finally:
            connection.close()
            self._leave(connection)
        return self.last_update_monotonic != before

    def _restart(self) -> None:
        """Read the log again from the start; the published image stays until a newer one can replace it."""
        self._log = ObservedLog()
        self._unpublished = []
        self._restarted = True
        for listener in self._snapshot_listeners:
            listener(self._log.image)

    def _failed(self, host: str, port: int, cause: Exception, connection: KafkaConnection | None) -> None:
        """Record a failed fetch. The leader is lost with the connection it answered over, whatever its address."""
        is_leader = self._leader is not None and (self._leader.host, self._leader.port) == (host, port)
        if is_leader or (connection is not None and connection is self._confirmed_over):
            how = _loss_kind(cause)
            if how is not None:
                self._leader_lost(how)
            self._leader = None
        self.last_error = str(cause)
        level = logging.ERROR if isinstance(cause, (LogDiverged, ReplayError)) else logging.INFO
        log.log(level, "observer_disconnected", extra={"host": host, "port": port, "cause": str(cause)})

    def _leave(self, connection: KafkaConnection) -> None:
        """Forget a connection: the leader must answer over another one to be confirmed again."""
        if self._confirmed_over is connection:
            self._confirmed_over, self._confirmed_epoch = None, -1
        self._notify_leadership()

    def _notify_leadership(self) -> None:
        """Call the listeners if the epoch or the confirmed leader differs from the last notification."""
        leadership = (self.epoch, self.confirmed_leader)
        if leadership != self._leadership:
            self._leadership = leadership
            for listener in self._leadership_listeners:
                listener()

    def _candidates(self) -> Iterator[tuple[str, int]]:
        """Yield the nodes to try: the known leader, the bootstrap servers in rotation, the image's controllers."""
        tried: set[tuple[str, int]] = set()
        self._next_bootstrap += 1
        shift = self._next_bootstrap % max(1, len(self._bootstrap))
        leader = [] if self._leader is None else [(self._leader.host, self._leader.port)]
        registered = [
            (endpoint.host, endpoint.port)
            for controller in self._published.cluster.controllers.values()
            for endpoint in controller.listeners[:1]
        ]
        for node in (*leader, *self._bootstrap[shift:], *self._bootstrap[:shift], *registered):
            if node not in tried:
                tried.add(node)
                yield node

    async def _follow(self, connection: KafkaConnection) -> None:
        """Fetch from one node while it leads; return when another node should be asked."""
        max_wait_ms = 0  # the first answer confirms the leader, so it must come at once
        while True:
            request = fetch_request(
                self.identity,
                leader_epoch=self.epoch,
                fetch_offset=self._log.end_offset,
                last_fetched_epoch=self._log.last_epoch,
                high_watermark=self._log.high_watermark,
                max_wait_ms=max_wait_ms,
                max_bytes=FETCH_MAX_BYTES,
            )
            answer = cast("FetchResponse", await connection.request(request, FETCH_TIMEOUT_MS))
            if answer.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(answer.error_code), f"{connection.host}:{connection.port} refused the fetch")
            partition = fetch_partition(answer)
            if partition is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the answer has no partition")
            is_right = self._update_leader(connection, answer, partition)
            self._notify_leadership()
            if not is_right:
                return
            if partition.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                continue  # the epoch is up to date now
            if partition.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(partition.error_code), f"fetch from {connection.host}:{connection.port}")
            await self._handle_fetch(connection, partition)
            max_wait_ms = FETCH_MAX_WAIT_MS

    def _update_leader(
        self, connection: KafkaConnection, answer: FetchResponse, partition: FetchResponsePartitionData
    ) -> bool:
        """Take leader and epoch from an answer; return whether to continue with this connection."""
        current = partition.current_leader
        if current.leader_epoch < self.epoch:
            return partition.error_code == ErrorCode.NONE and current.leader_epoch < 0  # the node lags behind
        if current.leader_epoch > self.epoch:
            log.info("observer_epoch", extra={"epoch": current.leader_epoch, "leader_id": current.leader_id})
            self._leader_lost("resigned")
            self.epoch = current.leader_epoch
            self._leader = None
        if current.leader_id < 0:
            self._leader_lost("resigned")
            self._leader = None
            return False
        endpoint = endpoint_of(answer, current.leader_id)
        if endpoint is None and partition.error_code == ErrorCode.NONE:
            endpoint = LeaderEndpoint(current.leader_id, connection.host, connection.port)
        if endpoint is not None:
            self._leader = endpoint
        if partition.error_code == ErrorCode.NONE:
            return True
        return endpoint is not None and (endpoint.host, endpoint.port) == (connection.host, connection.port)

    def _leader_lost(self, how: LossKind) -> None:
        """Notify the listeners that the leader which answered until now is lost."""
        if self._leader is not None and self._confirmed_epoch == self.epoch:
            loss = LeaderLoss(self.epoch, self._leader.node_id, how, int(time.time() * 1000))
            self._confirmed_epoch = -1
            for on_lost, _ in self._leader_listeners:
                on_lost(loss)

    def _leader_found(self, connection: KafkaConnection) -> None:
        """Confirm the leader of the epoch, which answers over `connection`, and notify the listeners."""
        self._confirmed_over = connection
        if self._confirmed_epoch != self.epoch:
            self._confirmed_epoch = self.epoch
            for _, on_found in self._leader_listeners:
                on_found(self.epoch, int(time.time() * 1000))
        self._notify_leadership()

    async def _handle_fetch(self, connection: KafkaConnection, partition: FetchResponsePartitionData) -> None:
        """Handle a successful fetch: records, a truncation, or the id of a snapshot to fetch."""
        self.log_start_offset = partition.log_start_offset
        if partition.snapshot_id.end_offset >= 0:
            await self._fetch_snapshot(connection, partition.snapshot_id)
        elif partition.diverging_epoch.end_offset >= 0:
            self._log.truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        else:
            self._log.append(partition.records or b"", self.epoch)
            self._log.advance(partition.high_watermark)
            await self._apply()
        self.last_update_monotonic = asyncio.get_running_loop().time()
        self.last_error = None
        self._leader_found(connection)
        if self._log.is_caught_up or (self.is_ready and self._log.image.offset >= self._published.offset):
            await self._publish()

    async def _apply(self) -> None:
        """Apply the committed batches, yielding to other tasks every APPLY_SLICE_SECONDS."""
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + APPLY_SLICE_SECONDS
        while (change := self._log.next_change()) is not None:
            if not self._restarted:
                self._unpublished.extend(record for _, record in change.records)
            for listener in self._change_listeners:
                listener(change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + APPLY_SLICE_SECONDS

    async def _publish(self) -> None:
        """Publish the image and wake the tasks that wait for an offset."""
        old, new = self._published, self._log.image
        records, self._unpublished = self._unpublished, []
        if new is not old:
            self._published = new
            self._restarted = False
            self._listeners.notify(old, new, records)
        async with self._moved:
            self._moved.notify_all()

    async def _fetch_snapshot(self, connection: KafkaConnection, snapshot_id: FetchResponseSnapshotId) -> None:
        """Fetch a whole snapshot and replace the log by it. Raises KafkaError, CorruptBatch, ReplayError."""
        end_offset, epoch = snapshot_id.end_offset, snapshot_id.epoch
        log.info("observer_snapshot", extra={"end_offset": end_offset, "snapshot_epoch": epoch})
        data = await fetch_snapshot(
            lambda request: connection.request(request, FETCH_TIMEOUT_MS * 5),
            self.identity,
            snapshot_id,
            leader_epoch=self.epoch,
            max_bytes=SNAPSHOT_CHUNK_BYTES,
        )
        await asyncio.to_thread(self._log.load_snapshot, data, end_offset, epoch)
        self._unpublished = []
        self._restarted = True
        for listener in self._snapshot_listeners:
            listener(self._log.image)


def _loss_kind(cause: Exception) -> LossKind | None:
    """Return how a failed fetch lost the leader; None if this process may be at fault."""
    if isinstance(cause, RequestTimedOut):
        return "silent"
    if isinstance(cause, ConnectionLost):
        return "closed"
    return "resigned" if isinstance(cause, KafkaError) and cause.code in NOT_LEADING else None
