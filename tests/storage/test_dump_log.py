"""dump-log: readable, whole, without secrets, and honest about damage."""

import json
from pathlib import Path

import pytest

from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
    UserScramCredentialRecord,
    encode_record,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import uuid_from_text
from kraft_core.storage.dump_log import dump_file, dump_json, dumpable
from kraft_core.storage.files import StorageError

TOPIC_ID = uuid_from_text("JEXY6aqzQY-32P5TStzaFg")


def written(folder: Path, *records: tuple[MetadataRecord, int]) -> Path:
    path = folder / f"{0:020d}.log"
    path.write_bytes(encode_batch(0, 3, 1_000, [encode_record(record, version) for record, version in records]))
    return path


def test_records_carry_kafkas_names_and_only_the_fields_of_their_version(tmp_path: Path) -> None:
    partition = PartitionRecord(partition_id=1, topic_id=TOPIC_ID, replicas=(1, 2), isr=(1,), directories=(TOPIC_ID,))
    path = written(
        tmp_path,
        (TopicRecord(name="orders-ü", topic_id=TOPIC_ID), 0),
        (partition, 1),
        (PartitionRecord(leader_recovery_state=1), 0),
    )
    topic, first, second = list(dump_json(path))
    assert topic["type"] == "TOPIC_RECORD"
    assert topic["data"] == {"name": "orders-ü", "topicId": "JEXY6aqzQY-32P5TStzaFg"}
    assert (topic["offset"], topic["epoch"], topic["timestamp"], topic["version"]) == (0, 3, 1_000, 0)
    assert first["data"]["directories"] == ["JEXY6aqzQY-32P5TStzaFg"]
    assert "leaderRecoveryState" not in first["data"]
    assert "directories" not in second["data"]
    assert second["data"]["leaderRecoveryState"] == 1
    text = "\n".join(dump_file(path))
    assert '{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders-ü","topicId":"JEXY6aqzQY-32P5TStzaFg"}}' in text


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        (
            UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s4lt", stored_key=b"st0red", server_key=b"k3y"),
            0,
        ),
        (ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value="hunter2"), 0),
        (ConfigRecord(resource_type=4, resource_name="1", name="listener.name.x.sasl.jaas.config", value="hunter2"), 0),
        (ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"), 0),
    )
    shown = "\n".join(dump_file(path)) + json.dumps(list(dump_json(path)))
    for secret in ("hunter2", "czRsdA==", "c3QwcmVk", "azN5"):
        assert secret not in shown
    assert "[redacted]" in shown
    assert "alice" in shown
    assert '"name":"retention.ms","value":"1"' in shown


@pytest.mark.parametrize("damage", ["bit", "cut"])
def test_damage_is_reported_after_the_records_before_it(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path, (TopicRecord(name="good", topic_id=TOPIC_ID), 0))
    position = path.stat().st_size
    second = bytearray(encode_batch(1, 3, 1_000, [encode_record(TopicRecord(name="bad", topic_id=TOPIC_ID), 0)]))
    if damage == "bit":
        second[70] ^= 1
    else:
        del second[-5:]
    with path.open("ab") as file:
        file.write(second)
    lines = list(dump_file(path))
    assert any("good" in line for line in lines)
    assert lines[-1].startswith("Found invalid bytes")
    assert str(position) in lines[-1]
    with pytest.raises(CorruptBatch):
        list(dump_json(path))


def test_an_unknown_record_is_reported_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(encode_batch(0, 1, 1_000, [b"\x01\x7f\x00", encode_record(TopicRecord(name="good"), 0)]))
    lines = list(dump_file(path))
    assert "unknown record apiKey 127" in lines[3]
    assert "good" in lines[4]


def test_files_larger_than_a_piece_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    value = encode_record(ConfigRecord(resource_type=2, resource_name="t", name="n", value="v" * 30_000), 0)
    path.write_bytes(b"".join(encode_batch(offset, 1, 1_000, [value] * 20) for offset in range(0, 280, 20)))
    assert [record["offset"] for record in dump_json(path)] == list(range(280))


@pytest.mark.parametrize("name", ["absent.log", "notes.txt", "."])
def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(StorageError):
        dumpable(tmp_path / name)
