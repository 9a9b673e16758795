"""Models of consumer groups. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer, Body


class AssignedPartitionData(Answer, frozen=True, kw_only=True):
    """A partition of a member."""

    topic_name: str
    partition_id: int


class ConsumerAssignmentData(Answer, frozen=True, kw_only=True):
    """A partition that is assigned to a member."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class ConsumerAssignmentDataList(Answer, frozen=True, kw_only=True):
    """Assigned partitions."""

    metadata: ListMetadata
    data: list[ConsumerAssignmentData]
    kind: str


class TaskData(Answer, frozen=True, kw_only=True):
    """A task of a member of a streams group."""

    subtopology_id: str
    partition_id: int


class MemberTasksData(Answer, frozen=True, kw_only=True):
    """The tasks that a member runs, keeps copies of, and prepares."""

    active: list[TaskData]
    standby: list[TaskData]
    warmup: list[TaskData]


class ConsumerData(Answer, frozen=True, kw_only=True):
    """A member of a group. `host`, `member_epoch`, `tasks` (of streams groups) and both lists are additions to REST v3.

    `assigned_partitions` are those that it has, `target_partitions` those that it is to have (null for classic groups).
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
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


class ConsumerDataList(Answer, frozen=True, kw_only=True):
    """Members by id."""

    metadata: ListMetadata
    data: list[ConsumerData]
    kind: str


class SubtopologyData(Answer, frozen=True, kw_only=True):
    """A part of a topology whose tasks are assigned together. Topics are names."""

    subtopology_id: str
    source_topics: list[str]
    repartition_source_topics: list[str]
    repartition_sink_topics: list[str]
    changelog_topics: list[str]


class TopologyData(Answer, frozen=True, kw_only=True):
    """The topology of a streams group."""

    epoch: int
    subtopologies: list[SubtopologyData]


class ConsumerGroupData(Answer, frozen=True, kw_only=True):
    """A group of any type. `epoch` and `assignment_epoch` (null for classic groups) are additions to REST v3.

    So is `topology`, which only streams groups have.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
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


class ConsumerGroupDataList(Answer, frozen=True, kw_only=True):
    """Groups by id."""

    metadata: ListMetadata
    data: list[ConsumerGroupData]
    kind: str


class ConsumerGroupLagSummaryData(Answer, frozen=True, kw_only=True):
    """The largest lag and the sum of all. `max_lag_consumer` is null where no member has the partition."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
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


class ConsumerLagData(Answer, frozen=True, kw_only=True):
    """The lag of a group in one partition. `consumer_id` and `client_id` are "" where no member has the partition."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerLagDataList(Answer, frozen=True, kw_only=True):
    """Lags, the largest first."""

    metadata: ListMetadata
    data: list[ConsumerLagData]
    kind: str


class GroupDeletionData(Answer, frozen=True, kw_only=True):
    """The result of one group."""

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None
    consumer_group_id: str


class GroupDeletionDataList(Answer, frozen=True, kw_only=True):
    """The result of each group, in the order of the request."""

    validated: bool | None = None
    kind: str
    data: list[GroupDeletionData]


class GroupToDelete(Body, frozen=True, kw_only=True):
    """A group by its id."""

    consumer_group_id: str


class OffsetResetData(Answer, frozen=True, kw_only=True):
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


class OffsetResetDataList(Answer, frozen=True, kw_only=True):
    """One outcome per partition, by topic and partition."""

    validated: bool | None = None
    kind: str
    data: list[OffsetResetData]


class PartitionsOfTopic(Body, frozen=True, kw_only=True):
    """Partitions of a topic; `partition_ids` null takes all of them."""

    topic_name: str
    partition_ids: Sequence[int] | UnsetType | None = UNSET
