"""Broker registrations: what a broker is used for, and unregistering it."""

from dataclasses import dataclass
from typing import Final

from app.cluster.changes import Changes, raise_for
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
        found = []
        if self.is_live:
            found.append(f"Broker {self.broker_id} is live: stop it first.")
        if self.replicas:
            shown = ", ".join(self.topics[:TOPICS_SHOWN])
            more = f" and {len(self.topics) - TOPICS_SHOWN} more" if len(self.topics) > TOPICS_SHOWN else ""
            found.append(
                f"Broker {self.broker_id} holds {self.replicas} replicas and leads {self.leaders} partitions, of "
                f"{shown}{more}: move them first."
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
