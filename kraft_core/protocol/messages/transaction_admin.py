"""Transactions and producers, seen by administrators (KIP-664).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeTransactionsRequest(Message):
    """Ask for the state of transactions; apiKey 65, v0. Source: DescribeTransactionsRequest.json."""

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    transactional_ids: Annotated[tuple[str, ...], wire("[]string")] = ()


class DescribeTransactionsResponseTopicData(Message):
    """An element of DescribeTransactionsResponse.transaction_states[].topics."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class DescribeTransactionsResponseTransactionState(Message):
    """An element of DescribeTransactionsResponse.transaction_states."""

    error_code: Annotated[int, wire("int16")] = 0
    transactional_id: Annotated[str, wire("string")] = ""
    transaction_state: Annotated[str, wire("string")] = ""
    transaction_timeout_ms: Annotated[int, wire("int32")] = 0
    transaction_start_time_ms: Annotated[int, wire("int64")] = 0
    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[DescribeTransactionsResponseTopicData, ...], wire("[]TopicData")] = ()


class DescribeTransactionsResponse(Message):
    """The state of transactions; apiKey 65, v0. Source: DescribeTransactionsResponse.json."""

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    transaction_states: Annotated[
        tuple[DescribeTransactionsResponseTransactionState, ...], wire("[]TransactionState")
    ] = ()


class ListTransactionsRequest(Message):
    """Ask for the transactions of a broker; apiKey 66, v0-2. Source: ListTransactionsRequest.json."""

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    state_filters: Annotated[tuple[str, ...], wire("[]string")] = ()
    producer_id_filters: Annotated[tuple[int, ...], wire("[]int64")] = ()
    duration_filter: Annotated[int, wire("int64", since=1)] = -1
    transactional_id_pattern: Annotated[str | None, wire("string", since=2, nullable_since=2)] = None


class ListTransactionsResponseTransactionState(Message):
    """An element of ListTransactionsResponse.transaction_states."""

    transactional_id: Annotated[str, wire("string")] = ""
    producer_id: Annotated[int, wire("int64")] = 0
    transaction_state: Annotated[str, wire("string")] = ""


class ListTransactionsResponse(Message):
    """The transactions of a broker; apiKey 66, v0-2. Source: ListTransactionsResponse.json."""

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    unknown_state_filters: Annotated[tuple[str, ...], wire("[]string")] = ()
    transaction_states: Annotated[tuple[ListTransactionsResponseTransactionState, ...], wire("[]TransactionState")] = ()


class DescribeProducersRequestTopicRequest(Message):
    """An element of DescribeProducersRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partition_indexes: Annotated[tuple[int, ...], wire("[]int32")] = ()


class DescribeProducersRequest(Message):
    """Ask for active producers of partitions; apiKey 61, v0. Source: DescribeProducersRequest.json."""

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    topics: Annotated[tuple[DescribeProducersRequestTopicRequest, ...], wire("[]TopicRequest")] = ()


class DescribeProducersResponseProducerState(Message):
    """An element of DescribeProducersResponse.topics[].partitions[].active_producers."""

    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int32")] = 0
    last_sequence: Annotated[int, wire("int32")] = -1
    last_timestamp: Annotated[int, wire("int64")] = -1
    coordinator_epoch: Annotated[int, wire("int32")] = 0
    current_txn_start_offset: Annotated[int, wire("int64")] = -1


class DescribeProducersResponsePartitionResponse(Message):
    """An element of DescribeProducersResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    active_producers: Annotated[tuple[DescribeProducersResponseProducerState, ...], wire("[]ProducerState")] = ()


class DescribeProducersResponseTopicResponse(Message):
    """An element of DescribeProducersResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[DescribeProducersResponsePartitionResponse, ...], wire("[]PartitionResponse")] = ()


class DescribeProducersResponse(Message):
    """Active producers of partitions; apiKey 61, v0. Source: DescribeProducersResponse.json."""

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[tuple[DescribeProducersResponseTopicResponse, ...], wire("[]TopicResponse")] = ()
