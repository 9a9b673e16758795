"""Bodies and answers about consumer groups. Names of members are those of REST v3."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.rest.schemas.base import (
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

Int32 = Annotated[int, Field(ge=0, le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=0, le=2**63 - 1)]
SCENARIOS = ("to", "to_offset", "to_datetime", "by_duration", "shift_by")


class SubtopologyData(Answer):
    """A part of a topology whose tasks are assigned together. Topics are names."""

    subtopology_id: str
    source_topics: list[str]
    repartition_source_topics: list[str]
    repartition_sink_topics: list[str]
    changelog_topics: list[str]


class TopologyData(Answer):
    """The topology of a streams group."""

    epoch: int
    subtopologies: list[SubtopologyData]


class TaskData(Answer):
    """A task of a member of a streams group."""

    subtopology_id: str
    partition_id: int


class MemberTasksData(Answer):
    """The tasks that a member runs, keeps copies of, and prepares."""

    active: list[TaskData]
    standby: list[TaskData]
    warmup: list[TaskData]


class ConsumerGroupData(Resource):
    """A group of any type. `epoch` and `assignment_epoch` (null for classic groups) are additions to REST v3.

    So is `topology`, which only streams groups have.
    """

    kind: Literal["KafkaConsumerGroup"]
    consumer_group_id: str
    protocol: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    is_mixed_consumer_group: bool
    coordinator: Related
    consumers: Related
    lag_summary: Related
    epoch: int | None
    assignment_epoch: int | None
    topology: TopologyData | None


class ConsumerGroupDataList(ListOf[ConsumerGroupData]):
    """Groups by id."""

    kind: Literal["KafkaConsumerGroupList"]


class AssignedPartitionData(Answer):
    """A partition of a member."""

    topic_name: str
    partition_id: int


class ConsumerData(Resource):
    """A member of a group. `host`, `member_epoch`, `tasks` (of streams groups) and both lists are additions to REST v3.

    `assigned_partitions` are those that it has, `target_partitions` those that it is to have (null for classic groups).
    """

    kind: Literal["KafkaConsumer"]
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related
    host: str
    member_epoch: int | None
    tasks: MemberTasksData | None
    assigned_partitions: list[AssignedPartitionData]
    target_partitions: list[AssignedPartitionData] | None


class ConsumerDataList(ListOf[ConsumerData]):
    """Members by id."""

    kind: Literal["KafkaConsumerList"]


class ConsumerAssignmentData(Resource):
    """A partition that is assigned to a member."""

    kind: Literal["KafkaConsumerAssignment"]
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class ConsumerAssignmentDataList(ListOf[ConsumerAssignmentData]):
    """Assigned partitions."""

    kind: Literal["KafkaConsumerAssignmentList"]


class ConsumerLagData(Resource):
    """The lag of a group in one partition. `consumer_id` and `client_id` are "" where no member has the partition."""

    kind: Literal["KafkaConsumerLag"]
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerLagDataList(ListOf[ConsumerLagData]):
    """Lags, the largest first."""

    kind: Literal["KafkaConsumerLagList"]


class ConsumerGroupLagSummaryData(Resource):
    """The largest lag and the sum of all. `max_lag_consumer` is null where no member has the partition."""

    kind: Literal["KafkaConsumerGroupLagSummary"]
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related | None
    max_lag_partition: Related


class PartitionsOfTopic(Body):
    """Partitions of a topic; `partition_ids` null takes all of them."""

    topic_name: TopicName
    partition_ids: Annotated[tuple[Int32, ...], Field(max_length=PARTITIONS_MAX, min_length=1, strict=False)] | None = (
        None
    )


class ResetOffsetsBody(ChangeBody):
    """Where the offsets are moved: exactly one of `to`, `to_offset`, `to_datetime`, `by_duration` and `shift_by`.

    `to_datetime` (ISO 8601) and `by_duration` (ISO 8601, before now) take the first record at or after that time.
    `topics` null takes the partitions with a committed offset.
    """

    to: Literal["EARLIEST", "LATEST", "CURRENT"] | None = None
    to_offset: Int64 | None = None
    to_datetime: str | None = None
    by_duration: str | None = None
    shift_by: Annotated[int, Field(ge=-(2**62), le=2**62)] | None = None
    topics: Annotated[tuple[PartitionsOfTopic, ...], Field(max_length=1_000, min_length=1, strict=False)] | None = None

    @model_validator(mode="after")
    def _one_scenario(self) -> Self:
        if sum(getattr(self, name) is not None for name in SCENARIOS) != 1:
            raise ValueError(f"give exactly one of {', '.join(SCENARIOS)}")
        return self


class OffsetResetData(Answer):
    """A partition's offset before and after. The last two members are null where it was moved, or would be.

    `current_offset` is null without a commit; `note` says why `new_offset` is not the one asked for.
    """

    topic_name: str
    partition_id: int
    current_offset: int | None
    new_offset: int
    note: str
    kafka_error: str | None
    message: str | None


class OffsetResetDataList(Validated):
    """One outcome per partition, by topic and partition."""

    kind: Literal["KafkaOffsetResetList"]
    data: list[OffsetResetData]
