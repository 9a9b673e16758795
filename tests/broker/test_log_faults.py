"""A failure or a crash at every change of a file during append, roll, deletion and checkpoint."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kraft_core.broker.log import checkpoints
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_file_utils import delete_files
from kraft_core.broker.log.log_loader import LoadOptions, open_log
from kraft_core.broker.log.log_segment import rename_deleted
from kraft_core.broker.log.producer_state_manager import ProducerStateManager
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.broker.batches import append, batch
from tests.broker.faulty_disk import Crash, FaultyDisk, FullDisk, changes_of, full, io_error, open_descriptors

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=80)
NOW = 2_000
Record = tuple[int, bytes | None]


class Story:
    """A log with two leader epochs and two producers that rolls and loses its beginning.

    `acknowledged` are the records whose append succeeded.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = opened(folder)
        self.acknowledged: list[Record] = []
        self.sent: list[Record] = []
        self.deleted_before = 0

    def run(self) -> None:
        """Run the whole story."""
        for number in range(10):
            self.append(number)
        self.deleted_before = 4
        self.log.increment_log_start(4)
        expired = self.log.take_expired(NOW, 20)
        for segment in expired:
            segment.close()
        delete_files([path for segment in expired for path in rename_deleted(segment)])
        checkpoints.write_offsets(self.folder / checkpoints.LOG_START_CHECKPOINT, {("t", 0): 4})
        self.append(10)
        self.log.close()

    def run_until_refused(self) -> int | None:
        """Run the story. Return the error that ended it early, None without one."""
        try:
            self.run()
        except KafkaError as error:
            return error.code
        return None

    def append(self, number: int) -> None:
        """Append one batch of two records."""
        values = [b"%d-%d" % (number, index) * 10 for index in range(2)]
        first = self.log.log_end_offset
        records = [(first + index, value) for index, value in enumerate(values)]
        self.sent += records
        data = batch(values, producer_id=number % 2, epoch=0, sequence=number // 2 * 2)
        append(self.log, data, number // 5, NOW)
        self.acknowledged += records


def opened(folder: Path) -> UnifiedLog:
    starts = checkpoints.read_offsets(folder / checkpoints.LOG_START_CHECKPOINT)
    return open_log(
        folder / "t-0", "t", 0, uuid.UUID(int=7), CONFIG, LoadOptions(False, 0, starts.get(("t", 0), 0), NOW)
    )


def assert_whole(story: Story) -> None:
    """Check the log: acknowledged records once, at most the batch in flight besides, and matching derived state."""
    log = opened(story.folder)
    found = [(record.offset, record.value) for each in log.batches(0) for record in each.records()]
    needed = [record for record in story.acknowledged if record[0] >= story.deleted_before]
    assert [record for record in found if record[0] >= story.deleted_before][: len(needed)] == needed
    assert found == [record for record in story.sent if record[0] >= (found[0][0] if found else 0)][: len(found)]
    assert log.log_end_offset == (found[-1][0] + 1 if found else log.segments[0].base_offset)
    headers = [header for header in log.headers(0) if header.base_offset >= story.deleted_before]
    epochs = {header.leader_epoch: header.base_offset for header in reversed(headers)}
    assert [epoch for epoch, _ in log.epochs.entries if epoch in epochs] == sorted(epochs)
    assert all(log.epochs.epoch_for(header.base_offset) == header.leader_epoch for header in headers)
    expected = ProducerStateManager(story.folder)
    for header in log.headers(0):
        expected.update(header)
    for producer_id, state in expected.producers.items():
        assert log.producers.producers[producer_id].last_sequence == state.last_sequence
    for offset, _ in found:
        place = log.read(offset, 1, log.log_end_offset, at_least_one=True)
        assert place.size
    append(log, batch([b"next"]), 9, NOW)
    log.close_files()


def at_each_change(work: Callable[[Path], Story], tmp_path: Path) -> range:
    (tmp_path / "count").mkdir()
    return range(1, changes_of(work(tmp_path / "count").run) + 1)


def test_a_crash_at_any_change_of_a_file_loses_nothing_acknowledged(tmp_path: Path) -> None:
    for at in at_each_change(Story, tmp_path):
        folder = tmp_path / str(at)
        folder.mkdir()
        story = Story(folder)
        disk = FaultyDisk(at, Crash)
        with disk.plugged_in(), suppress(Crash):
            story.run()
        assert disk.has_struck
        story.log.close_files()
        assert_whole(story)


@pytest.mark.parametrize("fault", [io_error, full])
def test_a_failure_of_any_change_of_a_file_is_reported_and_loses_nothing(
    tmp_path: Path, fault: Callable[[], OSError]
) -> None:
    for at in at_each_change(Story, tmp_path):
        folder = tmp_path / str(at)
        folder.mkdir()
        before = open_descriptors()
        story = Story(folder)
        reported: list[str] = []
        story.log.on_failure = lambda operation, error, reported=reported: reported.append(operation)
        disk = FaultyDisk(at, fault)
        answered: object = OSError
        with disk.plugged_in(), suppress(OSError):  # raised on the I/O thread, where the log manager reports it
            answered = story.run_until_refused()
        assert disk.has_struck
        assert answered in (OSError, ErrorCode.KAFKA_STORAGE_ERROR, None)
        assert len(reported) == (answered == ErrorCode.KAFKA_STORAGE_ERROR)
        story.log.close_files()
        assert open_descriptors() <= before, f"after change {at}: {disk.changes[-1]}"
        assert_whole(story)


def test_deletion_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    """Deletion writes nothing: no epochs, no snapshot, no index."""
    log = opened(tmp_path)
    for number in range(12):
        append(log, batch([b"%d" % number * 60]), number // 4, NOW)
    before = sum(path.stat().st_size for path in (tmp_path / "t-0").iterdir())

    with FullDisk().plugged_in():
        log.increment_log_start(12)
        delete_files([path for segment in log.take_expired(NOW, 12) for path in rename_deleted(segment)])

    assert sum(path.stat().st_size for path in (tmp_path / "t-0").iterdir()) < before / 3
    assert log.log_start_offset == log.log_end_offset == 12
    assert append(log, batch([b"room"]), 3, NOW).first_offset == 12
    log.close_files()
