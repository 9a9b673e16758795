"""The raft node: takes one event, gives the effects that follow.

Source: KafkaRaftClient of Kafka 4.3.1, cut by subject: election, replication, snapshot_transfer, reconfiguration.
"""

from collections.abc import Sequence
from random import Random

from kraft_core.raft.effects import Effect
from kraft_core.raft.events import Event
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import RaftLog
from kraft_core.raft.voter_set import VoterSet


class KafkaRaftClient:
    """One node of the quorum over one log. Times are ms of any clock that does not go back."""

    def __init__(
        self, config: RaftConfig, log: RaftLog, election: ElectionState | None, random: Random, now_ms: int
    ) -> None: ...

    def start(self, now_ms: int) -> None:
        """Take up the state that the disk holds; its effects come with the next `take_effects` or `step`."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return all effects that are due."""

    def take_effects(self, now_ms: int) -> list[Effect]:
        """Return what appends and calls since the last step want done."""

    def next_deadline_ms(self) -> int:
        """When a `Timer` event is due at the latest."""

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """Append one batch of records and return its last offset; leader only.

        Raises KafkaError NOT_CONTROLLER when not leader, RECORD_LIST_TOO_LARGE above `max_batch_bytes`.
        """

    def resign(self, epoch: int, now_ms: int) -> None:
        """Give up leadership of `epoch`; nothing when it is not led any more."""

    high_watermark: int  # -1: unknown
    leader_and_epoch: tuple[int, int]  # (-1, epoch) without leader
    is_leader: bool
    epoch: int
    epoch_start_offset: int  # of the LeaderChange record when leading, else -1
    voters: VoterSet
    kraft_version: int
    state_name: str

    def voters_at(self, offset: int) -> VoterSet:
        """Voter set as of the log's first `offset` records, for a snapshot's header."""

    def kraft_version_at(self, offset: int) -> int:
        """kraft.version as of the log's first `offset` records."""
