"""An epoch and its leader, as listeners see them. Source: LeaderAndEpoch of Kafka 4.3.1."""

import msgspec


class LeaderAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """The newest known epoch and its leader; `leader_id` is -1 while the leader is unknown or after it has resigned."""

    leader_id: int = -1
    epoch: int = 0

    def is_leader(self, node_id: int) -> bool:
        """Whether this node leads the epoch."""
        return self.leader_id >= 0 and self.leader_id == node_id
