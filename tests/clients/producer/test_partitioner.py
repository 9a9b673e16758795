"""Which partition a record goes to."""

from collections import Counter
from random import Random

from kraft_core.clients.producer.partitioner import BuiltInPartitioner, murmur2, partition_for_key
from tests.clients.producer.producer_vectors import vectors


def test_murmur2_is_that_of_the_java_client_on_12_000_keys() -> None:
    keys, _ = vectors()
    assert len(keys) == 12_000
    assert [murmur2(key) for key, _ in keys] == [expected for _, expected in keys]


def test_the_partition_of_a_key_is_its_hash_without_the_sign() -> None:
    keys, _ = vectors()
    assert any(expected >> 31 for _, expected in keys)
    for key, expected in keys[:500]:
        assert partition_for_key(key, 7) == (expected & 0x7FFFFFFF) % 7


def draws(partitioner: BuiltInPartitioner, available: list[int], total: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for _ in range(6_000):
        partitioner.draw(available, total)
        found[partitioner.partition] += 1
    return found


def test_without_load_stats_only_partitions_with_a_leader_are_drawn_evenly() -> None:
    found = draws(BuiltInPartitioner(100, Random(1)), [0, 2, 5], 6)
    assert set(found) == {0, 2, 5}
    assert all(1_800 < count < 2_200 for count in found.values())


def test_without_any_leader_all_partitions_are_drawn() -> None:
    assert set(draws(BuiltInPartitioner(100, Random(1)), [], 4)) == {0, 1, 2, 3}


def test_a_partition_with_a_longer_queue_is_drawn_less_often() -> None:
    """KIP-794: the weight is the longest queue + 1 less the queue's length, as in the KIP's example."""
    partitioner = BuiltInPartitioner(100, Random(1))
    partitioner.update_partition_load_stats([0, 3, 1], [7, 8, 9], 3)
    found = draws(partitioner, [7, 8, 9], 3)
    assert abs(found[7] - 6_000 * 4 / 8) < 200
    assert abs(found[8] - 6_000 * 1 / 8) < 200
    assert abs(found[9] - 6_000 * 3 / 8) < 200


def test_equal_queues_of_all_partitions_are_drawn_evenly() -> None:
    partitioner = BuiltInPartitioner(100, Random(1))
    partitioner.update_partition_load_stats([2, 2], [0, 1], 2)
    found = draws(partitioner, [0, 1], 2)
    assert abs(found[0] - 3_000) < 200


def test_a_partition_that_is_not_available_is_not_drawn_even_if_the_others_have_equal_queues() -> None:
    partitioner = BuiltInPartitioner(100, Random(1))
    partitioner.update_partition_load_stats([2, 2], [0, 2], 3)
    assert set(draws(partitioner, [0, 1, 2], 3)) == {0, 2}


def test_a_switch_waits_for_a_full_batch_up_to_twice_the_batch_size() -> None:
    partitioner = BuiltInPartitioner(100, Random(1))
    partitioner.draw([0, 1], 2)
    partitioner.produced_bytes = 99
    assert not partitioner.is_switch_due(all_batches_full=True)
    partitioner.produced_bytes = 100
    assert partitioner.is_switch_due(all_batches_full=True)
    assert not partitioner.is_switch_due(all_batches_full=False)
    partitioner.produced_bytes = 200
    assert partitioner.is_switch_due(all_batches_full=False)
