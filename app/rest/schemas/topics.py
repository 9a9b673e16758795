"""Bodies and answers about topics."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import (
    BROKERS_PER_PARTITION_MAX,
    CONFIGS_MAX,
    PARTITIONS_MAX,
    Body,
    ChangeBody,
    ConfigName,
    ConfigValue,
    ListOf,
    Related,
    Resource,
    TopicName,
)


class ConfigToCreate(Body):
    """A config of a new topic."""

    name: ConfigName
    value: ConfigValue | None = None


class CreateTopicBody(ChangeBody):
    """CreateTopicRequestData of REST v3. `replicas_assignments` (partition → broker ids) overrides both counts."""

    topic_name: TopicName
    partitions_count: int | None = None
    replication_factor: int | None = None
    replicas_assignments: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(pattern=r"^\d{1,7}$")],
                Annotated[tuple[int, ...], Field(max_length=BROKERS_PER_PARTITION_MAX, strict=False)],
            ],
            Field(max_length=PARTITIONS_MAX),
        ]
        | None
    ) = None
    configs: Annotated[tuple[ConfigToCreate, ...], Field(max_length=CONFIGS_MAX, strict=False)] = ()


class UpdatePartitionsCountBody(ChangeBody):
    """UpdatePartitionCountRequestData of REST v3, with `validate_only` added."""

    partitions_count: int


class TopicData(Resource):
    """A topic."""

    kind: Literal["KafkaTopic"]
    topic_name: str
    topic_id: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str]


class TopicDataList(ListOf[TopicData]):
    """Topics."""

    kind: Literal["KafkaTopicList"]


class TopicRateData(Resource):
    """The records per second of a topic from `since` to `asked_at` (ms), by the growth of its end offsets.

    They are null until the leaders of all partitions have answered twice; `unknown_partition_ids` are those that have
    not, and `error` says why the first of them is unknown. Control records count; retention and compaction do not.
    """

    kind: Literal["KafkaTopicRate"]
    topic_name: str
    records_per_second: float | None
    since: int | None
    asked_at: int | None
    unknown_partition_ids: list[int]
    error: str | None
