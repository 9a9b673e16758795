"""Bodies and answers about transactions and producers, which REST v3 lacks."""

from typing import Annotated, Literal

from pydantic import Field

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Related, Resource


class TransactionData(Resource):
    """A transactional id in the list of its coordinator."""

    kind: Literal["KafkaTransaction"]
    transactional_id: str
    state: str
    producer_id: int
    coordinator: Related


class TransactionDataList(ListOf[TransactionData]):
    """Transactional ids."""

    kind: Literal["KafkaTransactionList"]


class TransactionPartitionData(Answer):
    """A partition that an open transaction writes to."""

    topic_name: str
    partition_id: int


class TransactionDetailData(TransactionData):
    """A transactional id as its coordinator describes it. `start_time` is in ms, null while no transaction is open."""

    producer_epoch: int
    timeout_ms: int
    start_time: int | None
    partitions: list[TransactionPartitionData]


class ProducerData(Resource):
    """An active producer of a partition. null: no record, no transaction. `last_timestamp` is in ms."""

    kind: Literal["KafkaProducer"]
    topic_name: str
    partition_id: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class ProducerDataList(ListOf[ProducerData]):
    """Producers by id."""

    kind: Literal["KafkaProducerList"]


class AbortBody(ChangeBody):
    """The transaction to abort: the one that begins at this offset of the partition."""

    start_offset: Annotated[int, Field(ge=0, le=2**63 - 1)]
