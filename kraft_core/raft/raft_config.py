"""The configuration of a raft node; times are in ms, sizes in bytes."""

from dataclasses import dataclass, field
from uuid import UUID

from kraft_core.raft.voter_set import DEFAULT_LISTENER, Endpoint, ReplicaKey, VoterNode, VoterSet

MIN_KRAFT_VERSION = 0
MAX_KRAFT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Identity, addresses and timings of one node. Defaults are Kafka's (KRaftConfigs, QuorumConfig 4.3.1)."""

    node_id: int
    directory_id: UUID
    cluster_id: str
    is_voter_capable: bool = True  # process.roles contains controller; else the node stays an observer
    endpoints: tuple[Endpoint, ...] = ()  # this node's advertised controller listeners, the default one first
    listener_name: str = DEFAULT_LISTENER  # controller.listener.names, the first
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    static_voters: VoterSet = field(default_factory=VoterSet)  # controller.quorum.voters
    auto_join: bool = False  # controller.quorum.auto.join.enable (KIP-1186)
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    max_batch_bytes: int = 8 * 1024 * 1024
    suspicion_slot_ms: int = 12  # interval between the voters' elections after a reset connection to the leader

    @property
    def key(self) -> ReplicaKey:
        """This node's replica key."""
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def voter_node(self) -> VoterNode:
        """This node's entry for the voter set."""
        return VoterNode(self.key, self.endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader remains without fetches from a majority (LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR)."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def unanswered_fetch_ms(self) -> int:
        """Time within which a live leader answers a waiting fetch: 1.5 times the maximum wait of a fetch."""
        return self.fetch_max_wait_ms * 3 // 2

    @property
    def make_way_ms(self) -> int:
        """How long to wait for a candidate with this node's pre-vote: longer than rounds of pre-votes and votes."""
        return 4 * self.suspicion_slot_ms
