"""Confirming the leadership before a read is answered (Raft dissertation, section 6.4).

Rule
----
A partitioned leader does not know that it has a successor, nor what the successor has acknowledged. So a read waits
for a round that begins after the read arrived and that a majority of the voters confirms, the leader included if it is
a voter. The leader sends each voter a BeginQuorumEpoch, which has no effect on a voter that knows the leader. A voter's
response in this epoch was sent after the round began, so the voter had not voted in a newer epoch before. A newer
leader needs the vote of at least one voter of this majority, so there was none when the round began.

Why fetches do not count
------------------------
A Fetch does not show when it was sent. One that was in flight when the round began may be older than a new leader. As a
follower that gives up on a Fetch sends another on a new connection, even a Fetch after the response to the previous
one may be. The log does show it: a voter that has a record appended after the round began has communicated with this
leader since. So a high watermark above the log's end at the start of the round confirms it as well. Then writes alone
confirm rounds, even if the leader cannot connect to voters that can connect to it.

Cost
----
All reads that arrive before a round begins share it, and one round is in flight at a time: any number of reads costs
one request to each voter per round trip. Kafka has no such rounds: its leader answers reads until it notices the loss
of its majority, up to 1.5 times the fetch timeout later.
"""

from kraft_core.raft.voter_set import ReplicaKey


class LeadershipRounds:
    """The rounds of one leader, numbered from 1. `confirmed` is the newest confirmed round; 0: none yet."""

    __slots__ = ("_last_correlation", "_wanted", "answered", "confirmed", "end_offset", "is_running")

    def __init__(self) -> None:
        self.confirmed = 0
        self.is_running = False
        self.end_offset = -1  # of the log, with prepared records, when the current round began
        self.answered: set[ReplicaKey] = set()  # voters that have confirmed the current round
        self._wanted = 0
        self._last_correlation = -1

    @property
    def is_wanted(self) -> bool:
        """Whether a requested round is not confirmed yet, started or not."""
        return self._wanted > self.confirmed

    def request(self) -> int:
        """Request a round that begins after this call; return its number."""
        self._wanted = self.confirmed + (2 if self.is_running else 1)
        return self._wanted

    def begin(self, last_correlation: int, end_offset: int) -> None:
        """Start the next round: only responses to requests after `last_correlation` count."""
        assert not self.is_running, "One round at a time."
        self.is_running = True
        self.end_offset = end_offset
        self.answered.clear()
        self._last_correlation = last_correlation

    def count(self, voter: ReplicaKey, correlation: int) -> None:
        """Count a voter's response in this epoch, unless its request is older than the round."""
        if self.is_running and correlation > self._last_correlation:
            self.answered.add(voter)

    def finish(self) -> None:
        """Record that the current round is confirmed."""
        assert self.is_running, "No round is in flight."
        self.confirmed += 1
        self.is_running = False
