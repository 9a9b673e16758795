"""One Kafka cluster as the web process sees it: the image in memory, its changes, and its recent history."""

import asyncio
import copy
import logging
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import UUID

from app.cluster.admin import Admin
from app.cluster.broker_clients import BrokerClients
from app.cluster.broker_requests import BrokerRequests
from app.cluster.changes import Connections
from app.cluster.epoch_keeper import EpochKeeper
from app.cluster.groups import Groups
from app.cluster.history import Change, History, OffsetGone
from app.cluster.identity import ClusterIdentity
from app.cluster.log_dirs import BrokerLogDirs, PastLogDirs
from app.cluster.log_events.survey import LogEvents
from app.cluster.log_store.archive import Archive, Past
from app.cluster.log_store.recorder import Limits, Recorder
from app.cluster.partition_offsets import PartitionOffsets
from app.cluster.past_quorum import past_quorum
from app.cluster.quorum import Quorum
from app.cluster.quorum_watch import QuorumWatch
from app.cluster.records import Records
from app.cluster.samples import Sample, Samples
from app.cluster.static_configs import BrokerStaticConfigs
from app.cluster.topic_changes import TopicChangeTimes
from app.cluster.topic_rates import TopicRates
from app.cluster.topic_table import TopicTable
from app.cluster.transactions import Transactions
from app.db.database import Database
from app.records.schema_registry import SchemaRegistry
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.observed_log import CommittedChange
from kraft_core.clients.quorum_fetch import ObserverIdentity
from kraft_core.configs.config_resource import CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.effective_config import (
    ConfigEntry,
    NodeConfigs,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
)
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0
FIND_LEADER_MS: Final = 5_000  # longer than any election; after it, a request fails because there is no leader
DESCRIBED_AT_START: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Age of the image. `age_ms` is the time since the leader last confirmed it, None before the first confirmation."""

    offset: int
    epoch: int
    high_watermark: int
    age_ms: int | None
    is_ready: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """Where the metadata log that was read is kept, one folder for each cluster, and how much of it."""

    folder: Path
    limits: Limits


class Cluster:
    """A cluster. Start it on the event loop, and stop it before the loop ends."""

    def __init__(
        self,
        bootstrap: list[tuple[str, int]],
        database: Database,
        *,
        cluster_id: str | None = None,
        request_timeout_ms: int = 30_000,
        history_records_max: int = 20_000,
        security: ClientSecurity = PLAINTEXT_CLIENT,
        client_properties: Mapping[str, str] | None = None,
        schemas: SchemaRegistry | None = None,
        stored: StoredHistory,
    ) -> None:
        self.past: Past | None = None
        """The state that this view shows, None for the present one."""
        self.observer = MetadataObserver(bootstrap, ObserverIdentity(cluster_id=cluster_id), security=security)
        self.history = History(history_records_max)
        self.epochs = self.history.epochs
        self.archive = Archive(self.history, history_records_max, lambda: self.observer.applied_offset)
        self.log_events = LogEvents(self.history, self.archive)
        self._stored = stored
        self.observer.subscribe_log(self._on_change, self._on_snapshot)
        self.observer.subscribe_leader(self.history.epochs.lost, self.history.epochs.found)
        self.client = ControllerClient(
            bootstrap,
            cluster_id=cluster_id,
            find_leader_timeout_ms=FIND_LEADER_MS,
            leader_hint=self.observer.leader,
            security=security,
        )
        self._quorum = QuorumWatch(self.client, self.observer, bootstrap, security)
        self._quorum.on_change = self._notify_waiting
        self._broker_requests = BrokerRequests(security)
        self.static_configs = BrokerStaticConfigs(self._broker_requests)
        self.log_dirs = BrokerLogDirs(self._broker_requests)
        self._clients = BrokerClients(lambda: self.image, security, client_properties)
        self.records = Records(self._clients, PartitionOffsets(self._broker_requests, lambda: self.image), schemas)
        self.groups = Groups(self._clients, lambda: self.image)
        self.transactions = Transactions(self._clients, lambda: self.image)
        self.topic_rates = TopicRates(self._clients)
        connections = Connections(self.client, self.observer, self.history, self._quorum, request_timeout_ms)
        self.admin = Admin(connections, self._clients, self.groups)
        self._topic_table = TopicTable()
        self._topic_changes = TopicChangeTimes()
        self.samples = Samples(self._sample)
        self._identity = ClusterIdentity(
            bootstrap, database, self.observer, self.client, cluster_id, security, self._open_history
        )
        self._epoch_keeper = EpochKeeper(self.history, self.observer, self.client, database, lambda: self.cluster_id)
        self._stopping = asyncio.Event()
        self._process_stamp = secrets.token_hex(4)
        self._changed_at = -1  # offset of the newest image that differs from the one before in more than its offset
        self._waiting: set[asyncio.Event] = set()

    # lifecycle

    def start(self) -> None:
        """Start to follow the quorum."""
        self.observer.subscribe(self._on_image)
        self._identity.start()
        self._epoch_keeper.start()
        self._quorum.start()
        self.samples.start()

    def begin_stop(self) -> None:
        """End the event streams so that their connections can close. Called when the server starts to shut down."""
        self._stopping.set()
        self._notify_waiting()

    @property
    def is_stopping(self) -> bool:
        """Whether event streams should end."""
        return self._stopping.is_set()

    async def stop(self) -> None:
        """Stop following the quorum and close all connections."""
        self.begin_stop()
        await self.samples.stop()
        await self._identity.stop()
        await self._quorum.stop()
        await self._epoch_keeper.stop()
        await self.observer.stop()
        await self.log_events.stop()
        await self.archive.stop()
        if self.archive.recorder is not None:
            await self.archive.recorder.stop()
        await self.static_configs.stop()
        await self.log_dirs.stop()
        await self.groups.stop()
        await self.transactions.stop()
        await self.topic_rates.stop()
        await self._clients.stop()
        self.client.close()

    async def _open_history(self, cluster_id: str) -> None:
        """Open the stored log of the cluster, and resume where it ends."""
        folder = self._stored.folder / f"cluster-{quote(cluster_id, safe='')}"
        recorder = Recorder(folder, self._stored.limits, lambda: self.observer.voters)
        found = await recorder.open(self.history.records_max)
        if found is not None:
            resumed, replay, changes = found
            if replay.start.end_offset:
                self.history.snapshot(replay.start.image, replay.start.time_ms)
            for change in changes:
                self.history.add(change)
            self.observer.resume(resumed)
        self.observer.on_diverged = recorder.diverged
        self.archive.recorder = recorder
        recorder.start()

    def _on_change(self, change: CommittedChange) -> None:
        self.history.add(change)
        if self.archive.recorder is not None:
            self.archive.recorder.add(change)

    def _on_snapshot(self, image: MetadataImage) -> None:
        time_ms = self.observer.snapshot_time_ms
        self.history.snapshot(image, time_ms)
        if self.archive.recorder is not None:
            self.archive.recorder.snapshot(image, time_ms)

    def _on_image(self, old: MetadataImage, new: MetadataImage, _records: object) -> None:
        self._quorum.follow_voters()
        newest = self.history.newest(1)
        changed_at = max(newest[0].offset if newest else -1, self.history.oldest_offset - 1)
        if changed_at != self._changed_at:
            self._changed_at = changed_at
            self._notify_waiting()
        if new.cluster is not old.cluster:
            self.static_configs.follow(new)
        if old.offset < 0:
            asyncio.get_running_loop().call_soon(self._read_first_image)

    def _read_first_image(self) -> None:
        """Count the topics and describe the newest changes now, not in the first page."""
        self.topic_table.totals()
        self._topic_changes.of(self.history)
        for change in self.history.newest(DESCRIBED_AT_START):
            _ = change.excerpt

    def _sample(self, at: float) -> Sample | None:
        if not self.observer.is_ready:
            return None
        totals = self.topic_table.totals()
        return Sample(
            at=at,
            high_watermark=self.observer.high_watermark,
            partitions=totals.partitions,
            offline=totals.offline,
            under_min=totals.under_min,
            under_replicated=totals.under_replicated,
        )

    # reading

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, None until a controller has named it."""
        return self._identity.cluster_id

    @property
    def foreign(self) -> str:
        """The error when the controllers belong to another cluster than this process, else ""."""
        return self._identity.foreign

    def at(self, past: Past) -> "Cluster":
        """Return a view of this cluster that shows a past state. What only brokers know is unknown in it."""
        view = copy.copy(self)
        view._become(past)  # noqa: SLF001 - its own class
        return view

    def _become(self, past: Past) -> None:
        self.epochs = self.history.epochs.until(past.offset, past.time_ms)
        self.past, self.history, self._topic_table = past, past.history, past.table
        self._topic_changes = TopicChangeTimes()
        self.static_configs = BrokerStaticConfigs(self._broker_requests)
        self.log_dirs = PastLogDirs(self._broker_requests)

    @property
    def image(self) -> MetadataImage:
        """The newest committed image, in a view of the past the image of then."""
        return self.observer.image if self.past is None else self.past.image

    @property
    def topic_table(self) -> TopicTable:
        """All topics as rows, at `image`."""
        self._topic_table.refresh(self.image, self.history)
        return self._topic_table

    @property
    def topic_changes(self) -> Mapping[UUID, int]:
        """The time of the last kept change of each topic, in ms since 1970, by topic id."""
        return self._topic_changes.of(self.history)

    @property
    def freshness(self) -> Freshness:
        """The age of the image."""
        seen = self.observer.last_update_monotonic
        age_ms = None if seen is None else max(0, int((asyncio.get_running_loop().time() - seen) * 1000))
        return Freshness(
            offset=self.observer.applied_offset if self.past is None else self.past.offset,
            epoch=self.observer.epoch,
            high_watermark=self.observer.high_watermark,
            age_ms=age_ms,
            is_ready=self.observer.is_ready,
            error=self.observer.last_error,
        )

    @property
    def quorum(self) -> Quorum:
        """The quorum as this process knows it now, in a view of the past what the log says of it. Nothing is asked."""
        if self.past is not None:
            return past_quorum(self.past.image, self.past.offset, self.past.time_ms, self.epochs)
        return self._quorum.now

    @property
    def stamp(self) -> str:
        """A version of what pages show. It changes with the metadata, the quorum and the responding process."""
        return f"{self._process_stamp}-{self._changed_at}-{self._quorum.version}"

    async def wait_for_change(self, stamp: str, timeout_seconds: float) -> None:
        """Wait until the stamp differs from `stamp`, the process stops or the timeout expires."""
        moved = asyncio.Event()
        self._waiting.add(moved)
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.stamp == stamp and not self._stopping.is_set():
                    await moved.wait()
                    moved.clear()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(moved)

    def _notify_waiting(self) -> None:
        for moved in self._waiting:
            moved.set()

    async def wait_for_offset(self, offset: int, timeout_ms: int) -> bool:
        """Wait until the image contains `offset`. Returns False after the timeout."""
        return await self.observer.wait_for_offset(offset, timeout_ms)

    async def catch_up(self, timeout_ms: int) -> None:
        """Wait until the image contains every change that the controller has acknowledged to anybody so far.

        Raises KafkaError, also REQUEST_TIMED_OUT, and ConnectionError.
        """
        last_offset = await self._quorum.high_watermark(timeout_ms) - 1
        if not await self.observer.wait_for_offset(last_offset, timeout_ms):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"The metadata log was not read up to offset {last_offset} in time."
            )

    # configs, as every listing shows them

    def topic_configs(self, name: str, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return all configs of a topic, sorted by name, with value, source, default and documentation."""
        image = image or self.image
        return topic_entries(image.configs.of(TOPIC, name), self.topic_defaults(image))

    def topic_defaults(self, image: MetadataImage | None = None) -> NodeConfigs:
        """Return the values that a topic inherits for configs that it does not set."""
        return NodeConfigs.of((image or self.image).configs, static_configs=self.static_configs.of_any())

    def broker_configs(self, broker_id: int, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return all configs of a broker, sorted by name."""
        image = image or self.image
        return broker_entries(NodeConfigs.of(image.configs, broker_id, self.static_configs.of(broker_id)))

    def configs_of_all_brokers(self, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return the values that every broker inherits for configs that it does not set, sorted by name."""
        return broker_entries(NodeConfigs.of((image or self.image).configs))

    def cluster_configs(self, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return the configs of the cluster-wide default of all brokers, sorted by name."""
        image = image or self.image
        return default_broker_entries(NodeConfigs.of(image.configs))

    def group_configs(self, group_id: str, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return all configs of a consumer group, sorted by name. The log does not say whether the group exists."""
        image = image or self.image
        nodes = NodeConfigs.of(image.configs, static_configs=self.static_configs.of_any())
        return group_entries(image.configs.of(GROUP, group_id), nodes)

    def client_metrics_configs(self, name: str, image: MetadataImage | None = None) -> list[ConfigEntry]:
        """Return all configs of a client-metrics subscription, sorted by name."""
        return client_metrics_entries((image or self.image).configs.of(CLIENT_METRICS, name))

    # the change feed

    async def events(
        self, after_offset: int | None = None, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> AsyncIterator[list[Change]]:
        """Yield changes as they commit, in lists, oldest first; an empty list after `heartbeat_seconds` without one.

        With `after_offset`, the first change is the next one after that offset, without gap or repeat; otherwise it is
        the next one to commit. Ends when the process stops. Raises OffsetGone when the reader starts or falls behind
        what is kept.
        """
        position = self.history.newest_offset if after_offset is None else after_offset
        loop = asyncio.get_running_loop()
        due = loop.time() + heartbeat_seconds
        while not self._stopping.is_set():
            changes = self.history.since(max(position + 1, self.history.oldest_offset if position < 0 else 0))
            position = max(position, changes[-1].offset if changes else self.history.newest_offset)
            if changes or loop.time() >= due:
                yield changes
                due = loop.time() + heartbeat_seconds
            else:
                await self._wait_for_offset_after(position, due - loop.time())

    async def _wait_for_offset_after(self, position: int, timeout_seconds: float) -> None:
        """Wait until the log has a record after `position`, the process stops or the timeout expires."""
        waiting = asyncio.create_task(self.history.wait_beyond(position, timeout_seconds))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            stopping.cancel()


__all__ = ["Change", "Cluster", "Freshness", "OffsetGone", "Quorum", "now_ms"]


def now_ms() -> int:
    """Return the time of day in ms since 1970."""
    return int(time.time() * 1000)
