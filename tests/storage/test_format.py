"""format: what kafka-storage refuses is refused, and a folder counts as formatted only when everything is there."""

from pathlib import Path
from typing import Any

import pytest

from kraft_core.protocol.metadata_records import decode_record
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID
from kraft_core.storage import format as format_module
from kraft_core.storage.dump_log import dump_json
from kraft_core.storage.files import StorageError
from kraft_core.storage.format import (
    FormatError,
    FormatRequest,
    effective_features,
    format_storage,
    parse_initial_controllers,
    standalone_voters,
)
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.meta_properties import read_meta_properties

CLUSTER = "AAAAAAAAQ5uaaaaaaaaaaA"
VOTERS = standalone_voters(1, "", 9093, "controller")


def request(root: Path, **changes: Any) -> FormatRequest:
    wanted = {
        "node_id": 1,
        "cluster_id": CLUSTER,
        "log_dirs": [root / "metadata", root / "data"],
        "metadata_log_dir": root / "metadata",
        "is_dynamic": True,
        "voters": VOTERS,
    }
    return FormatRequest(**{**wanted, **changes})


def formatted(root: Path, **changes: Any) -> list[str]:
    lines: list[str] = []
    format_storage(request(root, **changes), lines.append)
    return lines


def features_in(path: Path) -> dict[str, int]:
    return {
        record["data"]["name"]: record["data"]["featureLevel"]
        for record in dump_json(path)
        if record.get("type") == "FEATURE_LEVEL_RECORD"
    }


def test_a_standalone_node_gets_its_voter_set_features_and_identity(tmp_path: Path) -> None:
    lines = formatted(tmp_path)
    assert lines == [
        f"Formatting dynamic metadata voter directory {tmp_path / 'metadata'} with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path / 'data'} with metadata.version 4.3-IV0.",
    ]
    metadata, data = (read_meta_properties(tmp_path / name) for name in ("metadata", "data"))
    assert metadata is not None
    assert data is not None
    assert metadata.directory_id == VOTERS.by_id[1].key.directory_id != data.directory_id
    assert features_in(tmp_path / "data" / "bootstrap.checkpoint")["metadata.version"] == 30
    log = KafkaRaftLog.open(tmp_path / "metadata")
    assert log.snapshot_ids() == (BOOTSTRAP_SNAPSHOT_ID,)
    assert (log.start_offset, log.end_offset) == (0, 0)
    log.close()
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


def test_a_node_outside_the_voter_set_gets_the_set_and_a_random_id(tmp_path: Path) -> None:
    lines = formatted(tmp_path, node_id=9)
    assert "dynamic metadata directory" in lines[0]
    metadata = read_meta_properties(tmp_path / "metadata")
    assert metadata is not None
    assert metadata.directory_id != VOTERS.by_id[1].key.directory_id
    assert list((tmp_path / "metadata" / "__cluster_metadata-0").glob("*.checkpoint"))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_without_initial_voters_no_voter_set_is_written(tmp_path: Path, *, is_dynamic: bool) -> None:
    lines = formatted(tmp_path, voters=None, is_dynamic=is_dynamic)
    assert lines[0].startswith("Formatting metadata directory")
    assert not (tmp_path / "metadata" / "__cluster_metadata-0").exists()
    assert effective_features(request(tmp_path, is_dynamic=is_dynamic))["kraft.version"] == int(is_dynamic)


@pytest.mark.parametrize(("release", "level"), [("3.9", 21), ("4.0-IV3", 25), ("3.3-IV3", 7), (None, 30)])
def test_a_release_sets_its_features(tmp_path: Path, release: str | None, level: int) -> None:
    formatted(tmp_path, release_version=release)
    features = features_in(tmp_path / "metadata" / "bootstrap.checkpoint")
    assert features["metadata.version"] == level
    assert ("group.version" in features) == (level >= 22)
    assert "kraft.version" not in features


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release_version": "99.0"}, "99.0"),
        ({"release_version": "4.0", "features": {"metadata.version": 20}}, "ambiguity"),
        ({"features": {"no.such": 1}}, "Unsupported feature: no.such"),
        ({"features": {"group.version": 7}}, "group.version"),
        ({"features": {"metadata.version": 31}}, "metadata.version"),
        ({"features": {"kraft.version": 0}}, "Cannot set kraft.version to 0"),
        ({"features": {"kraft.version": 1}, "is_dynamic": False, "voters": None}, "Cannot set kraft.version to 1"),
        (
            {"release_version": "3.9", "features": {"eligible.leader.replicas.version": 1}},
            "depends on metadata.version level 23",
        ),
        ({"cluster_id": " "}, "cluster id"),
    ],
)
def test_an_invalid_request_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(FormatError) as caught:
        formatted(tmp_path, **changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_formatted_folder_is_left_alone(tmp_path: Path) -> None:
    formatted(tmp_path)
    before = (tmp_path / "metadata" / "meta.properties").read_bytes()
    with pytest.raises(FormatError, match="already formatted"):
        formatted(tmp_path)
    assert formatted(tmp_path, ignore_formatted=True) == ["All of the log directories are already formatted."]
    assert (tmp_path / "metadata" / "meta.properties").read_bytes() == before
    with pytest.raises(StorageError, match=r"Invalid cluster\.id"):
        formatted(tmp_path, cluster_id="other", ignore_formatted=True)
    with pytest.raises(StorageError, match="Stored node id 1"):
        formatted(tmp_path, node_id=2, ignore_formatted=True)


def test_a_format_that_fails_half_way_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise StorageError("Cannot write: no space left on the device")

    with monkeypatch.context() as patch:
        patch.setattr(format_module, "write_meta_properties", fail)
        with pytest.raises(StorageError, match="no space"):
            formatted(tmp_path)
    assert len(formatted(tmp_path)) == 2


def test_initial_controllers_are_read_as_kafka_reads_them() -> None:
    first, second = (uuid_to_text(random_uuid()) for _ in range(2))
    voters = parse_initial_controllers(f"1@one.example:9093:{first}, 2@[::1]:9094:{second}", "controller")
    endpoint = voters.by_id[2].endpoints[0]
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "::1", 9094)
    assert uuid_to_text(voters.by_id[1].key.directory_id) == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "one@h:1:{id}",
        "@h:1:{id}",
        "1@h:{id}",
        "1@:1:{id}",
        "1@h:99999:{id}",
        "1@h:1:short",
        "1@h:1:AAAAAAAAAAAAAAAAAAAAAQ",
        "1@h:1:{id},1@h:2:{id}",
    ],
)
def test_invalid_initial_controllers_are_named_in_the_error(text: str) -> None:
    written = text.replace("{id}", uuid_to_text(random_uuid()))
    with pytest.raises(FormatError) as caught:
        parse_initial_controllers(written, "CONTROLLER")
    assert "\n" not in str(caught.value)
    assert written.split(",")[0] in str(caught.value)


def test_a_scram_user_is_among_the_records_the_cluster_begins_with(tmp_path: Path) -> None:
    """FormatterTest.testFormatWithScram."""
    argument = "SCRAM-SHA-256=[name=alice,password=hunter2,iterations=4097]"
    format_storage(request(tmp_path, scram_arguments=[argument]), lambda _: None)
    raw = (tmp_path / "metadata" / "bootstrap.checkpoint").read_bytes()
    records = [decode_record(value) for batch in read_batches(raw) if not batch.is_control for value in batch.values()]
    assert [(record.name, record.iterations) for record in records if hasattr(record, "iterations")] == [
        ("alice", 4097)
    ]
    assert b"hunter2" not in raw


def test_a_scram_user_needs_a_release_that_knows_scram(tmp_path: Path) -> None:
    """FormatterTest.testFormatWithScramFailsOnUnsupportedReleaseVersion."""
    wanted = request(tmp_path, scram_arguments=["SCRAM-SHA-256=[name=a,password=b]"], release_version="3.4-IV0")
    with pytest.raises(FormatError, match=r"SCRAM is only supported in metadata.version 3.5-IV2 or later"):
        format_storage(wanted, lambda _: None)
    assert not (tmp_path / "metadata").exists()
