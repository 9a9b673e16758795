"""Automatic creation of topics that a client requests by name, and of __consumer_offsets.

Source: DefaultAutoTopicCreationManager, Kafka 4.3.1.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    CreateTopicsResponse,
)
from kraft_core.server.config.kafka_config import KafkaConfig

log = logging.getLogger(__name__)

_BROKER_DEFAULT: Final = -1
IN_FLIGHT_MAX: Final = 128
"""Upper bound of topics in creation. Clients retry their metadata request, and with it the creation of other topics."""


class AutoTopicCreationManager:
    """Sends one CreateTopics per topic, and never two at once for the same topic."""

    def __init__(
        self,
        config: KafkaConfig,
        controller: NodeToControllerChannelManager,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._config = config
        self._controller = controller
        self._spawn = spawn
        self._in_flight: set[str] = set()

    def create_soon(self, topic: str) -> None:
        """Start the creation of a topic. The client retries its metadata request until the topic exists."""
        is_allowed = topic == CONSUMER_OFFSETS or len(self._in_flight) < IN_FLIGHT_MAX
        if is_allowed and topic not in self._in_flight:
            self._in_flight.add(topic)
            self._spawn(self._create(topic))

    async def _create(self, topic: str) -> None:
        timeout_ms = self._config.request_timeout_ms
        try:
            request = CreateTopicsRequest(topics=(self._topic(topic),), timeout_ms=timeout_ms)
            response = await self._controller.request(request, CreateTopicsResponse, timeout_ms)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    extra = {"topic": topic, "error": result.error_code, "cause": result.error_message}
                    log.warning("topic_not_created", extra=extra)
        except KafkaError as error:
            log.warning("topic_not_created", extra={"topic": topic, "error": error.code, "cause": error.message})
        finally:
            self._in_flight.discard(topic)

    def _topic(self, topic: str) -> CreateTopicsRequestCreatableTopic:
        if topic != CONSUMER_OFFSETS:
            return CreateTopicsRequestCreatableTopic(
                name=topic, num_partitions=_BROKER_DEFAULT, replication_factor=_BROKER_DEFAULT
            )
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
        return CreateTopicsRequestCreatableTopic(
            name=topic,
            num_partitions=self._config.offsets_topic_num_partitions,
            replication_factor=self._config.offsets_topic_replication_factor,
            configs=tuple(
                CreateTopicsRequestCreatableTopicConfig(name=name, value=value) for name, value in configs.items()
            ),
        )
