"""The sender with virtual brokers: order, retries, expiry, splits, acks, leader hints."""

from itertools import pairwise
from typing import Any
from uuid import UUID

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.clients.producer.record_accumulator import AccumulatorConfig
from kraft_core.clients.producer.sender import SenderConfig
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponseBatchIndexAndErrorMessage,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    ProduceResponseTopicProduceResponse,
)
from kraft_core.protocol.wire import Message
from tests.clients.producer.producer_world import PartitionAnswer, World

ID = UUID(int=77)


def one_partition(**more: Any) -> World:
    return World({"t": (ID, {0: 1})}, **more)


def refusing(world: World, code: ErrorCode, times: int = 1, **more: Any) -> list[float]:
    """Answer the next requests with an error; return the list of their times."""
    tried: list[float] = []

    def verdict(partition: TopicPartition, _batch: bytes) -> PartitionAnswer | None:
        tried.append(world.now_ms)
        if len(tried) > times:
            return None
        return PartitionAnswer(index=partition.partition, error_code=code, base_offset=-1, **more)

    world.verdict = verdict
    return tried


def test_records_are_written_after_the_linger_time_in_one_batch_and_acknowledged_with_their_offsets() -> None:
    world = one_partition()
    sent = [world.send(value=b"%d" % number) for number in range(3)]
    world.run(4)
    assert world.produce_requests() == []
    world.run(2)
    assert [each.offset for each in sent] == [0, 1, 2]
    assert world.values() == [b"0", b"1", b"2"]
    assert len(world.produce_requests()) == 1
    assert world.pool.available_bytes == world.pool.total_bytes
    assert world.sender.is_idle


def test_a_full_batch_does_not_wait_for_the_linger_time() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(batch_size=300, linger_ms=10_000))
    for _ in range(4):
        world.send(value=b"x" * 90)
    world.run(1)
    assert world.values() == [b"x" * 90] * 2


def test_with_acks_0_records_are_done_when_they_are_sent() -> None:
    world = one_partition(sender_config=SenderConfig(acks=0))
    sent = world.send()
    world.run(10)
    assert sent.offset == -1
    assert world.values() == [b"v"]
    assert world.client.in_flight() == 0
    assert world.sender.is_idle


def test_with_acks_0_nothing_is_sent_to_a_node_that_does_not_read() -> None:
    world = one_partition(sender_config=SenderConfig(acks=0))
    world.send()
    world.run(10)
    (connection_id,) = [number for number, wire in world.network.wires.items() if wire.node.id == 1][-1:]
    world.client.paused(connection_id, is_paused=True)
    held = world.send(value=b"later")
    world.run(1_000)
    assert held.offset is None
    world.client.paused(connection_id, is_paused=False)
    world.run(10)
    assert world.values() == [b"v", b"later"]


def test_a_retriable_error_is_retried_after_a_back_off_that_doubles() -> None:
    world = one_partition()
    tried = refusing(world, ErrorCode.NOT_ENOUGH_REPLICAS, times=4)
    sent = world.send()
    world.run(5_000)
    assert sent.offset == 0
    gaps = [after - before for before, after in pairwise(tried)]
    for gap, expected in zip(gaps, (100, 200, 400, 800), strict=True):
        assert 0.79 * expected <= gap <= 1.21 * expected + 1


def test_other_errors_fail_the_records_at_once() -> None:
    world = one_partition()
    refusing(world, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sent = world.send()
    world.run(10)
    assert sent.error is not None
    assert sent.error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "topic t" in sent.error.message
    assert world.pool.available_bytes == world.pool.total_bytes


def test_no_more_retries_are_made_than_allowed() -> None:
    world = one_partition(sender_config=SenderConfig(retries=2))
    tried = refusing(world, ErrorCode.NOT_ENOUGH_REPLICAS, times=9)
    sent = world.send()
    world.run(5_000)
    assert len(tried) == 3
    assert sent.error is not None
    assert sent.error.code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_each_record_gets_the_error_that_the_broker_names_for_it() -> None:
    """KIP-467."""
    world = one_partition()
    errors = (
        ProduceResponseBatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key"),
        ProduceResponseBatchIndexAndErrorMessage(batch_index=2),
    )
    refusing(world, ErrorCode.INVALID_RECORD, error_message="refused", record_errors=errors)
    sent = [world.send() for _ in range(3)]
    world.run(10)
    assert [each.error.message for each in sent if each.error] == [
        "no key",
        "Not written: other records of the batch are invalid.",
        "refused",
    ]
    assert {each.error.code for each in sent if each.error} == {ErrorCode.INVALID_RECORD}


def test_order_is_kept_across_retries_with_one_request_in_flight() -> None:
    world = one_partition(
        accumulator_config=AccumulatorConfig(batch_size=200, linger_ms=0),
        sender_config=SenderConfig(guarantee_message_order=True),
        network_config=NetworkConfig("test", max_in_flight_requests_per_connection=1),
    )
    world.send(value=b"warm up")
    world.run(10)
    refusing(world, ErrorCode.NOT_ENOUGH_REPLICAS, times=3)
    for number in range(6):
        world.send(value=b"%d" % number * 90)
    world.run(5_000)
    assert world.values() == [b"warm up", *(b"%d" % number * 90 for number in range(6))]


def test_several_requests_are_in_flight_but_not_more_than_allowed() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(batch_size=100, linger_ms=0))
    world.is_answering = False
    for _ in range(9):
        world.send(value=b"x" * 80)
    world.run(10)
    assert world.client.in_flight(1) == 5


def test_records_of_a_partition_without_a_leader_expire_and_name_what_happened() -> None:
    world = World({"t": (ID, {0: -1})})
    sent = world.send()
    world.run(119_000)
    assert sent.error is None
    world.run(2_000)
    assert sent.error is not None
    assert sent.error.code == ErrorCode.REQUEST_TIMED_OUT
    text = (
        "1 record(s) for t-0 expired 120000 ms after batch creation (delivery.timeout.ms): the partition has no leader"
    )
    assert sent.error.message == text
    assert world.pool.available_bytes == world.pool.total_bytes


def test_a_batch_that_expires_in_flight_keeps_its_memory_until_its_request_has_ended() -> None:
    world = one_partition(
        accumulator_config=AccumulatorConfig(delivery_timeout_ms=20_000),
        network_config=NetworkConfig("test", request_timeout_ms=30_000),
    )
    world.is_answering = False
    sent = world.send()
    world.run(20_100)
    assert sent.error is not None
    assert "no attempt was answered" in sent.error.message
    assert world.pool.available_bytes < world.pool.total_bytes
    world.run(11_000)
    assert world.pool.available_bytes == world.pool.total_bytes
    assert world.sender.is_idle


def test_the_text_of_an_expired_batch_names_the_last_error() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(delivery_timeout_ms=1_000))
    refusing(world, ErrorCode.NOT_ENOUGH_REPLICAS, times=99, error_message="2 of 3 are gone")
    sent = world.send()
    world.run(1_500)
    assert sent.error is not None
    assert sent.error.message.endswith("the last attempt: 2 of 3 are gone")


def test_a_cut_connection_is_retried() -> None:
    world = one_partition()
    world.is_answering = False
    sent = world.send()
    world.run(10)
    world.is_answering = True
    world.network.cut(world.client, 1, world.now_ms)
    world.run(2_000)
    assert sent.offset == 1, "without idempotence the first attempt was written too"


def test_a_batch_too_large_is_split_and_its_records_keep_their_order() -> None:
    world = one_partition(
        accumulator_config=AccumulatorConfig(batch_size=4_000), sender_config=SenderConfig(guarantee_message_order=True)
    )
    world.verdict = lambda partition, batch: (
        PartitionAnswer(index=partition.partition, error_code=ErrorCode.MESSAGE_TOO_LARGE) if len(batch) > 500 else None
    )
    sent = [world.send(value=b"%02d" % number * 45) for number in range(35)]
    world.run(2_000)
    assert world.values() == [b"%02d" % number * 45 for number in range(35)]
    assert [each.offset for each in sent] == list(range(35))
    assert world.pool.available_bytes == world.pool.total_bytes
    assert world.sender.is_idle


def test_a_single_record_too_large_fails() -> None:
    world = one_partition()
    refusing(world, ErrorCode.MESSAGE_TOO_LARGE)
    sent = world.send()
    world.run(10)
    assert sent.error is not None
    assert sent.error.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_leader_named_in_the_answer_gets_the_retry_without_back_off_and_without_metadata() -> None:
    """KIP-951."""
    world = one_partition()
    world.send()
    world.run(10)
    world.nodes[0].handlers[3] = lambda _request: None
    world.move_leader("t", 0, 2)
    hint = ProduceResponseLeaderIdAndEpoch(leader_id=2, leader_epoch=world.epoch)

    def moved(request: Message) -> Message:
        assert isinstance(request, ProduceRequest)
        refused = PartitionAnswer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
        return ProduceResponse(
            responses=(ProduceResponseTopicProduceResponse(topic_id=ID, partition_responses=(refused,)),),
            node_endpoints=(ProduceResponseNodeEndpoint(node_id=2, host="broker-2", port=9092),),
        )

    world.nodes[0].handlers[0] = moved
    sent = world.send(value=b"moved")
    world.run(20)
    assert sent.offset == 1
    assert any(isinstance(request, ProduceRequest) for request in world.nodes[1].seen)


def test_a_leader_that_moved_is_found_by_metadata() -> None:
    world = one_partition()
    world.send()
    world.run(10)
    world.move_leader("t", 0, 2)
    world.nodes[0].handlers[0] = lambda _request: ProduceResponse(
        responses=(
            ProduceResponseTopicProduceResponse(
                topic_id=ID, partition_responses=(PartitionAnswer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),)
            ),
        )
    )
    sent = world.send()
    world.run(1_000)
    assert sent.offset == 1


def test_a_topic_deleted_and_created_again_is_written_under_its_new_id() -> None:
    world = one_partition()
    world.send(value=b"old")
    world.run(10)
    world.logs.clear()
    world.topics["t"] = UUID(int=78), {0: 1}
    tried = refusing(world, ErrorCode.UNKNOWN_TOPIC_ID)
    sent = world.send(value=b"new")
    world.run(1_000)
    assert sent.offset == 0
    assert len(tried) == 2
    assert world.produce_requests()[-1].topic_data[0].topic_id == UUID(int=78)


def test_a_broker_without_topic_ids_in_produce_is_written_to_by_name() -> None:
    world = one_partition(produce_versions=(3, 9))
    sent = world.send()
    world.run(10)
    assert sent.offset == 0
    assert world.produce_requests()[-1].topic_data[0].name == "t"


def test_a_topic_without_an_id_is_written_to_by_name() -> None:
    world = World({"t": (UUID(int=0), {0: 1})})
    sent = world.send()
    world.run(10)
    assert sent.offset == 0
    assert world.produce_requests()[-1].topic_data[0].name == "t"


def test_a_partition_that_the_answer_leaves_out_is_retried() -> None:
    world = one_partition()
    answers: list[Message] = [ProduceResponse()]
    healthy = world.nodes[0].handlers[0]
    world.nodes[0].handlers[0] = lambda request: answers.pop() if answers else healthy(request)
    sent = world.send()
    world.run(1_000)
    assert sent.offset == 0


def test_batches_of_all_partitions_of_a_node_share_a_request_up_to_its_maximum_size() -> None:
    world = World(
        {"t": (ID, dict.fromkeys(range(6), 1))},
        accumulator_config=AccumulatorConfig(linger_ms=5),
        sender_config=SenderConfig(max_request_size=700),
    )
    for number in range(6):
        world.send(partition=number, value=b"x" * 200)
    world.run(10)
    sizes = [sum(len(topic.partition_data) for topic in each.topic_data) for each in world.produce_requests()]
    assert sizes == [2, 2, 2]
    partitions = [data.index for each in world.produce_requests() for data in each.topic_data[0].partition_data]
    assert sorted(partitions) == list(range(6))


def test_a_busy_partition_does_not_hold_back_the_others() -> None:
    world = World(
        {"t": (ID, {0: 1, 1: 1})},
        accumulator_config=AccumulatorConfig(batch_size=300, linger_ms=0),
        sender_config=SenderConfig(max_request_size=400),
        network_config=NetworkConfig("test", max_in_flight_requests_per_connection=1),
    )
    for _ in range(5):
        world.send(partition=0, value=b"x" * 220)
    world.send(partition=1, value=b"x" * 220)
    world.run(100)
    order = [each.topic_data[0].partition_data[0].index for each in world.produce_requests()]
    assert order == [0, 1, 0, 0, 0, 0]


def test_a_flush_does_not_wait_for_the_linger_time() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(linger_ms=60_000))
    sent = world.send()
    number = world.accumulator.begin_flush()
    world.run(1)
    assert sent.offset == 0
    assert not world.accumulator.has_incomplete_until(number)
    world.accumulator.end_flush()
    later = world.send()
    world.run(1_000)
    assert later.offset is None


def test_a_forced_end_fails_all_records_and_returns_all_memory() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(batch_size=100, linger_ms=0))
    world.is_answering = False
    sent = [world.send(value=b"x" * 80) for _ in range(8)]
    world.run(10)
    world.sender.force_close(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "closed"))
    assert all(each.error is not None for each in sent)
    world.client.close(world.now_ms)
    world.sender.step(world.now_ms)
    assert world.pool.available_bytes == world.pool.total_bytes
    assert not world.sender.accumulator.has_incomplete


def test_a_broker_that_is_down_is_tried_again_until_it_answers() -> None:
    world = one_partition()
    world.nodes[0].is_up = False
    world.network.cut(world.client, 1, world.now_ms)
    sent = world.send()
    world.run(5_000)
    assert sent.offset is None
    world.nodes[0].is_up = True
    world.run(2_000)
    assert sent.offset == 0


def test_a_topic_that_is_not_used_any_more_is_forgotten_with_its_metadata() -> None:
    """metadata.max.idle.ms of KIP-526."""
    world = World(
        {"t": (ID, {0: 1}), "u": (UUID(int=78), {0: 1})},
        accumulator_config=AccumulatorConfig(metadata_max_idle_ms=60_000),
    )
    world.send("t")
    world.send("u")
    world.run(50_000)
    assert set(world.metadata.topics) == {"t", "u"}
    world.send("t")
    world.run(300_000)
    world.send("t")
    world.run(10)
    assert world.metadata.wanted is not None
    world.metadata.request_update()
    world.run(1_000)
    assert set(world.metadata.wanted) == {"t"}
    assert set(world.metadata.topics) == {"t"}


def test_the_text_of_an_expired_batch_names_why_its_broker_cannot_be_reached() -> None:
    world = one_partition(accumulator_config=AccumulatorConfig(delivery_timeout_ms=1_000))
    world.nodes[0].is_up = False
    world.network.cut(world.client, 1, world.now_ms)
    sent = world.send()
    world.run(1_500)
    assert sent.error is not None
    assert sent.error.message.endswith("the last attempt: broker-1:9092: connection refused")
