"""Filters of the change feed: the records about one topic, partition, broker, principal, config or feature."""

from typing import Final
from uuid import UUID

from app.cluster.history import Change
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.metadata_records import MetadataRecord

KINDS: Final = ("topic", "partition", "broker", "principal", "config", "feature")
NAME_MAX: Final = 4_000


class About:
    """Whether records are about the resource of this kind and name; a partition's name is TOPIC-INDEX."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self._test = {
            "topic": self._of_topic,
            "partition": self._of_partition,
            "broker": self._of_broker,
            "principal": self._of_principal,
            "config": self._of_config,
            "feature": self._of_feature,
        }[kind]

    def __call__(self, record: MetadataRecord, change: Change) -> bool:
        """Return whether a record of `change` is about the resource."""
        return self._test(record, change)

    def _of_topic(self, record: MetadataRecord, change: Change) -> bool:
        match record:
            case records.TopicRecord():
                return record.name == self.name
            case records.PartitionRecord() | records.PartitionChangeRecord() | records.RemoveTopicRecord():
                return _topic_name(record.topic_id, change) == self.name
            case records.ConfigRecord():
                return record.resource_type == TOPIC and record.resource_name == self.name
            case records.ClearElrRecord():
                return record.topic_name in {"", self.name}
            case _:
                return False

    def _of_partition(self, record: MetadataRecord, change: Change) -> bool:
        topic, _, index = self.name.rpartition("-")
        if not isinstance(record, records.PartitionRecord | records.PartitionChangeRecord):
            return False
        return str(record.partition_id) == index and _topic_name(record.topic_id, change) == topic

    def _of_broker(self, record: MetadataRecord, _: Change) -> bool:
        match record:
            case records.FenceBrokerRecord() | records.UnfenceBrokerRecord():
                return str(record.id) == self.name
            case (
                records.RegisterBrokerRecord()
                | records.UnregisterBrokerRecord()
                | records.BrokerRegistrationChangeRecord()
            ):
                return str(record.broker_id) == self.name
            case records.ConfigRecord():
                return record.resource_type == BROKER and record.resource_name == self.name
            case _:
                return False

    def _of_principal(self, record: MetadataRecord, change: Change) -> bool:
        kind, _, user = self.name.partition(":")
        match record:
            case records.AccessControlEntryRecord():
                return record.principal == self.name
            case records.RemoveAccessControlEntryRecord():
                acl = change.before.acls.by_id.get(record.id)
                return acl is not None and acl.principal == self.name
            case records.UserScramCredentialRecord() | records.RemoveUserScramCredentialRecord():
                return kind == "User" and record.name == user
            case records.ClientQuotaRecord():
                entity = [(part.entity_type, part.entity_name) for part in record.entity]
                return kind == "User" and ("user", user) in entity
            case records.DelegationTokenRecord():
                return self.name in {record.owner, record.requester}
            case records.RemoveDelegationTokenRecord():
                token = change.before.delegation_tokens.get(record.token_id)
                return token is not None and self.name in {token.owner, token.requester}
            case _:
                return False

    def _of_config(self, record: MetadataRecord, _: Change) -> bool:
        return isinstance(record, records.ConfigRecord) and record.name == self.name

    def _of_feature(self, record: MetadataRecord, _: Change) -> bool:
        return isinstance(record, records.FeatureLevelRecord) and record.name == self.name


def _topic_name(topic_id: UUID, change: Change) -> str | None:
    found = change.after.topics.by_id.get(topic_id) or change.before.topics.by_id.get(topic_id)
    return None if found is None else found.name
