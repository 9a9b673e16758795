"""The interface between raft and its state machine: the listener's side of Kafka's `RaftClient`.

    KafkaRaftClient ──> handle_load_snapshot   the whole state, when the log no longer contains what comes next
                    ──> handle_commit          committed batches, in order, each once
                    ──> handle_leader_change   epoch and leader; this node's leadership once all before it was handled
                    ──> begin_shutdown         the node shuts down
    state machine   ──> prepare_append, schedule_prepared_append, resign, create_snapshot

Calls
-----
Raft calls listeners synchronously at the end of a step and never waits for them: a listener that needs several steps
for a reader keeps it, and gets the next one after it has closed this one.

Source: RaftClient and RaftClient.Listener of Kafka 4.3.1; KIP-595, KIP-630.
"""

from typing import Protocol

from kraft_core.raft.batch_reader import BatchReader
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader


class Listener(Protocol):
    """A state machine that replays the log. It can be registered at any time and is served from the beginning."""

    def handle_commit(self, reader: BatchReader) -> None:
        """Handle the next committed batches; the next call follows after `reader.close()`.

        Batches are those of the log, including control batches; records of several appends may share a batch.
        """

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Replace all state by this snapshot; `handle_commit` continues after `reader.close()`.

        A second call before that replaces the first, whose snapshot has been deleted.
        """

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Handle a new epoch, its leader once known, or this node's resignation from it.

        Epochs never decrease. This node's leadership is reported after everything before its epoch was handled; until
        then the leader is unknown. A resignation is reported at once as (-1, same epoch).
        """

    def begin_shutdown(self) -> None:
        """Handle the start of a shutdown: the listener should start nothing new."""
