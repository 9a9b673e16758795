"""What raft offers to the state machine above it: the listener's side of Kafka's `RaftClient`.

    KafkaRaftClient ──> handle_load_snapshot   all state anew, when the log does not hold what comes next
                    ──> handle_commit          committed batches, in order, each once
                    ──> handle_leader_change   who leads; the own leadership only when all before it was handled
                    ──> begin_shutdown         the node was asked to stop
    state machine   ──> prepare_append, schedule_prepared_append, resign, create_snapshot

Listeners are plain objects. Raft calls them on the owner's stack at the end of a step and never waits for them: a
listener that needs several steps for a reader keeps it, and gets the next one after it has closed this one.

Source: RaftClient and RaftClient.Listener of Kafka 4.3.1; KIP-595, KIP-630.
"""

from typing import Protocol

from kraft_core.raft.batch_reader import BatchReader
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader


class Listener(Protocol):
    """A state machine that follows the log. It may be registered at any time and is served from the beginning."""

    def handle_commit(self, reader: BatchReader) -> None:
        """Take the next committed batches; the next call comes after `reader.close()`.

        Batches are as they are in the log, control batches too: those of several appends may have become one.
        """

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Forget everything and begin with this snapshot; `handle_commit` goes on after `reader.close()`.

        A second call before that takes the place of the first, whose snapshot is gone.
        """

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Take notice of a new epoch, of its leader once it is known, or of the end of the own leadership in it.

        Epochs never go back. The own leadership is told when everything before its epoch was handled, until then the
        leader of the epoch is unknown; its end, by resignation, is told at once as (-1, same epoch).
        """

    def begin_shutdown(self) -> None:
        """The node was asked to stop: nothing new should be begun."""
