"""Partition state: ISR changes, directories of replicas, elections (KIP-497, 858, 460).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class AlterPartitionRequestBrokerState(Message):
    """An element of AlterPartitionRequest.topics[].partitions[].new_isr_with_epochs."""

    broker_id: Annotated[int, wire("int32", since=3)] = 0
    broker_epoch: Annotated[int, wire("int64", since=3)] = -1


class AlterPartitionRequestPartitionData(Message):
    """An element of AlterPartitionRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    new_isr: Annotated[tuple[int, ...], wire("[]int32", until=2)] = ()
    new_isr_with_epochs: Annotated[tuple[AlterPartitionRequestBrokerState, ...], wire("[]BrokerState", since=3)] = ()
    leader_recovery_state: Annotated[int, wire("int8")] = 0
    partition_epoch: Annotated[int, wire("int32")] = 0


class AlterPartitionRequestTopicData(Message):
    """An element of AlterPartitionRequest.topics."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[AlterPartitionRequestPartitionData, ...], wire("[]PartitionData")] = ()


class AlterPartitionRequest(Message):
    """Change ISR and recovery state of partitions, as leader; apiKey 56, v2-3. Source: AlterPartitionRequest.json."""

    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1
    topics: Annotated[tuple[AlterPartitionRequestTopicData, ...], wire("[]TopicData")] = ()


class AlterPartitionResponsePartitionData(Message):
    """An element of AlterPartitionResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    isr: Annotated[tuple[int, ...], wire("[]int32")] = ()
    leader_recovery_state: Annotated[int, wire("int8")] = 0
    partition_epoch: Annotated[int, wire("int32")] = 0


class AlterPartitionResponseTopicData(Message):
    """An element of AlterPartitionResponse.topics."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[AlterPartitionResponsePartitionData, ...], wire("[]PartitionData")] = ()


class AlterPartitionResponse(Message):
    """The partitions' current state; apiKey 56, v2-3. Source: AlterPartitionResponse.json."""

    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    topics: Annotated[tuple[AlterPartitionResponseTopicData, ...], wire("[]TopicData")] = ()


class AssignReplicasToDirsRequestPartitionData(Message):
    """An element of AssignReplicasToDirsRequest.directories[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0


class AssignReplicasToDirsRequestTopicData(Message):
    """An element of AssignReplicasToDirsRequest.directories[].topics."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[AssignReplicasToDirsRequestPartitionData, ...], wire("[]PartitionData")] = ()


class AssignReplicasToDirsRequestDirectoryData(Message):
    """An element of AssignReplicasToDirsRequest.directories."""

    id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    topics: Annotated[tuple[AssignReplicasToDirsRequestTopicData, ...], wire("[]TopicData")] = ()


class AssignReplicasToDirsRequest(Message):
    """Report the directories of replicas; apiKey 73, v0. Source: AssignReplicasToDirsRequest.json."""

    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1
    directories: Annotated[tuple[AssignReplicasToDirsRequestDirectoryData, ...], wire("[]DirectoryData")] = ()


class AssignReplicasToDirsResponsePartitionData(Message):
    """An element of AssignReplicasToDirsResponse.directories[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class AssignReplicasToDirsResponseTopicData(Message):
    """An element of AssignReplicasToDirsResponse.directories[].topics."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[AssignReplicasToDirsResponsePartitionData, ...], wire("[]PartitionData")] = ()


class AssignReplicasToDirsResponseDirectoryData(Message):
    """An element of AssignReplicasToDirsResponse.directories."""

    id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    topics: Annotated[tuple[AssignReplicasToDirsResponseTopicData, ...], wire("[]TopicData")] = ()


class AssignReplicasToDirsResponse(Message):
    """Whether the directories were recorded; apiKey 73, v0. Source: AssignReplicasToDirsResponse.json."""

    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    directories: Annotated[tuple[AssignReplicasToDirsResponseDirectoryData, ...], wire("[]DirectoryData")] = ()


class ElectLeadersRequestTopicPartitions(Message):
    """An element of ElectLeadersRequest.topic_partitions."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ElectLeadersRequest(Message):
    """Elect preferred or unclean leaders; apiKey 43, v0-2. Source: ElectLeadersRequest.json."""

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    election_type: Annotated[int, wire("int8", since=1)] = 0
    topic_partitions: Annotated[
        tuple[ElectLeadersRequestTopicPartitions, ...] | None, wire("[]TopicPartitions", nullable_since=0)
    ] = ()
    timeout_ms: Annotated[int, wire("int32")] = 60000


class ElectLeadersResponsePartitionResult(Message):
    """An element of ElectLeadersResponse.replica_election_results[].partition_result."""

    partition_id: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class ElectLeadersResponseReplicaElectionResult(Message):
    """An element of ElectLeadersResponse.replica_election_results."""

    topic: Annotated[str, wire("string")] = ""
    partition_result: Annotated[tuple[ElectLeadersResponsePartitionResult, ...], wire("[]PartitionResult")] = ()


class ElectLeadersResponse(Message):
    """The elections, one by one; apiKey 43, v0-2. Source: ElectLeadersResponse.json."""

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16", since=1, ignorable=True)] = 0
    replica_election_results: Annotated[
        tuple[ElectLeadersResponseReplicaElectionResult, ...], wire("[]ReplicaElectionResult")
    ] = ()
