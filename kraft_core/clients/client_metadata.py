"""The cluster as its brokers describe it to clients: nodes, topics with their ids, partition leaders with their epochs.

`ClientMetadata` decides when to ask again and never takes an older leader epoch for a newer one; it sends nothing
itself. Times are ms of a monotonic clock. Source: Metadata, ProducerMetadata, MetadataSnapshot of Kafka 4.3.1; KIP-320
(leader epochs), KIP-516 (topic ids), KIP-899 and KIP-1102 (rebootstrap), KIP-951 (leaders named in answers).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from kraft_core.protocol.uuids import ZERO_UUID

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class TopicPartition(NamedTuple):
    """A topic's name and a partition's index; equal to the tuple of both."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker's id and the address of the listener that the client uses. Bootstrap addresses have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def is_bootstrap(self) -> bool:
        """Whether this is an address of the settings and no broker of the metadata."""
        return self.id < 0


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition's leader and replicas, by broker id. `leader` is -1 without one, `leader_epoch` -1 if unknown."""

    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. `error` says why it has no partitions; a partition's own error is in its PartitionInfo."""

    name: str
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: Mapping[int, PartitionInfo] = field(default_factory=lambda: MappingProxyType({}))
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class MetadataConfig:
    """When metadata is asked for. Times are ms; the names are those of Kafka's client configs with underscores."""

    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    rebootstrap: bool = True  # metadata.recovery.strategy
    rebootstrap_trigger_ms: int = 300_000  # metadata.recovery.rebootstrap.trigger.ms
    allow_auto_topic_creation: bool = True


class ClientMetadata:
    """What one client knows of its cluster, and which topics it is interested in.

    `topics` None means all topics. `changes` counts the updates, so that an owner sees that something is new.
    """

    def __init__(self, bootstrap: Iterable[tuple[str, int]], config: MetadataConfig, random: Random) -> None:
        self.config = config
        self.bootstrap_nodes = tuple(Node(-1 - index, host, port) for index, (host, port) in enumerate(bootstrap))
        self.nodes: Mapping[int, Node] = {}
        self.topics: Mapping[str, TopicInfo] = {}
        self.names_by_id: Mapping[UUID, str] = {}
        self.cluster_id: str | None = None
        self.controller_id = NO_LEADER
        self.changes = 0
        self._wanted: set[str] | None = set()
        self._wanted_ids: frozenset[UUID] = frozenset()
        self._asked_for_ids = False
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._needs_update = True
        self._is_pending = False
        self._failures = 0
        self._not_before_ms: float = 0
        self._updated_ms: float | None = None
        self._rebootstrap_from_ms: float | None = None
        self._fatal_error: KafkaError | None = None

    # Interest

    @property
    def wanted(self) -> Collection[str] | None:
        """The names of the topics that are asked for; None for all."""
        return self._wanted

    def want(self, topics: Iterable[str]) -> None:
        """Ask for these topics too, at once if one of them is not known yet."""
        if self._wanted is None:
            return
        added = set(topics) - self._wanted
        if added:
            self._wanted |= added
            if not added <= self.topics.keys():
                self._request_update_now()

    def want_only(self, topics: Iterable[str] | None) -> None:
        """Ask for just these topics from here on; None for all topics."""
        wanted = None if topics is None else set(topics)
        is_known = wanted is not None and wanted <= self.topics.keys()
        if wanted == self._wanted and is_known:
            return
        self._wanted = wanted
        if not is_known:
            self._request_update_now()
        elif wanted is not None:
            self._keep(wanted)

    def want_ids(self, topic_ids: Iterable[UUID]) -> None:
        """Ask for the topics of these ids too, and for no other ids: a group's coordinator names them (KIP-848)."""
        self._wanted_ids = frozenset(topic_ids)
        if not self._wanted_ids <= self.names_by_id.keys():
            self._request_update_now()

    def _keep(self, names: Collection[str]) -> None:
        self._take_topics({name: topic for name, topic in self.topics.items() if self._is_wanted(topic, names)})

    def _take_topics(self, topics: Mapping[str, TopicInfo]) -> None:
        self.topics = topics
        self.names_by_id = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id.int}

    def _is_wanted(self, topic: TopicInfo, names: Collection[str] | None) -> bool:
        return names is None or topic.name in names or topic.topic_id in self._wanted_ids

    # Reading

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        """Return what is known of a partition, None if its topic or index is unknown."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader_of(self, partition: TopicPartition) -> Node | None:
        """Return the leader of a partition, None while there is none or its node is not known."""
        found = self.partition(partition)
        return None if found is None else self.nodes.get(found.leader)

    def topic_id(self, name: str) -> UUID:
        """Return a topic's id; the zero UUID if it is not known."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def all_nodes(self) -> Collection[Node]:
        """The brokers, or the bootstrap addresses before the first update."""
        return self.nodes.values() or self.bootstrap_nodes

    # When to ask

    def request_update(self) -> None:
        """Ask for metadata as soon as the back-off allows."""
        self._needs_update = True

    def _request_update_now(self) -> None:
        """Ask for topics that were never asked for, which no back-off of other topics delays."""
        self._needs_update = True
        self._not_before_ms = 0

    def update_due_ms(self, now_ms: float) -> float | None:
        """Return the time of the next request; None while one is in flight."""
        if self._is_pending:
            return None
        if self._needs_update or self._updated_ms is None:
            return max(now_ms, self._not_before_ms)
        return max(self._updated_ms + self.config.metadata_max_age_ms, self._not_before_ms)

    def new_request(self, now_ms: float) -> MetadataRequest:
        """Begin an update: return the request; end it with `update` or `failed`."""
        self._is_pending = True
        self._needs_update = False
        if self._rebootstrap_from_ms is None:
            self._rebootstrap_from_ms = now_ms
        names = self._wanted
        missing = self._wanted_ids - self.names_by_id.keys()
        self._asked_for_ids = bool(missing) and names is not None and not self._asked_for_ids
        topics: tuple[MetadataRequestMetadataRequestTopic, ...] | None = None
        if self._asked_for_ids:  # a broker ignores names in a request with ids
            topics = tuple(MetadataRequestMetadataRequestTopic(name=None, topic_id=each) for each in sorted(missing))
        elif names is not None:
            of_ids = {self.names_by_id[each] for each in self._wanted_ids - missing}
            topics = tuple(MetadataRequestMetadataRequestTopic(name=name) for name in sorted({*names, *of_ids}))
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self.config.allow_auto_topic_creation)

    def failed(self, now_ms: float, fatal: KafkaError | None = None) -> None:
        """End an update without an answer, and ask again after the back-off.

        `fatal` is an error that the client's user must see, such as a refused login.
        """
        self._fatal_error = fatal or self._fatal_error
        self._is_pending = False
        self._needs_update = True
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def raise_fatal_error(self) -> None:
        """Raise, once, the fatal error of an update. Source: Metadata.maybeThrowFatalException."""
        error, self._fatal_error = self._fatal_error, None
        if error is not None:
            raise error

    def must_rebootstrap(self, now_ms: float) -> bool:
        """Whether no update has succeeded for so long that the bootstrap addresses are to be used again (KIP-1102)."""
        since = self._rebootstrap_from_ms
        is_late = since is not None and now_ms - since >= self.config.rebootstrap_trigger_ms
        return self.config.rebootstrap and bool(self.nodes) and is_late

    def rebootstrap(self, now_ms: float) -> None:
        """Forget the brokers, so that the next update asks the bootstrap addresses. Topics stay known."""
        self.nodes = {}
        self._rebootstrap_from_ms = now_ms
        self._needs_update = True
        self._is_pending = False
        self.changes += 1

    # Updates

    def update(self, response: MetadataResponse, now_ms: float) -> None:
        """Take in an answer. Errors of topics are kept with the topic, and asked for again if retriable.

        An answer without brokers, as of a broker that has just started or with a top-level error, changes nothing.
        """
        self._is_pending = False
        if not response.brokers:  # a broker that has just started knows no other: keep what is known
            self.failed(now_ms)
            return
        self.nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        found = {topic.name: self._merged(topic) for topic in response.topics if topic.name is not None}
        wanted = self._wanted
        known = found if wanted is None else {**self.topics, **found}
        self._take_topics({name: topic for name, topic in known.items() if self._is_wanted(topic, wanted)})
        self.changes += 1
        self._updated_ms = now_ms
        self._rebootstrap_from_ms = None
        self._ask_again_for(found.values(), now_ms)

    def _ask_again_for(self, topics: Iterable[TopicInfo], now_ms: float) -> None:
        is_incomplete = any(
            topic.error.retriable or any(each.leader == NO_LEADER for each in topic.partitions.values())
            for topic in topics
        )
        is_complete = (
            self._wanted or frozenset()
        ) <= self.topics.keys() and self._wanted_ids <= self.names_by_id.keys()
        if is_incomplete or not is_complete or self._asked_for_ids:
            self._needs_update = True
            self._not_before_ms = now_ms + self._backoff.after(self._failures)
            self._failures += 1
        else:
            self._failures = 0
            self._not_before_ms = now_ms + self.config.retry_backoff_ms

    def _merged(self, topic: MetadataResponseMetadataResponseTopic) -> TopicInfo:
        """Take a topic as answered, but keep a partition whose known leader epoch of the same topic id is newer."""
        name = topic.name or ""
        old = self.topics.get(name)
        same = old is not None and old.topic_id == topic.topic_id
        partitions = {}
        for each in topic.partitions:
            known = old.partitions.get(each.partition_index) if old is not None and same else None
            is_older = known is not None and NO_EPOCH < each.leader_epoch < known.leader_epoch
            partitions[each.partition_index] = known if known is not None and is_older else partition_info(each)
        return TopicInfo(name, topic.topic_id, topic.is_internal, partitions, ErrorCode(topic.error_code))

    def update_leaders(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], endpoints: Iterable[Node] = ()
    ) -> list[TopicPartition]:
        """Take newer leaders named in an answer (KIP-951): partition -> (broker id, leader epoch); return those taken.

        A leader whose node is neither known nor in `endpoints` is not taken, and metadata is asked for instead.
        """
        known = {**self.nodes, **{node.id: node for node in endpoints}}
        taken: dict[str, dict[int, PartitionInfo]] = {}
        done = []
        for partition, (leader, epoch) in leaders.items():
            now = self.partition(partition)
            if now is None or epoch <= now.leader_epoch or leader == NO_LEADER:
                continue
            if leader not in known:
                self.request_update()
                continue
            taken.setdefault(partition.topic, {})[partition.partition] = replace(now, leader=leader, leader_epoch=epoch)
            done.append(partition)
        if done:
            self.nodes = known
            self.topics = {
                name: replace(topic, partitions={**topic.partitions, **taken[name]}) if name in taken else topic
                for name, topic in self.topics.items()
            }
            self.changes += 1
        return done


def partition_info(found: MetadataResponseMetadataResponsePartition) -> PartitionInfo:
    """Return a partition of an answer to Metadata."""
    return PartitionInfo(
        leader=found.leader_id,
        leader_epoch=found.leader_epoch,
        replicas=found.replica_nodes,
        isr=found.isr_nodes,
        offline_replicas=found.offline_replicas,
        error=ErrorCode(found.error_code),
    )
