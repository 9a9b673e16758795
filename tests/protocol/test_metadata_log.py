"""Logs, snapshots and topic data that Kafka 4.3.1 wrote: read, compared with Kafka's own dump, written again."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kraft_core.protocol.control_records import (
    ControlRecordType,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control,
    encode_control,
)
from kraft_core.protocol.errors import CorruptBatch, MetadataRecordError
from kraft_core.protocol.metadata_records import decode_record, encode_record
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from tests.protocol.golden import BOOTSTRAP, FORMAT_SNAPSHOT, MARKER_LOG, METADATA_LOG, SNAPSHOT, TOPIC_LOG, snake_case
from tests.protocol.test_golden_messages import assert_shown

METADATA_FILES = (METADATA_LOG, SNAPSHOT, FORMAT_SNAPSHOT, BOOTSTRAP)
DUMPED = re.compile(
    r"^\| offset: (\d+) (?:CreateTime|LogAppendTime): (\d+) keySize: (-?\d+) valueSize: (-?\d+) (.*)$", re.MULTILINE
)


def batches_of(path: Path) -> list[RecordBatch]:
    return list(read_batches(path.read_bytes()))


def write_again(batch: RecordBatch) -> bytes:
    """Decode every record of a metadata batch and encode the batch again from the decoded records."""
    values: list[bytes] = []
    keys: list[bytes] = []
    for record in batch.records():
        assert record.value is not None
        if batch.is_control:
            assert record.key is not None
            control = decode_control(record.key, record.value)
            assert control is not None
            key, value = encode_control(control)
            keys.append(key)
            values.append(value)
        else:
            values.append(encode_record(decode_record(record.value), record.value[2]))
    return encode_batch(
        batch.base_offset,
        batch.leader_epoch,
        batch.base_timestamp,
        values,
        control_keys=keys if batch.is_control else None,
    )


@pytest.mark.parametrize("path", METADATA_FILES, ids=lambda path: path.name)
def test_a_metadata_file_of_kafka_is_written_again_byte_for_byte(path: Path) -> None:
    assert b"".join(write_again(batch) for batch in batches_of(path)) == path.read_bytes()


@pytest.mark.parametrize("path", METADATA_FILES, ids=lambda path: path.name)
def test_the_quick_reader_of_values_agrees_with_the_general_one(path: Path) -> None:
    for batch in batches_of(path):
        assert batch.values() == [record.value for record in batch.records()]


@pytest.mark.parametrize("path", [METADATA_LOG, SNAPSHOT], ids=lambda path: path.name)
def test_the_metadata_is_what_kafka_shows(path: Path) -> None:
    dump = path.with_suffix(".dump.txt").read_text()
    shown = {int(offset): rest for offset, _, _, _, rest in DUMPED.findall(dump)}
    records = [record for batch in batches_of(path) if not batch.is_control for record in batch.records()]
    assert len(records) >= 25
    for record in records:
        assert record.value is not None
        decoded = decode_record(record.value)
        payload: dict[str, Any] = json.loads(shown[record.offset].partition("payload: ")[2])
        assert payload["type"].lower() == snake_case(type(decoded).__name__)
        assert_shown(decoded, payload["version"], payload["data"], str(record.offset))


def test_the_topic_batches_of_every_compression_are_what_kafka_shows() -> None:
    shown = DUMPED.findall(TOPIC_LOG.with_suffix(".dump.txt").read_text())
    batches = batches_of(TOPIC_LOG)
    assert [batch.codec for batch in batches] == [0, 1, 2, 3, 4, 0]
    records = [record for batch in batches for record in batch.records()]
    assert len(records) == len(shown) == 120
    for record, (offset, timestamp, key_size, value_size, rest) in zip(records, shown, strict=True):
        assert (record.offset, record.timestamp) == (int(offset), int(timestamp))
        assert -1 if record.key is None else len(record.key) == int(key_size)
        assert -1 if record.value is None else len(record.value) == int(value_size)
        names = [name for name, _ in record.headers]
        assert f"headerKeys: [{','.join(names)}]" in rest
        if record.value is not None:
            assert rest.endswith(f"payload: {record.value.decode()}")
    assert records[7].headers == (("codec", b"none"), ("nothing", None))
    assert records[5].value is None
    assert batches[5].is_transactional
    assert batches[5].producer_id >= 0


def test_values_leave_out_nulls_and_keep_order() -> None:
    batch = batches_of(TOPIC_LOG)[3]
    assert batch.values() == [record.value for record in batch.records() if record.value is not None]
    assert len(batch.values()) == 19


def test_a_transaction_marker_of_kafka_is_a_control_batch_with_type_commit() -> None:
    (batch,) = batches_of(MARKER_LOG)
    (record,) = batch.records()
    assert batch.is_control
    assert batch.is_transactional
    assert record.key == bytes((0, 0, 0, ControlRecordType.COMMIT))
    assert decode_control(record.key, record.value or b"") is None


def test_the_first_batch_of_a_dynamic_quorum_names_its_voter() -> None:
    first = batches_of(METADATA_LOG)[0]
    controls = [decode_control(record.key or b"", record.value or b"") for record in first.records()]
    leader_change, _, voters = controls
    assert isinstance(leader_change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)
    assert leader_change.leader_id == voters.voters[0].voter_id == 1
    assert voters.voters[0].endpoints[0].name == "CONTROLLER"


def test_a_snapshot_begins_with_its_header_and_ends_with_its_footer() -> None:
    batches = batches_of(SNAPSHOT)
    first, last = next(batches[0].records()), next(batches[-1].records())
    assert isinstance(decode_control(first.key or b"", first.value or b""), SnapshotHeaderRecord)
    assert isinstance(decode_control(last.key or b"", last.value or b""), SnapshotFooterRecord)


def test_every_flipped_bit_after_the_crc_is_detected() -> None:
    raw = batches_of(METADATA_LOG)[1].raw
    for at in range(17, len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(CorruptBatch) as failure:
            list(read_batches(bytes(damaged)))
        assert failure.value.position == 0


def test_whole_batches_before_damage_are_returned_first() -> None:
    data = bytearray(METADATA_LOG.read_bytes())
    sizes = [batch.size for batch in batches_of(METADATA_LOG)]
    data[sum(sizes[:5]) + 30] ^= 4
    seen: list[RecordBatch] = []
    with pytest.raises(CorruptBatch) as failure:
        seen.extend(read_batches(bytes(data)))
    assert seen == batches_of(METADATA_LOG)[:5]
    assert failure.value.position == sum(sizes[:5])


@pytest.mark.parametrize("cut", [1, 20, 71])
def test_an_incomplete_last_batch_ends_the_reading_without_an_error(cut: int) -> None:
    data = METADATA_LOG.read_bytes()
    assert list(read_batches(data[:-cut])) == batches_of(METADATA_LOG)[:-1]


@pytest.mark.parametrize(
    ("at", "damage", "reason"),
    [
        (16, b"\x01", "magic 1"),
        (8, b"\xff\xff\xff\xff", "length -1"),
        (8, b"\x00\x00\x00\x30", "length 48"),
        (0, b"\xff", "base offset"),
    ],
)
def test_an_impossible_header_is_corrupt(at: int, damage: bytes, reason: str) -> None:
    raw = batches_of(METADATA_LOG)[1].raw
    with pytest.raises(CorruptBatch, match=reason):
        list(read_batches(raw[:at] + damage + raw[at + len(damage) :]))


@pytest.mark.parametrize("count", [0, 5, 2**31 - 1])
def test_a_record_count_that_contradicts_the_bytes_is_corrupt(count: int) -> None:
    raw = batches_of(METADATA_LOG)[1].raw
    (batch,) = read_batches(raw[:57] + count.to_bytes(4) + raw[61:], verify_crc=False)
    with pytest.raises(CorruptBatch):
        batch.values()


def test_an_announced_record_length_beyond_the_batch_is_corrupt() -> None:
    raw = encode_batch(0, 1, 0, [b"value"])
    (batch,) = read_batches(raw[:61] + b"\xfe\xff\xff\xff\x0f" + raw[66:], verify_crc=False)
    with pytest.raises(CorruptBatch):
        list(batch.records())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "without a whole frame"),
        (b"\x01\x02", "without a whole frame"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x06\x00", "unknown record apiKey 6"),
        (b"\x01\x7f\x00", "unknown record apiKey 127"),
        (b"\x01\x03\x03", "PartitionRecord version 3"),
        (b"\x01\x14\x00\x00\x00", "1 bytes too many"),
        (b"\x01\x02\x00\x05top", "TopicRecord.name"),
        (b"\x81\x80\x80\x80\x80\x01\x02\x00", "without a whole frame"),
    ],
)
def test_an_unknown_record_value_is_refused(value: bytes, reason: str) -> None:
    for _ in range(2):
        with pytest.raises(MetadataRecordError, match=reason):
            decode_record(value)


def test_bytes_after_a_record_are_refused_also_once_its_decoder_is_known() -> None:
    value = next(record.value for batch in batches_of(METADATA_LOG)[1:2] for record in batch.records())
    assert value is not None
    decode_record(value)
    with pytest.raises(MetadataRecordError, match="1 bytes too many"):
        decode_record(value + b"\x00")
    with pytest.raises(MetadataRecordError, match="BeginTransactionRecord"):
        decode_record(value[:-3])
