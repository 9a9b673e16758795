"""Planted bugs of storage: acknowledgements before the sync, and trust in a damaged disk."""

import os
from pathlib import Path

import pytest

from kraft_core.raft.effects import Effect, StoreElection
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage import quorum_state_store, recovery
from kraft_core.storage.files import FileSystem, write_all
from kraft_core.storage.flushed_offset import FlushedOffset
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.log_segment import LogSegment
from kraft_core.storage.log_writer import LogWriter
from kraft_core.storage.recovery import RecoveredLog
from kraft_core.storage.snapshots import FileSnapshotSink, SnapshotStore
from tests.simulator.faults import DAMAGE
from tests.simulator.operator import Operator
from tests.simulator.oracle import Oracle
from tests.simulator.planted import caught
from tests.simulator.sim_node import SimNode

pytestmark = pytest.mark.simulator

CRASHES = ("kill", "power", "power_all", "crash_in_file_operation", "slow_disk", "resign")
UNDAMAGED = "a start was refused on an undamaged disk"


def test_no_alarm_without_a_bug() -> None:
    assert caught(15, CRASHES) == ""
    assert caught(15, (*CRASHES, *DAMAGE)) == ""


class SyncsNothing:
    """Files whose sync does nothing."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def __getattr__(self, name: str) -> object:
        return (lambda _descriptor: None) if name == "fdatasync" else getattr(self._files, name)


def _forget_to_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LogWriter.__init__

    def init(self: LogWriter, files: FileSystem, directory: Path, flushed: FlushedOffset) -> None:
        original(self, SyncsNothing(files), directory, flushed)  # type: ignore[arg-type]  # stands in for one

    monkeypatch.setattr(LogWriter, "__init__", init)


def test_a_flush_without_a_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_to_sync(monkeypatch)
    assert "flushed without a sync" in caught(10, CRASHES)


def test_a_flush_without_a_sync_is_caught_by_its_consequence(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_to_sync(monkeypatch)
    monkeypatch.setattr(Oracle, "on_flush", lambda *_: None)
    assert caught(60, CRASHES)


def test_a_segment_whose_name_is_not_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogWriter, "_create", lambda _self, segment: LogSegment.open(segment, create=True))
    assert "flushed without a sync" in caught(60, CRASHES)


def test_an_epoch_that_is_sent_before_it_is_on_disk_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = KafkaRaftClient.take_effects

    def take_effects(self: KafkaRaftClient, now_ms: int) -> list[Effect]:
        return sorted(original(self, now_ms), key=lambda effect: isinstance(effect, StoreElection))

    monkeypatch.setattr(KafkaRaftClient, "take_effects", take_effects)
    message = caught(10, CRASHES)
    assert "not on disk" in message or "before it was on disk" in message or "without its own vote on disk" in message


def _write_in_place(path: Path, data: bytes, files: FileSystem) -> None:
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    write_all(files, descriptor, data, 0)
    files.close(descriptor)


def test_a_quorum_state_without_rename_and_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_state_store, "write_file", _write_in_place)
    message = caught(60, CRASHES)
    assert UNDAMAGED in message or "another election on disk" in message


def test_a_damaged_vote_that_is_believed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's quorum-state has no checksum."""
    monkeypatch.setattr(quorum_state_store, "_checksum", lambda state: state.get("checksum"))
    assert "another election on disk" in caught(100, ("bit_flip", "resign"))


def test_a_recovery_that_cuts_the_log_at_damage_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apache's node: acknowledged records after the damage are lost without an error."""
    monkeypatch.setattr(recovery, "_refuse_damage", lambda *_: None)
    monkeypatch.setattr(RecoveredLog, "lost_offset", lambda *_: None)
    assert caught(150, (*DAMAGE, "kill", "isolate"))


def test_a_damaged_last_batch_that_passes_for_a_torn_write_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveredLog, "lost_offset", lambda *_: None)
    assert caught(150, (*DAMAGE, "kill", "isolate"))


def test_unsynced_records_trusted_after_a_restart_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_make_durable", lambda *_: None)
    assert "only in the cache" in caught(60, CRASHES)


def test_a_restart_that_trusts_the_cache_after_a_failed_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel treats the pages as clean, so a second sync succeeds and writes nothing."""

    def only_sync(files: FileSystem, directory: Path, recovered: RecoveredLog) -> None:
        files.fdatasync(recovered.segments[-1].descriptor)
        files.sync_directory(directory)

    monkeypatch.setattr(recovery, "_make_durable", only_sync)
    assert "only in the cache" in caught(60, ("failed_sync", "power", "kill", "slow_disk"))


def test_a_snapshot_renamed_before_it_is_complete_and_loaded_unchecked_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a footer a truncated snapshot looks complete."""

    def freeze(self: FileSnapshotSink) -> None:
        if not self._is_frozen:
            self._files.rename(self._part, self._path)
            self._files.sync_directory(self._path.parent)
            self._files.close(self._descriptor)
            self._descriptor, self._is_frozen = -1, True
            self._store.add(self._id, 0)

    monkeypatch.setattr(FileSnapshotSink, "freeze", freeze)
    monkeypatch.setattr(SnapshotStore, "_is_whole", lambda self, each: self._timestamps.setdefault(each, 0) == 0)
    monkeypatch.setattr(Oracle, "on_snapshot_file", lambda *_: None)
    assert caught(60, CRASHES)


def test_a_cleaning_that_goes_beyond_the_newest_snapshot_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = KafkaRaftLog._advance_start

    def advance_start(self: KafkaRaftLog, snapshot_id: OffsetAndEpoch) -> None:
        original(self, snapshot_id)
        self._start_offset = min(self._start_offset + 5, self._flushed_offset)

    monkeypatch.setattr(KafkaRaftLog, "_advance_start", advance_start)
    message = caught(60, CRASHES)
    assert "snapshot" in message


def test_an_empty_disk_under_the_old_identity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that has lost acknowledged records must be another replica (KIP-853)."""

    def replace_disk(self: Operator, node: SimNode) -> None:
        node.format(node.key.directory_id, None)
        node.start()

    monkeypatch.setattr(Operator, "replace_disk", replace_disk)
    assert caught(150, ("wipe", "kill", "isolate", "split"))
