"""Models of configs. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer, Body


class AlterEntry(Body, frozen=True, kw_only=True):
    """One change of `:alter`. The operation defaults to SET."""

    name: str
    value: str | UnsetType | None = UNSET
    operation: Literal["SET", "DELETE", "APPEND", "SUBTRACT"] | UnsetType | None = UNSET


class AlterTopicEntry(Body, frozen=True, kw_only=True):
    """The changes of one topic."""

    topic_name: str
    configs: Sequence[AlterEntry]


class TopicFailureData(Answer, frozen=True, kw_only=True):
    """A topic whose changes were refused."""

    topic_name: str
    error_code: int
    message: str


class AlterTopicsFailureDataList(Answer, frozen=True, kw_only=True):
    """The topics of a change of several whose changes were refused."""

    failures: list[TopicFailureData]


class ConfigSynonymData(Answer, frozen=True, kw_only=True):
    """One source of a config's value, as Kafka orders them."""

    name: str
    value: str | None
    source: str


class BrokerConfigData(Answer, frozen=True, kw_only=True):
    """A config of a broker."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None
    kind: str
    broker_id: int


class BrokerConfigDataList(Answer, frozen=True, kw_only=True):
    """Configs of brokers."""

    metadata: ListMetadata
    data: list[BrokerConfigData]
    kind: str


class ClientMetricsConfigData(Answer, frozen=True, kw_only=True):
    """A config of a client metrics subscription."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None
    kind: str
    subscription_name: str


class ClientMetricsConfigDataList(Answer, frozen=True, kw_only=True):
    """Configs of a client metrics subscription."""

    metadata: ListMetadata
    data: list[ClientMetricsConfigData]
    kind: str


class ClusterConfigData(Answer, frozen=True, kw_only=True):
    """A dynamic default config of all brokers."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None
    kind: str
    config_type: str


class ClusterConfigDataList(Answer, frozen=True, kw_only=True):
    """Dynamic default configs of all brokers."""

    metadata: ListMetadata
    data: list[ClusterConfigData]
    kind: str


class ConsumerGroupConfigData(Answer, frozen=True, kw_only=True):
    """A config of a consumer group."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None
    kind: str
    consumer_group_id: str


class ConsumerGroupConfigDataList(Answer, frozen=True, kw_only=True):
    """Configs of a consumer group."""

    metadata: ListMetadata
    data: list[ConsumerGroupConfigData]
    kind: str


class TopicConfigData(Answer, frozen=True, kw_only=True):
    """A config of a topic."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None
    kind: str
    topic_name: str


class TopicConfigDataList(Answer, frozen=True, kw_only=True):
    """Configs of topics."""

    metadata: ListMetadata
    data: list[TopicConfigData]
    kind: str
