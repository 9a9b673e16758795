"""Models of topics. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer, Body


class ConfigToCreate(Body, frozen=True, kw_only=True):
    """A config of a new topic."""

    name: str
    value: str | UnsetType | None = UNSET


class ContentBody(Body, frozen=True, kw_only=True):
    """A key or value: BINARY in base64, STRING as UTF-8, JSON as it is; null in any type is null."""

    type: Literal["BINARY", "STRING", "JSON"]
    data: object | UnsetType = UNSET


class HeaderBody(Body, frozen=True, kw_only=True):
    """A header of a new record; `value` in base64."""

    name: str
    value: str | UnsetType | None = UNSET


class PartitionData(Answer, frozen=True, kw_only=True):
    """A partition."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
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
    kind: str


class PartitionDataList(Answer, frozen=True, kw_only=True):
    """Partitions."""

    metadata: ListMetadata
    data: list[PartitionData]
    kind: str


class PartitionWithOffsetsData(Answer, frozen=True, kw_only=True):
    """A partition with its first offset and the one behind its last record."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
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
    kind: str
    earliest_offset: int
    latest_offset: int


class ProduceBatchEntry(Body, frozen=True, kw_only=True):
    """A record of a batch, and the id of its result."""

    partition_id: int | UnsetType | None = UNSET
    headers: Sequence[HeaderBody] | UnsetType = UNSET
    key: ContentBody | UnsetType | None = UNSET
    value: ContentBody | UnsetType | None = UNSET
    timestamp: str | UnsetType | None = UNSET
    id: str


class ProduceBatchFailure(Answer, frozen=True, kw_only=True):
    """A record that was not written, and why."""

    id: str
    error_code: int
    message: str


class ProducedContent(Answer, frozen=True, kw_only=True):
    """Type and size in bytes of a key or value that was written."""

    type: str
    size: int


class ProduceBatchSuccess(Answer, frozen=True, kw_only=True):
    """A record of a batch that was written, by its id."""

    cluster_id: str
    topic_name: str
    partition_id: int | None
    offset: int | None
    timestamp: str | None
    key: ProducedContent | None
    value: ProducedContent | None
    id: str


class ProducedBatchData(Answer, frozen=True, kw_only=True):
    """ProduceBatchResponse of REST v3: each record is in one of the lists."""

    validated: bool | None = None
    successes: list[ProduceBatchSuccess]
    failures: list[ProduceBatchFailure]


class ProducedData(Answer, frozen=True, kw_only=True):
    """ProduceResponse of REST v3. `error_code` is 200; in a dry run there is no offset."""

    validated: bool | None = None
    cluster_id: str
    topic_name: str
    partition_id: int | None
    offset: int | None
    timestamp: str | None
    key: ProducedContent | None
    value: ProducedContent | None
    error_code: int


class ReassignmentData(Answer, frozen=True, kw_only=True):
    """A reassignment in progress."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentDataList(Answer, frozen=True, kw_only=True):
    """Reassignments in progress."""

    metadata: ListMetadata
    data: list[ReassignmentData]
    kind: str


class RecordHeaderData(Answer, frozen=True, kw_only=True):
    """A header: `value` as text, or `value_base64`."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class RecordData(Answer, frozen=True, kw_only=True):
    """A record, as `conclave consume --json` prints it. Bytes that are not UTF-8 are in members with `_base64`.

    `is_truncated`: only the beginning of a long key or value is given, in base64; `key_size` and `value_size` are the
    whole sizes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[RecordHeaderData]
    key_size: int
    value_size: int
    is_truncated: bool


class RecordDataList(Answer, frozen=True, kw_only=True):
    """Records of one partition in the order of their offsets, and how far it was read.

    `stopped` names the limit that ended the reading, null if none did. `scanned_to` is the offset that was reached;
    `metadata.next` continues from it.
    """

    metadata: ListMetadata
    data: list[RecordData]
    kind: str
    beginning_offset: int
    end_offset: int
    scanned: int
    scanned_to: int
    stopped: str | None


class TopicData(Answer, frozen=True, kw_only=True):
    """A topic."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    topic_id: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str]


class TopicDataList(Answer, frozen=True, kw_only=True):
    """Topics."""

    metadata: ListMetadata
    data: list[TopicData]
    kind: str


class TopicDeletionData(Answer, frozen=True, kw_only=True):
    """The result of one topic."""

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None
    topic_name: str


class TopicDeletionDataList(Answer, frozen=True, kw_only=True):
    """The result of each topic, in the order of the request."""

    validated: bool | None = None
    kind: str
    data: list[TopicDeletionData]


class TopicRateData(Answer, frozen=True, kw_only=True):
    """The records per second of a topic from `since` to `asked_at` (ms), by the growth of its end offsets.

    They are null until the leaders of all partitions have answered twice; `unknown_partition_ids` are those that have
    not, and `error` says why the first of them is unknown. Control records count; retention and compaction do not.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    records_per_second: float | None
    since: int | None
    asked_at: int | None
    unknown_partition_ids: list[int]
    error: str | None


class TopicToDelete(Body, frozen=True, kw_only=True):
    """A topic by its name."""

    topic_name: str
