"""Levels, features and the record versions that go with them (docs/protocol.md, "Feature levels")."""

import pytest

from kraft_core.protocol.metadata_records import (
    RECORD_CLASSES,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from kraft_core.protocol.metadata_version import (
    FEATURES,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    MetadataVersion,
    did_metadata_change,
    is_elr_supported,
    metadata_version_from_text,
    metadata_version_name,
    record_version,
    version_to_write,
)
from kraft_core.protocol.uuids import ZERO_UUID


@pytest.mark.parametrize(
    ("record_type", "expected"),
    [
        (RegisterBrokerRecord, {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (PartitionRecord, {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (PartitionChangeRecord, {7: 0, 17: 1, 23: 2}),
        (TopicRecord, {7: 0, 30: 0}),
    ],
)
def test_record_versions_follow_the_metadata_version(record_type: type[TopicRecord], expected: dict[int, int]) -> None:
    assert {level: record_version(record_type, level) for level in expected} == expected


def test_every_level_writes_records_that_exist() -> None:
    for level in MetadataVersion:
        for record_type in RECORD_CLASSES.values():
            assert encode_record(record_type(), record_version(record_type, level))


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (BrokerRegistrationChangeRecord(fenced=-1), 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(log_dirs=(ZERO_UUID,)), 2),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=()), 3),
    ],
)
def test_a_registration_change_is_written_in_the_lowest_version_that_holds_it(
    record: BrokerRegistrationChangeRecord, version: int
) -> None:
    assert version_to_write(record, LATEST_METADATA_VERSION) == version
    assert encode_record(record, version)


@pytest.mark.parametrize(
    ("text", "level"),
    [("4.3-IV0", 30), ("4.3", 30), ("4.3.1", 30), ("4.2", 29), ("3.7", 19), ("3.3-IV3", 7), ("3.9.0", 21), ("17", 17)],
)
def test_a_level_can_be_written_in_any_of_kafkas_forms(text: str, level: int) -> None:
    assert metadata_version_from_text(text) == level


@pytest.mark.parametrize("text", ["", "4.4", "4.4-IV0", "2.8", "31", "6", "latest", "4"])
def test_an_unknown_level_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match=rf"{text!r}.*3\.3-IV3 to 4\.3-IV0"):
        metadata_version_from_text(text)


def test_the_features_are_the_seven_of_kafka_with_their_ranges_and_defaults() -> None:
    table = {name: (f.minimum, f.maximum, f.default_level(30)) for name, f in FEATURES.items()}
    assert table == {
        "metadata.version": (7, 30, 30),
        "kraft.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "group.version": (0, 1, 1),
        "eligible.leader.replicas.version": (0, 1, 1),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
    }


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("eligible.leader.replicas.version", {25: 0, 26: 1}),
        ("transaction.version", {23: 0, 24: 2}),
        ("group.version", {21: 0, 22: 1}),
        ("share.version", {27: 0, 28: 1}),
        ("streams.version", {28: 0, 29: 1}),
        (METADATA_VERSION, {7: 7, 19: 19, 30: 30}),
    ],
)
def test_a_new_cluster_starts_at_the_default_level_of_its_metadata_version(name: str, levels: dict[int, int]) -> None:
    assert {level: FEATURES[name].default_level(level) for level in levels} == levels


def test_a_downgrade_across_a_change_of_records_is_recognised_in_both_directions() -> None:
    assert not did_metadata_change(26, 29)
    assert not did_metadata_change(30, 30)
    assert did_metadata_change(29, 30)
    assert did_metadata_change(23, 22)
    assert not did_metadata_change(23, 29)


def test_levels_have_names_and_support_tests() -> None:
    assert metadata_version_name(30) == "4.3-IV0"
    assert metadata_version_name(99) == "99"
    assert not is_elr_supported(22)
    assert is_elr_supported(23)
    assert (MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION) == (7, 30)
