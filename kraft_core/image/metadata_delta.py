"""Replay: the one place where a metadata record changes metadata.

`REPLAY` maps each of the 26 record types to its function. A delta is a working copy for a sequence of records; `apply`
returns the next image; the base image does not change. Source: MetadataDelta, QuorumController.replay, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from rpds import HashTrieMap

from kraft_core.configs.config_resource import TOPIC
from kraft_core.configs.supported_configs import is_supported_config
from kraft_core.image import cluster_replay
from kraft_core.image.metadata_image import (
    ConfigurationsImage,
    DelegationToken,
    FeaturesImage,
    MetadataImage,
    ScramCredential,
    StandardAcl,
)
from kraft_core.image.replay_error import ReplayError
from kraft_core.image.topics_delta import TopicsDelta
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.metadata_version import FEATURES, KRAFT_VERSION, METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kraft_core.image.topics_image import TopicsImage
    from kraft_core.protocol.metadata_records import MetadataRecord


class MetadataDelta:
    """Changes on top of an image. Parts without changes are shared with the base."""

    __slots__ = (
        "acls",
        "base",
        "client_quotas",
        "cluster",
        "configs",
        "delegation_tokens",
        "features",
        "producer_ids",
        "scram",
        "topics",
    )

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.features = base.features
        self.cluster = base.cluster
        self.topics: TopicsDelta | None = None
        self.configs = base.configs.by_resource
        self.client_quotas = base.client_quotas
        self.producer_ids = base.producer_ids
        self.acls = base.acls
        self.scram = base.scram
        self.delegation_tokens = base.delegation_tokens

    def topics_delta(self) -> TopicsDelta:
        """Return the working copy of the topics, created at first use."""
        if self.topics is None:
            self.topics = TopicsDelta(self.base.topics)
        return self.topics

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record. Raises ReplayError when it contradicts the records before it."""
        handler = REPLAY.get(type(record))
        if handler is None:
            raise ReplayError(f"Unhandled record type {type(record).__name__}")
        handler(self, record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image whose last record is at `offset` in leader epoch `epoch`."""
        topics = self.base.topics if self.topics is None else self.topics.apply()
        return self._image(offset, epoch, topics)

    def without_topics(self) -> MetadataImage:
        """Return the state so far except for topics, which are those of the base. Costs no more than its few fields."""
        return self._image(self.base.offset, self.base.epoch, self.base.topics)

    def _image(self, offset: int, epoch: int, topics: TopicsImage) -> MetadataImage:
        base = self.base
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            features=self.features,
            cluster=self.cluster,
            topics=topics,
            configs=base.configs if self.configs is base.configs.by_resource else ConfigurationsImage(self.configs),
            client_quotas=self.client_quotas,
            producer_ids=self.producer_ids,
            acls=self.acls,
            scram=self.scram,
            delegation_tokens=self.delegation_tokens,
        )


def replay(image: MetadataImage, record: MetadataRecord) -> MetadataImage:
    """Return the image after one record; its offset is one more than the image's."""
    return replay_all(image, (record,), image.offset + 1, image.epoch)


def replay_all(image: MetadataImage, batch: Iterable[MetadataRecord], offset: int, epoch: int) -> MetadataImage:
    """Return the image after these records, the last of which is at `offset` in `epoch`.

    Raises ReplayError; the given image does not change.
    """
    delta = MetadataDelta(image)
    for record in batch:
        delta.replay(record)
    return delta.apply(offset, epoch)


def _register_broker(delta: MetadataDelta, record: records.RegisterBrokerRecord) -> None:
    delta.cluster = cluster_replay.register_broker(delta.cluster, record)


def _unregister_broker(delta: MetadataDelta, record: records.UnregisterBrokerRecord) -> None:
    delta.cluster = cluster_replay.unregister_broker(delta.cluster, record)


def _fence_broker(delta: MetadataDelta, record: records.FenceBrokerRecord) -> None:
    delta.cluster = cluster_replay.fence_broker(delta.cluster, record)


def _unfence_broker(delta: MetadataDelta, record: records.UnfenceBrokerRecord) -> None:
    delta.cluster = cluster_replay.unfence_broker(delta.cluster, record)


def _broker_registration_change(delta: MetadataDelta, record: records.BrokerRegistrationChangeRecord) -> None:
    delta.cluster = cluster_replay.change_broker_registration(delta.cluster, record)


def _register_controller(delta: MetadataDelta, record: records.RegisterControllerRecord) -> None:
    delta.cluster = cluster_replay.register_controller(delta.cluster, record)


def _topic(delta: MetadataDelta, record: records.TopicRecord) -> None:
    delta.topics_delta().replay_topic(record)


def _partition(delta: MetadataDelta, record: records.PartitionRecord) -> None:
    delta.topics_delta().replay_partition(record)


def _partition_change(delta: MetadataDelta, record: records.PartitionChangeRecord) -> None:
    delta.topics_delta().replay_partition_change(record)


def _remove_topic(delta: MetadataDelta, record: records.RemoveTopicRecord) -> None:
    name = delta.topics_delta().replay_remove_topic(record)
    delta.configs = delta.configs.discard((TOPIC, name))


def _clear_elr(delta: MetadataDelta, record: records.ClearElrRecord) -> None:
    delta.topics_delta().replay_clear_elr(record)


def _config(delta: MetadataDelta, record: records.ConfigRecord) -> None:
    if not is_supported_config(record.resource_type, record.name):
        return
    resource = (record.resource_type, record.resource_name)
    configs = delta.configs.get(resource, ConfigurationsImage.EMPTY_RESOURCE)
    if record.value is not None:
        delta.configs = delta.configs.insert(resource, configs.insert(record.name, record.value))
        return
    configs = configs.discard(record.name)
    delta.configs = delta.configs.insert(resource, configs) if len(configs) else delta.configs.discard(resource)


def _feature_level(delta: MetadataDelta, record: records.FeatureLevelRecord) -> None:
    name, level = record.name, record.feature_level
    supported = FEATURES.get(name)
    if level != 0 if supported is None else not supported.minimum <= level <= supported.maximum:
        raise ReplayError(f"The log sets feature {name} to level {level}, which this software does not support.")
    if name == KRAFT_VERSION:
        return  # KAFKA-18979: kraft.version is in control records, but old logs may contain it here
    if name == METADATA_VERSION:
        delta.features = msgspec.structs.replace(delta.features, metadata_version=level)
        return
    levels = delta.features.levels
    levels = levels.insert(name, level) if level else levels.discard(name)
    delta.features = FeaturesImage(delta.features.metadata_version, levels)


def _client_quota(delta: MetadataDelta, record: records.ClientQuotaRecord) -> None:
    entity = tuple(sorted({part.entity_type: part.entity_name for part in record.entity}.items()))
    quotas: HashTrieMap[str, float] = delta.client_quotas.get(entity, HashTrieMap())
    quotas = quotas.discard(record.key) if record.remove else quotas.insert(record.key, record.value)
    if len(quotas):
        delta.client_quotas = delta.client_quotas.insert(entity, quotas)
    else:
        delta.client_quotas = delta.client_quotas.discard(entity)


def _producer_ids(delta: MetadataDelta, record: records.ProducerIdsRecord) -> None:
    if record.next_producer_id <= delta.producer_ids:
        raise ReplayError(f"Next producer id {record.next_producer_id} is not above the current {delta.producer_ids}.")
    delta.producer_ids = record.next_producer_id


def _access_control_entry(delta: MetadataDelta, record: records.AccessControlEntryRecord) -> None:
    acl = StandardAcl(
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )
    delta.acls = delta.acls.insert(record.id, acl)


def _remove_access_control_entry(delta: MetadataDelta, record: records.RemoveAccessControlEntryRecord) -> None:
    if record.id not in delta.acls.by_id:
        raise ReplayError(f"No ACL with id {record.id} exists.")
    delta.acls = delta.acls.remove(record.id)


def _user_scram_credential(delta: MetadataDelta, record: records.UserScramCredentialRecord) -> None:
    credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
    users: HashTrieMap[str, ScramCredential] = delta.scram.get(record.mechanism, HashTrieMap())
    delta.scram = delta.scram.insert(record.mechanism, users.insert(record.name, credential))


def _remove_user_scram_credential(delta: MetadataDelta, record: records.RemoveUserScramCredentialRecord) -> None:
    users: HashTrieMap[str, ScramCredential] = delta.scram.get(record.mechanism, HashTrieMap())
    if record.name not in users:
        raise ReplayError(f"User {record.name!r} has no SCRAM credential of mechanism {record.mechanism}.")
    users = users.remove(record.name)
    delta.scram = delta.scram.insert(record.mechanism, users) if len(users) else delta.scram.remove(record.mechanism)


def _delegation_token(delta: MetadataDelta, record: records.DelegationTokenRecord) -> None:
    token = DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=record.renewers,
        issue_timestamp=record.issue_timestamp,
        max_timestamp=record.max_timestamp,
        expiration_timestamp=record.expiration_timestamp,
    )
    delta.delegation_tokens = delta.delegation_tokens.insert(record.token_id, token)


def _remove_delegation_token(delta: MetadataDelta, record: records.RemoveDelegationTokenRecord) -> None:
    delta.delegation_tokens = delta.delegation_tokens.discard(record.token_id)


def _changes_nothing(delta: MetadataDelta, record: MetadataRecord) -> None:
    """Skip NoOp, ZkMigrationState (no longer supported) and transaction markers, which the loader handles."""


REPLAY: Final[dict[type, Callable[[MetadataDelta, Any], None]]] = {
    records.RegisterBrokerRecord: _register_broker,
    records.UnregisterBrokerRecord: _unregister_broker,
    records.TopicRecord: _topic,
    records.PartitionRecord: _partition,
    records.ConfigRecord: _config,
    records.PartitionChangeRecord: _partition_change,
    records.FenceBrokerRecord: _fence_broker,
    records.UnfenceBrokerRecord: _unfence_broker,
    records.RemoveTopicRecord: _remove_topic,
    records.DelegationTokenRecord: _delegation_token,
    records.UserScramCredentialRecord: _user_scram_credential,
    records.FeatureLevelRecord: _feature_level,
    records.ClientQuotaRecord: _client_quota,
    records.ProducerIdsRecord: _producer_ids,
    records.BrokerRegistrationChangeRecord: _broker_registration_change,
    records.AccessControlEntryRecord: _access_control_entry,
    records.RemoveAccessControlEntryRecord: _remove_access_control_entry,
    records.NoOpRecord: _changes_nothing,
    records.ZkMigrationStateRecord: _changes_nothing,
    records.RemoveUserScramCredentialRecord: _remove_user_scram_credential,
    records.BeginTransactionRecord: _changes_nothing,
    records.EndTransactionRecord: _changes_nothing,
    records.AbortTransactionRecord: _changes_nothing,
    records.RemoveDelegationTokenRecord: _remove_delegation_token,
    records.RegisterControllerRecord: _register_controller,
    records.ClearElrRecord: _clear_elr,
}
"""The replay function of every metadata record type."""
