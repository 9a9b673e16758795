"""The stored metadata log: states at any offset, restarts, torn tails, retention, gaps, a full disk."""

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cluster.history import History
from app.cluster.log_store import recorder as recorder_module
from app.cluster.log_store.archive import Archive, StateUnknown
from app.cluster.log_store.recorder import Limits, Recorder
from kraft_core.clients.observed_log import CommittedChange, ObservedLog
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.storage.files import OPERATING_SYSTEM
from tests.image.records import record_streams, topic_id

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
NO_LIMITS = Limits(2**40, 36_500)


def committed(records: Sequence[MetadataRecord], random: Random, start: int = 0) -> list[CommittedChange]:
    """The records as committed changes, in batches of one to four, a minute apart."""
    log = ObservedLog(allow_gaps=True)
    changes: list[CommittedChange] = []
    left, offset, time_ms = list(records), start, START_MS + start
    while left:
        size = random.randint(1, 4)
        values = [r.encode_record(record, type(record).VERSIONS[1]) for record in left[:size]]
        log.append(encode_batch(offset, 1, time_ms, values), 1)
        offset, time_ms, left = offset + len(values), time_ms + 60_000, left[size:]
        log.advance(offset)
        while (change := log.next_change()) is not None:
            changes.append(change)
    return changes


def topics(count: int, first: int = 0) -> list[MetadataRecord]:
    made = [r.TopicRecord(name=f"topic-{number}", topic_id=topic_id(number)) for number in range(first, first + count)]
    return [r.FeatureLevelRecord(name="metadata.version", feature_level=30), *made]


class Store:
    """A recorder with a small memory and an archive on it."""

    def __init__(self, recorder: Recorder, history: History) -> None:
        self.recorder, self.history = recorder, history
        self.newest = -1
        self.archive = Archive(history, 1_000, lambda: max(self.newest, history.newest_offset))
        self.archive.recorder = recorder

    @classmethod
    async def open(cls, folder: Path, limits: Limits = NO_LIMITS, records_max: int = 8) -> "Store":
        history = History(records_max)
        recorder = Recorder(folder, limits, lambda: None)
        found = await recorder.open(records_max)
        if found is not None:
            _, replay, changes = found
            if replay.start.end_offset:
                history.snapshot(replay.start.image, replay.start.time_ms)
            for change in changes:
                history.add(change)
        recorder.start()
        return cls(recorder, history)

    def read(self, changes: Sequence[CommittedChange]) -> None:
        for change in changes:
            self.history.add(change)
            self.recorder.add(change)

    async def image(self, offset: int) -> MetadataImage:
        past = await self.archive.at_offset(offset)
        return past.image

    async def wait(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await asyncio.sleep(0.01)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "CHECKPOINT_BYTES", 600)
    monkeypatch.setattr(recorder_module, "RETRY_SECONDS", 0.02)


@settings(max_examples=6, suppress_health_check=list(HealthCheck), deadline=None)
@given(record_streams(), st.integers(0, 2**32))
def test_the_state_at_any_offset_is_that_of_a_replay_of_the_log_up_to_it(
    tmp_path_factory: pytest.TempPathFactory, records: list[MetadataRecord], seed: int
) -> None:
    changes = committed(records, Random(seed))
    folder = tmp_path_factory.mktemp("store") / "log"
    half = len(changes) // 2

    async def main() -> None:
        store = await Store.open(folder)
        store.read(changes[:half])
        await store.recorder.written()
        await store.recorder.stop()
        store = await Store.open(folder)
        store.read(changes)  # a restarted observer may read stored changes again
        await store.recorder.written()
        for offset in range(changes[-1].last_offset + 1):
            expected = next((each.after for each in reversed(changes) if each.last_offset <= offset), None)
            found = await store.image(offset)
            assert found.same_metadata(expected or MetadataImage.EMPTY), offset
        await store.recorder.stop()

    run(main())


def test_a_torn_tail_is_cut_off_and_read_again(tmp_path: Path) -> None:
    changes = committed(topics(20), Random(1))

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(changes)
        await store.recorder.written()
        await store.recorder.stop()
        newest = max((tmp_path / "log").glob("*.log"))
        with newest.open("r+b") as file:
            file.truncate(newest.stat().st_size - 5)
        store = await Store.open(tmp_path / "log")
        assert store.history.newest_offset == changes[-2].last_offset
        store.read(changes[-1:])
        await store.recorder.written()
        await store.recorder.stop()
        store = await Store.open(tmp_path / "log")
        assert store.history.image.same_metadata(changes[-1].after)
        await store.recorder.stop()

    run(main())


def test_what_is_too_large_or_too_old_is_deleted_from_the_start(tmp_path: Path) -> None:
    changes = committed(topics(60), Random(2))

    async def main() -> None:
        store = await Store.open(tmp_path / "log", Limits(8_000, 36_500))
        store.read(changes)
        await store.recorder.written()
        files = store.recorder.files
        assert files is not None
        await store.wait(lambda: files.first_offset > 0 and files.total_bytes() <= 8_000)
        first = store.archive.first_offset
        expected = next(each.after for each in reversed(changes) if each.last_offset <= first)
        assert (await store.image(first)).same_metadata(expected)
        with pytest.raises(StateUnknown, match=f"Kept are offsets {first} to"):
            await store.image(first - 1)
        await store.recorder.stop()
        store = await Store.open(tmp_path / "log", Limits(2**40, 1))  # all of it is older than a day
        await store.wait(lambda: store.recorder.files is not None and len(store.recorder.files.checkpoints) == 1)
        assert store.archive.first_offset > first
        await store.recorder.stop()

    run(main())


def test_a_part_of_the_log_that_was_never_read_is_a_gap(tmp_path: Path) -> None:
    before = committed(topics(20), Random(3))
    after = committed(topics(40), Random(3))[-1].after

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(before)
        end = before[-1].last_offset
        later = MetadataImage(1_000, 7, after.features, topics=after.topics)
        store.history.snapshot(later, START_MS + HOUR_MS)
        store.recorder.snapshot(later, START_MS + HOUR_MS)
        await store.recorder.written()
        for _ in range(2):
            await store.wait(lambda recorder=store.recorder: bool(recorder.gaps))
            store.newest = 1_000
            assert (await store.image(end)).same_metadata(before[-1].after)
            assert (await store.image(1_000)).same_metadata(later)
            for offset in (end + 1, 999):
                with pytest.raises(StateUnknown, match=f"without {end + 1} to 999"):
                    await store.image(offset)
            with pytest.raises(StateUnknown):
                await store.archive.at_time(START_MS + HOUR_MS - 1)
            assert (await store.archive.at_time(START_MS + HOUR_MS)).offset == 1_000
            await store.recorder.stop()
            store = await Store.open(tmp_path / "log")
        await store.recorder.stop()

    run(main())


def test_a_time_is_that_of_the_newest_change_before_it(tmp_path: Path) -> None:
    changes = committed(topics(40), Random(4))

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(changes)
        await store.recorder.written()
        for change in changes:
            for later_ms in (0, 59_999):
                assert (await store.archive.at_time(change.timestamp_ms + later_ms)).offset == change.last_offset
        with pytest.raises(StateUnknown, match="future"):
            await store.archive.at_time(2**45)
        await store.recorder.stop()

    run(main())


def test_a_full_disk_pauses_the_history_and_nothing_is_lost_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = committed(topics(30), Random(5))
    full = [False]
    write = type(OPERATING_SYSTEM).pwritev

    def pwritev(files: Any, descriptor: int, buffers: Sequence[bytes], position: int) -> int:
        if full[0]:
            os.pwrite(descriptor, buffers[0][:3], position)
            raise OSError(errno.ENOSPC, "full")
        return write(files, descriptor, buffers, position)

    monkeypatch.setattr(type(OPERATING_SYSTEM), "pwritev", pwritev)

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(changes[:3])
        await store.recorder.written()
        full[0] = True
        store.read(changes[3:])
        await store.wait(lambda: "no space left" in store.recorder.trouble)
        assert (await store.image(changes[-1].last_offset)).same_metadata(changes[-1].after), "it is in memory"
        full[0] = False
        await store.wait(lambda: not store.recorder.trouble)
        await store.recorder.written()
        await store.recorder.stop()
        store = await Store.open(tmp_path / "log")
        for change in changes:
            assert (await store.image(change.last_offset)).same_metadata(change.after)
        await store.recorder.stop()

    run(main())


def test_after_more_changes_than_may_wait_for_the_disk_the_history_has_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = committed(topics(30), Random(6))
    monkeypatch.setattr(recorder_module, "QUEUE_BYTES_MAX", 200)
    full = [True]
    write = type(OPERATING_SYSTEM).pwritev

    def pwritev(files: Any, descriptor: int, buffers: Sequence[bytes], position: int) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "full")
        return write(files, descriptor, buffers, position)

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(changes[:1])
        await store.recorder.written()
        monkeypatch.setattr(type(OPERATING_SYSTEM), "pwritev", pwritev)
        store.read(changes[1:])
        await store.wait(lambda: bool(store.recorder.trouble))
        full[0] = False
        await store.wait(lambda: bool(store.recorder.gaps))
        await store.recorder.written()
        await store.recorder.stop()
        store = await Store.open(tmp_path / "log")
        assert (await store.image(changes[-1].last_offset)).same_metadata(changes[-1].after)
        with pytest.raises(StateUnknown):
            await store.image(changes[3].last_offset)
        await store.recorder.stop()

    run(main())


def test_a_log_that_the_quorum_has_lost_is_set_aside(tmp_path: Path) -> None:
    changes, others = committed(topics(20), Random(7)), committed(topics(5, first=100), Random(7))

    async def main() -> None:
        store = await Store.open(tmp_path / "log")
        store.read(changes)
        await store.recorder.written()
        store.recorder.diverged()
        store.history.snapshot(MetadataImage.EMPTY)
        store.recorder.snapshot(MetadataImage.EMPTY, 0)
        store.read(others)
        await store.recorder.written()
        await store.recorder.stop()
        assert list((tmp_path / "log.lost").glob("*.log"))
        store = await Store.open(tmp_path / "log")
        assert store.history.image.same_metadata(others[-1].after)
        await store.recorder.stop()

    run(main())


def test_a_second_process_does_not_write_into_the_same_folder(tmp_path: Path) -> None:
    changes = committed(topics(5), Random(8))

    async def main() -> None:
        first, second = await Store.open(tmp_path / "log"), await Store.open(tmp_path / "log")
        assert "lock" in second.recorder.trouble
        second.read(changes)
        assert (await second.image(changes[0].last_offset)).same_metadata(changes[0].after)
        await second.recorder.stop()
        await first.recorder.stop()
        assert not list((tmp_path / "log").glob("*.log"))

    run(main())
