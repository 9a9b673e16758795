"""A readable dump of metadata segments and snapshots, in the format of kafka-dump-log.

Data records are JSON with Kafka's names: `{"type":"TOPIC_RECORD","version":0,"data":{…}}`. Unlike Kafka's tool, this
one replaces secrets (keys of SCRAM credentials, values of password configs) by `[redacted]`.

Source: DumpLogSegments, MetadataJsonConverters, Kafka 4.3.1.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeGuard
from uuid import UUID

from kraft_core.protocol.control_records import ControlRecord, decode_control
from kraft_core.protocol.errors import CorruptBatch, KafkaError
from kraft_core.protocol.metadata_records import (
    RECORD_CLASSES,
    ConfigRecord,
    MetadataRecord,
    UserScramCredentialRecord,
    decode_record,
)
from kraft_core.protocol.record_batch import Record, RecordBatch, read_batches
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.protocol.wire import FieldSpec, Message, fields_of
from kraft_core.storage.files import StorageError, storage_errors
from kraft_core.storage.snapshots import snapshot_id_of

DAMAGED: Final = "Found invalid bytes"
REDACTED: Final = "[redacted]"
_SECRET_SETTING: Final = re.compile(r"password|secret|sasl\.jaas\.config|keystore\.key|keystore\.certificate", re.ASCII)
_CONTROL_NAMES: Final = {
    "LeaderChangeMessage": "LeaderChange",
    "KRaftVersionRecord": "KRaftVersion",
    "VotersRecord": "KRaftVoters",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
}
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records to show: offsets `first` to `last`, both included, and the types; no types means all.

    A type is written as in the dump (TOPIC_RECORD, LeaderChange), in any case, with or without underscores.
    """

    first: int = 0
    last: int = 2**63 - 1
    types: frozenset[str] = frozenset()

    @classmethod
    def of(cls, first: int, last: int, types: Sequence[str]) -> "Wanted":
        """Create a selection. Raises ValueError for an unknown type, with its name."""
        unknown = [each for each in types if _plain(each) not in _PLAIN_TYPES]
        if unknown:
            raise ValueError(f"no record type is called '{unknown[0]}'; TOPIC_RECORD and LeaderChange are")
        return cls(first, last, frozenset(map(_plain, types)))

    @property
    def is_all(self) -> bool:
        """Whether all records are selected."""
        return self == Wanted()

    def has(self, batch: RecordBatch) -> bool:
        """Return whether the batch contains a selected offset."""
        return batch.last_offset >= self.first and batch.base_offset <= self.last

    def takes(self, offset: int, described: dict[str, Any]) -> bool:
        """Return whether a record is selected. An unreadable record has no type."""
        name = described.get("control") or described.get("type") or ""
        return self.first <= offset <= self.last and (not self.types or _plain(name) in self.types)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_PLAIN_TYPES: Final = {_plain(each.__name__) for each in RECORD_CLASSES.values()} | set(
    map(_plain, _CONTROL_NAMES.values())
)


def dump_file(path: Path, wanted: Wanted | None = None) -> Iterator[str]:
    """Yield the lines of one file: a segment (.log), a snapshot or a bootstrap file (.checkpoint).

    A batch without a `wanted` record is left out. Damage ends the dump with a line that gives its position, after the
    lines before it. Raises StorageError when the file cannot be read.
    """
    yield f"Dumping {path}"
    yield _heading(path)
    try:
        for position, batch in file_batches(path):
            yield from _batch_lines(position, batch, wanted or Wanted())
    except CorruptBatch as bad:
        yield f"{DAMAGED}: {bad.message}"


def _batch_lines(position: int, batch: RecordBatch, wanted: Wanted) -> Iterator[str]:
    if wanted.has(batch):
        described = [(record, _described(batch, record)) for record in batch.records()]
        shown = [(record, each) for record, each in described if wanted.takes(record.offset, each)]
        if shown or wanted.is_all:
            yield _batch_line(position, batch)
        for record, each in shown:
            yield f"| {_record_line(record, each)}"


def dump_json(path: Path, wanted: Wanted | None = None) -> Iterator[dict[str, Any]]:
    """Yield one object per `wanted` record: offset, epoch, timestamp and the record as in `dump_file`.

    Raises StorageError when the file cannot be read, CorruptBatch at damage.
    """
    wanted = wanted or Wanted()
    for position, batch in file_batches(path):
        for record in batch.records() if wanted.has(batch) else ():
            described = _described(batch, record)
            if wanted.takes(record.offset, described):
                yield {
                    "offset": record.offset,
                    "epoch": batch.leader_epoch,
                    "timestamp": record.timestamp,
                    "position": position,
                    **described,
                }


def _heading(path: Path) -> str:
    snapshot_id = snapshot_id_of(path.name)
    if snapshot_id is not None:
        return f"Snapshot end offset: {snapshot_id.offset}, epoch: {snapshot_id.epoch}"
    if path.name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    return f"Log starting offset: {int(path.stem) if path.stem.isdecimal() else 0}"


def file_batches(path: Path) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, batch), reading the file in pieces.

    Raises CorruptBatch, also for remaining bytes at the end, and StorageError when the file cannot be read.
    """
    position = 0
    rest = b""
    with storage_errors("read", path), path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            data = rest + chunk
            consumed = 0
            try:
                for batch in read_batches(data):
                    yield position + consumed, batch
                    consumed += batch.size
            except CorruptBatch as bad:
                raise CorruptBatch(position + bad.position, bad.reason) from bad
            rest = data[consumed:]
            position += consumed
            if len(rest) > _BATCH_BYTES_MAX:
                raise CorruptBatch(position, f"a batch longer than {_BATCH_BYTES_MAX} bytes")
    if rest:
        raise CorruptBatch(position, f"the last {len(rest)} bytes are no whole batch")


def _batch_line(position: int, batch: RecordBatch) -> str:
    sequence_end = batch.base_sequence + batch.record_count - 1 if batch.base_sequence >= 0 else -1
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {sequence_end} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {_java(batch.attributes & 0x10)} isControl: {_java(batch.is_control)} "
        f"deleteHorizonMs: OptionalLong.empty position: {position} CreateTime: {batch.max_timestamp} "
        f"size: {batch.size} magic: 2 compresscodec: {_codec(batch.attributes)} "
        f"crc: {int.from_bytes(batch.raw[17:21])} isvalid: true"
    )


def _java(flag: object) -> str:
    return "true" if flag else "false"


def _codec(attributes: int) -> str:
    codec = attributes & 7
    return _CODECS[codec] if codec < len(_CODECS) else str(codec)


def _record_line(record: Record, described: dict[str, Any]) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    line = (
        f"offset: {record.offset} CreateTime: {record.timestamp} keySize: {key_size} valueSize: {value_size} "
        "sequence: -1 headerKeys: []"
    )
    if "control" in described:
        colon = ":" if described["control"] == "LeaderChange" else ""  # as in Kafka's tool
        return f"{line} {described['control']}{colon} {_compact(described['data'])}"
    if "type" in described:
        return f"{line} payload: {_compact(described)}"
    return f"{line} {described['error']}"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _described(batch: RecordBatch, record: Record) -> dict[str, Any]:
    """Return {control, data}, {type, version, data}, or {error} for an unreadable record."""
    try:
        if batch.is_control:
            control = decode_control(record.key or b"", record.value or b"")
            if control is None:
                return {"error": f"control record of unknown type, key {(record.key or b'').hex()}"}
            return {"control": control_name(control), "data": control_json(control)}
        return metadata_json(record.value or b"")
    except KafkaError as error:
        return {"error": f"Error at {record.offset}, skipping. {error}"}


def control_name(record: ControlRecord) -> str:
    """Return the type of a control record as Kafka's tool names it, such as LeaderChange."""
    return _CONTROL_NAMES[type(record).__name__]


def control_json(record: ControlRecord) -> dict[str, Any]:
    """Return a control record's fields by Kafka's names."""
    return _fields_json(record, record.version)


def metadata_json(value: bytes) -> dict[str, Any]:
    """Return a metadata record as {type, version, data}, secrets redacted. Raises MetadataRecordError."""
    return record_json(decode_record(value), record_version(value))


def record_version(value: bytes) -> int:
    """Return the version of a record that `decode_record` accepts."""
    return value[2]  # frame version and apiKey are one byte each, as in every version of Kafka


def record_json(record: MetadataRecord, version: int) -> dict[str, Any]:
    """Return a decoded metadata record as {type, version, data}, secrets redacted."""
    data = _fields_json(record, version)
    if isinstance(record, UserScramCredentialRecord):
        data |= dict.fromkeys(("salt", "storedKey", "serverKey"), REDACTED)
    if is_secret_setting(record) and record.value is not None:
        data["value"] = REDACTED
    return {"type": _type_name(type(record)), "version": version, "data": data}


def is_secret_setting(record: MetadataRecord) -> TypeGuard[ConfigRecord]:
    """Return whether the record sets a config with a secret value, such as a password."""
    return isinstance(record, ConfigRecord) and _SECRET_SETTING.search(record.name) is not None


@cache
def _type_name(record_class: type[MetadataRecord]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", record_class.__name__).upper()


@cache
def _fields(message_class: type[Message]) -> tuple[FieldSpec, ...]:
    return tuple(fields_of(message_class))


def _fields_json(message: Message, version: int) -> dict[str, Any]:
    """Return the fields of this version; tagged fields only when they differ from their default, as in Kafka."""
    return {
        _camel(spec.name): _value_json(getattr(message, spec.name), spec, version)
        for spec in _fields(type(message))
        if spec.is_present(version) and not (spec.wire.tag >= 0 and getattr(message, spec.name) == spec.default)
    }


def _value_json(value: Any, spec: FieldSpec, version: int) -> Any:
    if isinstance(value, tuple):
        return [_value_json(item, spec, version) for item in value]
    if isinstance(value, Message):
        return _fields_json(value, version)
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return value


def _camel(name: str) -> str:
    """Return Kafka's name of a field: kRaftVersion for `kraft_version`, topicId for `topic_id`."""
    first, *others = name.split("_")
    return ("kRaft" if first == "kraft" else first) + "".join(other.capitalize() for other in others)


def dumpable(path: Path) -> None:
    """Raise StorageError for a file that is neither a segment nor a snapshot."""
    if not path.is_file():
        raise StorageError(f"Cannot read {path}: no such file")
    if path.suffix not in {".log", ".checkpoint"}:
        raise StorageError(f"Cannot dump {path}: only .log and .checkpoint files of the metadata log can be read")
