"""Whether a leader leads still, asked of the other voters before a read is answered (Raft dissertation, section 6.4).

A leader that is cut off does not know that it has a successor, nor what that one has acknowledged. So a read waits for a
round that begins after the read has come, and that a majority of the voters confirms, the leader among them if it is one.
Each voter is asked with a BeginQuorumEpoch, which changes nothing where the leader is known. Its answer in this epoch was
given after the round began: so whoever gave it had not voted in a newer epoch before. A newer leader would have needed
the vote of one of this majority, so there was none when the round began, and no acknowledgement of one.

Why not the voters' fetches, which come anyhow: nothing in a Fetch tells when it was sent. One that was on its way when the
round began may be older than a new leader; and because a follower that gives up on a Fetch sends another on a new
connection, even one that comes after the answer to the one before may be. What does tell is the log: whoever has a record
that was appended after the round began, has spoken with this leader since. So a high watermark above where the log ended
then confirms the round too, by writes alone, also where the leader cannot connect to voters that can connect to it.

All reads that come before a round begins share it, and one round at a time is under way: a storm of reads costs one
request to each voter per round trip. Kafka has no such thing: its leader answers until it notices that it has lost its
majority, 1.5 times the fetch timeout later.
"""

from kraft_core.raft.voter_set import ReplicaKey


class LeadershipRounds:
    """The rounds of one leader, numbered from 1. `confirmed` is the newest that a majority has confirmed; 0: none yet."""

    __slots__ = ("_last_correlation", "_wanted", "answered", "confirmed", "end_offset", "is_running")

    def __init__(self) -> None:
        self.confirmed = 0
        self.is_running = False
        self.end_offset = -1  # of the log, with what was prepared, when the round under way began
        self.answered: set[ReplicaKey] = set()  # voters that confirm the round under way
        self._wanted = 0
        self._last_correlation = -1

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for a round, be it under way or yet to begin."""
        return self._wanted > self.confirmed

    def request(self) -> int:
        """Want a round that begins after now; returns its number."""
        self._wanted = self.confirmed + (2 if self.is_running else 1)
        return self._wanted

    def begin(self, last_correlation: int, end_offset: int) -> None:
        """Begin the next round: only answers to requests after `last_correlation` count."""
        assert not self.is_running, "One round at a time."
        self.is_running = True
        self.end_offset = end_offset
        self.answered.clear()
        self._last_correlation = last_correlation

    def count(self, voter: ReplicaKey, correlation: int) -> None:
        """Count a voter's answer in this epoch to the request of this correlation, unless that is older than the round."""
        if self.is_running and correlation > self._last_correlation:
            self.answered.add(voter)

    def finish(self) -> None:
        """Note that the round under way is confirmed."""
        assert self.is_running, "Nothing was asked."
        self.confirmed += 1
        self.is_running = False
