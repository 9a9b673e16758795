"""The voter sets and kraft.version by offset, from the control records of the log and of snapshots.

A record takes effect when it is appended, before it is committed, and loses its effect when it is truncated (KIP-853).
Source: KRaftControlRecordStateMachine and VoterSetHistory of Kafka 4.3.1.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from kraft_core.protocol.control_records import KRaftVersionRecord, VotersRecord, decode_control
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.voter_set import VoterSet

T = TypeVar("T")

BEFORE_THE_LOG = -1
"""Offset of values from the 0-0 checkpoint or the static configuration."""

SNAPSHOT_HEAD_BYTES = 1024 * 1024


class History(Generic[T]):
    """Values by the offset of the record that set them, oldest first, after an initial value."""

    __slots__ = ("entries", "initial")

    def __init__(self, initial: T) -> None:
        self.initial = initial
        self.entries: list[tuple[int, T]] = []

    def add(self, offset: int, value: T) -> None:
        """Set the value from `offset` on."""
        assert not self.entries or offset > self.entries[-1][0], f"Offset {offset} is not above {self.entries[-1][0]}."
        self.entries.append((offset, value))

    def at(self, end_offset: int) -> T:
        """Return the value as of the first `end_offset` records."""
        return next((value for offset, value in reversed(self.entries) if offset < end_offset), self.initial)

    def forget_before(self, start_offset: int) -> None:
        """Remove the values that a snapshot with the end offset `start_offset` makes unnecessary."""
        while len(self.entries) > 1 and self.entries[1][0] < start_offset:
            del self.entries[0]

    def truncate(self, end_offset: int) -> None:
        """Remove the values set at or after `end_offset`."""
        while self.entries and self.entries[-1][0] >= end_offset:
            self.entries.pop()


class KRaftControlRecordStateMachine:
    """The voter set and kraft.version as of the log's end, and as of earlier offsets."""

    __slots__ = ("_versions", "_voters", "kraft_version", "voters", "voters_offset")

    def __init__(self, static_voters: VoterSet) -> None:
        self._voters = History(static_voters)
        self._versions = History(0)
        self.voters = static_voters
        self.voters_offset = BEFORE_THE_LOG
        self.kraft_version = 0

    def load(self, log: RaftLog) -> None:
        """Read the state from the latest snapshot's header and the log after it, replacing the current one."""
        self._voters.entries.clear()
        self._versions.entries.clear()
        snapshot_id = log.latest_snapshot_id()
        offset = log.start_offset
        if snapshot_id is not None:
            self._load_snapshot(log, snapshot_id)
            offset = max(offset, snapshot_id.offset)
        for raw in log.control_batches(offset):
            for batch in read_batches(raw, verify_crc=False):
                self._replay(batch)
        self._refresh()

    @staticmethod
    def check(batch: RecordBatch) -> None:
        """Raise CorruptBatch if a control batch from a peer cannot be replayed."""
        for record in batch.records():
            control = decode_control(record.key or b"", record.value or b"")
            if isinstance(control, VotersRecord):
                ids = [voter.voter_id for voter in control.voters]
                if not ids or len(set(ids)) < len(ids):
                    raise CorruptBatch(0, f"the voters {ids} are empty or not distinct")

    def append(self, batches: Iterable[RecordBatch]) -> bool:
        """Replay batches that were just appended to the log. Return whether voters or version changed."""
        changed = False
        for batch in batches:
            if batch.is_control:
                changed |= self._replay(batch)
        if changed:
            self._refresh()
        return changed

    def truncate(self, end_offset: int) -> None:
        """Remove the effect of records from `end_offset` on."""
        self._voters.truncate(end_offset)
        self._versions.truncate(end_offset)
        self._refresh()

    def forget_before(self, start_offset: int) -> None:
        """Keep only the last of the values set below a snapshot's offset. Source: truncateOldEntries."""
        self._voters.forget_before(start_offset)
        self._versions.forget_before(start_offset)

    def voters_at(self, end_offset: int) -> VoterSet:
        """Return the voter set as of the first `end_offset` records."""
        return self._voters.at(end_offset)

    @property
    def voters_before(self) -> VoterSet:
        """The voter set before the last change."""
        return self._voters.at(self.voters_offset)

    def kraft_version_at(self, end_offset: int) -> int:
        """Return the kraft.version as of the first `end_offset` records."""
        return self._versions.at(end_offset)

    def _load_snapshot(self, log: RaftLog, snapshot_id: OffsetAndEpoch) -> None:
        head = log.read_snapshot(snapshot_id, 0, SNAPSHOT_HEAD_BYTES)
        assert head is not None, f"Snapshot {snapshot_id} is listed but has no file."
        for batch in read_batches(head[0], verify_crc=True):
            if not batch.is_control:
                return
            self._replay(batch, at=snapshot_id.offset - 1)

    def _replay(self, batch: RecordBatch, at: int | None = None) -> bool:
        changed = False
        for record in batch.records():
            assert record.key is not None, f"Control record without key at offset {record.offset}."
            match decode_control(record.key, record.value or b""):
                case VotersRecord() as voters:
                    self._voters.add(record.offset if at is None else at, VoterSet.from_record(voters))
                    changed = True
                case KRaftVersionRecord() as version:
                    self._versions.add(record.offset if at is None else at, version.kraft_version)
                    changed = True
                case _:
                    pass
        return changed

    def _refresh(self) -> None:
        entries = self._voters.entries
        self.voters_offset, self.voters = entries[-1] if entries else (BEFORE_THE_LOG, self._voters.initial)
        self.kraft_version = self._versions.entries[-1][1] if self._versions.entries else self._versions.initial
