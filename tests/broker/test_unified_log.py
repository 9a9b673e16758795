import errno
import os
import struct
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_loader import LoadOptions, TopicIdMismatchError, open_log
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.record_batch import read_batches
from tests.broker.batches import append as append_batch
from tests.broker.batches import batch, finished, resealed

TOPIC_ID = uuid.UUID(int=0x1234)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
NOW = 2_000


def opened(
    folder: Path, config: LogConfig = SMALL, *, clean: bool = False, recovery_point: int = 0, start: int = 0
) -> UnifiedLog:
    options = LoadOptions(clean, recovery_point, start, NOW)
    return open_log(folder / "t-0", "t", 0, TOPIC_ID, config, options)


def contents(log: UnifiedLog) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for found in log.batches(log.log_start_offset)
        for record in found.records()
        if record.offset >= log.log_start_offset
    ]


def append(log: UnifiedLog, *values: bytes, timestamp: int = 1_000, epoch: int = 0) -> int:
    return append_batch(log, batch(values, timestamp=timestamp), epoch, NOW).first_offset


def refused(log: UnifiedLog, data: bytes) -> ErrorCode:
    before = log.log_end_offset, log.size
    with pytest.raises(KafkaError) as caught:
        append_batch(log, data, 0, NOW)
    assert (log.log_end_offset, log.size) == before
    return ErrorCode(caught.value.code)


def announcing_two_records() -> bytes:
    """Return a batch that declares two records but has one."""
    data = bytearray(batch([b"a"]))
    struct.pack_into(">i", data, 23, 1)
    struct.pack_into(">i", data, 57, 2)
    return resealed(data)


def test_offsets_are_assigned_and_segments_roll(tmp_path: Path) -> None:
    log = opened(tmp_path)

    firsts = [append(log, b"a" * 50, b"b" * 50, epoch=7) for _ in range(10)]

    assert firsts == list(range(0, 20, 2))
    assert len(log.segments) > 2
    assert [segment.base_offset for segment in log.segments] == sorted(segment.base_offset for segment in log.segments)
    assert [offset for offset, _ in contents(log)] == list(range(20))
    assert {found.leader_epoch for found in log.batches(0)} == {7}


def test_a_segment_rolls_by_the_time_between_its_records_not_by_their_age(tmp_path: Path) -> None:
    """Old records, for example of a replay, must not get a segment each."""
    log = opened(tmp_path, LogConfig(segment_ms=500))
    for timestamp in (100, 300, 600, 601, 900):
        append_batch(log, batch([b"v"], timestamp=timestamp), 0, 10**12)

    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_batch_is_stored_byte_for_byte_but_for_offset_and_epoch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    data = batch([b"x" * 100, b"y" * 100], compress=True)

    append_batch(log, batch([b"before"]), 3, NOW)
    append_batch(log, data, 3, NOW)

    stored = log.read(1, 10_000, log.log_end_offset, at_least_one=True).read()
    assert stored[16:] == data[16:]
    assert struct.unpack_from(">q", stored) == (1,)
    assert struct.unpack_from(">i", stored, 12) == (3,)


def test_log_append_time_is_stamped_with_a_fresh_crc(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(log_append_time=True))

    info = append_batch(log, batch([b"a", b"b"], timestamp=5), 0, NOW)

    found = next(read_batches(log.read(0, 1000, 2, at_least_one=True).read(), verify_crc=True))
    assert info.log_append_time == NOW
    assert [record.timestamp for record in found.records()] == [NOW, NOW]
    assert finished(log.find_by_timestamp(NOW)).offset == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"short", ErrorCode.INVALID_RECORD),
        (batch([b"a"])[:-1], ErrorCode.INVALID_RECORD),
        (batch([b"a"])[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (batch([b"a"]) * 2, ErrorCode.INVALID_RECORD),
        (batch([b"a" * 600]), ErrorCode.MESSAGE_TOO_LARGE),
        (batch([b"a"], attributes=0x20), ErrorCode.INVALID_RECORD),
        (batch([b"a"], attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch([b"a"], attributes=8), ErrorCode.INVALID_TIMESTAMP),
        (batch([b"a"], producer_id=1, epoch=0), ErrorCode.INVALID_RECORD),
        (batch([b"a"], timestamp=NOW + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (resealed(batch([b"a"])[:57] + struct.pack(">i", 2) + batch([b"a"])[61:]), ErrorCode.INVALID_RECORD),
        (announcing_two_records(), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "no-header",
        "cut",
        "bad-crc",
        "two",
        "large",
        "control",
        "codec",
        "append-time",
        "no-seq",
        "future",
        "count",
        "lies",
    ],
)
def test_a_bad_batch_is_refused_and_nothing_is_written(tmp_path: Path, data: bytes, error: ErrorCode) -> None:
    log = opened(tmp_path, LogConfig(max_message_bytes=500))

    assert refused(log, data) is error


def test_a_compacted_topic_rejects_records_without_a_key(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    keyless = bytearray(batch([b"v"], keys=[b""]))
    keyless[65] = 1  # the key's length: -1 as a varint

    assert refused(log, resealed(keyless)) is ErrorCode.INVALID_RECORD


def test_a_full_disk_is_a_storage_error_and_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    append(log, b"first")

    def full(descriptor: int, data: bytes, position: int) -> int:
        os.ftruncate(descriptor, position + 10)  # part of it still fits
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("kraft_core.broker.log.log_segment.os.pwrite", full)
        assert refused(log, batch([b"second"])) is ErrorCode.KAFKA_STORAGE_ERROR

    assert append(log, b"second") == 1
    log.close_files()
    assert contents(opened(tmp_path)) == [(0, b"first"), (1, b"second")]


def test_reading_outside_the_log_is_out_of_range(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a", b"b")
    log.increment_log_start(1)

    for offset in (0, 3):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100, 2, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(2, 100, 2, at_least_one=True).read() == b""


def test_a_read_stops_at_the_high_watermark(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(log, value)

    data = log.read(0, 10_000, 2, at_least_one=True).read()

    assert [found.base_offset for found in read_batches(data)] == [0, 1]


def test_a_first_batch_larger_than_requested_is_returned_whole_or_not_at_all(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a" * 200)

    assert log.read(0, 10, 1, at_least_one=True).size > 200
    assert log.read(0, 10, 1, at_least_one=False).size == 0


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_tail_is_truncated_at_the_next_start(tmp_path: Path, cut: int) -> None:
    log = opened(tmp_path)
    for number in range(5):
        append(log, b"v%d" % number * 10)
    kept = contents(log)[:-1]
    last = log.active
    log.close_files()
    with last.path.open("r+b") as file:
        file.truncate(last.size - min(cut, last.size - 1))

    again = opened(tmp_path)

    assert contents(again) == kept
    assert again.log_end_offset == 4
    assert append(again, b"next") == 4


def test_everything_after_a_flipped_bit_is_dropped(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(12):
        append(log, b"v%d" % number * 20)
    second = log.segments[1]
    log.close_files()
    with second.path.open("r+b") as file:
        file.seek(70)
        file.write(b"\xff")

    again = opened(tmp_path)

    assert again.log_end_offset == second.base_offset
    assert [offset for offset, _ in contents(again)] == list(range(second.base_offset))
    assert not list((tmp_path / "t-0").glob(f"{second.base_offset + 6:020d}.*"))


def test_a_clean_close_needs_no_recovery_and_keeps_producers(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append_batch(log, batch([b"a"], producer_id=9, epoch=0, sequence=0), 0, NOW)
    log.close()

    again = opened(tmp_path, clean=True)

    assert again.recovery_point == again.log_end_offset == 1
    repeated = append_batch(again, batch([b"a"], producer_id=9, epoch=0, sequence=0), 0, NOW)
    assert repeated.is_duplicate
    assert repeated.first_offset == 0


def test_producers_are_restored_after_a_crash(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(8):
        append_batch(log, batch([b"x" * 90], producer_id=9, epoch=2, sequence=sequence), 0, NOW)
    assert len(log.segments) > 1
    log.close_files()

    again = opened(tmp_path)

    assert append_batch(again, batch([b"x" * 90], producer_id=9, epoch=2, sequence=7), 0, NOW).is_duplicate
    assert not append_batch(again, batch([b"y"], producer_id=9, epoch=2, sequence=8), 0, NOW).is_duplicate


def test_missing_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(20):
        append(log, b"v%d" % number * 20, timestamp=1_000 + number)
    log.close()
    for path in [*(tmp_path / "t-0").glob("*index")]:
        path.unlink()

    again = opened(tmp_path, clean=True)

    assert finished(again.find_by_timestamp(1_013)).offset == 13
    assert [offset for offset, _ in contents(again)] == list(range(20))


def test_another_topic_id_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()

    with pytest.raises(TopicIdMismatchError):
        open_log(tmp_path / "t-0", "t", 0, uuid.UUID(int=99), SMALL, LoadOptions(True, 0, 0, NOW))


def test_retention_by_time_drops_old_segments_and_moves_the_start(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=150, retention_ms=500))
    for number in range(6):
        append(log, b"v" * 60, timestamp=1_000 + number * 200)

    detached = log.take_expired(2_100, log.log_end_offset)

    assert detached
    assert log.log_start_offset == log.segments[0].base_offset == 3
    assert [offset for offset, _ in contents(log)] == [3, 4, 5]


def test_retention_by_time_can_empty_the_log_but_keeps_its_end(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(retention_ms=500))
    append(log, b"a", b"b")

    log.take_expired(10_000, log.log_end_offset)

    assert contents(log) == []
    assert log.log_start_offset == log.log_end_offset == 2
    assert append(log, b"c") == 2


def test_retention_by_size_keeps_at_least_the_configured_bytes(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=150, retention_bytes=300, retention_ms=-1))
    for _ in range(8):
        append(log, b"v" * 60)

    log.take_expired(NOW, log.log_end_offset)

    assert 300 <= log.size < 300 + log.segments[0].size


def test_retention_never_passes_the_high_watermark(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=150, retention_ms=0))
    for _ in range(4):
        append(log, b"v" * 60)

    log.take_expired(10_000_000, 2)

    assert log.log_start_offset <= 2


def test_epochs_end_where_the_next_begins(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a", epoch=1)
    append(log, b"b", epoch=1)
    append(log, b"c", epoch=4)

    assert log.epochs.end_offset_for(1, log.log_end_offset) == (1, 2)
    assert log.epochs.end_offset_for(3, log.log_end_offset) == (1, 2)
    assert log.epochs.end_offset_for(4, log.log_end_offset) == (4, 3)
    assert log.epochs.end_offset_for(5, log.log_end_offset) is None


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("crash"), st.integers(0, 150)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("start"), st.integers(0, 40)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_log_behaves_like_a_list_that_a_crash_shortens_by_whole_batches(tmp_path: Path, steps: list[Step]) -> None:
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    log = opened(folder)
    model: list[list[tuple[int, bytes]]] = []
    end = start = counter = 0
    for action, number in steps:
        if action == "append":
            values = [b"value-%d-%d" % (counter, index) * 5 for index in range(number)]
            counter += 1
            assert append(log, *values) == end
            model.append([(end + index, value) for index, value in enumerate(values)])
            end += number
        elif action == "restart":
            log.close()
            log = opened(folder, clean=True, start=start)
        elif action == "start" and number <= end:
            log.increment_log_start(number)
            start = max(start, number)
        elif action == "crash":
            active = log.active
            lost = min(number, active.size)
            whole = [
                found.last_offset + 1
                for position, found in active.batches()
                if position + found.size <= active.size - lost
            ]
            end = whole[-1] if whole else active.base_offset
            log.close_files()
            with active.path.open("r+b") as file:
                file.truncate(active.size - lost)
            log = opened(folder, start=start)
            model = [records for records in model if records[0][0] < end]
            start = min(start, end)
        expected = [record for records in model for record in records if record[0] >= start]
        assert contents(log) == expected
        assert log.log_end_offset == end
    log.close_files()
