"""The progress of each listener. Source: KafkaRaftClient.ListenerContext, Kafka 4.3.1."""

from collections.abc import Sequence
from typing import Final

from kraft_core.raft.batch_reader import BatchReader, MemoryBatchReader, RecordsBatchReader
from kraft_core.raft.internals.batch_accumulator import CompletedBatch
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import Resigned
from kraft_core.raft.raft_client import Listener
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID
from kraft_core.raft.snapshot.reader import SnapshotReader

STARTING_NEXT_OFFSET: Final = -1


class ListenerContext:
    """One listener: `next_offset` is the first offset it has not handled yet, `reader` the one it is reading."""

    __slots__ = ("_empty_at", "listener", "next_offset", "reader", "reported")

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.next_offset = STARTING_NEXT_OFFSET
        self.reader: BatchReader | SnapshotReader | None = None
        self.reported = LeaderAndEpoch()
        self._empty_at = -1  # high watermark at which there was no further whole batch

    def is_due(self, core: RaftCore) -> bool:
        """Return whether the listener can be called now with batches or a snapshot."""
        return self.reader is None and self.next_offset < core.high_watermark != self._empty_at

    def report_leader(self, core: RaftCore) -> bool:
        """Report a change of the leadership if it is due. Return whether the listener was called."""
        leader = leader_and_epoch(core)
        state = core.state
        if isinstance(state, Leader) and self.next_offset <= state.epoch_start_offset:
            leader = LeaderAndEpoch(-1, state.epoch)
        if leader == self.reported:
            return False
        assert leader.epoch >= self.reported.epoch, f"Epoch {leader.epoch} after {self.reported.epoch}."
        self.reported = leader
        self.listener.handle_leader_change(leader)
        return True

    def serve(self, core: RaftCore, committed: Sequence[CompletedBatch], *, reads_log: bool) -> bool:
        """Pass the next committed batches to the listener. Return whether there were any.

        `committed` are batches that this node appended as leader and that were just committed; others come from the
        log.
        """
        if isinstance(self.reader, SnapshotReader) and self.reader.snapshot_id not in core.log.snapshot_ids():
            self.reader, self.next_offset = None, STARTING_NEXT_OFFSET  # the snapshot was replaced or deleted meanwhile
        if not self.is_due(core):
            return False
        if committed and committed[0].base_offset == self.next_offset:
            self._pass(MemoryBatchReader(committed, self._on_close))
            return True
        if not reads_log:
            return False
        if self._load_snapshot(core):
            return True
        reader = RecordsBatchReader.of(core.log, self.next_offset, core.high_watermark, self._on_close)
        if reader is None:
            self._empty_at = core.high_watermark
            return False
        self._pass(reader)
        return True

    def _load_snapshot(self, core: RaftCore) -> bool:
        """Load the newest snapshot if the log does not contain `next_offset`. Return whether one was loaded."""
        log = core.log
        if self.next_offset >= log.start_offset:
            return False
        snapshot_id = log.latest_snapshot_id()
        if self.next_offset == STARTING_NEXT_OFFSET and snapshot_id in {None, BOOTSTRAP_SNAPSHOT_ID}:
            assert log.start_offset == 0, f"The log starts at {log.start_offset} without a snapshot."
            self.next_offset = 0
            return False
        assert snapshot_id is not None, f"The log starts at {log.start_offset} without a snapshot."
        assert snapshot_id.offset <= core.high_watermark, f"Snapshot {snapshot_id} is not committed."
        reader = SnapshotReader(log, snapshot_id, self._on_snapshot_close)
        self.reader = reader
        self.listener.handle_load_snapshot(reader)
        return True

    def _pass(self, reader: BatchReader) -> None:
        assert reader.base_offset == self.next_offset, f"{reader.base_offset} comes after {self.next_offset}."
        self.reader = reader
        self.listener.handle_commit(reader)

    def _on_close(self, reader: BatchReader) -> None:
        if self.reader is reader:
            self.reader = None
            self.next_offset = reader.last_offset + 1

    def _on_snapshot_close(self, reader: SnapshotReader) -> None:
        if self.reader is reader:
            self.reader = None
            self.next_offset = reader.snapshot_id.offset


class ListenerContexts:
    """All listeners of a node."""

    __slots__ = ("_contexts", "_core")

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._contexts: list[ListenerContext] = []

    def register(self, listener: Listener) -> None:
        """Add a listener and serve it from the beginning; does nothing if it is registered."""
        if all(context.listener is not listener for context in self._contexts):
            self._contexts.append(ListenerContext(listener))

    def unregister(self, listener: Listener) -> None:
        """Stop calling a listener; does nothing if it is not registered."""
        self._contexts = [context for context in self._contexts if context.listener is not listener]

    @property
    def is_due(self) -> bool:
        """Whether a listener can get more from the log now."""
        return any(context.is_due(self._core) for context in self._contexts)

    def poll(self, *, reads_log: bool) -> bool:
        """Call the listeners with at most one reader each and with leader changes. Return whether any was called."""
        core = self._core
        committed, core.committed = core.committed, []
        was_told = False
        for context in list(self._contexts):
            was_told |= context.report_leader(core)
            if context.serve(core, committed, reads_log=reads_log):
                was_told = True
                context.report_leader(core)
        return was_told

    def begin_shutdown(self) -> None:
        """Report the start of a shutdown to every listener."""
        for context in list(self._contexts):
            context.listener.begin_shutdown()


def leader_and_epoch(core: RaftCore) -> LeaderAndEpoch:
    """Return the epoch and its leader; no leader once this node has resigned from it."""
    state = core.state
    return LeaderAndEpoch(-1 if isinstance(state, Resigned) else state.leader_id, state.epoch)
