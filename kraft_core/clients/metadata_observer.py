"""The quorum seen from outside: an observer that fetches the metadata log and holds its image in memory.

It finds the leader from any node, follows it through elections, catches up from a snapshot when it must, and applies
what is committed. The web process uses it, and so does a node that is only a broker.

With replica id -1 the quorum does not know of it; a node gives its own id and directory and shows as an observer.
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
    fetch_snapshot_request,
    snapshot_partition,
)
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.control_records import VotersRecord
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchResponse, FetchResponsePartitionData, FetchSnapshotResponse
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity

log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS: Final = 500
FETCH_TIMEOUT_MS: Final = 2_000  # controller.quorum.fetch.timeout.ms: a live leader has answered long before
FETCH_MAX_BYTES: Final = 4 * 1024 * 1024
SNAPSHOT_CHUNK_BYTES: Final = 4 * 1024 * 1024
CONNECT_TIMEOUT_MS: Final = 2_000
RETRY_MS: Final = 20  # controller.quorum.retry.backoff.ms
RETRY_MAX_MS: Final = 500
NOT_LEADING: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE}
APPLY_SLICE_SECONDS: Final = 0.01  # how long the loop is held while records are applied

ChangeListener = Callable[[CommittedChange], None]
"""Called with every committed step of the log, in order, also while the first image is being built."""

SnapshotListener = Callable[[MetadataImage], None]
"""Called when a snapshot, or an empty image from which everything is read anew, took the place of all that was known."""


PartingKind = Literal["closed", "silent", "resigned"]
"""How a leader was lost: it closed the connection, did not answer in time, or answered that it leads no more."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The leader of an epoch was lost. It may be found again, if only the connection to it broke."""

    epoch: int
    leader_id: int
    how: PartingKind
    at_ms: int  # time of day


PartingListener = Callable[[Parting], None]
MeetingListener = Callable[[int, int], None]
"""Called with (epoch, time of day in ms) when the leader of an epoch answers a first fetch, and again after it was lost."""

StandingListener = Callable[[], None]
"""Called when `epoch` or `confirmed_leader` of the observer has changed."""


class MetadataObserver:
    """A MetadataSource fed by fetching. `start` it on the event loop, `stop` it before the loop ends."""

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
        self._reads_anew = True  # the next image shown does not continue the one shown last, so no records lie between
        self._leader: LeaderEndpoint | None = None
        self._listeners = MetadataListeners()
        self._change_listeners: list[ChangeListener] = []
        self._snapshot_listeners: list[SnapshotListener] = []
        self._leader_listeners: list[tuple[PartingListener, MeetingListener]] = []
        self._standing_listeners: list[StandingListener] = []
        self._standing: tuple[int, LeaderEndpoint | None] = (0, None)  # epoch and confirmed leader as told last
        self._met_epoch = -1  # epoch of the leader that answered last and was not lost since
        self._met_over: KafkaConnection | None = None  # the connection over which that leader answers
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
        """Last offset applied, also one that changed nothing; -1 before the first image."""
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
    def voters(self) -> VotersRecord | None:
        """The voter set as the log has it; None with static voters (kraft.version 0)."""
        return self._log.voters

    def leader(self) -> LeaderEndpoint | None:
        """Return the active controller, None while no leader is known."""
        return self._leader

    @property
    def confirmed_leader(self) -> LeaderEndpoint | None:
        """The leader that answered a fetch of this process in `epoch` and was not lost since.

        `leader` may name a node that another one only told of, as a voter does that has not noticed its leader's death yet.
        """
        return self._leader if self._met_over is not None and self._met_epoch == self.epoch else None

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` with (old image, new image, records between) after each move; the result ends it."""
        return self._listeners.add(listener)

    def subscribe_log(self, on_change: ChangeListener, on_snapshot: SnapshotListener) -> Callable[[], None]:
        """Call `on_change` for each committed step and `on_snapshot` for each snapshot; the result ends both."""
        self._change_listeners.append(on_change)
        self._snapshot_listeners.append(on_snapshot)

        def end() -> None:
            self._change_listeners.remove(on_change)
            self._snapshot_listeners.remove(on_snapshot)

        return end

    def subscribe_leader(self, on_parting: PartingListener, on_meeting: MeetingListener) -> None:
        """Call `on_parting` when a leader is lost and `on_meeting` when one answers."""
        self._leader_listeners.append((on_parting, on_meeting))

    def subscribe_standing(self, listener: StandingListener) -> None:
        """Call `listener` when the epoch or the confirmed leader has changed."""
        self._standing_listeners.append(listener)

    # running

    def start(self) -> None:
        """Begin to follow the quorum, in a task of its own."""
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
                    break  # this node told where the leader is: go there first
            await asyncio.sleep((RETRY_MS if self._leader is not None else retry_ms) / 1000)
            retry_ms = min(RETRY_MAX_MS, retry_ms * 2)

    async def _try(self, host: str, port: int) -> bool:
        """Follow one node for as long as that works; say whether it worked at all."""
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
            self._read_anew()
            return False
        except (ConnectionError, KafkaError) as cause:
            self._failed(host, port, cause, connection)
        except Exception as bug:  # the reading must go on, or this process would show an old image for ever
            log.exception("observer_failed", extra={"host": host, "port": port})
            self._failed(host, port, bug, connection)
            self._read_anew()
            return False
        finally:
            connection.close()
            self._leave(connection)
        return self.last_update_monotonic != before

    def _read_anew(self) -> None:
        """Forget all that was read; the image that was shown stays until one as new can take its place."""
        self._log = ObservedLog()
        self._unpublished = []
        self._reads_anew = True
        for listener in self._snapshot_listeners:
            listener(self._log.image)

    def _failed(self, host: str, port: int, cause: Exception, connection: KafkaConnection | None) -> None:
        """Note why a node is of no use. The leader is lost with the connection it answered over, whatever its address."""
        is_leader = self._leader is not None and (self._leader.host, self._leader.port) == (host, port)
        if is_leader or (connection is not None and connection is self._met_over):
            how = _how_it_went(cause)
            if how is not None:
                self._part(how)
            self._leader = None
        self.last_error = str(cause)
        level = logging.ERROR if isinstance(cause, (LogDiverged, ReplayError)) else logging.INFO
        log.log(level, "observer_disconnected", extra={"host": host, "port": port, "cause": str(cause)})

    def _leave(self, connection: KafkaConnection) -> None:
        """Forget a connection: the leader is confirmed again only when it answers over another one."""
        if self._met_over is connection:
            self._met_over, self._met_epoch = None, -1
        self._tell_standing()

    def _tell_standing(self) -> None:
        """Call the listeners when the epoch or the confirmed leader is another than they were told last."""
        standing = (self.epoch, self.confirmed_leader)
        if standing != self._standing:
            self._standing = standing
            for listener in self._standing_listeners:
                listener()

    def _candidates(self) -> Iterator[tuple[str, int]]:
        """Nodes to try: the leader if known, the bootstrap servers from another one each time, then nodes of the image."""
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
        """Fetch from one node for as long as it leads; returns when another one should be asked."""
        max_wait_ms = 0  # the first answer confirms the leader, so it is not to be held back
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
            is_right = self._heed_leader(connection, answer, partition)
            self._tell_standing()
            if not is_right:
                return
            if partition.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                continue  # the epoch is the right one now
            if partition.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(partition.error_code), f"fetch from {connection.host}:{connection.port}")
            await self._take(connection, partition)
            max_wait_ms = FETCH_MAX_WAIT_MS

    def _heed_leader(
        self, connection: KafkaConnection, answer: FetchResponse, partition: FetchResponsePartitionData
    ) -> bool:
        """Learn leader and epoch from an answer; say whether this connection is the one to go on with."""
        told = partition.current_leader
        if told.leader_epoch < self.epoch:
            return partition.error_code == ErrorCode.NONE and told.leader_epoch < 0  # the node lags behind
        if told.leader_epoch > self.epoch:
            log.info("observer_epoch", extra={"epoch": told.leader_epoch, "leader_id": told.leader_id})
            self._part("resigned")
            self.epoch = told.leader_epoch
            self._leader = None
        if told.leader_id < 0:
            self._part("resigned")
            self._leader = None
            return False
        endpoint = endpoint_of(answer, told.leader_id)
        if endpoint is None and partition.error_code == ErrorCode.NONE:
            endpoint = LeaderEndpoint(told.leader_id, connection.host, connection.port)
        if endpoint is not None:
            self._leader = endpoint
        if partition.error_code == ErrorCode.NONE:
            return True
        return endpoint is not None and (endpoint.host, endpoint.port) == (connection.host, connection.port)

    def _part(self, how: PartingKind) -> None:
        """Tell that the leader which answered until now does so no more."""
        if self._leader is not None and self._met_epoch == self.epoch:
            parting = Parting(self.epoch, self._leader.node_id, how, int(time.time() * 1000))
            self._met_epoch = -1
            for on_parting, _ in self._leader_listeners:
                on_parting(parting)

    def _meet(self, connection: KafkaConnection) -> None:
        """Tell that the leader of the epoch answers over `connection`."""
        self._met_over = connection
        if self._met_epoch != self.epoch:
            self._met_epoch = self.epoch
            for _, on_meeting in self._leader_listeners:
                on_meeting(self.epoch, int(time.time() * 1000))
        self._tell_standing()

    async def _take(self, connection: KafkaConnection, partition: FetchResponsePartitionData) -> None:
        """Take in what a successful fetch brought."""
        self.log_start_offset = partition.log_start_offset
        if partition.snapshot_id.end_offset >= 0:
            await self._fetch_snapshot(connection, partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        elif partition.diverging_epoch.end_offset >= 0:
            self._log.truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        else:
            self._log.append(partition.records or b"", self.epoch)
            self._log.advance(partition.high_watermark)
            await self._apply()
        self.last_update_monotonic = asyncio.get_running_loop().time()
        self.last_error = None
        self._meet(connection)
        if self._log.is_caught_up or (self.is_ready and self._log.image.offset >= self._published.offset):
            await self._publish()

    async def _apply(self) -> None:
        """Apply what is committed, giving way to others every few milliseconds."""
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + APPLY_SLICE_SECONDS
        while (change := self._log.next_change()) is not None:
            if not self._reads_anew:
                self._unpublished.extend(record for _, record in change.records)
            for listener in self._change_listeners:
                listener(change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + APPLY_SLICE_SECONDS

    async def _publish(self) -> None:
        """Show the image to all who wait for it."""
        old, new = self._published, self._log.image
        records, self._unpublished = self._unpublished, []
        if new is not old:
            self._published = new
            self._reads_anew = False
            self._listeners.tell(old, new, records)
        async with self._moved:
            self._moved.notify_all()

    async def _fetch_snapshot(self, connection: KafkaConnection, end_offset: int, epoch: int) -> None:
        """Fetch a whole snapshot and begin again from it. Raises KafkaError, CorruptBatch, ReplayError."""
        log.info("observer_snapshot", extra={"end_offset": end_offset, "snapshot_epoch": epoch})
        data = bytearray()
        while True:
            request = fetch_snapshot_request(
                self.identity,
                leader_epoch=self.epoch,
                end_offset=end_offset,
                epoch=epoch,
                position=len(data),
                max_bytes=SNAPSHOT_CHUNK_BYTES,
            )
            answer = cast("FetchSnapshotResponse", await connection.request(request, FETCH_TIMEOUT_MS * 5))
            partition = snapshot_partition(answer)
            code = answer.error_code or (ErrorCode.INVALID_REQUEST if partition is None else partition.error_code)
            if code != ErrorCode.NONE or partition is None:
                raise KafkaError(ErrorCode(code), f"snapshot {end_offset}-{epoch} at {len(data)}")
            if partition.position != len(data) or not partition.unaligned_records:
                raise CorruptBatch(len(data), f"snapshot {end_offset}-{epoch} came with a gap")
            data += partition.unaligned_records
            if len(data) >= partition.size:
                break
        await asyncio.to_thread(self._log.load_snapshot, bytes(data), end_offset, epoch)
        self._unpublished = []
        self._reads_anew = True
        for listener in self._snapshot_listeners:
            listener(self._log.image)


def _how_it_went(cause: Exception) -> PartingKind | None:
    """What a failed fetch tells of the leader; None when the fault may be ours."""
    if isinstance(cause, RequestTimedOut):
        return "silent"
    if isinstance(cause, ConnectionLost):
        return "closed"
    return "resigned" if isinstance(cause, KafkaError) and cause.code in NOT_LEADING else None
