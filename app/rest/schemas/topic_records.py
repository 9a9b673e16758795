"""Bodies and answers about the records of topics."""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, Body, ChangeBody, ListOf, Validated
from app.rest.schemas.partitions import PartitionFields

HEADERS_MAX = 1_000
BATCH_MAX = 1_000


class HeaderBody(Body):
    """A header of a new record; `value` in base64."""

    name: Annotated[str, StringConstraints(max_length=32_767)]
    value: str | None = None


class ContentBody(Body):
    """A key or value: BINARY in base64, STRING as UTF-8, JSON as it is; null in any type is null."""

    type: Literal["BINARY", "STRING", "JSON"]
    data: Any = None


class RecordBody(Body):
    """A new record. Without `key` or `value` these are null."""

    partition_id: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    headers: Annotated[tuple[HeaderBody, ...], Field(max_length=HEADERS_MAX, strict=False)] = ()
    key: ContentBody | None = None
    value: ContentBody | None = None
    timestamp: Annotated[dt.datetime, Field(strict=False)] | None = None


class ProduceBody(RecordBody, ChangeBody):
    """ProduceRequest of REST v3, with `validate_only` added."""


class ProduceBatchEntry(RecordBody):
    """A record of a batch, and the id of its result."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,80}$")]


class ProduceBatchBody(ChangeBody):
    """ProduceBatchRequest of REST v3: records with ids that differ."""

    entries: Annotated[tuple[ProduceBatchEntry, ...], Field(min_length=1, max_length=BATCH_MAX, strict=False)]


class ProducedContent(Answer):
    """Type and size in bytes of a key or value that was written."""

    type: str
    size: int


class WrittenRecord(Answer):
    """A record that was written. In a dry run there is no offset."""

    cluster_id: str
    topic_name: str
    partition_id: int | None
    offset: int | None
    timestamp: str | None
    key: ProducedContent | None
    value: ProducedContent | None


class ProducedData(WrittenRecord, Validated):
    """ProduceResponse of REST v3. `error_code` is 200; in a dry run there is no offset."""

    error_code: Literal[200]


class ProduceBatchSuccess(WrittenRecord):
    """A record of a batch that was written, by its id."""

    id: str


class ProduceBatchFailure(Answer):
    """A record that was not written, and why."""

    id: str
    error_code: int
    message: str


class ProducedBatchData(Validated):
    """ProduceBatchResponse of REST v3: each record is in one of the lists."""

    successes: list[ProduceBatchSuccess]
    failures: list[ProduceBatchFailure]


class RecordHeaderData(Answer):
    """A header: `value` as text, or `value_base64`."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class RecordData(Answer):
    """A record, as `conclave consume --json` prints it. Bytes that are not UTF-8 are in members with `_base64`.

    `is_truncated`: only the beginning of a long key or value is given, in base64; `key_size` and `value_size` are the
    whole sizes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: Literal["CreateTime", "LogAppendTime"]
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[RecordHeaderData]
    key_size: int
    value_size: int
    is_truncated: bool


class RecordDataList(ListOf[RecordData]):
    """Records of one partition in the order of their offsets, and how far it was read.

    `stopped` names the limit that ended the reading, null if none did. `scanned_to` is the offset that was reached;
    `metadata.next` continues from it.
    """

    kind: Literal["KafkaRecordList"]
    beginning_offset: int
    end_offset: int
    scanned: int
    scanned_to: int
    stopped: str | None


class PartitionWithOffsetsData(PartitionFields):
    """A partition with its first offset and the one behind its last record."""

    kind: Literal["KafkaPartitionWithOffsets"]
    earliest_offset: int
    latest_offset: int
