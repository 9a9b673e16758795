"""Models of transactions. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer


class ProducerData(Answer, frozen=True, kw_only=True):
    """An active producer of a partition. null: no record, no transaction. `last_timestamp` is in ms."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    partition_id: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class ProducerDataList(Answer, frozen=True, kw_only=True):
    """Producers by id."""

    metadata: ListMetadata
    data: list[ProducerData]
    kind: str


class TransactionData(Answer, frozen=True, kw_only=True):
    """A transactional id in the list of its coordinator."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    transactional_id: str
    state: str
    producer_id: int
    coordinator: Related


class TransactionDataList(Answer, frozen=True, kw_only=True):
    """Transactional ids."""

    metadata: ListMetadata
    data: list[TransactionData]
    kind: str


class TransactionPartitionData(Answer, frozen=True, kw_only=True):
    """A partition that an open transaction writes to."""

    topic_name: str
    partition_id: int


class TransactionDetailData(Answer, frozen=True, kw_only=True):
    """A transactional id as its coordinator describes it. `start_time` is in ms, null while no transaction is open."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    transactional_id: str
    state: str
    producer_id: int
    coordinator: Related
    producer_epoch: int
    timeout_ms: int
    start_time: int | None
    partitions: list[TransactionPartitionData]
