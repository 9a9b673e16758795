"""Who leads in which epoch, as raft's clients are told. Source: LeaderAndEpoch of Kafka 4.3.1."""

import msgspec


class LeaderAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """The newest epoch known and its leader; `leader_id` is -1 while it is unknown or has given up."""

    leader_id: int = -1
    epoch: int = 0

    def is_leader(self, node_id: int) -> bool:
        """Whether this node leads the epoch."""
        return self.leader_id >= 0 and self.leader_id == node_id
