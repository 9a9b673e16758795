"""The broker's view of the metadata image: endpoints, topics by name and id, effective configs.

Source: KRaftMetadataCache and ConfigHelper, Kafka 4.3.1.
"""

import uuid
from collections.abc import Iterable, Mapping

from kraft_core.broker.log.log_config import LogConfig, log_config
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.configs.config_resource import TOPIC
from kraft_core.configs.definitions import config_def
from kraft_core.configs.effective_config import NodeConfigs, topic_config
from kraft_core.image.metadata_image import BrokerRegistration, Endpoint, MetadataImage, PartitionRegistration
from kraft_core.protocol.uuids import ZERO_UUID


class MetadataCache:
    """A view of the newest image. `static_configs` is the content of server.properties, as text."""

    def __init__(self, source: MetadataSource, node_id: int, static_configs: Mapping[str, str]) -> None:
        self._source = source
        self.node_id = node_id
        self.static_configs = static_configs

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self._source.image

    def node_configs(self) -> NodeConfigs:
        """Return the effective broker configs of this node."""
        return NodeConfigs.of(self.image.configs, self.node_id, self.static_configs)

    def log_config(self, topic: str) -> LogConfig:
        """Return the effective configs of a topic's logs."""
        own = self.image.configs.of(TOPIC, topic)
        nodes = self.node_configs()
        effective = {}
        for name in config_def(TOPIC):
            value = topic_config(name, own, nodes)
            if value is not None:
                effective[name] = value
        return log_config(effective)

    # -- topics

    def topic_id(self, topic: str) -> uuid.UUID:
        """Return the id of a topic, zero if there is none."""
        return self.image.topics.by_name.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """Return the name of a topic, None if there is none."""
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return a partition, None if there is none."""
        found = self.image.topics.topic(topic)
        return None if found is None else found.partitions.get(index)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists."""
        return self.partition(topic, partition) is not None

    # -- brokers

    def alive_brokers(self, listener_name: str) -> list[tuple[BrokerRegistration, Endpoint]]:
        """Return the unfenced brokers that have the listener, sorted by id."""
        return self.alive_of(self.image.cluster.brokers, listener_name)

    def alive_of(self, broker_ids: Iterable[int], listener_name: str) -> list[tuple[BrokerRegistration, Endpoint]]:
        """Return those of `broker_ids` that are unfenced and have the listener, sorted by id."""
        found = []
        for broker_id in sorted(broker_ids):
            broker = self.image.cluster.brokers.get(broker_id)
            endpoint = None if broker is None or broker.fenced else broker.listener(listener_name)
            if broker is not None and endpoint is not None:
                found.append((broker, endpoint))
        return found

    def endpoint(self, broker_id: int, listener_name: str) -> Endpoint | None:
        """Return a broker's endpoint on the listener; None when the broker is fenced, unknown or lacks the listener."""
        broker = self.image.cluster.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.listener(listener_name)
