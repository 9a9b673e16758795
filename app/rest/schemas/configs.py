"""Bodies and answers about configs."""

from typing import Annotated, Literal

from pydantic import Field

from app.rest.schemas.base import (
    CONFIGS_MAX,
    Answer,
    Body,
    ChangeBody,
    ConfigName,
    ConfigValue,
    ListOf,
    Resource,
    TopicName,
)


class UpdateConfigBody(ChangeBody):
    """UpdateTopicConfigRequestData of REST v3, also for other resources."""

    value: ConfigValue | None = None


class AlterEntry(Body):
    """One change of `:alter`. The operation defaults to SET."""

    name: ConfigName
    value: ConfigValue | None = None
    operation: Literal["SET", "DELETE", "APPEND", "SUBTRACT"] | None = None


Entries = Annotated[tuple[AlterEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


class AlterBody(ChangeBody):
    """AlterConfigBatchRequestData of REST v3: all entries or none."""

    data: Entries


class AlterTopicEntry(Body):
    """The changes of one topic."""

    topic_name: TopicName
    configs: Entries


class AlterTopicsBody(ChangeBody):
    """Changes of several topics, all or none per topic. One topic's failure does not affect the others."""

    data: Annotated[tuple[AlterTopicEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


class TopicFailureData(Answer):
    """A topic whose changes were refused."""

    topic_name: str
    error_code: int
    message: str


class AlterTopicsFailureDataList(Answer):
    """The topics of a change of several whose changes were refused."""

    failures: list[TopicFailureData]


class ConfigSynonymData(Answer):
    """One source of a config's value, as Kafka orders them."""

    name: str
    value: str | None
    source: str


class ConfigData(Resource):
    """Members of configs of every kind of resource."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None


class TopicConfigData(ConfigData):
    """A config of a topic."""

    kind: Literal["KafkaTopicConfig"]
    topic_name: str


class TopicConfigDataList(ListOf[TopicConfigData]):
    """Configs of topics."""

    kind: Literal["KafkaTopicConfigList"]


class BrokerConfigData(ConfigData):
    """A config of a broker."""

    kind: Literal["KafkaBrokerConfig"]
    broker_id: int


class BrokerConfigDataList(ListOf[BrokerConfigData]):
    """Configs of brokers."""

    kind: Literal["KafkaBrokerConfigList"]


class ClusterConfigData(ConfigData):
    """A dynamic default config of all brokers."""

    kind: Literal["KafkaClusterConfig"]
    config_type: Literal["BROKER"]


class ClusterConfigDataList(ListOf[ClusterConfigData]):
    """Dynamic default configs of all brokers."""

    kind: Literal["KafkaClusterConfigList"]


class ConsumerGroupConfigData(ConfigData):
    """A config of a consumer group."""

    kind: Literal["KafkaConsumerGroupConfig"]
    consumer_group_id: str


class ConsumerGroupConfigDataList(ListOf[ConsumerGroupConfigData]):
    """Configs of a consumer group."""

    kind: Literal["KafkaConsumerGroupConfigList"]


class ClientMetricsConfigData(ConfigData):
    """A config of a client metrics subscription."""

    kind: Literal["KafkaClientMetricsConfig"]
    subscription_name: str


class ClientMetricsConfigDataList(ListOf[ClientMetricsConfigData]):
    """Configs of a client metrics subscription."""

    kind: Literal["KafkaClientMetricsConfigList"]
