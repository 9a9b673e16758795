"""The descriptions in the change feed."""

from collections.abc import Iterator, Sequence
from itertools import islice

from hypothesis import given

from kraft_core.image.changes import described_records, each_has_a_line, image_changes
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import read_batches
from tests.image.records import EMPTY, partition, record_streams, register_broker, topic_id
from tests.protocol.golden import METADATA_LOG, SNAPSHOT

ORDERS = r.TopicRecord(name="orders", topic_id=topic_id(0))


def feed(*records: MetadataRecord) -> list[str]:
    return [line for _, line in described_records(EMPTY, records, len(records), 1)]


def test_a_leader_change_reads_as_one_line() -> None:
    change = r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=3, leader=4, isr=(4,))
    before = partition(0, 3, (2, 4), partition_epoch=16)
    assert feed(ORDERS, before, change)[-1] == "topic orders: p3 leader 2→4, isr [2,4]→[4], partitionEpoch 17"


def test_an_unclean_election_is_described_as_one() -> None:
    change = r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=0, leader=1, isr=(1,), leader_recovery_state=1)
    assert "unclean, recovering" in feed(ORDERS, partition(0, 0, leader=-1), change)[-1]


def test_secrets_are_never_shown() -> None:
    lines = feed(
        r.ConfigRecord(resource_type=4, resource_name="1", name="listener.name.x.ssl.key.password", value="hunter2"),
        r.ConfigRecord(resource_type=4, resource_name="1", name="sasl.jaas.config", value="hunter2"),
        r.UserScramCredentialRecord(name="bob", mechanism=1, salt=b"hunter2", stored_key=b"hunter2"),
        r.DelegationTokenRecord(token_id="hunter2", owner="User:bob"),
    )
    assert len(lines) == 4
    assert not any("hunter2" in line for line in lines)


def test_records_that_change_nothing_have_no_description() -> None:
    assert feed(r.NoOpRecord(), r.BeginTransactionRecord(), r.EndTransactionRecord()) == []


def test_quotas_are_written_without_a_fraction() -> None:
    entity = (r.ClientQuotaRecordEntityData(entity_type="user", entity_name="alice"),)
    lines = feed(
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1048576.0),
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=0.5),
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
    )
    assert lines == [
        "quota of user alice: producer_byte_rate set to 1048576",
        "quota of user alice: producer_byte_rate 1048576→0.5",
        "quota of user alice: producer_byte_rate 0.5 removed",
    ]


def test_registrations_of_brokers_are_described() -> None:
    lines = feed(
        register_broker(1, 5, rack="a"),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1),
        r.UnregisterBrokerRecord(broker_id=1, broker_epoch=5),
    )
    assert lines == [
        "broker 1: registered, epoch 5, rack a, fenced",
        "broker 1: unfenced",
        "broker 1: in controlled shutdown",
        "broker 1: fenced",
        "broker 1: unregistered",
    ]


def test_every_record_of_a_real_log_that_changes_something_is_described() -> None:
    loader = MetadataLoader()
    silent = (r.NoOpRecord, r.BeginTransactionRecord, r.EndTransactionRecord)
    for batch in read_batches(METADATA_LOG.read_bytes()):
        before, read = loader.image, list[MetadataRecord]()
        loader.apply_batch(batch, lambda _, record, read=read: read.append(record))
        loud = [record for record in read if not isinstance(record, silent)]
        clears_nothing = [record for record in loud if isinstance(record, r.ClearElrRecord)]
        lines = [line for _, line in described_records(before, read, batch.last_offset, 1)]
        assert len(loud) - len(clears_nothing) <= len(lines) <= len(loud)


def _by_images(before: MetadataImage, batch: Sequence[MetadataRecord]) -> Iterator[str]:
    """Yield the lines as the differences between the images around each record, which is slow."""
    for record in batch:
        after = replay_all(before, [record], 0, 1)
        if isinstance(record, r.ClearElrRecord):
            yield f"topic {record.topic_name}: ELR cleared" if record.topic_name else "ELR cleared on all topics"
        elif isinstance(record, r.RemoveTopicRecord):
            yield f"topic {before.topics.by_id[record.topic_id].name}: deleted"
        else:
            yield from islice(image_changes(before, after), 1)
        before = after


@given(record_streams())
def test_lines_are_the_differences_between_the_images_around_each_record(stream: list[MetadataRecord]) -> None:
    half = len(stream) // 2
    before, batch = replay_all(EMPTY, stream[:half], half, 1), stream[half:]
    lines = [line for _, line in described_records(before, batch, len(stream), 1)]
    assert lines == list(_by_images(before, batch))
    if each_has_a_line(before, batch):
        assert len(lines) == len(batch)


def test_a_record_that_may_have_no_line_is_found_without_describing() -> None:
    retention = r.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    before = replay_all(EMPTY, [ORDERS, partition(0, 0), retention], 2, 1)
    other = r.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="2")
    created = [r.TopicRecord(name="new", topic_id=topic_id(1)), partition(1, 0), partition(0, 1), other]
    assert each_has_a_line(before, created)
    for silent in (retention, partition(0, 0), partition(1, 0), other, r.NoOpRecord()):
        assert not each_has_a_line(before, [*created, silent])


def test_two_images_differ_by_what_happened_between_them() -> None:
    early = replay_all(EMPTY, [ORDERS, partition(0, 0)], 1, 1)
    change = r.PartitionChangeRecord(topic_id=topic_id(0), partition_id=0, leader=2)
    late = replay_all(early, [change, partition(0, 1), r.TopicRecord(name="new", topic_id=topic_id(1))], 4, 1)
    assert list(image_changes(early, late)) == [
        "topic new: created",
        "topic orders: p0 leader 1→2, partitionEpoch 1",
        "topic orders: p1 created, replicas [1,2,3], leader 1",
    ]
    assert list(image_changes(late, late)) == []
    gone = list(image_changes(late, EMPTY))
    assert gone == ["topic new: deleted", "topic orders: deleted"]


def test_a_complete_snapshot_is_described_against_the_empty_image() -> None:
    image = MetadataLoader().load_snapshot(read_batches(SNAPSHOT.read_bytes()), 58, 1)
    lines = list(image_changes(EMPTY, image))
    assert "feature metadata.version set to 30" in lines
    assert "topic with-config: created" in lines
    assert "SCRAM user alice: SCRAM-SHA-256 credential set" in lines
