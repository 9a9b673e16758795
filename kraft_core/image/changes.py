"""Descriptions of changes: one line per record or per difference of two images, for the change feed.

Lines contain topic names instead of ids, and no secrets. Example: "topic orders: p3 leader 2→4, partitionEpoch 17".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.supported_configs import is_supported_config
from kraft_core.image.metadata_delta import MetadataDelta
from kraft_core.image.metadata_image import ConfigurationsImage, MetadataImage
from kraft_core.image.trie_items import items_of
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kraft_core.image.metadata_image import (
        BrokerRegistration,
        DelegationToken,
        PartitionRegistration,
        StandardAcl,
        TopicImage,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

    Line = str | None

_RESOURCE: Final = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "client-metrics", GROUP: "group"}
_MECHANISM: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_SILENT: Final = (
    records.NoOpRecord,
    records.ZkMigrationStateRecord,
    records.BeginTransactionRecord,
    records.EndTransactionRecord,
)
_LOUD: Final = (records.TopicRecord, records.RemoveTopicRecord, records.PartitionChangeRecord)
"""They always change something: the last raises the partition's epoch."""
_SECRET_PARTS: Final = ("password", "secret", "jaas.config", "keystore.key")

K = TypeVar("K")
V = TypeVar("V")


def is_secret_config(name: str) -> bool:
    """Return whether a config's value must not be shown; True if unsure."""
    return any(part in name.lower() for part in _SECRET_PARTS)


def described_records(
    before: MetadataImage, batch: Sequence[MetadataRecord], offset: int, epoch: int
) -> Iterator[tuple[MetadataRecord, str]]:
    """Yield each record of a batch that changes something, with its effect in one line.

    The records are replayed one by one onto one working copy, since an image after each would cost more than its line.
    """
    delta = MetadataDelta(before)
    for record in batch:
        line = _DESCRIBED.get(type(record), _describe_other)(delta, record)
        if line is not None:
            yield record, line


def each_has_a_line(before: MetadataImage, batch: Sequence[MetadataRecord]) -> bool:
    """Return whether `described_records` certainly yields a line for each record, without describing them."""
    created: set[int] = set()  # by number, which hashes much faster than a UUID
    seen: set[tuple[int, object, object]] = set()
    for record in batch:
        if isinstance(record, records.PartitionRecord):
            topic = record.topic_id.int
            key: tuple[int, object, object] = (topic, record.partition_id, None)
            if topic not in created and before.topics.partition(record.topic_id, record.partition_id) is not None:
                return False
        elif isinstance(record, records.ConfigRecord):
            resource = (record.resource_type, record.resource_name)
            key = (*resource, record.name)
            is_set = before.configs.of(*resource).get(record.name) == record.value
            if is_set or not is_supported_config(record.resource_type, record.name):
                return False
        elif isinstance(record, _LOUD):
            if isinstance(record, records.TopicRecord):
                created.add(record.topic_id.int)
            continue
        else:
            return False
        if key in seen:
            return False
        seen.add(key)
    return True


def _describe_partition(delta: MetadataDelta, record: records.PartitionRecord | records.PartitionChangeRecord) -> Line:
    topics = delta.topics_delta()
    was = topics.partition(record.topic_id, record.partition_id)
    delta.replay(record)
    now = topics.partition(record.topic_id, record.partition_id)
    assert now is not None
    return next(_partition_line(topics.name_of(record.topic_id), record.partition_id, was, now), None)


def _describe_topic(delta: MetadataDelta, record: records.TopicRecord) -> Line:
    delta.replay(record)
    return f"topic {record.name}: created"


def _describe_removed_topic(delta: MetadataDelta, record: records.RemoveTopicRecord) -> Line:
    name = delta.topics_delta().name_of(record.topic_id)
    delta.replay(record)
    return f"topic {name}: deleted"


def _describe_cleared_elr(delta: MetadataDelta, record: records.ClearElrRecord) -> Line:
    delta.replay(record)
    return f"topic {record.topic_name}: ELR cleared" if record.topic_name else "ELR cleared on all topics"


def _describe_config(delta: MetadataDelta, record: records.ConfigRecord) -> Line:
    resource, nothing = (record.resource_type, record.resource_name), ConfigurationsImage.EMPTY_RESOURCE
    was = delta.configs.get(resource, nothing).get(record.name)
    delta.replay(record)
    now = delta.configs.get(resource, nothing).get(record.name)
    return None if was == now else _config_change(resource, record.name, was, now)


def _describe_acl(
    delta: MetadataDelta, record: records.AccessControlEntryRecord | records.RemoveAccessControlEntryRecord
) -> Line:
    was = delta.acls.by_id.get(record.id)
    delta.replay(record)
    now = delta.acls.by_id.get(record.id)
    return None if was == now else _acl_change(was, now)


def _describe_abort(_delta: MetadataDelta, record: records.AbortTransactionRecord) -> Line:
    return f"metadata transaction aborted: {record.reason or 'no reason given'}"


def _describe_nothing(_delta: MetadataDelta, _record: MetadataRecord) -> Line:
    return None


def _describe_other(delta: MetadataDelta, record: MetadataRecord) -> Line:
    """Describe a record that concerns neither topics nor configs nor ACLs, by what it changed."""
    before = delta.without_topics()
    delta.replay(record)
    return next(image_changes(before, delta.without_topics()), None)


_DESCRIBED: Final[dict[type, Callable[[MetadataDelta, Any], Line]]] = {
    records.TopicRecord: _describe_topic,
    records.PartitionRecord: _describe_partition,
    records.PartitionChangeRecord: _describe_partition,
    records.RemoveTopicRecord: _describe_removed_topic,
    records.ClearElrRecord: _describe_cleared_elr,
    records.ConfigRecord: _describe_config,
    records.AccessControlEntryRecord: _describe_acl,
    records.RemoveAccessControlEntryRecord: _describe_acl,
    records.AbortTransactionRecord: _describe_abort,
    **dict.fromkeys(_SILENT, _describe_nothing),
}
"""They replay the record and return its line, None if it changes nothing."""


def image_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    """Yield a line for each difference, sorted within each part.

    The cost grows with the number of differences, plus one comparison per topic.
    """
    if before.features is not after.features:
        yield from _feature_changes(before, after)
    if before.cluster is not after.cluster:
        yield from _cluster_changes(before, after)
    if before.topics is not after.topics:
        yield from _topic_changes(before, after)
    if before.configs is not after.configs:
        for resource, old, new in _differences(before.configs.by_resource, after.configs.by_resource):
            yield from _config_changes(resource, old or {}, new or {})
    if before.client_quotas is not after.client_quotas:
        for entity, old_quotas, new_quotas in _differences(before.client_quotas, after.client_quotas):
            who = ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)
            for key, was, now in _differences(old_quotas or {}, new_quotas or {}):
                yield f"quota of {who}: {key} {_change(was, now)}"
    if before.producer_ids != after.producer_ids:
        yield f"producer ids: next block begins at {after.producer_ids}"
    yield from _security_changes(before, after)


def _differences(before: Mapping[K, V], after: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield (key, old, new) of the keys whose values differ, sorted; None for an absent value."""
    keys = [key for key, value in after.items() if before.get(key) is not value]
    keys += [key for key in before if key not in after]
    for key in sorted(keys, key=repr):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield key, old, new


def _change(was: object, now: object) -> str:
    if was is None:
        return f"set to {_plain(now)}"
    return f"{_plain(was)} removed" if now is None else f"{_plain(was)}→{_plain(now)}"


def _plain(value: object) -> object:
    """Return a whole number without its fraction, as a quota's value is written."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _feature_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    if before.features.metadata_version != after.features.metadata_version:
        yield f"feature metadata.version {_change(before.features.metadata_version, after.features.metadata_version)}"
    for name, was, now in _differences(before.features.levels, after.features.levels):
        yield f"feature {name} {was or 0}→{now or 0}"


def _cluster_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    for broker_id, old, new in _differences(before.cluster.brokers, after.cluster.brokers):
        if new is None:
            yield f"broker {broker_id}: unregistered"
        elif old is None or old.epoch != new.epoch:
            rack = "" if new.rack is None else f", rack {new.rack}"
            yield f"broker {broker_id}: registered, epoch {new.epoch}{rack}{', fenced' if new.fenced else ''}"
        else:
            yield f"broker {broker_id}: {_broker_change(old, new)}"
    for node_id, was, now in _differences(before.cluster.controllers, after.cluster.controllers):
        if now is None:
            yield f"controller {node_id}: unregistered"
        else:
            yield f"controller {node_id}: {'registered' if was is None else 'registered again'}"


def _broker_change(old: BrokerRegistration, new: BrokerRegistration) -> str:
    parts: list[str] = []
    if old.fenced != new.fenced:
        parts.append("fenced" if new.fenced else "unfenced")
    if old.in_controlled_shutdown != new.in_controlled_shutdown:
        parts.append("in controlled shutdown" if new.in_controlled_shutdown else "left controlled shutdown")
    lost = [uuid_to_text(directory) for directory in old.directories if directory not in new.directories]
    if lost:
        parts.append(f"directories offline: {', '.join(lost)}")
    if old.cordoned_directories != new.cordoned_directories:
        cordoned = [uuid_to_text(directory) for directory in new.cordoned_directories or ()]
        parts.append(f"cordoned directories: {', '.join(cordoned) or 'none'}")
    return ", ".join(parts) or "registration amended"


def _topic_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    old_topics, new_topics = before.topics.by_id, after.topics.by_id
    gone = [topic for topic_id, topic in items_of(old_topics) if topic_id not in new_topics]
    for topic in sorted(gone, key=_name):
        yield f"topic {topic.name}: deleted"
    changed = [topic for topic_id, topic in items_of(new_topics) if old_topics.get(topic_id) is not topic]
    for topic in sorted(changed, key=_name):
        was = old_topics.get(topic.id)
        if was is None:
            yield f"topic {topic.name}: created"
        yield from _partition_changes(was, topic)


def _name(topic: TopicImage) -> str:
    return topic.name


def _partition_changes(old: TopicImage | None, new: TopicImage) -> Iterator[str]:
    earlier = {} if old is None else old.partitions
    for index, partition in new.sorted_partitions():
        was = earlier.get(index)
        if was is not partition:
            yield from _partition_line(new.name, index, was, partition)


def _partition_line(
    topic: str, index: int, was: PartitionRegistration | None, now: PartitionRegistration
) -> Iterator[str]:
    if was is None:
        yield f"topic {topic}: p{index} created, replicas {_ids(now.replicas)}, leader {_leader(now.leader)}"
    elif was != now:
        yield f"topic {topic}: p{index} {partition_change(was, now)}"


def partition_change(old: PartitionRegistration, new: PartitionRegistration) -> str:
    """Describe the differences of a partition: "leader 2→4, isr [2,4]→[4], partitionEpoch 17"."""
    parts: list[str] = []
    if old.leader != new.leader:
        parts.append(f"leader {_leader(old.leader)}→{_leader(new.leader)}")
    elif old.leader_epoch != new.leader_epoch:
        parts.append(f"leaderEpoch {new.leader_epoch}")
    for name, was, now in (
        ("replicas", old.replicas, new.replicas),
        ("isr", old.isr, new.isr),
        ("adding", old.adding_replicas, new.adding_replicas),
        ("removing", old.removing_replicas, new.removing_replicas),
        ("elr", old.elr, new.elr),
        ("lastKnownElr", old.last_known_elr, new.last_known_elr),
    ):
        if was != now:
            parts.append(f"{name} {_ids(was)}→{_ids(now)}")
    if old.directories != new.directories and old.replicas == new.replicas:
        pairs = zip(new.replicas, old.directories, new.directories, strict=True)
        moved = [str(broker) for broker, was_in, now_in in pairs if was_in != now_in]
        parts.append(f"directory of {'replica' if len(moved) == 1 else 'replicas'} {', '.join(moved)}")
    if old.leader_recovery_state != new.leader_recovery_state:
        parts.append("unclean, recovering" if new.leader_recovery_state else "recovered")
    parts.append(f"partitionEpoch {new.partition_epoch}")
    return ", ".join(parts)


def _ids(ids: Sequence[int]) -> str:
    return f"[{','.join(map(str, ids))}]"


def _leader(leader: int) -> str:
    return "none" if leader < 0 else str(leader)


def _config_changes(resource: tuple[int, str], before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key, was, now in _differences(before, after):
        yield _config_change(resource, key, was, now)


def _config_change(resource: tuple[int, str], key: str, was: str | None, now: str | None) -> str:
    kind, name = _RESOURCE.get(resource[0], f"resource type {resource[0]}"), resource[1] or "default"
    if is_secret_config(key):
        return f"config of {kind} {name}: {key} {'removed' if now is None else 'changed [hidden]'}"
    return f"config of {kind} {name}: {key} {_change(was, now)}"


def _acl_change(was: StandardAcl | None, now: StandardAcl | None) -> str:
    acl = now or was
    assert acl is not None
    return f"ACL of {acl.principal} on {acl.resource_name}: {'removed' if now is None else 'added'}"


def _security_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    if before.acls is not after.acls:
        for _, was, now in _differences(before.acls.by_id, after.acls.by_id):
            yield _acl_change(was, now)
    if before.scram is not after.scram:
        for mechanism, old, new in _differences(before.scram, after.scram):
            for user, _, credential in _differences(old or {}, new or {}):
                what = "removed" if credential is None else "set"
                yield f"SCRAM user {user}: {_MECHANISM.get(mechanism, mechanism)} credential {what}"
    if before.delegation_tokens is not after.delegation_tokens:
        yield from _token_changes(before.delegation_tokens, after.delegation_tokens)


def _token_changes(before: Mapping[str, DelegationToken], after: Mapping[str, DelegationToken]) -> Iterator[str]:
    for _, was, now in _differences(before, after):
        token = now or was
        assert token is not None
        verb = "removed" if now is None else "created" if was is None else "renewed"
        yield f"delegation token of {token.owner}: {verb}"
