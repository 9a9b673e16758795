"""Batches: their bytes, their room, their codecs, and how they are split."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.producer.produce_request_result import ProduceRequestResult
from kraft_core.clients.producer.producer_batch import ProducerBatch, size_upper_bound
from kraft_core.clients.producer.producer_id_and_epoch import ProducerIdAndEpoch
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.record_batch import Record, read_batches
from tests.clients.producer.producer_vectors import vectors

PARTITION = TopicPartition("t", 3)
LARGE = 1 << 20


def new_batch(write_limit: int = LARGE, compression: Compression | None = None, **more: int) -> ProducerBatch:
    return ProducerBatch(PARTITION, 0, write_limit, compression or Compression(), **more)  # type: ignore[arg-type] # ints


def records_of(batch: ProducerBatch) -> list[Record]:
    (whole,) = read_batches(bytes(batch.records()))
    return list(whole.records())


def test_a_batch_has_the_bytes_that_apaches_producer_writes() -> None:
    _, batches = vectors()
    assert len(batches) == 41
    for vector in batches:
        batch = new_batch()
        assert all(batch.try_append(*row) for row in vector.rows)
        if vector.producer_id >= 0:
            producer = ProducerIdAndEpoch(vector.producer_id, vector.epoch)
            batch.set_producer_state(producer, vector.sequence, is_transactional=vector.is_transactional)
        batch.close()
        assert bytes(batch.records()) == vector.data


def test_the_upper_bound_of_a_records_size_is_never_too_low() -> None:
    _, batches = vectors()
    for vector in batches:
        for row in vector.rows[:20]:
            batch = new_batch()
            batch.try_append(*row)
            batch.close()
            assert len(batch.records()) <= size_upper_bound(*row[1:])


@pytest.mark.parametrize(
    "compression",
    [
        Compression(1),
        Compression(1, 9),
        Compression(2),
        Compression(3),
        Compression(3, 1),
        Compression(3, 17),
        Compression(4),
        Compression(4, -5),
        Compression(4, 22),
    ],
    ids=str,
)
def test_compressed_records_are_read_back(compression: Compression) -> None:
    batch = new_batch(compression=compression)
    values = [b"%d-" % number * 300 for number in range(200)]
    for number, value in enumerate(values):
        assert batch.try_append(1000 + number, b"k", value, [("h", b"x")])
    uncompressed = batch.size
    batch.close()
    assert len(batch.records()) < uncompressed / 3
    assert batch.compression_ratio() < 0.34
    found = records_of(batch)
    assert [record.value for record in found] == values
    assert found[199] == (199, 1199, b"k", values[199], (("h", b"x"),))


def test_a_full_batch_takes_no_record_but_a_first_one_always_has_room() -> None:
    batch = new_batch(200)
    assert batch.try_append(0, None, b"x" * 100, ())
    assert not batch.is_full
    assert not batch.try_append(0, None, b"x" * 100, ())
    assert batch.try_append(0, None, b"x" * 5, ())
    assert batch.size <= 200
    large = new_batch(200)
    assert large.try_append(0, None, b"x" * 300, ())
    assert large.is_full


def test_a_batch_that_grows_with_the_pool_is_full_at_its_content_limit() -> None:
    batch = new_batch(200, Compression(1), content_limit=450)
    while batch.try_append(0, None, b"x" * 30, ()):
        pass
    assert batch.size <= 200
    assert not batch.is_full
    batch.grow(200)
    batch.grow(200)
    while batch.try_append(0, None, b"x" * 30, ()):
        pass
    assert 400 < batch.size <= 450


def test_resetting_the_producer_state_rewrites_the_header_alone() -> None:
    batch = new_batch(compression=Compression(4))
    batch.try_append(5, b"k", b"v", ())
    batch.set_producer_state(ProducerIdAndEpoch(8, 1), 40, is_transactional=True)
    batch.close()
    batch.reset_producer_state(ProducerIdAndEpoch(9, 2), 0)
    assert batch.sequence_has_been_reset
    batch.close()
    assert not batch.sequence_has_been_reset
    (whole,) = read_batches(bytes(batch.records()))
    assert (whole.producer_id, whole.producer_epoch, whole.base_sequence) == (9, 2, 0)
    assert whole.is_transactional
    assert [record.value for record in whole.records()] == [b"v"]


def test_the_last_sequence_wraps() -> None:
    batch = new_batch()
    for _ in range(4):
        batch.try_append(0, None, b"", ())
    batch.set_producer_state(ProducerIdAndEpoch(1, 0), 2**31 - 2, is_transactional=False)
    assert batch.last_sequence == 1


def outcomes(result: ProduceRequestResult, count: int) -> list[int | str]:
    found: list[int | str] = []
    for index in range(count):
        final, place = result.resolve(index)
        assert final.is_done
        found.append(final.base_offset + place if final.error_of is None else final.error_of(place).message)
    return found


def test_the_parts_of_a_split_batch_take_over_records_sequences_and_outcomes() -> None:
    batch = new_batch(compression=Compression(3))
    for number in range(10):
        batch.try_append(number, b"k", b"%d" % number * 100, [("h", None)])
    batch.set_producer_state(ProducerIdAndEpoch(8, 1), 2**31 - 3, is_transactional=False)
    batch.close()
    called: list[int] = []
    for index in range(10):
        batch.result.when_done(index, lambda index=index: called.append(index))  # type: ignore[misc] # bound early
    parts = batch.split(450)
    assert len(parts) > 2
    for part in parts:
        part.close()
        assert part.uncompressed_bytes <= 450
    assert [record.value for part in parts for record in records_of(part)] == [
        b"%d" % number * 100 for number in range(10)
    ]
    assert [record.timestamp for part in parts for record in records_of(part)] == list(range(10))
    assert parts[1].base_sequence == (2**31 - 3 + parts[0].record_count) & (2**31 - 1)
    assert called == []
    first = parts[0].record_count
    parts[0].complete(70, -1)
    assert called == list(range(first))
    smaller = parts[1].split(1)
    assert [part.record_count for part in smaller] == [1] * parts[1].record_count
    for number, part in enumerate(smaller):
        part.complete(100 + number, -1)
    for part in parts[2:]:
        part.complete_exceptionally(lambda index: KafkaError(ErrorCode.INVALID_RECORD, f"bad {index}"))
    assert called == list(range(10))
    middle = parts[1].record_count
    expected = [*range(70, 70 + first), *range(100, 100 + middle)]
    expected_errors = [f"bad {index}" for part in parts[2:] for index in range(part.record_count)]
    assert outcomes(batch.result, 10) == [*expected, *expected_errors]


def test_an_answer_after_the_end_of_a_batch_changes_nothing() -> None:
    batch = new_batch()
    batch.try_append(0, None, b"v", ())
    batch.abort(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
    assert not batch.complete(5, -1)
    assert outcomes(batch.result, 1) == ["late"]


@pytest.mark.parametrize("size", [1, 9, 57, 58, 63, 100, 8_192])
def test_values_that_are_collected_have_the_bytes_of_records_that_are_added_one_by_one(size: int) -> None:
    """Sizes at which the encoded sizes take one byte more; numbers at which the offset deltas do."""
    rows = [(5 + (number in range(300, 400)) + (number > 800), bytes([number % 256]) * size) for number in range(1_600)]
    fast, slow = new_batch(1 << 24), new_batch(1 << 24)
    collected = 0
    for timestamp, value in rows:
        assert slow.try_append(timestamp, None, value, ())
        if fast.try_append_alike(timestamp, value):
            collected += 1
        else:
            assert fast.try_append(timestamp, None, value, ())
            fast.allow_alike(1 << 24)
        assert fast.size == slow.size
    assert collected == len(rows) - 6  # the first of each run, of each width of the offset delta, and after 512
    fast.close()
    slow.close()
    assert bytes(fast.records()) == bytes(slow.records())


def test_only_records_like_the_last_one_are_collected_and_only_while_they_are_allowed() -> None:
    batch = new_batch(1_000)
    assert not batch.try_append_alike(0, b"v"), "the first one"
    batch.try_append(0, None, b"v", ())
    assert not batch.try_append_alike(0, b"v"), "not allowed yet"
    batch.allow_alike(1_000)
    assert not batch.try_append_alike(1, b"v")
    assert not batch.try_append_alike(0, b"vv")
    assert batch.try_append_alike(0, b"w")
    for key, value, headers in ((b"k", b"v", ()), (None, None, ()), (None, b"v", (("h", b""),)), (None, b"", ())):
        batch.try_append(0, key, value, headers)
        batch.allow_alike(1_000)
        assert not batch.try_append_alike(0, value or b"")
    batch.try_append(0, None, b"x" * 100, ())
    batch.allow_alike(250)
    assert [batch.try_append_alike(0, b"y" * 100) for _ in range(3)] == [True, True, False]
    batch.try_append(0, None, b"x" * 100, ())
    batch.allow_alike(10_000)
    while batch.try_append_alike(0, b"z" * 100):
        assert batch.size < 1_000
    assert batch.take_alike_bytes() > 0
    assert batch.take_alike_bytes() == 0
    batch.close()
    assert [record.value for record in records_of(batch)][:3] == [b"v", b"w", b"v"]


@pytest.mark.parametrize("end", ["close_for_record_appends", "close", "abort", "complete"])
def test_a_batch_that_has_ended_takes_no_more(end: str) -> None:
    batch = new_batch()
    batch.try_append(0, None, b"v", ())
    batch.allow_alike(1_000)
    arguments = {"abort": (KafkaError(ErrorCode.REQUEST_TIMED_OUT),), "complete": (0, -1)}
    getattr(batch, end)(*arguments.get(end, ()))
    assert not batch.try_append_alike(0, b"w")
