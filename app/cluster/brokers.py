"""Broker registrations: what a broker is used for, and unregistering it."""

from dataclasses import dataclass
from typing import Final

from app.cluster.changes import Changes, raise_for
from app.texts import joined, phrase
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.messages import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kraft_core.protocol.metadata_records import UnregisterBrokerRecord

TOPICS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUse:
    """Reasons not to unregister a broker. `topics`: sorted names of topics with replicas on it."""

    broker_id: int
    is_live: bool
    replicas: int
    leaders: int
    topics: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether the broker is live or holds replicas."""
        return self.is_live or self.replicas > 0

    @property
    def reasons(self) -> list[str]:
        """The reasons as sentences."""
        found: list[str] = []
        if self.is_live:
            found.append(phrase("Broker %(id)s is live: stop it first.", id=self.broker_id))
        if self.replicas:
            topics: str = joined(", ", self.topics[:TOPICS_SHOWN])
            if len(self.topics) > TOPICS_SHOWN:
                topics = phrase("%(topics)s and %(count)s more", topics=topics, count=len(self.topics) - TOPICS_SHOWN)
            found.append(
                phrase(
                    "Broker %(id)s holds %(replicas)s replicas and leads %(leaders)s partitions, of %(topics)s:"
                    " move them first.",
                    id=self.broker_id,
                    replicas=self.replicas,
                    leaders=self.leaders,
                    topics=topics,
                )
            )
        return found


class BrokerInUseError(Exception):
    """The broker is live or holds replicas, so it is not unregistered without force."""

    def __init__(self, use: BrokerUse) -> None:
        super().__init__(" ".join(use.reasons))
        self.use = use


def broker_use(image: MetadataImage, broker_id: int) -> BrokerUse:
    """Return how a broker is used. An unregistered broker has no use."""
    broker = image.cluster.brokers.get(broker_id)
    held = [(topic.name, partition) for topic, _, partition in image.topics.partitions_of_broker(broker_id)]
    return BrokerUse(
        broker_id=broker_id,
        is_live=broker is not None and not broker.fenced,
        replicas=len(held),
        leaders=sum(partition.leader == broker_id for _, partition in held),
        topics=tuple(sorted({name for name, _ in held})),
    )


class BrokerAdmin(Changes):
    """Changes of broker registrations."""

    async def unregister(self, broker_id: int, *, force: bool = False, validate_only: bool = False) -> int | None:
        """Unregister a broker. Returns the offset, None when only validated. A running broker registers again.

        Raises BrokerInUseError, unless forced, when the broker is live or holds replicas; KafkaError
        BROKER_ID_NOT_REGISTERED.
        """
        use = broker_use(self._observer.image, broker_id)
        if use.is_any and not force:
            raise BrokerInUseError(use)
        before = self._history.newest_offset
        request = UnregisterBrokerRequest(broker_id=broker_id)
        answer = await self._ask(request, UnregisterBrokerResponse, dry_run=validate_only)
        raise_for(answer.error_code, answer.error_message)
        if validate_only:
            return None
        return await self._committed(
            before, lambda record: isinstance(record, UnregisterBrokerRecord) and record.broker_id == broker_id
        )
