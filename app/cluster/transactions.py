"""Transactions and active producers, which only the brokers know; asked for as `BrokerAnswers` does."""

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from app.cluster.broker_answers import FRESH_SECONDS, WAIT_SECONDS, Answer, BrokerAnswers
from app.cluster.broker_clients import BrokerClients
from app.cluster.coordinators import Missing, missing_coordinators
from app.texts import phrase
from kraft_core.clients.admin.transactions import ProducerState, TransactionDescription, TransactionListing
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import TRANSACTION_STATE


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in the list of its coordinator."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionList:
    """All transactional ids, ordered. `errors`, `pending` and `missing` are as in GroupList.

    `without_coordinator` are brokers that serve no transactions.
    """

    transactions: Sequence[ListedTransaction]
    asked_at: dt.datetime | None
    errors: Mapping[int, KafkaError]
    pending: Sequence[int]
    missing: Missing | None
    without_coordinator: Sequence[int]


class Transactions:
    """The transactions and producers of the cluster, as far as somebody looks. Used on the event loop only."""

    def __init__(self, clients: BrokerClients, image: Callable[[], MetadataImage]) -> None:
        self._clients = clients
        self._image = image
        self._lists = BrokerAnswers[int, tuple[TransactionListing, ...]](self._ask_lists)
        self._details = BrokerAnswers[str, TransactionDescription](self._ask_details)
        self._producers = BrokerAnswers[TopicPartition, tuple[ProducerState, ...]](self._ask_producers)

    async def stop(self) -> None:
        """Cancel pending requests."""
        await self._lists.stop()
        await self._details.stop()
        await self._producers.stop()

    async def list(self, wait_seconds: float = WAIT_SECONDS, fresh_seconds: float = FRESH_SECONDS) -> TransactionList:
        """Return the transactional ids of all active brokers."""
        brokers = self._image().cluster.brokers
        active = {broker_id: broker_id for broker_id in sorted(brokers) if not brokers[broker_id].fenced}
        answers = await self._lists.of(active, wait_seconds, fresh_seconds)
        without = [broker_id for broker_id, each in answers.items() if _serves_none(each)]
        found = [
            ListedTransaction(each.transactional_id, each.producer_id, each.state, broker_id)
            for broker_id, answer in answers.items()
            for each in answer.value or ()
        ]
        return TransactionList(
            sorted(found, key=lambda each: each.transactional_id),
            min((each.asked_at for each in answers.values() if each.asked_at is not None), default=None),
            {
                broker_id: each.error
                for broker_id, each in answers.items()
                if each.error is not None and broker_id not in without
            },
            [broker_id for broker_id, each in answers.items() if each.error is None and each.asked_at is None],
            missing_coordinators(self._image(), TRANSACTION_STATE),
            without,
        )

    async def details(
        self,
        coordinators: Mapping[str, int],
        wait_seconds: float = WAIT_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> dict[str, Answer[TransactionDescription]]:
        """Return transactions by their ids, given with the coordinator of each."""
        return await self._details.of(coordinators, wait_seconds, fresh_seconds)

    async def producers(
        self,
        partitions: Collection[TopicPartition],
        wait_seconds: float = WAIT_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> dict[TopicPartition, Answer[tuple[ProducerState, ...]]]:
        """Return the active producers of existing partitions; one without a leader is not asked for."""
        leaders: dict[TopicPartition, int] = {}
        found: dict[TopicPartition, Answer[tuple[ProducerState, ...]]] = {}
        for each in partitions:
            topic = self._image().topics.topic(each.topic)
            placed = topic.partitions.get(each.partition) if topic else None
            if placed is not None and placed.has_leader:
                leaders[each] = placed.leader
            else:
                found[each] = Answer(
                    error=KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, phrase("The partition has no leader."))
                )
        return found | await self._producers.of(leaders, wait_seconds, fresh_seconds)

    async def _ask_lists(
        self, broker_id: int, _keys: Sequence[int]
    ) -> Mapping[int, tuple[TransactionListing, ...] | KafkaError]:
        return await self._clients.admin().list_transactions(broker_ids=[broker_id])

    async def _ask_details(
        self, _broker_id: int, transactional_ids: Sequence[str]
    ) -> Mapping[str, TransactionDescription | KafkaError]:
        return await self._clients.admin().describe_transactions(transactional_ids)

    async def _ask_producers(
        self, _broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        return await self._clients.admin().describe_producers(partitions)


def _serves_none(answer: Answer[tuple[TransactionListing, ...]]) -> bool:
    return answer.error is not None and answer.error.code == ErrorCode.UNSUPPORTED_VERSION
