"""RPCs of the raft quorum itself: votes, epochs and its description (KIP-595, 836, 853, 996).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class VoteRequestPartitionData(Message):
    """An element of VoteRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    replica_epoch: Annotated[int, wire("int32")] = 0
    replica_id: Annotated[int, wire("int32")] = 0
    replica_directory_id: Annotated[UUID, wire("uuid", since=1, ignorable=True)] = ZERO_UUID
    voter_directory_id: Annotated[UUID, wire("uuid", since=1, ignorable=True)] = ZERO_UUID
    last_offset_epoch: Annotated[int, wire("int32")] = 0
    last_offset: Annotated[int, wire("int64")] = 0
    pre_vote: Annotated[bool, wire("bool", since=2)] = False


class VoteRequestTopicData(Message):
    """An element of VoteRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[VoteRequestPartitionData, ...], wire("[]PartitionData")] = ()


class VoteRequest(Message):
    """Request a voter's vote or pre-vote; apiKey 52, v0-2. Source: VoteRequest.json."""

    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    voter_id: Annotated[int, wire("int32", since=1, ignorable=True)] = -1
    topics: Annotated[tuple[VoteRequestTopicData, ...], wire("[]TopicData")] = ()


class VoteResponsePartitionData(Message):
    """An element of VoteResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    vote_granted: Annotated[bool, wire("bool")] = False


class VoteResponseTopicData(Message):
    """An element of VoteResponse.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[VoteResponsePartitionData, ...], wire("[]PartitionData")] = ()


class VoteResponseNodeEndpoint(Message):
    """An element of VoteResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=1, ignorable=True)] = ""
    port: Annotated[int, wire("uint16", since=1, ignorable=True)] = 0


class VoteResponse(Message):
    """Whether the vote was granted, and the leader; apiKey 52, v0-2. Source: VoteResponse.json."""

    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    error_code: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[VoteResponseTopicData, ...], wire("[]TopicData")] = ()
    node_endpoints: Annotated[
        tuple[VoteResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=1, tag=0, ignorable=True)
    ] = ()


class BeginQuorumEpochRequestPartitionData(Message):
    """An element of BeginQuorumEpochRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid", since=1, ignorable=True)] = ZERO_UUID
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0


class BeginQuorumEpochRequestTopicData(Message):
    """An element of BeginQuorumEpochRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[BeginQuorumEpochRequestPartitionData, ...], wire("[]PartitionData")] = ()


class BeginQuorumEpochRequestLeaderEndpoint(Message):
    """An element of BeginQuorumEpochRequest.leader_endpoints."""

    name: Annotated[str, wire("string", since=1)] = ""
    host: Annotated[str, wire("string", since=1)] = ""
    port: Annotated[int, wire("uint16", since=1)] = 0


class BeginQuorumEpochRequest(Message):
    """Announce the epoch's leader to a voter; apiKey 53, v0-1. Source: BeginQuorumEpochRequest.json."""

    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    voter_id: Annotated[int, wire("int32", since=1, ignorable=True)] = -1
    topics: Annotated[tuple[BeginQuorumEpochRequestTopicData, ...], wire("[]TopicData")] = ()
    leader_endpoints: Annotated[
        tuple[BeginQuorumEpochRequestLeaderEndpoint, ...], wire("[]LeaderEndpoint", since=1, ignorable=True)
    ] = ()


class BeginQuorumEpochResponsePartitionData(Message):
    """An element of BeginQuorumEpochResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0


class BeginQuorumEpochResponseTopicData(Message):
    """An element of BeginQuorumEpochResponse.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[BeginQuorumEpochResponsePartitionData, ...], wire("[]PartitionData")] = ()


class BeginQuorumEpochResponseNodeEndpoint(Message):
    """An element of BeginQuorumEpochResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=1, ignorable=True)] = ""
    port: Annotated[int, wire("uint16", since=1, ignorable=True)] = 0


class BeginQuorumEpochResponse(Message):
    """Acknowledge the leader, or return a newer one; apiKey 53, v0-1. Source: BeginQuorumEpochResponse.json."""

    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    error_code: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[BeginQuorumEpochResponseTopicData, ...], wire("[]TopicData")] = ()
    node_endpoints: Annotated[
        tuple[BeginQuorumEpochResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=1, tag=0, ignorable=True)
    ] = ()


class EndQuorumEpochRequestReplicaInfo(Message):
    """An element of EndQuorumEpochRequest.topics[].partitions[].preferred_candidates."""

    candidate_id: Annotated[int, wire("int32", since=1)] = 0
    candidate_directory_id: Annotated[UUID, wire("uuid", since=1)] = ZERO_UUID


class EndQuorumEpochRequestPartitionData(Message):
    """An element of EndQuorumEpochRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    preferred_successors: Annotated[tuple[int, ...], wire("[]int32", until=0, ignorable=True)] = ()
    preferred_candidates: Annotated[
        tuple[EndQuorumEpochRequestReplicaInfo, ...], wire("[]ReplicaInfo", since=1, ignorable=True)
    ] = ()


class EndQuorumEpochRequestTopicData(Message):
    """An element of EndQuorumEpochRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[EndQuorumEpochRequestPartitionData, ...], wire("[]PartitionData")] = ()


class EndQuorumEpochRequestLeaderEndpoint(Message):
    """An element of EndQuorumEpochRequest.leader_endpoints."""

    name: Annotated[str, wire("string", since=1)] = ""
    host: Annotated[str, wire("string", since=1)] = ""
    port: Annotated[int, wire("uint16", since=1)] = 0


class EndQuorumEpochRequest(Message):
    """Announce the leader's resignation to a voter; apiKey 54, v0-1. Source: EndQuorumEpochRequest.json."""

    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    topics: Annotated[tuple[EndQuorumEpochRequestTopicData, ...], wire("[]TopicData")] = ()
    leader_endpoints: Annotated[
        tuple[EndQuorumEpochRequestLeaderEndpoint, ...], wire("[]LeaderEndpoint", since=1, ignorable=True)
    ] = ()


class EndQuorumEpochResponsePartitionData(Message):
    """An element of EndQuorumEpochResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0


class EndQuorumEpochResponseTopicData(Message):
    """An element of EndQuorumEpochResponse.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[EndQuorumEpochResponsePartitionData, ...], wire("[]PartitionData")] = ()


class EndQuorumEpochResponseNodeEndpoint(Message):
    """An element of EndQuorumEpochResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=1, ignorable=True)] = ""
    port: Annotated[int, wire("uint16", since=1, ignorable=True)] = 0


class EndQuorumEpochResponse(Message):
    """Acknowledge the resignation, or return a newer epoch; apiKey 54, v0-1. Source: EndQuorumEpochResponse.json."""

    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    error_code: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[EndQuorumEpochResponseTopicData, ...], wire("[]TopicData")] = ()
    node_endpoints: Annotated[
        tuple[EndQuorumEpochResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=1, tag=0, ignorable=True)
    ] = ()


class DescribeQuorumRequestPartitionData(Message):
    """An element of DescribeQuorumRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0


class DescribeQuorumRequestTopicData(Message):
    """An element of DescribeQuorumRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[DescribeQuorumRequestPartitionData, ...], wire("[]PartitionData")] = ()


class DescribeQuorumRequest(Message):
    """Request voters, observers and their progress; apiKey 55, v0-2. Source: DescribeQuorumRequest.json."""

    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    topics: Annotated[tuple[DescribeQuorumRequestTopicData, ...], wire("[]TopicData")] = ()


class DescribeQuorumResponseReplicaState(Message):
    """An element of DescribeQuorumResponse.topics[].partitions[].current_voters."""

    replica_id: Annotated[int, wire("int32")] = 0
    replica_directory_id: Annotated[UUID, wire("uuid", since=2, ignorable=True)] = ZERO_UUID
    log_end_offset: Annotated[int, wire("int64")] = 0
    last_fetch_timestamp: Annotated[int, wire("int64", since=1, ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, wire("int64", since=1, ignorable=True)] = -1


class DescribeQuorumResponsePartitionData(Message):
    """An element of DescribeQuorumResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", since=2, nullable_since=2, ignorable=True)] = ""
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    high_watermark: Annotated[int, wire("int64")] = 0
    current_voters: Annotated[tuple[DescribeQuorumResponseReplicaState, ...], wire("[]ReplicaState")] = ()
    observers: Annotated[tuple[DescribeQuorumResponseReplicaState, ...], wire("[]ReplicaState")] = ()


class DescribeQuorumResponseTopicData(Message):
    """An element of DescribeQuorumResponse.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[DescribeQuorumResponsePartitionData, ...], wire("[]PartitionData")] = ()


class DescribeQuorumResponseListener(Message):
    """An element of DescribeQuorumResponse.nodes[].listeners."""

    name: Annotated[str, wire("string", since=2, ignorable=True)] = ""
    host: Annotated[str, wire("string", since=2, ignorable=True)] = ""
    port: Annotated[int, wire("uint16", since=2, ignorable=True)] = 0


class DescribeQuorumResponseNode(Message):
    """An element of DescribeQuorumResponse.nodes."""

    node_id: Annotated[int, wire("int32", since=2, ignorable=True)] = 0
    listeners: Annotated[tuple[DescribeQuorumResponseListener, ...], wire("[]Listener", since=2, ignorable=True)] = ()


class DescribeQuorumResponse(Message):
    """The state of the quorum; apiKey 55, v0-2. Source: DescribeQuorumResponse.json."""

    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", since=2, nullable_since=2, ignorable=True)] = ""
    topics: Annotated[tuple[DescribeQuorumResponseTopicData, ...], wire("[]TopicData")] = ()
    nodes: Annotated[tuple[DescribeQuorumResponseNode, ...], wire("[]Node", since=2, ignorable=True)] = ()
