"""Fetch and FetchSnapshot: how logs and snapshots are replicated and read (KIP-227, 595, 630).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class FetchRequestReplicaState(Message):
    """The value of FetchRequest.replica_state."""

    replica_id: Annotated[int, wire("int32", since=15)] = -1
    replica_epoch: Annotated[int, wire("int64", since=15)] = -1


class FetchRequestFetchPartition(Message):
    """An element of FetchRequest.topics[].partitions."""

    partition: Annotated[int, wire("int32")] = 0
    current_leader_epoch: Annotated[int, wire("int32", since=9, ignorable=True)] = -1
    fetch_offset: Annotated[int, wire("int64")] = 0
    last_fetched_epoch: Annotated[int, wire("int32", since=12)] = -1
    log_start_offset: Annotated[int, wire("int64", since=5, ignorable=True)] = -1
    partition_max_bytes: Annotated[int, wire("int32")] = 0
    replica_directory_id: Annotated[UUID, wire("uuid", since=17, tag=0, ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[int, wire("int64", since=18, tag=1, ignorable=True)] = 9223372036854775807


class FetchRequestFetchTopic(Message):
    """An element of FetchRequest.topics."""

    topic: Annotated[str, wire("string", until=12, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=13, ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[FetchRequestFetchPartition, ...], wire("[]FetchPartition")] = ()


class FetchRequestForgottenTopic(Message):
    """An element of FetchRequest.forgotten_topics_data."""

    topic: Annotated[str, wire("string", since=7, until=12, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=13, ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], wire("[]int32", since=7)] = ()


class FetchRequest(Message):
    """Fetch records from an offset on; apiKey 1, v4-18. Source: FetchRequest.json."""

    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE = 12

    cluster_id: Annotated[str | None, wire("string", since=12, nullable_since=12, tag=0, ignorable=True)] = None
    replica_id: Annotated[int, wire("int32", until=14)] = -1
    replica_state: Annotated[FetchRequestReplicaState, wire("ReplicaState", since=15, tag=1)] = (
        FetchRequestReplicaState()
    )
    max_wait_ms: Annotated[int, wire("int32")] = 0
    min_bytes: Annotated[int, wire("int32")] = 0
    max_bytes: Annotated[int, wire("int32")] = 2147483647
    isolation_level: Annotated[int, wire("int8")] = 0
    session_id: Annotated[int, wire("int32", since=7, ignorable=True)] = 0
    session_epoch: Annotated[int, wire("int32", since=7, ignorable=True)] = -1
    topics: Annotated[tuple[FetchRequestFetchTopic, ...], wire("[]FetchTopic")] = ()
    forgotten_topics_data: Annotated[tuple[FetchRequestForgottenTopic, ...], wire("[]ForgottenTopic", since=7)] = ()
    rack_id: Annotated[str, wire("string", since=11, ignorable=True)] = ""


class FetchResponseEpochEndOffset(Message):
    """The value of FetchResponse.responses[].partitions[].diverging_epoch."""

    epoch: Annotated[int, wire("int32", since=12, ignorable=True)] = -1
    end_offset: Annotated[int, wire("int64", since=12, ignorable=True)] = -1


class FetchResponseLeaderIdAndEpoch(Message):
    """The value of FetchResponse.responses[].partitions[].current_leader."""

    leader_id: Annotated[int, wire("int32", since=12, ignorable=True)] = -1
    leader_epoch: Annotated[int, wire("int32", since=12, ignorable=True)] = -1


class FetchResponseSnapshotId(Message):
    """The value of FetchResponse.responses[].partitions[].snapshot_id."""

    end_offset: Annotated[int, wire("int64")] = -1
    epoch: Annotated[int, wire("int32")] = -1


class FetchResponseAbortedTransaction(Message):
    """An element of FetchResponse.responses[].partitions[].aborted_transactions."""

    producer_id: Annotated[int, wire("int64")] = 0
    first_offset: Annotated[int, wire("int64")] = 0


class FetchResponsePartitionData(Message):
    """An element of FetchResponse.responses[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    high_watermark: Annotated[int, wire("int64")] = 0
    last_stable_offset: Annotated[int, wire("int64")] = -1
    log_start_offset: Annotated[int, wire("int64", since=5, ignorable=True)] = -1
    diverging_epoch: Annotated[FetchResponseEpochEndOffset, wire("EpochEndOffset", since=12, tag=0, ignorable=True)] = (
        FetchResponseEpochEndOffset()
    )
    current_leader: Annotated[
        FetchResponseLeaderIdAndEpoch, wire("LeaderIdAndEpoch", since=12, tag=1, ignorable=True)
    ] = FetchResponseLeaderIdAndEpoch()
    snapshot_id: Annotated[FetchResponseSnapshotId, wire("SnapshotId", since=12, tag=2, ignorable=True)] = (
        FetchResponseSnapshotId()
    )
    aborted_transactions: Annotated[
        tuple[FetchResponseAbortedTransaction, ...] | None, wire("[]AbortedTransaction", nullable_since=4)
    ] = ()
    preferred_read_replica: Annotated[int, wire("int32", since=11, ignorable=True)] = -1
    records: Annotated[bytes | None, wire("records", nullable_since=0)] = b""


class FetchResponseFetchableTopicResponse(Message):
    """An element of FetchResponse.responses."""

    topic: Annotated[str, wire("string", until=12, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=13, ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[FetchResponsePartitionData, ...], wire("[]PartitionData")] = ()


class FetchResponseNodeEndpoint(Message):
    """An element of FetchResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=16, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=16, ignorable=True)] = ""
    port: Annotated[int, wire("int32", since=16, ignorable=True)] = 0
    rack: Annotated[str | None, wire("string", since=16, nullable_since=16, ignorable=True)] = None


class FetchResponse(Message):
    """Records, or an error with the epoch or leader to continue with; apiKey 1, v4-18. Source: FetchResponse.json."""

    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE = 12

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16", since=7, ignorable=True)] = 0
    session_id: Annotated[int, wire("int32", since=7, ignorable=True)] = 0
    responses: Annotated[tuple[FetchResponseFetchableTopicResponse, ...], wire("[]FetchableTopicResponse")] = ()
    node_endpoints: Annotated[
        tuple[FetchResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=16, tag=0, ignorable=True)
    ] = ()


class FetchSnapshotRequestSnapshotId(Message):
    """The value of FetchSnapshotRequest.topics[].partitions[].snapshot_id."""

    end_offset: Annotated[int, wire("int64")] = 0
    epoch: Annotated[int, wire("int32")] = 0


class FetchSnapshotRequestPartitionSnapshot(Message):
    """An element of FetchSnapshotRequest.topics[].partitions."""

    partition: Annotated[int, wire("int32")] = 0
    current_leader_epoch: Annotated[int, wire("int32")] = 0
    snapshot_id: Annotated[FetchSnapshotRequestSnapshotId, wire("SnapshotId")] = FetchSnapshotRequestSnapshotId()
    position: Annotated[int, wire("int64")] = 0
    replica_directory_id: Annotated[UUID, wire("uuid", since=1, tag=0, ignorable=True)] = ZERO_UUID


class FetchSnapshotRequestTopicSnapshot(Message):
    """An element of FetchSnapshotRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[FetchSnapshotRequestPartitionSnapshot, ...], wire("[]PartitionSnapshot")] = ()


class FetchSnapshotRequest(Message):
    """Fetch a piece of a snapshot; apiKey 59, v0-1. Source: FetchSnapshotRequest.json."""

    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    cluster_id: Annotated[str | None, wire("string", nullable_since=0, tag=0)] = None
    replica_id: Annotated[int, wire("int32")] = -1
    max_bytes: Annotated[int, wire("int32")] = 2147483647
    topics: Annotated[tuple[FetchSnapshotRequestTopicSnapshot, ...], wire("[]TopicSnapshot")] = ()


class FetchSnapshotResponseSnapshotId(Message):
    """The value of FetchSnapshotResponse.topics[].partitions[].snapshot_id."""

    end_offset: Annotated[int, wire("int64")] = 0
    epoch: Annotated[int, wire("int32")] = 0


class FetchSnapshotResponseLeaderIdAndEpoch(Message):
    """The value of FetchSnapshotResponse.topics[].partitions[].current_leader."""

    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0


class FetchSnapshotResponsePartitionSnapshot(Message):
    """An element of FetchSnapshotResponse.topics[].partitions."""

    index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    snapshot_id: Annotated[FetchSnapshotResponseSnapshotId, wire("SnapshotId")] = FetchSnapshotResponseSnapshotId()
    current_leader: Annotated[FetchSnapshotResponseLeaderIdAndEpoch, wire("LeaderIdAndEpoch", tag=0)] = (
        FetchSnapshotResponseLeaderIdAndEpoch()
    )
    size: Annotated[int, wire("int64")] = 0
    position: Annotated[int, wire("int64")] = 0
    unaligned_records: Annotated[bytes, wire("records")] = b""


class FetchSnapshotResponseTopicSnapshot(Message):
    """An element of FetchSnapshotResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[FetchSnapshotResponsePartitionSnapshot, ...], wire("[]PartitionSnapshot")] = ()


class FetchSnapshotResponseNodeEndpoint(Message):
    """An element of FetchSnapshotResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=1, ignorable=True)] = ""
    port: Annotated[int, wire("uint16", since=1, ignorable=True)] = 0


class FetchSnapshotResponse(Message):
    """A piece of a snapshot; apiKey 59, v0-1. Source: FetchSnapshotResponse.json."""

    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[FetchSnapshotResponseTopicSnapshot, ...], wire("[]TopicSnapshot")] = ()
    node_endpoints: Annotated[
        tuple[FetchSnapshotResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=1, tag=0, ignorable=True)
    ] = ()
