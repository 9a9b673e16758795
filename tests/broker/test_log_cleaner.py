import asyncio
import errno
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft_core.broker.log.cleaner import (
    KEYS_MAX,
    Pacer,
    build_offset_map,
    plan_cleaning,
    swap_in,
    write_group,
)
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_file_utils import delete_files
from kraft_core.broker.log.log_loader import LoadOptions, open_log
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.batch_header import read_header
from tests.broker.batches import append, batch
from tests.broker.faulty_disk import Crash, FaultyDisk, changes_of, io_error
from tests.broker.metadata import caught_up

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=200, min_cleanable_dirty_ratio=0.0)
TOPIC_ID = uuid.UUID(int=5)
DAY_MS = 24 * 3600 * 1000


def opened(folder: Path, config: LogConfig = COMPACT, *, clean: bool = True) -> UnifiedLog:
    return open_log(folder / "t-0", "t", 0, TOPIC_ID, config, LoadOptions(clean, 0, 0, 0))


def compact(log: UnifiedLog, now_ms: int = 2_000, keys_max: int = KEYS_MAX) -> None:
    plan = plan_cleaning(log, now_ms)
    if plan is None:
        return
    pacer = Pacer()
    newest = build_offset_map(plan, pacer, keys_max)
    done = 0
    while (group := write_group(plan, done, newest, pacer)) is not None:
        new, renamed = swap_in(group, log.config, now_ms, pacer)
        log.replace(list(group.segments), new)
        for segment in group.segments:
            segment.close()
        delete_files(renamed)
        done += len(group.segments)
    log.first_dirty_offset = newest.end_offset


def write_copy(log: UnifiedLog, now_ms: int) -> None:
    """Do what a compaction does before the swap."""
    plan = plan_cleaning(log, now_ms)
    assert plan is not None
    pacer = Pacer()
    assert write_group(plan, 0, build_offset_map(plan, pacer), pacer) is not None


def records(log: UnifiedLog) -> list[tuple[int, bytes, bytes | None]]:
    return [
        (each.offset, each.key, each.value) for found in log.batches(log.log_start_offset) for each in found.records()
    ]


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


PAIRS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 999)), min_size=1, max_size=4), max_size=30
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=PAIRS, compress=st.booleans())
def test_the_newest_value_of_every_key_stays_at_its_offset(
    tmp_path: Path, sent: list[list[tuple[str, int]]], compress: bool
) -> None:
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    log = opened(folder)
    newest: dict[bytes, tuple[int, bytes]] = {}
    offset = 0
    for pairs in sent:
        keys = [key.encode() for key, _ in pairs]
        values = [b"%03d" % value for _, value in pairs]
        append(log, batch(values, keys=keys, compress=compress), 0, 1_000)
        for key, value in zip(keys, values, strict=True):
            newest[key] = (offset, value)
            offset += 1

    compact(log)

    left = {key: (at, value) for at, key, value in records(log)}
    assert left == newest
    assert log.log_end_offset == offset
    log.close()
    again = opened(folder)
    assert {key: (at, value) for at, key, value in records(again)} == newest
    assert again.log_end_offset == offset
    again.close_files()


def test_replaced_records_leave_the_disk(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(100):
        append(log, batch([b"%04d" % number], keys=[b"same"]), 0, 1_000)
    before = log.size

    compact(log)

    assert log.size < before / 10
    assert len(log.segments) == 2


def test_a_tombstone_is_removed_only_after_delete_retention(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([b"v"], keys=[b"gone"]), 0, 1_000)
    append(log, batch([None], keys=[b"gone"]), 0, 1_000)
    for _ in range(4):
        append(log, batch([b"x" * 60], keys=[b"other"]), 0, 1_000)

    compact(log, now_ms=2_000)
    assert (1, b"gone", None) in records(log)
    for _ in range(4):
        append(log, batch([b"x" * 60], keys=[b"other"]), 0, 1_000)
    compact(log, now_ms=1_000 + DAY_MS + 1)
    assert b"gone" not in {key for _, key, _ in records(log)}


def test_a_log_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_bytes=100))
    for _ in range(5):
        append(log, batch([b"v" * 50]), 0, 1_000)

    assert plan_cleaning(log, 2_000) is None


def test_an_interrupted_swap_is_completed_at_the_next_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(20):
        append(log, batch([b"%04d" % number], keys=[b"same"]), 0, 1_000)
    write_copy(log, 2_000)
    active = log.active.base_offset
    log.close_files()

    again = opened(tmp_path, clean=False)

    assert again.log_end_offset == 20
    assert [segment.base_offset for segment in again.segments] == [0, active]
    assert [at for at, _, _ in records(again) if at < active] == [active - 1]
    assert not list((tmp_path / "t-0").glob("*.swap"))


def test_a_copy_whose_last_batch_was_dropped_still_covers_it(tmp_path: Path) -> None:
    """Otherwise the start after an interrupted swap would keep the old segment next to the copy."""
    log = opened(tmp_path)
    append(log, batch([b"x" * 100], keys=[b"other"]), 0, 1_000)
    append(log, batch([b"x" * 100], keys=[b"gone"]), 0, 1_000)
    append(log, batch([None, None], keys=[b"gone", b"gone"]), 0, 1_000)
    append(log, batch([b"x" * 150], keys=[b"active"]), 0, 1_000)
    log.config = replace(COMPACT, segment_bytes=1_000)
    write_copy(log, 1_000 + DAY_MS + 1)
    active = log.active.base_offset
    log.close_files()

    again = opened(tmp_path, clean=False)

    assert [segment.base_offset for segment in again.segments] == [0, active]
    assert [key for _, key, _ in records(again)] == [b"other", b"active"]


def test_an_unfinished_copy_is_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([b"v"], keys=[b"k"]), 0, 1_000)
    log.close()
    half = tmp_path / "t-0" / "00000000000000000000.log.cleaned"
    half.write_bytes(b"half")

    again = opened(tmp_path)

    assert records(again) == [(0, b"k", b"v")]
    assert not half.exists()


def test_a_manager_stopped_before_it_has_loaded_writes_no_clean_shutdown_file(tmp_path: Path) -> None:
    async def run() -> None:
        directories = [LogDirectory(tmp_path, uuid.UUID(int=8))]
        await LogManager(directories, LogManagerConfig(), lambda topic: COMPACT, lambda: 2_000).stop(7)

    asyncio.run(run())

    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_topic_with_the_longest_name_is_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        directories = [LogDirectory(tmp_path, uuid.UUID(int=8))]
        logs = LogManager(directories, LogManagerConfig(), lambda topic: COMPACT, lambda: 2_000)
        await logs.load(caught_up())
        logs.get_or_create("t" * 249, 0, TOPIC_ID, uuid.UUID(int=8))
        logs.delete("t" * 249, 0)
        assert [len(name) for name in names(tmp_path) if name.endswith("-delete")] == [255]
        await logs.stop(7)

    asyncio.run(run())


def test_the_manager_compacts_deletes_and_restarts_cleanly(tmp_path: Path) -> None:
    async def run() -> None:
        def manager() -> LogManager:
            config = LogManagerConfig()
            return LogManager([LogDirectory(tmp_path, uuid.UUID(int=8))], config, lambda topic: COMPACT, lambda: 2_000)

        logs = manager()
        assert logs.previous_broker_epoch() == -1
        await logs.load(caught_up())
        log = logs.get_or_create("t", 0, TOPIC_ID, uuid.UUID(int=8))
        for number in range(30):
            append(log, batch([b"%04d" % number], keys=[b"same"]), 0, 1_000)
        assert await logs.cleaner.clean(log)
        assert not await logs.cleaner.clean(log)
        doomed = logs.get_or_create("gone", 1, uuid.UUID(int=6), uuid.UUID(int=8))
        logs.delete("gone", 1)
        assert not (tmp_path / "gone-1").exists()
        assert doomed.directory.name.endswith("-delete")
        await logs.stop(41)

        logs = manager()
        assert logs.previous_broker_epoch() == 41
        await logs.load(caught_up(t=(TOPIC_ID, 1)))
        assert logs.previous_broker_epoch() == -1
        assert list(logs.logs) == [("t", 0)]
        assert logs.logs["t", 0].log_end_offset == 30
        assert not any(name.endswith("-delete") for name in names(tmp_path))
        await logs.stop(42)

    asyncio.run(run())


def test_a_log_that_cannot_be_flushed_at_the_end_prevents_the_clean_shutdown_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def run() -> None:
        directories = [LogDirectory(tmp_path, uuid.UUID(int=8))]
        logs = LogManager(directories, LogManagerConfig(), lambda topic: COMPACT, lambda: 2_000)
        await logs.load(caught_up())
        monkeypatch.setattr(logs.get_or_create("t", 0, TOPIC_ID, uuid.UUID(int=8)), "close", full)
        await logs.stop(7)

    asyncio.run(run())

    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_copy_is_split_into_segments_within_their_limits(tmp_path: Path) -> None:
    """The limits: bytes, since index positions have 32 bits, and offsets relative to the base offset."""
    log = opened(tmp_path)
    newest: dict[bytes, tuple[int, bytes]] = {}
    for number in range(60):
        if number in {20, 40}:
            log.log_end_offset += 2**32
        key = b"%d" % (number % 40)
        offset = append(log, batch([b"v" * 90], keys=[key]), 0, 1_000).first_offset
        newest[key] = (offset, b"v" * 90)
    log.config = replace(COMPACT, segment_bytes=1_000)

    compact(log)

    assert {key: (at, value) for at, key, value in records(log)} == newest
    assert all(segment.size <= 1_000 for segment in log.segments)
    assert len(log.segments) < 15
    for segment in log.segments:
        last = segment.last_header()
        assert last is None or last.last_offset - segment.base_offset < 2**31
    log.close()
    again = opened(tmp_path)
    assert {key: (at, value) for at, key, value in records(again)} == newest
    for at, value in newest.values():
        found = again.read(at, 10_000, again.log_end_offset, at_least_one=True)
        assert value in found.read()
    again.close_files()


def test_a_compaction_with_a_full_map_is_continued_by_the_next_one(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(60):
        append(
            log,
            batch([b"%03d" % number] * 2, keys=[b"%d" % (number % 20), b"long key " * 9 + b"%d" % (number % 7)]),
            0,
            1_000,
        )
    expected = {key: (at, value) for at, key, value in records(log)}
    passes = 0
    while plan_cleaning(log, 2_000) is not None:
        before = log.first_dirty_offset
        compact(log, keys_max=10)
        assert log.first_dirty_offset > before
        passes += 1
    assert passes > 1
    assert {key: (at, value) for at, key, value in records(log)} == expected
    assert sum(1 for _ in records(log)) < 60
    log.close_files()


def test_a_deleted_key_does_not_reappear_from_a_compressed_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([b"old" * 30, b"kept" * 30], keys=[b"gone", b"kept"], compress=True), 0, 1_000)
    append(log, batch([None], keys=[b"gone"]), 0, 1_000)
    for _ in range(4):
        append(log, batch([b"x" * 60], keys=[b"other"]), 0, 1_000)

    compact(log, now_ms=1_000 + DAY_MS + 1)

    assert {key for _, key, _ in records(log)} == {b"kept", b"other"}
    log.close_files()


@pytest.mark.parametrize("fault", [Crash, io_error])
def test_a_compaction_that_ends_at_any_change_of_a_file_leaves_every_key(
    tmp_path: Path, fault: Callable[[], BaseException]
) -> None:
    def written(folder: Path) -> UnifiedLog:
        folder.mkdir()
        log = opened(folder)
        for number in range(16):
            append(log, batch([b"%03d" % number * 8], keys=[b"%d" % (number % 5)]), 0, 1_000)
        log.config = replace(COMPACT, segment_bytes=400)
        return log

    counted = written(tmp_path / "count")
    expected = {key: (at, value) for at, key, value in records(counted)}
    changes = changes_of(lambda: compact(counted))
    assert changes > 20
    for at in range(1, changes + 1):
        folder = tmp_path / str(at)
        log = written(folder)
        end = log.log_end_offset
        with FaultyDisk(at, fault).plugged_in(), suppress(Crash, OSError):
            compact(log)
        again = opened(folder, clean=False)
        found = records(again)
        assert {key: (offset, value) for offset, key, value in found} == expected
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert again.log_end_offset == end
        compact(again)
        assert {key: (offset, value) for offset, key, value in records(again)} == expected
        again.close_files()
        log.close_files()


def test_the_event_loop_keeps_running_while_a_large_log_is_compacted(tmp_path: Path) -> None:
    """100,000 records in five batches: the cleaner's thread sleeps as long as it works."""

    async def run() -> float:
        directories = [LogDirectory(tmp_path, uuid.UUID(int=8))]
        config = replace(COMPACT, segment_bytes=100_000, max_message_bytes=10_000_000)
        logs = LogManager(directories, LogManagerConfig(), lambda topic: config, lambda: 2_000)
        log = logs.get_or_create("t", 0, TOPIC_ID, uuid.UUID(int=8))
        keys = [b"%d" % (number % 1_000) for number in range(20_000)]
        data = batch([b""] * len(keys), keys=keys, compress=True)
        for _ in range(5):
            log.append_stamped(data, read_header(data), 0, 1_000)
        longest, done = 0.0, asyncio.create_task(logs.cleaner.clean(log))
        while not done.done():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)
        assert await done
        assert len(records(log)) < 2 * len(keys)
        await logs.stop(7)
        return longest

    longest_s = asyncio.run(run())
    print(f"longest wait on the event loop: {longest_s * 1000:.0f} ms")
    assert longest_s < 1
