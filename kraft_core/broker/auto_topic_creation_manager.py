"""Topics that the broker creates on its own: those a client asked for by name, and __consumer_offsets.

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
UNDER_WAY_MAX: Final = 128
"""Topics that are asked for at a time. A client asks again for the metadata of the others, and so for them."""


class AutoTopicCreationManager:
    """Sends CreateTopics to the controller, one topic at a time and never the same one twice at once."""

    def __init__(
        self,
        config: KafkaConfig,
        controller: NodeToControllerChannelManager,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._config = config
        self._controller = controller
        self._spawn = spawn
        self._under_way: set[str] = set()

    def create_soon(self, topic: str) -> None:
        """Ask for a topic; the client that needs it asks for its metadata again until it is there."""
        is_allowed = topic == CONSUMER_OFFSETS or len(self._under_way) < UNDER_WAY_MAX
        if is_allowed and topic not in self._under_way:
            self._under_way.add(topic)
            self._spawn(self._create(topic))

    async def _create(self, topic: str) -> None:
        timeout_ms = self._config.request_timeout_ms
        try:
            request = CreateTopicsRequest(topics=(self._topic(topic),), timeout_ms=timeout_ms)
            response = await self._controller.ask(request, CreateTopicsResponse, timeout_ms)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    extra = {"topic": topic, "error": result.error_code, "cause": result.error_message}
                    log.warning("topic_not_created", extra=extra)
        except KafkaError as error:
            log.warning("topic_not_created", extra={"topic": topic, "error": error.code, "cause": error.message})
        finally:
            self._under_way.discard(topic)

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
