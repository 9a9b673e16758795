"""The log against a plain Python model, through crashes at any moment that a disk may give.

A crash keeps what was flushed, and of what the last flush was doing any prefix of its file operations, the last write
perhaps torn. The model is a list of batches, and every list that it has been since the last flush; after a crash the
log must be a prefix of one of them, with everything flushed in it.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import StorageError
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch, snapshot_bytes
from tests.storage.disks import FailingFiles

Batch = tuple[int, int, bytes]  # base offset, epoch, raw
CONFIG = LogConfig(segment_bytes=600, cache_bytes=300)


class PowerLostError(OSError):
    """The machine stops here."""


class LogMachine(RuleBasedStateMachine):
    """Appends, flushes, truncations, snapshots, cleaning, clean restarts and crashes, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.files = FailingFiles()
        self.log = KafkaRaftLog.open(self.root, CONFIG, self.files)
        self.batches: list[Batch] = []
        self.histories: list[tuple[Batch, ...]] = [()]  # what `batches` was since the last flush
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.epoch = 1
        self.snapshots: list[OffsetAndEpoch] = []

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.root)

    @initialize()
    def begin_with_records(self) -> None:
        self.append(3, 0, 20)
        self.flush()

    @rule(count=st.integers(1, 4), newer=st.integers(0, 2), size=st.integers(0, 400))
    def append(self, count: int, newer: int, size: int) -> None:
        self.epoch += newer
        raw = batch(self.end, self.epoch, tuple(bytes([65 + index]) * size for index in range(count)))
        self.log.append(raw)
        self.batches.append((self.end, self.epoch, raw))
        self.end += count
        self.histories.append(tuple(self.batches))

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end
        self.is_flushed()

    def is_flushed(self) -> None:
        self.flushed = self.end
        self.histories = [tuple(self.batches)]

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        lowest = max([self.start, *(snapshot.offset for snapshot in self.snapshots)])
        offset = data.draw(st.integers(lowest, self.end))
        self.log.truncate_to(offset)
        while self.batches and self.batches[-1][0] + _count(self.batches[-1][2]) > offset:
            self.end = self.batches.pop()[0]
        self.flushed = min(self.flushed, self.end)
        self.histories.append(tuple(self.batches))

    @precondition(lambda self: self.flushed > self.start)
    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        boundaries = [
            OffsetAndEpoch(base + _count(raw), epoch)
            for base, epoch, raw in self.batches
            if self.start < base + _count(raw) <= self.flushed
        ]
        chosen = data.draw(st.sampled_from(boundaries))
        sink = self.log.begin_snapshot(chosen)
        sink.append(snapshot_bytes(chosen.epoch))
        sink.freeze()
        self.snapshots = sorted({*self.snapshots, chosen})

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule()
    def clean(self) -> None:
        assert self.log.clean(0, -1, 0)
        self.snapshots = self.snapshots[-1:]
        self.start = self.snapshots[0].offset

    @rule(beyond=st.integers(-5, 50))
    def take_a_snapshot_from_the_leader(self, beyond: int) -> None:
        """Its end is below this log's where the tail diverges, and never below the committed records."""
        self.epoch += 1
        committed = max([self.start, *(each.offset for each in self.snapshots)])
        newest = OffsetAndEpoch(max(self.end + beyond, committed + 1), self.epoch)
        sink = self.log.begin_snapshot(newest)
        sink.append(snapshot_bytes(newest.epoch))
        sink.freeze()
        self.log.truncate_fully_to_snapshot(newest)
        self.batches, self.snapshots = [], [newest]
        self.start = self.end = self.flushed = newest.offset
        self.histories = [()]

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.is_flushed()
        self._reopen(self.root)

    @rule(steps=st.integers(0, 6), torn_bytes=st.integers(0, 600))
    def crash(self, steps: int, torn_bytes: int) -> None:
        files = self.files
        files.steps_left, files.torn_bytes, files.error = steps, torn_bytes, PowerLostError("power lost")
        try:
            self.log.flush()
            self.is_flushed()
        except StorageError as error:
            cause = error.__cause__
            if not isinstance(cause, PowerLostError):
                raise
        finally:
            files.steps_left = -1
        moved = Path(tempfile.mkdtemp(prefix="log-model-"))
        shutil.rmtree(moved)
        shutil.copytree(self.root, moved)
        with_failed_log = self.log
        self._reopen(moved)
        with_failed_log.close()
        shutil.rmtree(self.root)
        self.root = moved

    def _reopen(self, root: Path) -> None:
        self.log = log = KafkaRaftLog.open(root, CONFIG, self.files)
        end = log.end_offset
        found = [
            history[:count]
            for history in self.histories
            for count in range(len(history) + 1)
            if (history[count - 1][0] + _count(history[count - 1][2]) if count else log.start_offset) == end
        ]
        self.batches = list(next(prefix for prefix in found if self._is_in_the_log(prefix)))
        assert end >= self.flushed
        self.end = self.flushed = end
        self.histories = [tuple(self.batches)]
        self.epoch = max(self.epoch, log.last_epoch)
        assert log.start_offset <= self.start
        self.start = log.start_offset
        assert set(self.snapshots) <= set(log.snapshot_ids())
        self.snapshots = list(log.snapshot_ids())

    def _is_in_the_log(self, batches: tuple[Batch, ...]) -> bool:
        return all(self.log.read(base, 1) == raw for base, _, raw in batches if base >= self.log.start_offset)

    @invariant()
    def the_log_is_the_model(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset, log.flushed_offset) == (self.start, self.end, self.flushed)
        assert list(log.snapshot_ids()) == self.snapshots
        for base, epoch, raw in self.batches:
            if base >= self.start:
                assert log.read(base, 1) == raw
                assert log.epoch_of(base) == epoch
        visible = [(base, epoch, raw) for base, epoch, raw in self.batches if base >= self.start]
        if visible:
            assert log.last_epoch == visible[-1][1]
            everything = b"".join(raw for _, _, raw in visible)
            data = log.read(visible[0][0], len(everything))
            assert everything.startswith(data)
            assert data


def _count(raw: bytes) -> int:
    return int.from_bytes(raw[57:61])


TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_crash_after_the_first_file_of_a_replaced_log_has_gone_leaves_a_folder_that_opens() -> None:
    """Found by this state machine: the flushed offset was compared with a log that the snapshot had replaced."""
    machine = LogMachine()
    machine.begin_with_records()
    machine.append(4, 1, 91)
    machine.flush()
    machine.take_a_snapshot_from_the_leader(1)
    machine.crash(1, 0)
    machine.the_log_is_the_model()
    machine.teardown()
