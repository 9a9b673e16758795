"""Replay: the effect of each record, and records that contradict earlier ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.image.image_writer import UnwritableMetadataError, image_records
from kraft_core.image.metadata_delta import REPLAY, replay, replay_all
from kraft_core.image.metadata_image import RECOVERING, MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record, encode_record
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING
from tests.image.records import DIRECTORIES, EMPTY, partition, record_streams, register_broker, topic_id


def image_of(*records: MetadataRecord) -> MetadataImage:
    return replay_all(EMPTY, records, len(records) - 1, 1)


def one_partition(**fields: object) -> MetadataImage:
    return image_of(r.TopicRecord(name="t", topic_id=topic_id(0)), partition(0, 0, **fields))


def changed(image: MetadataImage, **fields: object) -> MetadataImage:
    return replay(image, r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=0, **fields))


def the_partition(image: MetadataImage):
    found = image.topics.partition(topic_id(0), 0)
    assert found is not None
    return found


def test_every_kind_of_record_has_exactly_one_replay() -> None:
    assert len(REPLAY) == 26
    assert {kind.API_KEY for kind in REPLAY} == set(range(29)) - {6, 13, 16}


@given(record_streams())
@settings(max_examples=150, deadline=None)
def test_a_snapshot_replays_to_the_image_it_was_written_from(records: list[MetadataRecord]) -> None:
    image = image_of(*records)
    again = replay_all(EMPTY, list(image_records(image)), image.offset, image.epoch)
    assert again == image
    assert list(image_records(again)) == list(image_records(image))


@given(record_streams(), st.data())
@settings(max_examples=150, deadline=None)
def test_the_batch_boundaries_of_the_log_do_not_matter(records: list[MetadataRecord], data: st.DataObject) -> None:
    whole = image_of(*records)
    image, start = EMPTY, 0
    while start < len(records):
        end = data.draw(st.integers(start + 1, len(records)))
        image = replay_all(image, records[start:end], end - 1, 1)
        start = end
    assert image == whole


@given(record_streams())
@settings(max_examples=60, deadline=None)
def test_an_image_does_not_change_when_later_ones_are_created(records: list[MetadataRecord]) -> None:
    image = image_of(*records[: len(records) // 2])
    before = list(image_records(image))
    replay_all(image, records[len(records) // 2 :], len(records) - 1, 1)
    assert list(image_records(image)) == before


@given(record_streams())
@settings(max_examples=60, deadline=None)
def test_every_replica_is_found_by_its_broker(records: list[MetadataRecord]) -> None:
    image = image_of(*records)
    for broker in range(8):
        expected = {
            (topic.name, index)
            for topic in image.topics.by_id.values()
            for index, each in topic.partitions.items()
            if broker in each.replicas
        }
        assert {(topic.name, index) for topic, index, _ in image.topics.partitions_of_broker(broker)} == expected


@given(record_streams())
@settings(max_examples=60, deadline=None)
def test_records_survive_encoding_and_decoding(records: list[MetadataRecord]) -> None:
    image = image_of(*records)
    decoded = [decode_record(encode_record(record, type(record).VERSIONS[1])) for record in records]
    assert replay_all(EMPTY, decoded, image.offset, 1) == image


def test_naming_a_leader_raises_the_leader_epoch_even_for_the_same_leader() -> None:
    image = changed(one_partition(leader_epoch=7), leader=1)
    assert (the_partition(image).leader, the_partition(image).leader_epoch) == (1, 8)


def test_a_change_without_leader_raises_the_partition_epoch_alone() -> None:
    found = the_partition(changed(one_partition(leader_epoch=7, partition_epoch=3), isr=(1,)))
    assert (found.isr, found.leader_epoch, found.partition_epoch) == ((1,), 7, 4)


def test_a_change_leaves_what_it_does_not_name() -> None:
    before = one_partition(leader_recovery_state=RECOVERING, eligible_leader_replicas=(3,))
    found = the_partition(changed(before, isr=(1, 2)))
    assert found.leader_recovery_state == RECOVERING
    assert found.elr == (3,)
    assert found.directories == tuple(DIRECTORIES[broker] for broker in (1, 2, 3))


def test_replicas_without_directories_are_migrating() -> None:
    """KIP-858: a log from before metadata.version 17 names no directories."""
    assert the_partition(one_partition(directories=())).directories == (DIRECTORY_MIGRATING,) * 3


def test_directories_must_be_as_many_as_replicas() -> None:
    with pytest.raises(ReplayError, match="lengths for replicas and directories"):
        one_partition(directories=(DIRECTORIES[1],))


def test_deleting_a_topic_deletes_its_partitions_and_configs() -> None:
    image = replay(
        replay(one_partition(), r.ConfigRecord(resource_type=TOPIC, resource_name="t", name="segment.ms", value="1")),
        r.RemoveTopicRecord(topic_id=topic_id(0)),
    )
    assert image.same_metadata(EMPTY)


def test_a_name_may_be_used_again_after_deletion_in_the_same_batch() -> None:
    again = [r.RemoveTopicRecord(topic_id=topic_id(0)), r.TopicRecord(name="t", topic_id=topic_id(1)), partition(1, 0)]
    image = replay_all(one_partition(), again, 9, 1)
    assert image.topics.by_name["t"] == topic_id(1)
    assert topic_id(0) not in image.topics.by_id


def test_clearing_elr_counts_as_a_change_of_the_partitions_that_had_one() -> None:
    image = replay_all(one_partition(eligible_leader_replicas=(3,), last_known_elr=(2,)), [partition(0, 1)], 9, 1)
    cleared = replay(image, r.ClearElrRecord(topic_name="t"))
    assert the_partition(cleared).elr == the_partition(cleared).last_known_elr == ()
    assert the_partition(cleared).partition_epoch == 1
    assert cleared.topics.partition(topic_id(0), 1) == image.topics.partition(topic_id(0), 1)


def test_kraft_version_never_comes_from_a_feature_record() -> None:
    """KAFKA-18979: it is in control records alone; old logs say it here by mistake."""
    assert image_of(r.FeatureLevelRecord(name="kraft.version", feature_level=1)).same_metadata(EMPTY)


def test_a_feature_at_level_0_is_absent() -> None:
    on = image_of(r.FeatureLevelRecord(name="group.version", feature_level=1))
    assert on.features.level("group.version") == 1
    assert replay(on, r.FeatureLevelRecord(name="group.version", feature_level=0)).same_metadata(EMPTY)


def test_the_last_value_removed_removes_the_resource() -> None:
    record = r.ConfigRecord(resource_type=TOPIC, resource_name="t", name="segment.ms", value="1")
    image = image_of(record)
    assert image.configs.of(TOPIC, "t")["segment.ms"] == "1"
    image = replay(image, r.ConfigRecord(resource_type=TOPIC, resource_name="t", name="segment.ms", value=None))
    assert len(image.configs.by_resource) == 0


@pytest.mark.parametrize(
    ("resource_type", "name", "is_kept"),
    [
        (TOPIC, "retention.ms", True),
        (TOPIC, "message.format.version", False),
        (BROKER, "a.plugins.own", True),
        (CLIENT_METRICS, "interval.ms", True),
        (CLIENT_METRICS, "retention.ms", False),
        (GROUP, "share.isolation.level", True),
        (GROUP, "retention.ms", False),
        (8, "kafka.controller", False),
    ],
)
def test_unknown_configs_are_skipped_in_replay(resource_type: int, name: str, is_kept: bool) -> None:
    """SupportedConfigChecker: an older release may have written them."""
    image = image_of(r.ConfigRecord(resource_type=resource_type, resource_name="1", name=name, value="v"))
    assert list(image.configs.by_resource) == ([(resource_type, "1")] if is_kept else [])
    assert image.configs.of(resource_type, "1").get(name) == ("v" if is_kept else None)


def test_secrets_are_not_in_an_images_text() -> None:
    image = image_of(
        r.UserScramCredentialRecord(
            name="a", mechanism=1, salt=b"SALT", stored_key=b"STORED", server_key=b"SERVER", iterations=4096
        ),
        r.DelegationTokenRecord(token_id="TOKEN-ID", owner="User:a"),
    )
    text = repr(image.scram) + repr(list(image.delegation_tokens.values()))
    assert not any(secret in text for secret in ("SALT", "STORED", "SERVER", "TOKEN-ID"))


CONTROLLER = r.RegisterControllerRecord(controller_id=1, incarnation_id=topic_id(1))
CREDENTIAL = r.UserScramCredentialRecord(
    name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
TOKEN = r.DelegationTokenRecord(token_id="p", owner="User:a")


@pytest.mark.parametrize(
    ("below", "records", "loss"),
    [
        (8, [register_broker(1, 4, log_dirs=(), is_migrating_zk_broker=True)], "isMigratingZkBroker state"),
        (11, [CREDENTIAL], "SCRAM credentials"),
        (14, [TOKEN], "delegation tokens"),
        (15, [CONTROLLER], "controller registration data"),
        (17, [register_broker(1, 4)], "online log directories of one or more brokers"),
        (17, [r.TopicRecord(name="t", topic_id=topic_id(0)), partition(0, 0)], "assignment state of one or more rep"),
        (30, [register_broker(1, 4, cordoned_log_dirs=())], "cordoned log directories of one or more brokers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_snapshot_that_would_lose_metadata_is_refused(below: int, records: list[MetadataRecord], loss: str) -> None:
    """ImageDowngradeTest: ImageWriterOptions' loss handler throws."""

    def at(level: int) -> MetadataImage:
        return image_of(r.FeatureLevelRecord(name="metadata.version", feature_level=level), *records)

    assert len(list(image_records(at(below)))) == 1 + len(records)
    with pytest.raises(UnwritableMetadataError, match=loss):
        list(image_records(at(below - 1)))


def test_the_empty_parts_can_be_written_at_every_metadata_version() -> None:
    """Replicas in no known directory, and an image without anything."""
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=7)
    image = replay_all(one_partition(directories=()), [level, register_broker(1, 4, log_dirs=())], 9, 1)
    assert replay_all(EMPTY, list(image_records(image)), 9, 1) == image
    assert list(image_records(EMPTY)) == []


def test_metadata_without_a_metadata_version_makes_no_snapshot() -> None:
    with pytest.raises(ValueError, match="Unknown metadata version"):
        list(image_records(one_partition()))


BROKER_ENDPOINT = r.RegisterBrokerRecordBrokerEndpoint(name="X", host="h", port=1, security_protocol=4)
CONTROLLER_ENDPOINT = r.RegisterControllerRecordControllerEndpoint(name="Y", host="h", port=1, security_protocol=-1)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([partition(5, 0)], "No topic with id"),
        ([r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=9, leader=1)], "no partition 9"),
        ([partition(0, 1, leader_recovery_state=2)], "not a valid leader recovery state"),
        (
            [r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=0, leader_recovery_state=-2)],
            "not a valid leader recovery state",
        ),
        ([r.RemoveTopicRecord(topic_id=topic_id(5))], "No topic with id"),
        ([r.TopicRecord(name="t", topic_id=topic_id(8))], "exists already"),
        ([r.TopicRecord(name="u", topic_id=topic_id(0))], "exists already"),
        ([r.ClearElrRecord(topic_name="nope")], "it does not exist"),
        ([r.UnregisterBrokerRecord(broker_id=1, broker_epoch=4)], "was not registered"),
        ([register_broker(1, 4), r.UnregisterBrokerRecord(broker_id=1, broker_epoch=5)], "did not match"),
        ([register_broker(1, 4), r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=1)], "did not"),
        ([register_broker(1, 4), r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=2)], "Unknown"),
        (
            [register_broker(1, 4, end_points=(r.RegisterBrokerRecordBrokerEndpoint(name="", host="h", port=1),))],
            "must be named",
        ),
        ([register_broker(1, 4, end_points=(BROKER_ENDPOINT,))], "Unknown security protocol 4 in listener X"),
        (
            [
                r.RegisterControllerRecord(
                    controller_id=1, incarnation_id=topic_id(1), end_points=(CONTROLLER_ENDPOINT,)
                )
            ],
            "Unknown security protocol -1 in listener Y",
        ),
        ([r.FeatureLevelRecord(name="metadata.version", feature_level=31)], "does not support"),
        ([r.FeatureLevelRecord(name="metadata.version", feature_level=6)], "does not support"),
        ([r.FeatureLevelRecord(name="unheard.of", feature_level=1)], "does not support"),
        ([r.FeatureLevelRecord(name="kraft.version", feature_level=2)], "does not support"),
        ([r.ProducerIdsRecord(next_producer_id=5), r.ProducerIdsRecord(next_producer_id=5)], "not above"),
        ([r.RemoveAccessControlEntryRecord(id=topic_id(0))], "No ACL"),
        ([r.RemoveUserScramCredentialRecord(name="a", mechanism=1)], "no SCRAM credential"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_that_contradicts_earlier_ones_stops_the_replay(records: list[MetadataRecord], reason: str) -> None:
    """Invariant 31: stop, do not skip."""
    image = replay(one_partition(), r.FeatureLevelRecord(name="metadata.version", feature_level=30))
    before = list(image_records(image))
    with pytest.raises(ReplayError, match=reason):
        replay_all(image, records, 9, 1)
    assert list(image_records(image)) == before
