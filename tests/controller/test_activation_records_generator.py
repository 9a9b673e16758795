"""The records of a new active controller."""

import pytest

from kraft_core.controller.activation_records_generator import activation_records
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import decode_record
from kraft_core.protocol.record_batch import read_batches
from tests.controller.active_controller import ActiveController
from tests.protocol.golden import METADATA_LOG

OLD = {"metadata.version": 12}


def test_an_empty_log_gets_exactly_what_kafka_writes_into_one() -> None:
    """The first data batch in the log of a new Apache node."""
    first = next(batch for batch in read_batches(METADATA_LOG.read_bytes()) if not batch.is_control)
    theirs = [decode_record(value) for value in first.values()]
    active = ActiveController()
    assert active.log() == theirs
    assert first.base_offset == 3 == next(iter(read_batches(active.writer.batches[0]))).base_offset


def test_the_bootstrap_is_one_batch_without_transaction_below_metadata_version_13() -> None:
    active = ActiveController(bootstrap_features=OLD)
    assert active.log() == [r.FeatureLevelRecord(name="metadata.version", feature_level=12)]
    assert len(active.writer.batches) == 1


def test_the_cluster_wide_min_insync_replicas_is_the_nodes_config() -> None:
    active = ActiveController(min_insync_replicas=2)
    config = r.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    assert config in active.log()


def test_no_min_insync_replicas_is_written_while_elr_is_off() -> None:
    active = ActiveController(bootstrap_features={"metadata.version": 30})
    assert not any(isinstance(record, r.ConfigRecord) for record in active.log())


def test_a_log_with_metadata_needs_no_activation_records() -> None:
    active = ActiveController()
    before = len(active.log())
    active.lose_leadership()
    active.win_leadership()
    assert len(active.log()) == before


def test_a_dead_leaders_open_transaction_is_aborted_first() -> None:
    """QuorumControllerTest.testActivationRecordsPartialTransaction."""
    result = activation_records(
        30, in_transaction=True, bootstrap_features={}, bootstrap_records=(), min_insync_replicas=1
    )
    assert list(result.records) == [r.AbortTransactionRecord(reason="Controller failover")]
    assert result.is_atomic


def test_an_interrupted_bootstrap_is_aborted_and_repeated() -> None:
    active = ActiveController(activate=False)
    active.writer.append([r.BeginTransactionRecord(name="Bootstrap records")])
    active.writer.append([r.FeatureLevelRecord(name="metadata.version", feature_level=30)])
    loader = MetadataLoader()
    for raw in active.writer.batches:
        for batch in read_batches(raw):
            loader.apply_batch(batch)
    assert loader.in_transaction
    active.writer.tip = loader.image
    active.controller.on_leader(2, active.now_ms, in_transaction=True)
    active.run()
    assert isinstance(active.log()[2], r.AbortTransactionRecord)
    image = active.replayed()
    assert image.features.metadata_version == 30
    assert image == active.tip


def test_an_open_transaction_of_an_older_metadata_version_is_never_activated() -> None:
    with pytest.raises(AssertionError, match="does not support"):
        activation_records(12, in_transaction=True, bootstrap_features={}, bootstrap_records=(), min_insync_replicas=1)


def test_scram_records_of_the_bootstrap_checkpoint_come_before_the_end_of_the_transaction() -> None:
    user = r.UserScramCredentialRecord(
        name="admin", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    result = activation_records(
        None,
        in_transaction=False,
        bootstrap_features={"metadata.version": 30},
        bootstrap_records=[user],
        min_insync_replicas=1,
    )
    assert list(result.records) == [
        r.BeginTransactionRecord(name="Bootstrap records"),
        r.FeatureLevelRecord(name="metadata.version", feature_level=30),
        user,
        r.EndTransactionRecord(),
    ]
