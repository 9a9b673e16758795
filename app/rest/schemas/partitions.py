"""Bodies and answers about partitions, replicas, reassignments and elections."""

from typing import Annotated, Literal

from pydantic import Field

from app.rest.schemas.base import (
    BROKERS_PER_PARTITION_MAX,
    PARTITIONS_MAX,
    Answer,
    Body,
    ChangeBody,
    ListOf,
    Related,
    Resource,
    TopicName,
    Validated,
)

PartitionId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class PartitionEntry(Body):
    """One partition."""

    topic_name: TopicName
    partition_id: PartitionId


class ReassignmentEntry(PartitionEntry):
    """The new replicas of one partition, the preferred leader first."""

    replica_ids: Annotated[tuple[int, ...], Field(max_length=BROKERS_PER_PARTITION_MAX, strict=False)]


class ReassignBody(ChangeBody):
    """Partitions to reassign. `allow_replication_factor_change` false refuses another number of replicas (KIP-860)."""

    data: Annotated[tuple[ReassignmentEntry, ...], Field(min_length=1, max_length=PARTITIONS_MAX, strict=False)]
    allow_replication_factor_change: bool = True


class CancelBody(ChangeBody):
    """Partitions whose reassignments to cancel."""

    data: Annotated[tuple[PartitionEntry, ...], Field(min_length=1, max_length=PARTITIONS_MAX, strict=False)]


class ElectBody(ChangeBody):
    """The kind of election: PREFERRED elects the first replica, UNCLEAN any live one, even if it lacks records."""

    election_type: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED"


class ElectLeadersBody(ElectBody):
    """The partitions of an election: those listed, those of some topics, or without either those of the cluster.

    Of topics and of the cluster, only partitions that need an election take part.
    """

    topic_names: Annotated[tuple[TopicName, ...], Field(max_length=PARTITIONS_MAX, strict=False)] = ()
    partitions: Annotated[tuple[PartitionEntry, ...], Field(max_length=PARTITIONS_MAX, strict=False)] = ()


class PartitionFields(Resource):
    """Members of a partition."""

    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related
    leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    replica_ids: list[int]
    in_sync_replica_ids: list[int]
    eligible_leader_replica_ids: list[int]
    offline_replica_ids: list[int]
    is_recovering: bool


class PartitionData(PartitionFields):
    """A partition."""

    kind: Literal["KafkaPartition"]


class PartitionDataList(ListOf[PartitionData]):
    """Partitions."""

    kind: Literal["KafkaPartitionList"]


class ReplicaData(Resource):
    """A replica."""

    kind: Literal["KafkaReplica"]
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related
    directory_id: str | None


class ReplicaDataList(ListOf[ReplicaData]):
    """Replicas."""

    kind: Literal["KafkaReplicaList"]


class ReassignmentData(Resource):
    """A reassignment in progress."""

    kind: Literal["KafkaReassignment"]
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentDataList(ListOf[ReassignmentData]):
    """Reassignments in progress."""

    kind: Literal["KafkaReassignmentList"]


class PartitionOutcomeData(Answer):
    """The outcome for one partition. The last three members are null on success."""

    topic_name: str
    partition_id: int
    partition: Related
    error_code: int | None
    kafka_error: str | None
    message: str | None


class PartitionOutcomeDataList(Validated):
    """One outcome per partition, in the order of the request."""

    data: list[PartitionOutcomeData]


class BrokerLeadersData(Answer):
    """The number of partitions that a broker leads before an election, and after it as the controller's rules say."""

    broker_id: int
    leaders_before: int
    leaders_after: int


class ElectionOutcomeDataList(PartitionOutcomeDataList):
    """One outcome per partition, and the leaders of each broker."""

    brokers: list[BrokerLeadersData]


class ElectionBrokerData(Answer):
    """The number of partitions that a broker led when an election began, and leads now."""

    broker_id: int
    leaders_before: int
    leaders_now: int


class ElectionData(Resource):
    """An election of more than 1,000 partitions, in batches.

    `state`: `running`, `done`, or `stopped` for the reason in `stopped_by`. `waits_for`: why the present batch is
    repeated. `metadata_offset`: of its newest change. Times are in ms since 1970.
    """

    kind: Literal["KafkaElection"]
    election_id: str
    election_type: Literal["PREFERRED", "UNCLEAN"]
    state: Literal["running", "done", "stopped"]
    by: str
    started_at: int
    finished_at: int | None
    partitions_count: int
    elected_count: int
    refused_count: int
    metadata_offset: int | None
    waits_for: str | None
    stopped_by: str | None
    partitions: Related
    brokers: list[ElectionBrokerData]


class ElectionPartitionData(Answer):
    """What has become of one partition. `kafka_error` and `message` are null unless it was refused."""

    topic_name: str
    partition_id: int
    partition: Related
    state: Literal["pending", "elected", "refused"]
    kafka_error: str | None
    message: str | None


class ElectionPartitionDataList(ListOf[ElectionPartitionData]):
    """A page of the partitions of an election."""

    kind: Literal["KafkaElectionPartitionList"]
