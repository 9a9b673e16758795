from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft_core.broker.log.producer_state_manager import ProducerStateManager
from kraft_core.protocol.batch_header import MAX_SEQUENCE, BatchHeader, read_header
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.broker.batches import batch

PRODUCER = 77


def header(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0, producer: int = PRODUCER) -> BatchHeader:
    data = batch([b"v"] * count, producer_id=producer, epoch=epoch, sequence=sequence)
    return read_header(offset.to_bytes(8, "big") + data[8:])


def written(manager: ProducerStateManager, *headers: BatchHeader) -> None:
    for each in headers:
        manager.check(each)
        manager.update(each)


def refusal(check: Callable[[BatchHeader], None], each: BatchHeader) -> int:
    with pytest.raises(KafkaError) as caught:
        check(each)
    return caught.value.code


def test_a_gap_in_the_sequence_is_out_of_order(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(0, count=3))

    assert refusal(manager.check, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    manager.check(header(3))


def test_sequences_wrap_to_zero(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(MAX_SEQUENCE - 1, count=2))

    assert refusal(manager.check, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    written(manager, header(0))


def test_a_batch_across_the_wrap_is_recognized(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    crossing = header(MAX_SEQUENCE, count=3, offset=50)
    written(manager, crossing)

    assert manager.find_duplicate(crossing).first_offset == 50
    manager.check(header(2))


def test_an_older_epoch_is_fenced(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(0, epoch=3))

    assert refusal(manager.check, header(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_zero(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(0, epoch=3))

    assert refusal(manager.check, header(1, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    written(manager, header(0, epoch=4))
    assert manager.find_duplicate(header(0, epoch=3)) is None


def test_an_unknown_producer_may_begin_anywhere(tmp_path: Path) -> None:
    ProducerStateManager(tmp_path).check(header(1234))


def test_the_last_five_batches_are_known_and_no_more(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, *(header(number, offset=100 + number) for number in range(7)))

    known = [manager.find_duplicate(header(number)) for number in range(7)]

    assert [found and found.first_offset for found in known] == [None, None, 102, 103, 104, 105, 106]


def test_idle_producers_expire(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(0))

    manager.expire(1_000 + 499, 500)
    assert PRODUCER in manager.producers
    manager.expire(1_000 + 500, 500)
    assert PRODUCER not in manager.producers


def test_a_snapshot_restores_the_state_and_a_damaged_one_is_skipped(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    written(manager, header(0))
    manager.take_snapshot(1)
    written(manager, header(1, offset=1))
    newest = manager.take_snapshot(2)

    again = ProducerStateManager(tmp_path)
    assert again.load_newest_snapshot(0, 10) == 2
    assert again.find_duplicate(header(1)).first_offset == 1
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x00")
    assert again.load_newest_snapshot(0, 10) == 1
    assert again.producers[PRODUCER].last_sequence == 0
    assert not newest.exists()


def test_every_batch_that_may_be_in_flight_at_a_clean_stop_is_known_after_it(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    sent = [header(number, offset=100 + number) for number in range(7)]
    written(manager, *sent)
    manager.take_snapshot(107)

    again = ProducerStateManager(tmp_path)
    assert again.load_newest_snapshot(0, 107) == 107

    assert [found and found.first_offset for found in map(again.find_duplicate, sent)] == [
        None,
        None,
        102,
        103,
        104,
        105,
        106,
    ]
    again.check(header(7))


def test_an_empty_snapshot_is_ten_bytes_like_kafkas(tmp_path: Path) -> None:
    assert ProducerStateManager(tmp_path).take_snapshot(0).stat().st_size == 10


def test_snapshots_after_the_end_of_the_log_are_deleted(tmp_path: Path) -> None:
    manager = ProducerStateManager(tmp_path)
    ahead = manager.take_snapshot(20)

    assert manager.load_newest_snapshot(0, 10) == 0
    assert not ahead.exists()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(1, 3)), max_size=40))
def test_accepts_exactly_the_next_batch_of_each_producer(tmp_path: Path, sends: list[tuple[int, int, int]]) -> None:
    """The model has, per producer, the next sequence and the last five (first, last) that were written."""
    manager = ProducerStateManager(tmp_path)
    following: dict[int, int] = {}
    recent: dict[int, list[tuple[int, int]]] = {}
    for producer, sequence, count in sends:
        each = header(sequence, count=count, producer=producer)
        span = sequence, sequence + count - 1
        assert (manager.find_duplicate(each) is not None) == (span in recent.get(producer, [])[-5:])
        if manager.find_duplicate(each) is not None:
            continue
        try:
            manager.check(each)
        except KafkaError:
            assert producer in following
            assert following[producer] != sequence
            continue
        assert following.get(producer, sequence) == sequence
        manager.update(each)
        following[producer] = span[1] + 1
        recent.setdefault(producer, []).append(span)
