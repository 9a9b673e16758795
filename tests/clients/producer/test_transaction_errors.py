"""What errors of requests and records do to a producer's transactions."""

import pytest

from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.record_accumulator import AccumulatorConfig
from kraft_core.clients.producer.transaction_errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionAbortable,
)
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import EndTxnRequest, InitProducerIdRequest
from tests.clients.producer.transaction_world import (
    GROUP,
    OFFSETS,
    PARTITION,
    TransactionWorld,
    begun_world,
    refuse,
)

INIT, PARTITIONS, OFFSETS_ADDED, COMMITTED, END = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
RETRIED = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
]
FATAL = [
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def run_into(api: ApiKey, code: ErrorCode, version: int = 1) -> tuple[TransactionWorld, KafkaError | None]:
    """Let one request of a transaction be refused once -> what the application gets from its call."""
    world = TransactionWorld(transaction_version=version)
    world.errors[api].append(code)
    error = world.error_of(world.manager.initialize_transactions())
    if api == INIT or error is not None:
        return world, error
    world.manager.begin_transaction()
    if api in (OFFSETS_ADDED, COMMITTED):
        return world, world.error_of(world.manager.send_offsets_to_transaction(OFFSETS, GROUP))
    world.write()
    return world, world.error_of(world.manager.begin_commit())


@pytest.mark.parametrize("code", RETRIED)
@pytest.mark.parametrize("api", [INIT, PARTITIONS, OFFSETS_ADDED, COMMITTED, END])
def test_passing_errors_are_retried_unseen(api: ApiKey, code: ErrorCode) -> None:
    assert run_into(api, code)[1] is None


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("api", [INIT, PARTITIONS, OFFSETS_ADDED, COMMITTED, END])
def test_a_newer_producer_fences_this_one_for_good(api: ApiKey, code: ErrorCode) -> None:
    world, error = run_into(api, code)
    assert isinstance(error, ProducerFenced)
    assert "'copy'" in error.message
    for call in (world.manager.begin_transaction, world.manager.begin_abort, world.manager.initialize_transactions):
        with pytest.raises(ProducerFenced):
            call()


@pytest.mark.parametrize(
    ("api", "code"),
    [
        *((api, code) for api in (OFFSETS_ADDED, END) for code in FATAL),
        *((PARTITIONS, code) for code in FATAL[:-1]),  # an unknown error of a partition is abortable
    ],
)
def test_other_errors_of_the_coordinator_are_fatal(api: ApiKey, code: ErrorCode) -> None:
    world, error = run_into(api, code)
    assert type(error) is ProducerFailed
    assert error.code == code
    with pytest.raises(ProducerFailed):
        world.manager.maybe_add_partition(PARTITION)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (INIT, ErrorCode.TRANSACTION_ABORTABLE),
        (PARTITIONS, ErrorCode.TRANSACTION_ABORTABLE),
        (PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (PARTITIONS, ErrorCode.UNKNOWN_PRODUCER_ID),
        (PARTITIONS, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (OFFSETS_ADDED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (OFFSETS_ADDED, ErrorCode.UNKNOWN_PRODUCER_ID),
        (COMMITTED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (COMMITTED, ErrorCode.FENCED_INSTANCE_ID),
        (COMMITTED, ErrorCode.UNKNOWN_MEMBER_ID),
        (COMMITTED, ErrorCode.ILLEGAL_GENERATION),
        (COMMITTED, ErrorCode.TRANSACTION_ABORTABLE),
        (END, ErrorCode.UNKNOWN_PRODUCER_ID),
        (END, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_abortable_errors_leave_only_the_abort_and_then_a_new_transaction(api: ApiKey, code: ErrorCode) -> None:
    world, error = run_into(api, code)
    assert isinstance(error, TransactionAbortable)
    assert error.code == code
    with pytest.raises(TransactionAbortable):
        world.manager.begin_commit()
    with pytest.raises(TransactionAbortable):
        world.manager.maybe_add_partition(PARTITION)
    if api == INIT:
        return
    world.abort()
    world.manager.begin_transaction()
    sent = world.write()
    world.commit()
    assert sent.offset is not None


def test_an_abort_that_is_refused_as_abortable_is_fatal() -> None:
    world = begun_world()
    world.write()
    world.run(100)
    world.errors[END].append(ErrorCode.TRANSACTION_ABORTABLE)
    assert type(world.error_of(world.manager.begin_abort())) is ProducerFailed


def test_a_refused_transactional_id_can_be_initialized_again_once_it_is_allowed() -> None:
    world, error = run_into(INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert error is not None
    assert error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    world.init()
    world.manager.begin_transaction()


def test_a_transaction_timeout_that_is_too_long_is_named() -> None:
    _, error = run_into(INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert isinstance(error, ProducerFailed)
    assert "transaction.timeout.ms is 60000" in error.message


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TRANSACTION_ABORTABLE]
)
def test_a_refused_record_fails_the_commit_and_the_next_transaction_has_a_higher_epoch(
    version: int, code: ErrorCode
) -> None:
    world = begun_world(transaction_version=version)
    refuse(world, code)
    sent = world.write()
    world.run(100)
    assert sent.error is not None
    with pytest.raises(TransactionAbortable):
        world.manager.begin_commit()
    world.abort()
    assert len(world.seen(InitProducerIdRequest)) == (1 if version == 1 else 0)
    world.manager.begin_transaction()
    again = world.write()
    world.commit()
    assert again.offset == 0
    assert [(each.producer_epoch, each.base_sequence) for each in world.headers()] == [(1, 0)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_refused_during_the_commit_fails_it(version: int) -> None:
    world = begun_world(transaction_version=version)
    refuse(world, ErrorCode.MESSAGE_TOO_LARGE)
    sent = world.write()
    error = world.error_of(world.manager.begin_commit())
    assert isinstance(error, TransactionAbortable)
    assert sent.error is not None
    assert not world.seen(EndTxnRequest)
    world.abort()
    world.manager.begin_transaction()
    again = world.write()
    world.commit()
    assert again.offset == 0
    assert [each.base_sequence for each in world.headers()] == [0]


def test_version_1_raises_the_epoch_also_after_an_error_that_comes_during_the_abort() -> None:
    world = begun_world(transaction_version=1)
    world.is_answering = False
    sent = world.write()
    world.run(50)
    result = world.manager.begin_abort()
    world.run(50)
    refuse(world, ErrorCode.INVALID_RECORD)
    world.is_answering = True
    world.network.cut(world.client, 1, world.now_ms)
    world.outcome(result, 1_000)
    assert sent.error is not None
    assert len(world.seen(InitProducerIdRequest)) == 1
    world.manager.begin_transaction()
    world.write()
    world.commit()
    assert [(each.producer_epoch, each.base_sequence) for each in world.headers()][-1] == (1, 0)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_fatal_answer_to_a_record_fails_the_producer(code: ErrorCode) -> None:
    world = begun_world()
    refuse(world, code)
    first = world.write()
    world.run(100)
    assert first.error is not None
    with pytest.raises(ProducerFailed):
        world.manager.maybe_add_partition(PARTITION)
    with pytest.raises(ProducerFailed):
        world.manager.begin_abort()


def test_records_that_expired_after_they_were_sent_can_only_be_aborted() -> None:
    world = begun_world(accumulator_config=AccumulatorConfig(delivery_timeout_ms=500))
    world.is_answering = False
    sent = world.write()
    world.run(600)
    assert sent.error is not None
    with pytest.raises(TransactionAbortable):
        world.manager.begin_commit()
    world.is_answering = True
    world.abort(60_000)
    world.manager.begin_transaction()


def test_a_commit_fails_as_soon_as_its_last_record_expires() -> None:
    world = begun_world(accumulator_config=AccumulatorConfig(delivery_timeout_ms=500))
    world.is_answering = False
    sent = world.write()
    commit = world.manager.begin_commit()
    expires_ms = world.now_ms + 500
    while sent.error is None:
        world.now_ms = world.sender.next_deadline_ms(world.now_ms) or expires_ms
        world.sender.step(world.now_ms)
    assert world.now_ms == expires_ms
    assert commit.is_completed
    assert commit.error is not None


def test_an_expired_record_changes_nothing_after_a_fatal_error() -> None:
    """The partition of the expired record is looked at again when the last batch behind it has failed."""
    world = begun_world()
    first, second = (ProducerBatch(PARTITION, 0, 10_000, Compression()) for _ in range(2))
    for sequence, batch in enumerate((first, second)):
        batch.try_append(0, None, b"v", ())
        batch.set_producer_state(world.manager.producer_id_and_epoch, sequence, is_transactional=True)
        world.manager.maybe_update_producer_id_and_epoch(PARTITION)
        world.manager.increment_sequence_number(PARTITION, 1)
        world.manager.add_in_flight_batch(batch)
    expired, fenced = KafkaError(ErrorCode.REQUEST_TIMED_OUT), KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    world.manager.handle_failed_batch(first, expired, adjust_sequence_numbers=False)
    world.manager.transition_to_fatal_error(fenced)
    world.manager.handle_failed_batch(second, fenced, adjust_sequence_numbers=False)
    world.run(100)
    assert world.manager.last_error is fenced


@pytest.mark.parametrize("is_first_attempt", [True, False])
def test_the_sequences_of_records_that_may_be_written_are_not_used_again(*, is_first_attempt: bool) -> None:
    """A broker before 2.5 does not raise the epoch: it would take the next transaction's records for duplicates."""
    world = TransactionWorld(transaction_version=1, accumulator_config=AccumulatorConfig(delivery_timeout_ms=5_000))
    world.nodes[1].versions[ApiKey.INIT_PRODUCER_ID] = (0, 1)
    world.init()
    world.manager.begin_transaction()
    world.is_answering = False
    sent = world.write()
    world.run(100)
    if is_first_attempt:
        world.now_ms += 5_000  # the connection ends late, before the sender can expire the batch
    else:
        refuse(world, ErrorCode.INVALID_RECORD)
        world.is_answering = True
    world.network.cut(world.client, 1, world.now_ms)
    world.run(200)
    assert sent.error is not None
    assert len(world.headers()) == 1
    with pytest.raises(ProducerFailed):
        world.manager.begin_abort()


def test_an_upgrade_to_version_2_raises_the_epoch_between_two_transactions() -> None:
    world = begun_world(transaction_version=1)
    world.write()
    for node in world.nodes:
        node.features = (2, {"transaction.version": 2})
        world.network.cut(world.client, node.id, world.now_ms)
    world.run(1_000)
    world.commit()
    assert [type(each).__name__ for each in world.nodes[1].seen if each.API_KEY in (END, INIT)] == [
        "EndTxnRequest",
        "InitProducerIdRequest",
    ]
    assert world.manager.is_transaction_v2_enabled
    world.manager.begin_transaction()
    world.write()
    world.forget()
    world.transaction_version = 2
    world.commit()
    assert world.requests() == ["Produce", "EndTxn"]


def move_coordinator_to_node_1(world: TransactionWorld) -> None:
    world.coordinators[1] = 1
    world.nodes[1].is_up = False
    world.network.cut(world.client, 2, world.now_ms)


def test_an_epoch_that_a_moved_coordinator_cannot_raise_is_named_as_the_cause() -> None:
    world = begun_world(transaction_version=1)
    refuse(world, ErrorCode.INVALID_PRODUCER_EPOCH)
    world.write()
    world.run(500)
    world.nodes[0].versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    world.network.cut(world.client, 1, world.now_ms)
    move_coordinator_to_node_1(world)
    with pytest.raises(ProducerFailed, match=r"The transaction coordinator broker-1:9092 cannot raise the epoch"):
        world.abort(5_000)
    assert not world.manager.coordinator_supports_bumping_epoch


def test_a_coordinator_that_moved_to_a_newer_broker_raises_the_epoch() -> None:
    world = TransactionWorld(transaction_version=1)
    world.nodes[1].versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    world.init()
    assert not world.manager.coordinator_supports_bumping_epoch
    move_coordinator_to_node_1(world)
    world.manager.begin_transaction()
    world.write()
    world.run(5_000)
    assert world.manager.coordinator_supports_bumping_epoch
    world.abort()
