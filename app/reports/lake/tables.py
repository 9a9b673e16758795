"""The tables of the lake: their columns, and the rows of a metadata record.

Every file lies in `<table>/cluster=<cluster id>/date=<YYYY-MM-DD>/`, so readers of Hive layouts see the columns
`cluster` and `date` (UTC) as well. docs/reports.md describes all columns.

Secrets are left out: keys of SCRAM credentials are empty, values of password configs are `[redacted]`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from msgspec import structs

from app.reports.partition_fields import IDS, PARTITION_FIELDS
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record, encode_record
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.storage.dump_log import REDACTED, is_secret_setting, record_json, record_version

SCHEMA_VERSION: Final = 1
TIME: Final = pa.timestamp("ms", tz="UTC")

RECORDS: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("time", TIME),
        ("origin", pa.string()),
        ("type", pa.string()),
        ("version", pa.int16()),
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker_id", pa.int32()),
        ("leader", pa.int32()),
        ("replicas", IDS),
        ("isr", IDS),
        ("fenced", pa.bool_()),
        ("data", pa.string()),
        ("value", pa.binary()),
        ("schema_version", pa.int16()),
    ]
)
AT: Final = [("offset", pa.int64()), ("epoch", pa.int32()), ("time", TIME), ("schema_version", pa.int16())]
BROKERS: Final = pa.schema(
    [*AT, ("broker_id", pa.int32()), ("rack", pa.string()), ("state", pa.string()), ("eligible", pa.bool_())]
)
TOPICS: Final = pa.schema(
    [
        *AT,
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partitions", pa.int32()),
        ("min_isr_config", pa.int32()),
        ("unclean", pa.bool_()),
    ]
)
PARTITIONS: Final = pa.schema([*AT, ("topic_id", pa.string()), ("topic", pa.string()), *PARTITION_FIELDS])
BALANCE: Final = (
    "partitions",
    "replicas",
    "offline",
    "under_min",
    "at_min",
    "under_replicated",
    "non_preferred",
    "rack_moves_needed",
    "moves_from_balanced",
)
"""Columns of the table `reports` that are numbers of a report's verdict."""
REPORTS: Final = pa.schema(
    [
        *AT,
        ("brokers", pa.int32()),
        ("topics", pa.int32()),
        *((name, pa.int64()) for name in BALANCE),
        ("body", pa.string()),
    ]
)
TABLES: Final = {
    "records": RECORDS,
    "brokers": BROKERS,
    "topics": TOPICS,
    "partitions": PARTITIONS,
    "reports": REPORTS,
}

LOG: Final = "log"
SNAPSHOT: Final = "snapshot"

_FENCING: Final = {1: True, -1: False}


def record_row(value: bytes, offset: int, epoch: int, time_ms: int, origin: str) -> dict[str, Any]:
    """Return a metadata record as a row of `records`. Raises MetadataRecordError for an unknown one."""
    record, version = decode_record(value), record_version(value)
    described = record_json(record, version)
    row: dict[str, Any] = dict.fromkeys(RECORDS.names)
    row.update(
        offset=offset,
        epoch=epoch,
        time=time_ms,
        origin=origin,
        type=described["type"],
        version=version,
        data=json.dumps(described["data"], separators=(",", ":"), ensure_ascii=False),
        value=_without_secrets(record, version, value),
        schema_version=SCHEMA_VERSION,
    )
    columns = _COLUMNS.get(type(record))
    if columns is not None:
        row.update(columns(record))
    return row


def _without_secrets(record: MetadataRecord, version: int, value: bytes) -> bytes:
    """Return the record's bytes; a record with a secret is encoded again without it."""
    if isinstance(record, r.UserScramCredentialRecord):
        return encode_record(structs.replace(record, salt=b"", stored_key=b"", server_key=b""), version)
    if is_secret_setting(record) and record.value is not None:
        return encode_record(structs.replace(record, value=REDACTED), version)
    return value


def _partition(record: r.PartitionRecord) -> dict[str, Any]:
    return {
        "topic_id": uuid_to_text(record.topic_id),
        "partition": record.partition_id,
        "leader": record.leader,
        "replicas": record.replicas,
        "isr": record.isr,
    }


def _partition_change(record: r.PartitionChangeRecord) -> dict[str, Any]:
    return {
        "topic_id": uuid_to_text(record.topic_id),
        "partition": record.partition_id,
        "leader": None if record.leader == -2 else record.leader,  # -2: unchanged
        "replicas": record.replicas,
        "isr": record.isr,
    }


def _config(record: r.ConfigRecord) -> dict[str, Any]:
    if record.resource_type == TOPIC:
        return {"topic": record.resource_name}
    is_broker = record.resource_type == BROKER and record.resource_name.isdecimal()
    return {"broker_id": int(record.resource_name)} if is_broker else {}


_COLUMNS: Final[dict[type[MetadataRecord], Callable[[Any], dict[str, Any]]]] = {
    r.TopicRecord: lambda record: {"topic_id": uuid_to_text(record.topic_id), "topic": record.name},
    r.RemoveTopicRecord: lambda record: {"topic_id": uuid_to_text(record.topic_id)},
    r.ClearElrRecord: lambda record: {"topic": record.topic_name or None},
    r.PartitionRecord: _partition,
    r.PartitionChangeRecord: _partition_change,
    r.ConfigRecord: _config,
    r.RegisterBrokerRecord: lambda record: {"broker_id": record.broker_id, "fenced": record.fenced},
    r.UnregisterBrokerRecord: lambda record: {"broker_id": record.broker_id},
    r.FenceBrokerRecord: lambda record: {"broker_id": record.id, "fenced": True},
    r.UnfenceBrokerRecord: lambda record: {"broker_id": record.id, "fenced": False},
    r.BrokerRegistrationChangeRecord: lambda record: {
        "broker_id": record.broker_id,
        "fenced": _FENCING.get(record.fenced),  # 0: unchanged
    },
}
"""The key columns of a record, by its type. Other types have none."""
