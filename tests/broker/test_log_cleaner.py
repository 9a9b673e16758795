import asyncio
import errno
import os
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft_core.broker.log.log_cleaner import plan_cleaning, swap_in, write_cleaned
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_loader import LoadOptions, open_log
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.log.unified_log import UnifiedLog
from tests.broker.batches import append, batch
from tests.broker.metadata import caught_up

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=200, min_cleanable_dirty_ratio=0.0)
TOPIC_ID = uuid.UUID(int=5)
DAY_MS = 24 * 3600 * 1000


def opened(folder: Path, config: LogConfig = COMPACT, *, clean: bool = True) -> UnifiedLog:
    return open_log(folder / "t-0", "t", 0, TOPIC_ID, config, LoadOptions(clean, 0, 0, 0))


def compact(log: UnifiedLog, now_ms: int = 2_000) -> None:
    plan = plan_cleaning(log, now_ms)
    if plan is not None:
        new = swap_in(plan, write_cleaned(plan, log.directory), log.config, now_ms)
        log.replace(list(plan.segments), new)
        for segment in plan.segments:
            segment.close()


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


def test_a_tombstone_goes_only_after_delete_retention(tmp_path: Path) -> None:
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


def test_an_interrupted_swap_is_finished_at_the_next_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(20):
        append(log, batch([b"%04d" % number], keys=[b"same"]), 0, 1_000)
    plan = plan_cleaning(log, 2_000)
    assert plan is not None
    write_cleaned(plan, log.directory)
    active = log.active.base_offset
    log.close_files()

    again = opened(tmp_path, clean=False)

    assert again.log_end_offset == 20
    assert [segment.base_offset for segment in again.segments] == [0, active]
    assert [at for at, _, _ in records(again) if at < active] == [active - 1]
    assert not list((tmp_path / "t-0").glob("*.swap"))


def test_a_copy_whose_last_batch_was_dropped_still_covers_it(tmp_path: Path) -> None:
    """Else the start after an interrupted swap would keep the old segment beside the copy."""
    log = opened(tmp_path)
    append(log, batch([b"x" * 100], keys=[b"other"]), 0, 1_000)
    append(log, batch([b"x" * 100], keys=[b"gone"]), 0, 1_000)
    append(log, batch([None, None], keys=[b"gone", b"gone"]), 0, 1_000)
    append(log, batch([b"x" * 150], keys=[b"active"]), 0, 1_000)
    plan = plan_cleaning(log, 1_000 + DAY_MS + 1)
    assert plan is not None
    write_cleaned(plan, log.directory)
    active = log.active.base_offset
    log.close_files()

    again = opened(tmp_path, clean=False)

    assert [segment.base_offset for segment in again.segments] == [0, active]
    assert [key for _, key, _ in records(again)] == [b"other", b"active"]


def test_an_unfinished_copy_is_thrown_away(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([b"v"], keys=[b"k"]), 0, 1_000)
    log.close()
    half = tmp_path / "t-0" / "00000000000000000000.log.cleaned"
    half.write_bytes(b"half")

    again = opened(tmp_path)

    assert records(again) == [(0, b"k", b"v")]
    assert not half.exists()


def test_a_manager_stopped_before_it_has_loaded_leaves_no_mark_of_a_clean_shutdown(tmp_path: Path) -> None:
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


def test_the_manager_compacts_deletes_and_comes_back_clean(tmp_path: Path) -> None:
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
        assert await logs.compact(log)
        assert not await logs.compact(log)
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


def test_a_log_that_cannot_be_flushed_at_the_end_leaves_no_mark(
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
