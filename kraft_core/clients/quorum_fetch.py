"""The requests of an observer to the metadata quorum, and accessors for their answers.

An observer is a replica that never votes. The leader does not track one with replica id -1; one with a node's id and
directory id is listed by DescribeQuorum. Source: KIP-595, KIP-630, KIP-853; KafkaRaftClient.buildFetchRequest.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from kraft_core.clients.metadata_source import LeaderEndpoint
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestReplicaState,
    FetchResponse,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
)
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID
from kraft_core.protocol.wire import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverIdentity:
    """Identity of the fetching replica. With the defaults it belongs to no node and the leader does not track it."""

    replica_id: int = -1
    directory_id: uuid.UUID = ZERO_UUID
    cluster_id: str | None = None


def fetch_request(
    identity: ObserverIdentity,
    *,
    leader_epoch: int,
    fetch_offset: int,
    last_fetched_epoch: int,
    high_watermark: int,
    max_wait_ms: int,
    max_bytes: int,
) -> FetchRequest:
    """Build a Fetch for the metadata partition.

    `high_watermark` is the fetcher's, -1 if unknown: a leader with a higher one answers at once.
    """
    partition = FetchRequestFetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=-1,
        partition_max_bytes=0,
        replica_directory_id=identity.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=identity.cluster_id,
        replica_state=FetchRequestReplicaState(replica_id=identity.replica_id),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=(FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def leader_probe(cluster_id: str | None) -> FetchRequest:
    """Build the Fetch that any controller answers with the leader it knows, since epoch 0 is always out of date."""
    return fetch_request(
        ObserverIdentity(cluster_id=cluster_id),
        leader_epoch=0,
        fetch_offset=0,
        last_fetched_epoch=0,
        high_watermark=-1,
        max_wait_ms=0,
        max_bytes=0,
    )


def describe_quorum_request() -> DescribeQuorumRequest:
    """Build the request for the state of the quorum, which only the leader answers."""
    partition = DescribeQuorumRequestPartitionData(partition_index=METADATA_PARTITION)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return DescribeQuorumRequest(topics=(topic,))


def fetch_partition(answer: FetchResponse) -> FetchResponsePartitionData | None:
    """Return the metadata partition of an answer, None if the answer holds none."""
    return next((data for topic in answer.responses for data in topic.partitions), None)


def snapshot_partition(answer: FetchSnapshotResponse) -> FetchSnapshotResponsePartitionSnapshot | None:
    """Return the metadata partition of an answer, None if the answer holds none."""
    return next((data for topic in answer.topics for data in topic.partitions), None)


def endpoint_of(answer: FetchResponse | FetchSnapshotResponse, leader_id: int) -> LeaderEndpoint | None:
    """Return the address of node `leader_id` in an answer, None if it has none (as Fetch before version 16)."""
    found = next((node for node in answer.node_endpoints if node.node_id == leader_id), None)
    return None if found is None else LeaderEndpoint(found.node_id, found.host, found.port)


def fetch_snapshot_request(
    identity: ObserverIdentity, *, leader_epoch: int, end_offset: int, epoch: int, position: int, max_bytes: int
) -> FetchSnapshotRequest:
    """Build a FetchSnapshot for the bytes of snapshot (`end_offset`, `epoch`) from `position` on."""
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=end_offset, epoch=epoch),
        position=position,
        replica_directory_id=identity.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=identity.cluster_id,
        replica_id=identity.replica_id,
        max_bytes=max_bytes,
        topics=(FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


async def fetch_snapshot(
    send: Callable[[FetchSnapshotRequest], Awaitable[Message]],
    identity: ObserverIdentity,
    snapshot_id: FetchResponseSnapshotId,
    *,
    leader_epoch: int,
    max_bytes: int,
) -> bytes:
    """Return the bytes of a whole snapshot, fetched in parts of up to `max_bytes` with `send`.

    Raises KafkaError when the leader refuses, CorruptBatch for a part that does not follow the one before, and what
    `send` raises.
    """
    name = f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}"
    data = bytearray()
    while True:
        request = fetch_snapshot_request(
            identity,
            leader_epoch=leader_epoch,
            end_offset=snapshot_id.end_offset,
            epoch=snapshot_id.epoch,
            position=len(data),
            max_bytes=max_bytes,
        )
        answer = cast("FetchSnapshotResponse", await send(request))
        partition = snapshot_partition(answer)
        code = answer.error_code or (ErrorCode.INVALID_REQUEST if partition is None else partition.error_code)
        if code != ErrorCode.NONE or partition is None:
            raise KafkaError(ErrorCode(code), f"The controller refused {name} at byte {len(data)}.")
        if partition.position != len(data) or not partition.unaligned_records:
            raise CorruptBatch(len(data), f"{name} arrived with a gap")
        data += partition.unaligned_records
        if len(data) >= partition.size:
            return bytes(data)
