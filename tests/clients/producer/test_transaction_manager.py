"""Transactions of a producer against virtual brokers, in both versions of the transaction protocol."""

from collections.abc import Callable

import pytest

from kraft_core.clients.producer.producer_id_and_epoch import ProducerIdAndEpoch
from kraft_core.clients.producer.record_accumulator import AccumulatorConfig
from kraft_core.clients.producer.transaction_errors import (
    IllegalState,
    ProducerFailed,
    TransactionAborted,
)
from kraft_core.clients.producer.transaction_state import ERRORS, NEXT, State, TransactionState
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from tests.clients.producer.transaction_world import GROUP, OFFSETS, PARTITION, TransactionWorld, begun_world, refuse

# The course of transactions


def test_the_transaction_coordinator_gives_the_producer_its_id() -> None:
    world = TransactionWorld()
    world.init()
    assert world.manager.producer_id_and_epoch == ProducerIdAndEpoch(100, 0)
    (request,) = [each for each in world.nodes[1].seen if isinstance(each, InitProducerIdRequest)]
    assert (request.transactional_id, request.transaction_timeout_ms, request.producer_id) == ("copy", 60_000, -1)


def test_version_2_adds_partitions_with_their_records_and_raises_the_epoch_with_each_end() -> None:
    world = begun_world()
    sent = [world.write(b"a"), world.write(b"b", partition=1)]
    world.commit()
    assert [each.offset for each in sent] == [0, 0]
    assert world.requests() == ["Produce", "Produce", "EndTxn"]
    world.manager.begin_transaction()
    world.write(b"c")
    world.commit()
    headers = [(each.is_transactional, each.producer_epoch, each.base_sequence) for each in world.headers()]
    assert headers == [(True, 0, 0), (True, 1, 0)]


def test_version_1_adds_partitions_before_their_records_and_keeps_the_epoch() -> None:
    world = begun_world(transaction_version=1)
    world.write(b"a")
    world.write(b"b", partition=1)
    world.commit()
    (added,) = world.seen(AddPartitionsToTxnRequest)
    assert isinstance(added, AddPartitionsToTxnRequest)
    assert [(each.name, each.partitions) for each in added.v3_and_below_topics] == [("t", (0, 1))]
    world.manager.begin_transaction()
    world.write(b"c")
    world.commit()
    assert [(each.producer_epoch, each.base_sequence) for each in world.headers()] == [(0, 0), (0, 1)]
    assert len(world.seen(AddPartitionsToTxnRequest)) == 2


def test_no_record_is_sent_before_its_partition_is_part_of_the_transaction() -> None:
    world = begun_world(transaction_version=1)
    world.errors[ApiKey.ADD_PARTITIONS_TO_TXN].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    sent = world.write()
    world.run(50)
    assert not world.produce_requests()
    world.run(200)
    assert sent.offset == 0


@pytest.mark.parametrize(
    ("version", "requests"), [(1, ["TxnOffsetCommit", "AddOffsetsToTxn"]), (2, ["TxnOffsetCommit"])]
)
def test_offsets_go_to_the_coordinator_of_the_group(version: int, requests: list[str]) -> None:
    world = begun_world(transaction_version=version)
    world.outcome(world.manager.send_offsets_to_transaction(OFFSETS, GROUP))
    assert [each for each in world.requests() if each != "FindCoordinator"] == requests
    (commit,) = [each for each in world.nodes[0].seen if isinstance(each, TxnOffsetCommitRequest)]
    assert (commit.group_id, commit.generation_id, commit.member_id) == ("readers", 3, "member-1")
    found = [
        (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
        for topic in commit.topics
        for each in topic.partitions
    ]
    assert found == [(0, 5, -1, ""), (1, 9, 2, "m")]
    world.commit()
    assert len(world.seen(EndTxnRequest)) == 1


def test_a_repeated_offset_commit_names_only_what_is_not_committed() -> None:
    world = begun_world()
    world.errors[ApiKey.TXN_OFFSET_COMMIT].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.outcome(world.manager.send_offsets_to_transaction(OFFSETS, GROUP))
    named = [
        [each.partition_index for topic in request.topics for each in topic.partitions]
        for request in world.seen(TxnOffsetCommitRequest)
        if isinstance(request, TxnOffsetCommitRequest)
    ]
    assert named == [[0, 1], [0]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("end", [TransactionWorld.commit, TransactionWorld.abort])
def test_an_empty_transaction_ends_without_a_request(version: int, end: Callable[[TransactionWorld], None]) -> None:
    world = begun_world(transaction_version=version)
    end(world)
    assert world.requests() == []
    world.manager.begin_transaction()


def test_a_commit_waits_for_its_records_and_not_for_linger() -> None:
    world = begun_world(accumulator_config=AccumulatorConfig(linger_ms=60_000))
    refuse(world, ErrorCode.NOT_ENOUGH_REPLICAS)
    sent = world.write()
    result = world.manager.begin_commit()
    world.run(50)
    assert not result.is_completed
    assert not world.seen(EndTxnRequest)
    world.outcome(result)
    assert sent.offset == 0


def test_a_closing_producer_aborts_its_transaction() -> None:
    world = begun_world()
    sent = world.write()
    world.accumulator.close()
    assert not world.sender.is_idle
    world.run(300)
    assert world.sender.is_idle
    assert sent.offset == 0
    (end,) = world.seen(EndTxnRequest)
    assert isinstance(end, EndTxnRequest)
    assert not end.committed


def test_a_closing_producer_gives_up_its_transaction_when_the_coordinator_stays_away() -> None:
    world = begun_world()
    world.write()
    world.run(100)
    world.network.nodes[2].is_up = False
    world.network.cut(world.client, 2, world.now_ms)
    world.accumulator.close()
    world.run(world.manager.transaction_timeout_ms - 1_000)
    assert not world.sender.is_idle
    world.run(2_000)
    assert world.sender.is_idle


def test_a_forced_close_fails_what_is_pending() -> None:
    world = begun_world()
    world.coordinators[1] = 1
    world.network.nodes[2].is_up = False
    world.network.cut(world.client, 2, world.now_ms)
    world.network.nodes[1].handlers[ApiKey.END_TXN] = lambda _request: None
    world.write()
    result = world.manager.begin_commit()
    world.run(100)
    world.sender.force_close(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "closed"))
    assert result.error is not None
    with pytest.raises(ProducerFailed, match="closed"):
        world.manager.begin_transaction()


# Coordinators


def test_a_coordinator_that_moved_is_found_again() -> None:
    world = begun_world()
    world.write()
    world.coordinators[1] = 1
    world.errors[ApiKey.END_TXN].append(ErrorCode.NOT_COORDINATOR)
    world.commit()
    assert [type(each) for each in world.nodes[0].seen if isinstance(each, EndTxnRequest)] == [EndTxnRequest]


def test_the_end_of_a_transaction_survives_a_dead_coordinator() -> None:
    world = begun_world()
    world.write()
    world.run(100)
    world.network.nodes[2].handlers[ApiKey.END_TXN] = lambda _request: None
    result = world.manager.begin_commit()
    world.run(100)
    world.coordinators[1] = 1
    world.network.nodes[2].is_up = False
    world.network.cut(world.client, 2, world.now_ms)
    world.outcome(result, 1_000)
    assert len(world.seen(EndTxnRequest)) == 2


def test_brokers_without_transactions_are_named_as_the_cause() -> None:
    world = TransactionWorld()
    world.errors[ApiKey.FIND_COORDINATOR].append(ErrorCode.UNSUPPORTED_VERSION)
    error = world.error_of(world.manager.initialize_transactions())
    assert isinstance(error, ProducerFailed)
    assert error.code == ErrorCode.UNSUPPORTED_VERSION
    assert "transactional id 'copy'" in error.message


def test_the_first_partitions_are_added_soon_after_the_previous_transaction_completed() -> None:
    world = begun_world(transaction_version=1)
    world.errors[ApiKey.ADD_PARTITIONS_TO_TXN].append(ErrorCode.CONCURRENT_TRANSACTIONS)
    sent = world.write()
    world.run(30)
    assert sent.offset == 0


# Calls that do not fit


def test_calls_out_of_order_are_refused_and_change_nothing() -> None:
    world = TransactionWorld()
    manager = world.manager
    for call in (manager.begin_transaction, manager.begin_commit, manager.begin_abort):
        with pytest.raises(IllegalState, match="not initialized"):
            call()
    world.init()
    for call in (manager.initialize_transactions, manager.begin_commit, manager.begin_abort):
        with pytest.raises(IllegalState, match="is ready"):
            call()
    with pytest.raises(IllegalState, match="needs a transaction"):
        manager.maybe_add_partition(PARTITION)
    with pytest.raises(IllegalState, match="needs a transaction"):
        manager.send_offsets_to_transaction(OFFSETS, GROUP)
    manager.begin_transaction()
    with pytest.raises(IllegalState, match="in a transaction"):
        manager.begin_transaction()
    world.write()
    world.commit()


def test_an_operation_without_an_outcome_can_only_be_repeated() -> None:
    world = begun_world()
    world.write()
    result = world.manager.begin_commit()
    assert world.manager.begin_commit() is result
    with pytest.raises(IllegalState, match=r"Repeat commit_transaction\(\)"):
        world.manager.begin_abort()
    world.outcome(result)
    world.manager.begin_transaction()


def test_transactions_need_a_transactional_id() -> None:
    manager = TransactionWorld(transactional_id=None).manager
    with pytest.raises(IllegalState, match=r"transactional\.id"):
        manager.begin_transaction()
    with pytest.raises(IllegalState, match=r"transactional\.id"):
        manager.initialize_transactions()


@pytest.mark.parametrize("source", State)
@pytest.mark.parametrize("target", State)
def test_states_follow_the_table(source: State, target: State) -> None:
    state = TransactionState("copy")
    state.current = source
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) if target in ERRORS else None
    if target in NEXT[source] or target is State.FATAL_ERROR:
        state.move(target, error)
        assert state.current is target
        assert state.last_error is error
        return
    with pytest.raises(IllegalState):
        state.require(target, "a call")
    assert state.current is source
    with pytest.raises(IllegalState):
        state.move(target, error)
    assert state.current is State.FATAL_ERROR


# Idempotent producers


def test_an_idempotent_producer_gets_its_id_from_any_broker_without_being_asked() -> None:
    world = TransactionWorld(transactional_id=None)
    sent = world.send()
    world.run(200)
    assert sent.offset == 0
    (request,) = world.seen(InitProducerIdRequest)
    assert isinstance(request, InitProducerIdRequest)
    assert (request.transactional_id, request.transaction_timeout_ms) == (None, 2**31 - 1)
    assert [(each.producer_id, each.is_transactional) for each in world.headers()] == [(100, False)]


def test_a_batch_is_sent_again_with_its_sequence_after_a_lost_answer() -> None:
    world = TransactionWorld(transactional_id=None)
    world.send(value=b"a")
    world.run(200)
    world.is_answering = False
    sent = world.send(value=b"b")
    world.run(100)
    world.network.cut(world.client, 1, world.now_ms)
    world.is_answering = True
    world.run(1_000)
    assert sent.offset is not None
    assert [(each.producer_epoch, each.base_sequence) for each in world.headers()] == [(0, 0), (0, 1), (0, 1)]


def test_a_new_leader_gets_no_more_batches_than_brokers_remember_while_those_of_the_old_one_are_open() -> None:
    """A broker tells duplicates among the last five batches of a producer: the others would count as a gap."""
    world = TransactionWorld(transactional_id=None, accumulator_config=AccumulatorConfig(batch_size=100, linger_ms=0))
    world.send(value=b"first")
    world.run(200)
    world.is_answering = False
    old = [world.send(value=b"%d" % number * 80) for number in range(5)]
    world.run(50)
    assert len(world.headers()) == 6
    world.is_answering = True
    world.move_leader("t", 0, 2)
    world.metadata.request_update()
    new = [world.send(value=b"%d" % number * 80) for number in range(5)]
    world.run(500)
    assert world.metadata.leader_of(PARTITION) == world.metadata.nodes[2]
    assert len(world.headers()) == 6
    world.network.cut(world.client, 1, world.now_ms)
    world.run(2_000)
    assert all(sent.offset is not None for sent in [*old, *new])
    assert [each.base_sequence for each in world.headers()] == [0, *range(1, 6), *range(1, 6), *range(6, 11)]


def test_a_producer_that_may_not_write_idempotently_fails_its_records_and_asks_again_with_the_next() -> None:
    world = TransactionWorld(transactional_id=None, init_error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    world.run(500)
    assert len(world.seen(InitProducerIdRequest)) == 1
    world.errors[ApiKey.INIT_PRODUCER_ID].append(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    refused = world.send()
    world.run(500)
    assert refused.error is not None
    assert refused.error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(world.seen(InitProducerIdRequest)) == 2
    again = world.send()
    world.run(500)
    assert again.offset == 0


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_drops_records_that_were_not_sent_and_sends_nothing_if_no_record_was(version: int) -> None:
    """With version 2 the coordinator refuses it for good while it writes the markers of the last commit."""
    world = begun_world(transaction_version=version)
    sent = world.write()
    world.abort()
    assert isinstance(sent.error, TransactionAborted)
    assert world.requests() == []
    world.manager.begin_transaction()
    again = world.write()
    world.commit()
    assert again.offset == 0
