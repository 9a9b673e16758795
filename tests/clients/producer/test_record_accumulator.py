"""The accumulator and its buffer pool: memory, sticky partitions, compression, drains."""

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.record_accumulator import UNKNOWN_PARTITION, AccumulatorConfig
from kraft_core.clients.producer.sender import SenderConfig
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.record_batch import read_batches
from tests.clients.producer.producer_world import PartitionAnswer, World

ID = UUID(int=77)


def world_of(partitions: int = 1, **more: Any) -> World:
    return World({"t": (ID, {index: 1 + index % 2 for index in range(partitions)})}, **more)


def append(world: World, value: bytes, partition: int = 0, granted: int = 0) -> ProducerBatch | None:
    return world.accumulator.append("t", partition, 1, None, value, (), world.now_ms, granted)


def test_a_pool_gives_out_no_more_than_it_has() -> None:
    pool = BufferPool(100)
    assert pool.allocate(60)
    assert not pool.allocate(50)
    assert pool.allocate(40)
    pool.deallocate(60)
    assert pool.available_bytes == 60


def test_waiters_are_served_in_their_order_and_before_later_appends() -> None:
    pool = BufferPool(100)
    assert pool.allocate(100)
    served: list[str] = []
    large = pool.wait(70, lambda: served.append("large"))
    pool.wait(10, lambda: served.append("small"))
    pool.deallocate(20)
    assert served == []
    assert not pool.allocate(5), "others wait"
    pool.deallocate(50)
    assert served == ["large"]
    pool.deallocate(30)
    assert served == ["large", "small"]
    pool.cancel(large)
    assert pool.available_bytes == 90


def test_a_waiter_that_gives_up_lets_the_next_one_through() -> None:
    pool = BufferPool(100)
    pool.allocate(60)
    served: list[str] = []
    first = pool.wait(90, lambda: served.append("first"))
    pool.wait(30, lambda: served.append("second"))
    pool.cancel(first)
    assert served == ["second"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900), st.booleans()), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_batches_never_hold_more_memory_than_the_pool(
    codec: int, actions: list[tuple[int, int, bool]], random: Random
) -> None:
    config = AccumulatorConfig(batch_size=400, linger_ms=5, compression=Compression(codec))
    world = world_of(4, accumulator_config=config, buffer_memory=2_000)
    codes = [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD]

    def verdict(partition: TopicPartition, _batch: bytes) -> PartitionAnswer | None:
        code = random.choice(codes)
        return PartitionAnswer(index=partition.partition, error_code=code) if code else None

    world.verdict = verdict
    batches: list[ProducerBatch] = []
    for partition, size, is_pause in actions:
        batch = append(world, b"x" * size, partition)
        if batch is not None:
            batches.append(batch)
        assert 0 <= world.pool.available_bytes <= world.pool.total_bytes
        held = {id(each): each for each in batches if not each.is_done and not each.is_closed}
        assert sum(each.size for each in held.values()) <= world.pool.total_bytes
        if is_pause:
            world.run(50)
    world.verdict = lambda _partition, _batch: None
    world.run(10_000)
    assert world.pool.available_bytes == world.pool.total_bytes
    assert world.sender.is_idle


def test_an_exhausted_pool_refuses_a_new_batch_but_not_records_with_room_in_theirs() -> None:
    world = world_of(2, accumulator_config=AccumulatorConfig(batch_size=400), buffer_memory=500)
    assert append(world, b"x" * 50) is not None
    assert append(world, b"x" * 50, partition=1) is None
    assert append(world, b"x" * 50) is not None


def test_waiting_appends_make_batches_due_and_get_their_memory() -> None:
    config = AccumulatorConfig(batch_size=400, linger_ms=60_000)
    world = world_of(2, accumulator_config=config, buffer_memory=500)
    append(world, b"first")
    size = world.accumulator.needed_bytes(None, b"second", ())
    served: list[bool] = []
    world.pool.wait(size, lambda: served.append(True))
    world.run(1)
    assert served == [True]
    batch = append(world, b"second", partition=1, granted=size)
    assert batch is not None
    assert world.pool.available_bytes == 100


def test_memory_that_was_granted_but_is_not_needed_goes_back() -> None:
    world = world_of(accumulator_config=AccumulatorConfig(batch_size=400), buffer_memory=1_000)
    append(world, b"a")
    world.pool.allocate(400)
    append(world, b"b", granted=400)
    assert world.pool.available_bytes == 600


def test_a_closed_accumulator_refuses_records_and_returns_granted_memory() -> None:
    world = world_of(buffer_memory=20_000)
    world.pool.allocate(16_384)
    world.accumulator.close()
    with pytest.raises(KafkaError, match="closed"):
        append(world, b"x", granted=16_384)
    assert world.pool.available_bytes == 20_000


def test_records_without_a_key_fill_a_batch_before_the_partition_changes() -> None:
    world = world_of(8, accumulator_config=AccumulatorConfig(batch_size=1_000))
    partitions = []
    for _ in range(400):
        batch = append(world, b"x" * 90, UNKNOWN_PARTITION)
        assert batch is not None
        partitions.append(batch.topic_partition.partition)
    runs = [1]
    for before, after in pairwise(partitions):
        if before == after:
            runs[-1] += 1
        else:
            runs.append(1)
    assert set(partitions) == set(range(8))
    assert min(runs[:-1]) >= 9
    assert Counter(partitions).most_common()[0][1] < 150


def test_a_broker_that_takes_nothing_gets_fewer_records_without_a_key() -> None:
    """KIP-794: queues of a slow broker's partitions are longer, so they are drawn less often."""
    world = world_of(4, accumulator_config=AccumulatorConfig(batch_size=300, linger_ms=0))
    world.nodes[1].handlers[0] = lambda _request: None
    for number in range(600):
        append(world, b"x" * 90, number % 4 if number < 100 else UNKNOWN_PARTITION)
        world.run(2)
    written = sum(len(world.values(partition=index)) for index in (0, 2))
    queued = 600 - written
    assert written > 3 * queued


def test_a_broker_that_stays_unavailable_gets_no_records_without_a_key() -> None:
    """partitioner.availability.timeout.ms of KIP-794."""
    config = AccumulatorConfig(batch_size=300, linger_ms=0, partition_availability_timeout_ms=200)
    world = world_of(4, accumulator_config=config)
    for partition in range(4):
        append(world, b"warm up", partition)
    world.run(50)
    world.nodes[1].is_up = False
    world.network.cut(world.client, 2, world.now_ms)
    for partition in range(4):
        append(world, b"x" * 90, partition)
    world.run(2_000)
    append(world, b"x" * 90, UNKNOWN_PARTITION)
    world.run(50)
    later = set()
    for _ in range(100):
        batch = append(world, b"x" * 90, UNKNOWN_PARTITION)
        assert batch is not None
        later.add(batch.topic_partition.partition)
        world.run(5)
    assert later == {0, 2}


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_batches_that_compress_well_hold_more_records_after_a_while(codec: int) -> None:
    world = world_of(
        accumulator_config=AccumulatorConfig(batch_size=2_000, linger_ms=60_000, compression=Compression(codec))
    )
    for number in range(1_200):
        append(world, b"%06d" % number * 20)
        world.turn()
    sizes = [len(batch) for batch in world.batches[TopicPartition("t", 0)]]
    counts = [next(iter(read_batches(batch))).record_count for batch in world.batches[TopicPartition("t", 0)]]
    assert max(sizes) <= 2_000
    assert max(counts) > 1.3 * counts[0]
    assert len(world.values()) >= 1_100


def test_the_uncompressed_content_of_a_batch_stays_below_the_maximum_request_size() -> None:
    config = AccumulatorConfig(batch_size=1_000, max_request_size=5_000, compression=Compression(1), linger_ms=60_000)
    world = world_of(accumulator_config=config, sender_config=SenderConfig(max_request_size=5_000))
    largest = 0
    for _ in range(8_000):
        batch = append(world, b"\x00" * 100)
        assert batch is not None
        largest = max(largest, batch.size)
        if batch.is_full or batch.record_count == 1:
            world.turn()
    assert 2_000 < largest <= 5_000


def test_a_batch_is_due_when_its_linger_time_ends_and_not_before() -> None:
    world = world_of(accumulator_config=AccumulatorConfig(linger_ms=50))
    append(world, b"x")
    early = world.accumulator.ready(world.metadata, world.now_ms + 20)
    assert early.ready_nodes == set()
    assert early.next_ready_check_ms == world.now_ms + 50
    assert world.accumulator.ready(world.metadata, world.now_ms + 50).ready_nodes == {1}


def test_topics_without_a_leader_are_named() -> None:
    world = World({"t": (ID, {0: -1})})
    append(world, b"x")
    result = world.accumulator.ready(world.metadata, world.now_ms + 50)
    assert result.unknown_leader_topics == {"t"}
    assert result.ready_nodes == set()


def test_a_muted_partition_is_not_drained() -> None:
    world = world_of()
    append(world, b"x")
    world.accumulator.mute_partition(TopicPartition("t", 0))
    assert world.accumulator.ready(world.metadata, world.now_ms + 50).ready_nodes == set()
    assert world.accumulator.drain(world.metadata, [1], 1 << 20, world.now_ms + 50) == {1: []}
    world.accumulator.unmute_partition(TopicPartition("t", 0))
    assert len(world.accumulator.drain(world.metadata, [1], 1 << 20, world.now_ms + 50)[1]) == 1


def test_records_without_a_key_stay_in_their_partition_while_the_metadata_lacks_the_topic() -> None:
    """A broker that has just started answers UNKNOWN_TOPIC_OR_PARTITION for a topic that exists."""
    world = world_of(2, accumulator_config=AccumulatorConfig(batch_size=100))
    first = append(world, b"v" * 200, UNKNOWN_PARTITION)
    assert first is not None
    world.topics.clear()
    world.metadata.request_update()
    world.run(2_000)
    assert not world.metadata.topics["t"].partitions
    partitions = {append(world, b"v" * 200, UNKNOWN_PARTITION).topic_partition.partition for _ in range(5)}
    assert len(partitions) == 1


@pytest.mark.parametrize("compression", [Compression(), Compression(1)])
def test_records_that_are_collected_change_partitions_as_those_that_are_appended_do(compression: Compression) -> None:
    """Two equal producers, one of which adds what it can to the open batch; their batches are the same."""
    random = Random(5)
    sizes = [random.choice((100, 100, 300)) for _ in range(40)]
    values = [bytes([number % 256]) * size for number, size in enumerate(sizes) for _ in range(random.randrange(30))]
    batches: list[list[tuple[TopicPartition, bytes]]] = []
    for is_fast in (True, False):
        world = world_of(4, accumulator_config=AccumulatorConfig(batch_size=1_000, compression=compression))
        appended: dict[ProducerBatch, None] = {}
        collected = 0
        for number, value in enumerate(values):
            partition = 2 if number % 17 == 0 else UNKNOWN_PARTITION  # a record with a key goes into the same batches
            opened = world.accumulator.open_batches.get("t") if is_fast and partition < 0 else None
            if opened is not None and opened.try_append_alike(1, value):
                collected += 1
                continue
            batch = append(world, value, partition)
            assert batch is not None
            appended[batch] = None
        for batch in appended:
            batch.close()
        assert (collected > 100) == is_fast
        batches.append([(batch.topic_partition, bytes(batch.records())) for batch in appended])
    assert batches[0] == batches[1]


def test_a_closed_accumulator_has_no_open_batches() -> None:
    world = world_of()
    append(world, b"v", UNKNOWN_PARTITION)
    assert not world.accumulator.open_batches, "values of one size may not follow"
    append(world, b"w", UNKNOWN_PARTITION)
    assert list(world.accumulator.open_batches) == ["t"]
    world.accumulator.close()
    assert not world.accumulator.open_batches
