"""Transactions of producers (KIP-98, 447, 890).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class AddPartitionsToTxnRequestAddPartitionsToTxnTopic(Message):
    """An element of AddPartitionsToTxnRequest.transactions[].topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class AddPartitionsToTxnRequestAddPartitionsToTxnTransaction(Message):
    """An element of AddPartitionsToTxnRequest.transactions."""

    transactional_id: Annotated[str, wire("string", since=4)] = ""
    producer_id: Annotated[int, wire("int64", since=4)] = 0
    producer_epoch: Annotated[int, wire("int16", since=4)] = 0
    verify_only: Annotated[bool, wire("bool", since=4)] = False
    topics: Annotated[
        tuple[AddPartitionsToTxnRequestAddPartitionsToTxnTopic, ...], wire("[]AddPartitionsToTxnTopic", since=4)
    ] = ()


class AddPartitionsToTxnRequest(Message):
    """Add partitions to transactions; apiKey 24, v0-5. Source: AddPartitionsToTxnRequest.json."""

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    transactions: Annotated[
        tuple[AddPartitionsToTxnRequestAddPartitionsToTxnTransaction, ...],
        wire("[]AddPartitionsToTxnTransaction", since=4),
    ] = ()
    v3_and_below_transactional_id: Annotated[str, wire("string", until=3)] = ""
    v3_and_below_producer_id: Annotated[int, wire("int64", until=3)] = 0
    v3_and_below_producer_epoch: Annotated[int, wire("int16", until=3)] = 0
    v3_and_below_topics: Annotated[
        tuple[AddPartitionsToTxnRequestAddPartitionsToTxnTopic, ...], wire("[]AddPartitionsToTxnTopic", until=3)
    ] = ()


class AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult(Message):
    """An element of AddPartitionsToTxnResponse.results_by_transaction[].topic_results[].results_by_partition."""

    partition_index: Annotated[int, wire("int32")] = 0
    partition_error_code: Annotated[int, wire("int16")] = 0


class AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult(Message):
    """An element of AddPartitionsToTxnResponse.results_by_transaction[].topic_results."""

    name: Annotated[str, wire("string")] = ""
    results_by_partition: Annotated[
        tuple[AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult, ...],
        wire("[]AddPartitionsToTxnPartitionResult"),
    ] = ()


class AddPartitionsToTxnResponseAddPartitionsToTxnResult(Message):
    """An element of AddPartitionsToTxnResponse.results_by_transaction."""

    transactional_id: Annotated[str, wire("string", since=4, ignorable=True)] = ""
    topic_results: Annotated[
        tuple[AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult, ...],
        wire("[]AddPartitionsToTxnTopicResult", since=4, ignorable=True),
    ] = ()


class AddPartitionsToTxnResponse(Message):
    """The partitions, one by one; apiKey 24, v0-5. Source: AddPartitionsToTxnResponse.json."""

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16", since=4, ignorable=True)] = 0
    results_by_transaction: Annotated[
        tuple[AddPartitionsToTxnResponseAddPartitionsToTxnResult, ...],
        wire("[]AddPartitionsToTxnResult", since=4, ignorable=True),
    ] = ()
    results_by_topic_v3_and_below: Annotated[
        tuple[AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult, ...],
        wire("[]AddPartitionsToTxnTopicResult", until=3, ignorable=True),
    ] = ()


class AddOffsetsToTxnRequest(Message):
    """Add a group's offsets to a transaction; apiKey 25, v0-4. Source: AddOffsetsToTxnRequest.json."""

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    transactional_id: Annotated[str, wire("string")] = ""
    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int16")] = 0
    group_id: Annotated[str, wire("string")] = ""


class AddOffsetsToTxnResponse(Message):
    """Whether the offsets partition was added; apiKey 25, v0-4. Source: AddOffsetsToTxnResponse.json."""

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class EndTxnRequest(Message):
    """Commit or abort a transaction; apiKey 26, v0-5. Source: EndTxnRequest.json."""

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    transactional_id: Annotated[str, wire("string")] = ""
    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int16")] = 0
    committed: Annotated[bool, wire("bool")] = False


class EndTxnResponse(Message):
    """Whether the transaction was ended; apiKey 26, v0-5. Source: EndTxnResponse.json."""

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    producer_id: Annotated[int, wire("int64", since=5, ignorable=True)] = -1
    producer_epoch: Annotated[int, wire("int16", since=5, ignorable=True)] = -1


class TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(Message):
    """An element of TxnOffsetCommitRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    committed_offset: Annotated[int, wire("int64")] = 0
    committed_leader_epoch: Annotated[int, wire("int32", since=2, ignorable=True)] = -1
    committed_metadata: Annotated[str | None, wire("string", nullable_since=0)] = ""


class TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(Message):
    """An element of TxnOffsetCommitRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[TxnOffsetCommitRequestTxnOffsetCommitRequestPartition, ...], wire("[]TxnOffsetCommitRequestPartition")
    ] = ()


class TxnOffsetCommitRequest(Message):
    """Commit offsets as part of a transaction; apiKey 28, v0-5. Source: TxnOffsetCommitRequest.json."""

    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    transactional_id: Annotated[str, wire("string")] = ""
    group_id: Annotated[str, wire("string")] = ""
    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int16")] = 0
    generation_id: Annotated[int, wire("int32", since=3)] = -1
    member_id: Annotated[str, wire("string", since=3)] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3)] = None
    topics: Annotated[
        tuple[TxnOffsetCommitRequestTxnOffsetCommitRequestTopic, ...], wire("[]TxnOffsetCommitRequestTopic")
    ] = ()


class TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(Message):
    """An element of TxnOffsetCommitResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class TxnOffsetCommitResponseTxnOffsetCommitResponseTopic(Message):
    """An element of TxnOffsetCommitResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[TxnOffsetCommitResponseTxnOffsetCommitResponsePartition, ...], wire("[]TxnOffsetCommitResponsePartition")
    ] = ()


class TxnOffsetCommitResponse(Message):
    """The partitions, one by one; apiKey 28, v0-5. Source: TxnOffsetCommitResponse.json."""

    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[
        tuple[TxnOffsetCommitResponseTxnOffsetCommitResponseTopic, ...], wire("[]TxnOffsetCommitResponseTopic")
    ] = ()


class WriteTxnMarkersRequestWritableTxnMarkerTopic(Message):
    """An element of WriteTxnMarkersRequest.markers[].topics."""

    name: Annotated[str, wire("string")] = ""
    partition_indexes: Annotated[tuple[int, ...], wire("[]int32")] = ()


class WriteTxnMarkersRequestWritableTxnMarker(Message):
    """An element of WriteTxnMarkersRequest.markers."""

    producer_id: Annotated[int, wire("int64")] = 0
    producer_epoch: Annotated[int, wire("int16")] = 0
    transaction_result: Annotated[bool, wire("bool")] = False
    topics: Annotated[tuple[WriteTxnMarkersRequestWritableTxnMarkerTopic, ...], wire("[]WritableTxnMarkerTopic")] = ()
    coordinator_epoch: Annotated[int, wire("int32")] = 0
    transaction_version: Annotated[int, wire("int8", since=2, ignorable=True)] = 0


class WriteTxnMarkersRequest(Message):
    """Write the markers that end transactions; apiKey 27, v1-2. Source: WriteTxnMarkersRequest.json."""

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE = 1

    markers: Annotated[tuple[WriteTxnMarkersRequestWritableTxnMarker, ...], wire("[]WritableTxnMarker")] = ()


class WriteTxnMarkersResponseWritableTxnMarkerPartitionResult(Message):
    """An element of WriteTxnMarkersResponse.markers[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class WriteTxnMarkersResponseWritableTxnMarkerTopicResult(Message):
    """An element of WriteTxnMarkersResponse.markers[].topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[WriteTxnMarkersResponseWritableTxnMarkerPartitionResult, ...], wire("[]WritableTxnMarkerPartitionResult")
    ] = ()


class WriteTxnMarkersResponseWritableTxnMarkerResult(Message):
    """An element of WriteTxnMarkersResponse.markers."""

    producer_id: Annotated[int, wire("int64")] = 0
    topics: Annotated[
        tuple[WriteTxnMarkersResponseWritableTxnMarkerTopicResult, ...], wire("[]WritableTxnMarkerTopicResult")
    ] = ()


class WriteTxnMarkersResponse(Message):
    """The partitions, one by one; apiKey 27, v1-2. Source: WriteTxnMarkersResponse.json."""

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE = 1

    markers: Annotated[
        tuple[WriteTxnMarkersResponseWritableTxnMarkerResult, ...], wire("[]WritableTxnMarkerResult")
    ] = ()
