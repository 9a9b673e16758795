"""The committed records, replayed by other code than the product's, and the invariants of each record.

Every batch is judged once, when the quorum commits it; images are compared with what it changed. Numbers are those of
docs/invariants.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record
from kraft_core.protocol.record_batch import RecordBatch
from tests.simulator.invariant import check
from tests.simulator.partition_rules import (
    NOBODY,
    Key,
    Partition,
    Surroundings,
    check_change,
    check_creation,
)

ELR = "eligible.leader.replicas.version"
UNCLEAN = "unclean.leader.election.enable"
BLOCK = 1_000
RESERVED = {UUID(int=0): True, UUID(int=1): True, UUID(int=2): False}
"""Reserved directory ids, and whether they count as online."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's registration."""

    epoch: int
    incarnation_id: UUID
    fenced: bool
    in_controlled_shutdown: bool
    directories: frozenset[UUID]

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(slots=True)
class Life:
    """The offsets between which a topic existed."""

    name: str
    created: int
    deleted: int = 2**62


@dataclass
class MetadataModel:
    """The state after the committed records up to `offset`."""

    splits: bool = False  # whether one change may be in several batches
    offset: int = -1
    record_count: int = 0
    brokers: dict[int, Broker] = field(default_factory=dict)
    broker_epochs: dict[int, int] = field(default_factory=dict)  # epoch -> broker; never removed
    newest_epoch: dict[int, int] = field(default_factory=dict)
    topics: dict[UUID, Life] = field(default_factory=dict)  # never removed
    by_name: dict[str, UUID] = field(default_factory=dict)
    partitions: dict[Key, Partition] = field(default_factory=dict)
    indexes: dict[UUID, set[int]] = field(default_factory=dict)
    leads: dict[int, set[Key]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    set_at: dict[tuple[int, str, str, str], int] = field(default_factory=dict)  # type, name, key, value -> offset
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = -1
    blocks: dict[int, int] = field(default_factory=dict)  # first producer id -> offset of its record
    acls: set[UUID] = field(default_factory=set)
    acl_ids: set[UUID] = field(default_factory=set)  # never removed
    asked_unclean: set[tuple[str, int]] = field(default_factory=set)
    elr_changes: int = 0  # of the feature or min.insync.replicas: partitions may be left without a candidate
    elections: int = 0
    unclean_elections: int = 0
    on_topic: Callable[[str, UUID], None] = lambda _name, _id: None
    on_removal: Callable[[str, UUID], None] = lambda _name, _id: None
    _held: list[tuple[MetadataRecord, int]] | None = None
    _base: int = 0
    _touched: set[Key] = field(default_factory=set)  # since the last comparison with an image
    _judged: set[Key] = field(default_factory=set)  # by the batch
    _back: set[int] = field(default_factory=set)
    _new_topics: list[UUID] = field(default_factory=list)

    # --- batches ----------------------------------------------------------------------------------------------------

    def on_batch(self, batch: RecordBatch) -> None:
        """Replay and check a committed batch."""
        self._base = batch.base_offset
        for each in batch.records():
            self.record_count += 1
            record = decode_record(each.value or b"")
            match record:
                case records.NoOpRecord():
                    pass
                case records.BeginTransactionRecord():
                    check(self._held is None, "a metadata transaction within another", each.offset)
                    self._held = []
                case records.AbortTransactionRecord():
                    check(self._held is not None, "no metadata transaction to abort", each.offset)
                    self._held = None
                case records.EndTransactionRecord():
                    check(self._held is not None, "no metadata transaction to end", each.offset)
                    for held, offset in self._held or ():
                        self._replay(held, offset)
                    self._held = None
                case _ if self._held is not None:
                    self._held.append((record, each.offset))
                case _:
                    self._replay(record, each.offset)
        self.offset = batch.last_offset
        if not self.splits:
            self._after_batch()
        self._judged.clear()
        self._back.clear()
        for topic_id in self._new_topics:
            if topic_id in self.indexes:
                self.on_topic(self.topics[topic_id].name, topic_id)
        self._new_topics.clear()

    def _replay(self, record: MetadataRecord, offset: int) -> None:
        replay = _REPLAY.get(type(record))
        check(replay is not None, "a record of an unexpected kind", record)
        assert replay is not None
        replay(self, record, offset)

    def _after_batch(self) -> None:
        """Check 24: each leader may lead, and a partition has no leader only while no replica may lead it."""
        suspects = self._judged
        if self._back:
            suspects = suspects | {key for key, it in self.partitions.items() if it.leader == NOBODY}
        for key in suspects:
            it = self.partitions.get(key)
            if it is None:
                continue
            if it.leader != NOBODY:
                check(self._can_lead(it.leader, it), "led by a broker that cannot lead", key, it)
                continue
            able = [each for each in it.isr or it.elr if self._can_lead(each, it)]
            check(not able, "no leader, although a replica may lead", key, able, it)

    def _can_lead(self, broker_id: int, it: Partition) -> bool:
        return self.is_active(broker_id) and self.is_online(broker_id, it.directory(broker_id))

    # --- lookups of rules ------------------------------------------------------------------------------------------

    def is_active(self, broker_id: int) -> bool:
        """Report whether a broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def is_online(self, broker_id: int, directory: UUID) -> bool:
        """Report whether a broker has a directory."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return False
        return RESERVED.get(directory, not broker.directories or directory in broker.directories)

    def config(self, topic: str, name: str) -> str | None:
        """Return a topic's config, else the cluster's."""
        own = self.configs.get((TOPIC, topic), {}).get(name)
        return self.configs.get((BROKER, ""), {}).get(name) if own is None else own

    def _around(self, key: Key) -> Surroundings:
        name = self.topics[key[0]].name

        def may_be_unclean() -> bool:
            return self.config(name, UNCLEAN) == "true" or (name, key[1]) in self.asked_unclean

        return Surroundings(self.is_active, self.is_online, may_be_unclean, self.features.get(ELR, 0) > 0)

    # --- brokers ----------------------------------------------------------------------------------------------------

    def _register(self, record: records.RegisterBrokerRecord, offset: int) -> None:
        """Check 21 and 28: a new incarnation gets an epoch above all earlier ones; the same one keeps its epoch."""
        broker_id, epoch = record.broker_id, record.broker_epoch
        known = self.brokers.get(broker_id)
        if known is not None and known.incarnation_id == record.incarnation_id:
            check(epoch == known.epoch, "an incarnation changed its broker epoch", broker_id, known, epoch)
        else:
            check(epoch not in self.broker_epochs, "a broker epoch was used before", broker_id, epoch)
            check(epoch > self.newest_epoch.get(broker_id, -1), "a broker epoch went back", broker_id, epoch)
            check(epoch <= offset, "a broker epoch of the future", broker_id, epoch, offset)
            check(epoch >= self._base or self.splits, "a broker epoch of an earlier batch", broker_id, epoch, offset)
            check(record.fenced, "a new incarnation that is not fenced", broker_id, epoch)
            leads = self.leads.get(broker_id)
            check(not leads, "a new incarnation leads what the old one led", broker_id, leads)
            self.broker_epochs[epoch] = broker_id
            self.newest_epoch[broker_id] = epoch
        others = {each for other, it in self.brokers.items() if other != broker_id for each in it.directories}
        check(others.isdisjoint(record.log_dirs), "two brokers have one directory", broker_id, record)
        self.brokers[broker_id] = Broker(
            epoch, record.incarnation_id, record.fenced, record.in_controlled_shutdown, frozenset(record.log_dirs)
        )

    def _known(self, broker_id: int, epoch: int, what: str) -> Broker:
        """Check 22: a record about a broker concerns its current registration."""
        broker = self.brokers.get(broker_id)
        check(broker is not None and broker.epoch == epoch, f"{what} of a stale broker epoch", broker_id, epoch, broker)
        assert broker is not None
        return broker

    def _unregister(self, record: records.UnregisterBrokerRecord, _: int) -> None:
        self._known(record.broker_id, record.broker_epoch, "a removal")
        leads = self.leads.get(record.broker_id)
        check(not leads, "a broker that leads was unregistered", record.broker_id, leads)
        del self.brokers[record.broker_id]

    def _change_broker(self, record: records.BrokerRegistrationChangeRecord, _: int) -> None:
        """Check 30: a fenced broker leads no partition."""
        broker = self._known(record.broker_id, record.broker_epoch, "a change")
        fenced = {0: broker.fenced, 1: True, -1: False}[record.fenced]
        if fenced:
            leads = self.leads.get(record.broker_id)
            check(not leads, "a fenced broker leads", record.broker_id, leads)
        elif broker.fenced:
            self._back.add(record.broker_id)
        self.brokers[record.broker_id] = replace(
            broker,
            fenced=fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=frozenset(record.log_dirs) if record.log_dirs else broker.directories,
        )
        self._judged |= self.leads.get(record.broker_id, set())

    # --- topics -----------------------------------------------------------------------------------------------------

    def _topic(self, record: records.TopicRecord, offset: int) -> None:
        """Check 28."""
        check(record.topic_id not in self.topics, "a topic id was used before", record)
        check(record.name not in self.by_name, "two topics of one name", record)
        self.topics[record.topic_id] = Life(record.name, offset)
        self.by_name[record.name] = record.topic_id
        self.indexes[record.topic_id] = set()
        self._new_topics.append(record.topic_id)

    def _partition(self, record: records.PartitionRecord, _: int) -> None:
        """Check 27."""
        key = (record.topic_id, record.partition_id)
        check(record.topic_id in self.indexes, "a partition of an unknown topic", key)
        check(key not in self.partitions, "a partition was created twice", key)
        now = Partition.of(record)
        check_creation(key, now, self._around(key))
        self.indexes[record.topic_id].add(record.partition_id)
        self._put(key, now)

    def _change_partition(self, record: records.PartitionChangeRecord, _: int) -> None:
        """Check 27."""
        key = (record.topic_id, record.partition_id)
        was = self.partitions.get(key)
        check(was is not None, "a change of an unknown partition", key, record)
        assert was is not None
        now = was.changed(record)
        self.unclean_elections += check_change(key, was, now, record, self._around(key))
        self.elections += now.leader not in {was.leader, NOBODY}
        self._put(key, now)

    def _put(self, key: Key, now: Partition) -> None:
        was = self.partitions.get(key)
        self.partitions[key] = now
        if was is None or was.leader != now.leader:
            if was is not None:
                self.leads.get(was.leader, set()).discard(key)
            if now.leader != NOBODY:
                self.leads.setdefault(now.leader, set()).add(key)
        self._touched.add(key)
        self._judged.add(key)

    def _remove_topic(self, record: records.RemoveTopicRecord, offset: int) -> None:
        """Check 27."""
        check(record.topic_id in self.indexes, "an unknown topic was deleted", record)
        life = self.topics[record.topic_id]
        life.deleted = offset
        for index in self.indexes.pop(record.topic_id):
            gone = self.partitions.pop((record.topic_id, index))
            self.leads.get(gone.leader, set()).discard((record.topic_id, index))
        del self.by_name[life.name]
        self.configs.pop((TOPIC, life.name), None)
        self.on_removal(life.name, record.topic_id)

    def _clear_elr(self, record: records.ClearElrRecord, _: int) -> None:
        known = not record.topic_name or record.topic_name in self.by_name
        check(known, "the ELR of an unknown topic was cleared", record)
        for key, it in list(self.partitions.items()):
            if record.topic_name in {"", self.topics[key[0]].name} and (it.elr or it.last_known_elr):
                self.elr_changes += not it.isr  # no candidate is left; Kafka does not keep one either
                self._put(key, replace(it, elr=(), last_known_elr=(), partition_epoch=it.partition_epoch + 1))

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _config(self, record: records.ConfigRecord, offset: int) -> None:
        """Check 27."""
        resource = (record.resource_type, record.resource_name)
        if record.resource_type == TOPIC:
            check(record.resource_name in self.by_name, "a setting of an unknown topic", record)
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
            self.set_at[record.resource_type, record.resource_name, record.name, record.value] = offset

    def _feature(self, record: records.FeatureLevelRecord, _: int) -> None:
        if record.name == ELR and self.brokers and record.feature_level != self.features.get(ELR, 0):
            self.elr_changes += 1
        self.features[record.name] = record.feature_level

    def _producer_ids(self, record: records.ProducerIdsRecord, offset: int) -> None:
        """Check 22 and 29."""
        self._known(record.broker_id, record.broker_epoch, "a block of producer ids")
        first = max(self.next_producer_id, 0)
        check(record.next_producer_id == first + BLOCK, "producer ids repeat or are left out", first, record)
        self.next_producer_id = record.next_producer_id
        self.blocks[first] = offset

    def _acl(self, record: records.AccessControlEntryRecord, _: int) -> None:
        """Check 28."""
        check(record.id not in self.acl_ids, "an ACL id was used before", record)
        self.acl_ids.add(record.id)
        self.acls.add(record.id)

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord, _: int) -> None:
        check(record.id in self.acls, "an unknown ACL was removed", record)
        self.acls.remove(record.id)

    def _untracked(self, _: MetadataRecord, __: int) -> None:
        """Ignore a record that is compared between nodes only."""

    # --- images -----------------------------------------------------------------------------------------------------

    def compare(self, image: MetadataImage, *, whole: bool = False) -> None:
        """Check 25: an image of this offset equals the model; compares what changed since the last comparison."""
        if image.offset != self.offset or self._held is not None:
            return
        touched = set(self.partitions) if whole else self._touched
        for key in touched:
            expected, found = self.partitions.get(key), image.topics.partition(*key)
            same = expected.is_same(found) if expected and found else not expected and not found
            check(same, "an image with another partition than the records say", key, expected, found)
        if not whole:
            self._touched.clear()
        check(len(image.topics.by_id) == len(self.by_name) == len(image.topics.by_name), "an image with other topics")
        check(image.producer_ids == self.next_producer_id, "an image with other producer ids", image.producer_ids)
        check(len(image.acls.by_id) == len(self.acls), "an image with other ACLs")
        check(len(image.cluster.brokers) == len(self.brokers), "an image with other brokers")
        for broker_id, broker in self.brokers.items():
            it = image.cluster.brokers.get(broker_id)
            same = (
                it is not None
                and Broker(it.epoch, it.incarnation_id, it.fenced, it.in_controlled_shutdown, frozenset(it.directories))
                == broker
            )
            check(same, "an image with another broker than the records say", broker_id, broker, it)
        if whole:
            for resource, values in self.configs.items():
                check(dict(image.configs.of(*resource)) == values, "an image with other settings", resource)
            check(sum(map(bool, self.configs.values())) == len(image.configs.by_resource), "settings out of nothing")


_REPLAY: dict[type, Callable[[MetadataModel, Any, int], None]] = {
    records.RegisterBrokerRecord: MetadataModel._register,
    records.UnregisterBrokerRecord: MetadataModel._unregister,
    records.BrokerRegistrationChangeRecord: MetadataModel._change_broker,
    records.TopicRecord: MetadataModel._topic,
    records.PartitionRecord: MetadataModel._partition,
    records.PartitionChangeRecord: MetadataModel._change_partition,
    records.RemoveTopicRecord: MetadataModel._remove_topic,
    records.ClearElrRecord: MetadataModel._clear_elr,
    records.ConfigRecord: MetadataModel._config,
    records.FeatureLevelRecord: MetadataModel._feature,
    records.ProducerIdsRecord: MetadataModel._producer_ids,
    records.AccessControlEntryRecord: MetadataModel._acl,
    records.RemoveAccessControlEntryRecord: MetadataModel._remove_acl,
    records.ClientQuotaRecord: MetadataModel._untracked,
    records.UserScramCredentialRecord: MetadataModel._untracked,
    records.RemoveUserScramCredentialRecord: MetadataModel._untracked,
    records.RegisterControllerRecord: MetadataModel._untracked,
}
