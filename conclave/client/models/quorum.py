"""Models of quorum. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListenerData, ListMetadata, Metadata
from conclave.client.structs import Answer, Body


class BrokerFlapsData(Answer, frozen=True, kw_only=True):
    """How often a broker left, joined and came back to ISRs, and gained and lost leaders, in a window."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    broker_id: int
    isr_left: int
    isr_joined: int
    flaps: int
    out_ms: int
    leaders_gained: int
    leaders_lost: int


class BrokerFlapsDataList(Answer, frozen=True, kw_only=True):
    """Brokers, those with the most changes first."""

    metadata: ListMetadata
    data: list[BrokerFlapsData]
    kind: str
    first_offset: int


class MetadataRecordData(Answer, frozen=True, kw_only=True):
    """One record of the metadata log. Secrets are hidden."""

    offset: int
    type: str
    data: dict[str, object]


class ChangeData(Answer, frozen=True, kw_only=True):
    """One committed batch or transaction. `lines` describes it in words."""

    kind: str
    first_offset: int
    offset: int
    leader_epoch: int
    timestamp: int
    lines: list[str]
    records: list[MetadataRecordData]


class ChangeDataList(Answer, frozen=True, kw_only=True):
    """Changes, oldest first."""

    metadata: ListMetadata
    data: list[ChangeData]
    kind: str
    oldest_offset: int


class CheckData(Answer, frozen=True, kw_only=True):
    """The check of one precondition."""

    name: str
    is_met: bool
    detail: str


class DifferenceData(Answer, frozen=True, kw_only=True):
    """One resource that differs between two states. `lines` says in words what differs."""

    kind: str
    resource_type: str
    resource_name: str
    change: str
    lines: list[str]


class DifferenceDataList(Answer, frozen=True, kw_only=True):
    """Differences, by kind and name."""

    metadata: ListMetadata
    data: list[DifferenceData]
    kind: str
    from_offset: int
    to_offset: int


class EndpointBody(Body, frozen=True, kw_only=True):
    """A listener of a controller."""

    name: str
    host: str
    port: int


class FeatureChangeData(Answer, frozen=True, kw_only=True):
    """A change of a feature's finalized level; 0 is off."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    feature_name: str
    level_before: int
    level: int
    offset: int
    timestamp: int


class FeatureChangeDataList(Answer, frozen=True, kw_only=True):
    """Changes of feature levels, newest first."""

    metadata: ListMetadata
    data: list[FeatureChangeData]
    kind: str
    first_offset: int


class LatestSnapshotData(Answer, frozen=True, kw_only=True):
    """The leader's newest snapshot. `end_offset` is exclusive; an unknown value is -1; the timestamp is in ms."""

    end_offset: int
    epoch: int
    size_bytes: int
    last_contained_log_timestamp: int


class LeaderElectionData(Answer, frozen=True, kw_only=True):
    """A leader elected outside the ISR.

    `election`: elr (eligible, nothing below the high watermark is lost), last-known-leader or unclean (acknowledged
    records may be lost).
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    partition_id: int
    election: str
    offset: int
    timestamp: int
    leader_id_before: int | None
    isr_before: list[int]
    leader_id: int


class LeaderElectionDataList(Answer, frozen=True, kw_only=True):
    """Elections, newest first."""

    metadata: ListMetadata
    data: list[LeaderElectionData]
    kind: str
    first_offset: int


class PartitionFlapsData(Answer, frozen=True, kw_only=True):
    """ISR and leader changes of a partition in a window.

    `flaps`: returns of a broker to an ISR that it had left; `out_ms`: the sum of the times in between.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    topic_id: str
    partition_id: int
    isr_shrinks: int
    isr_expansions: int
    flaps: int
    out_ms: int
    leader_changes: int
    last_offset: int


class PartitionFlapsDataList(Answer, frozen=True, kw_only=True):
    """Partitions, those with the most changes first."""

    metadata: ListMetadata
    data: list[PartitionFlapsData]
    kind: str
    first_offset: int


class QuorumReplicaData(Answer, frozen=True, kw_only=True):
    """A voter or an observer. Times are in ms by the leader's clock; an unknown offset or time is -1.

    `is_silent`: the voter responds neither to this process nor, since then, to the leader.
    """

    replica_id: int
    directory_id: str | None
    endpoints: list[ListenerData]
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    lag: int | None
    lag_ms: int | None
    is_leader: bool
    is_caught_up: bool
    is_silent: bool


class QuorumObserverData(Answer, frozen=True, kw_only=True):
    """An observer, or a registered node from which the leader receives no Fetch (`is_fetching` false)."""

    replica_id: int
    directory_id: str | None
    endpoints: list[ListenerData]
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    lag: int | None
    lag_ms: int | None
    is_leader: bool
    is_caught_up: bool
    is_silent: bool
    kind: str
    is_fetching: bool


class QuorumData(Answer, frozen=True, kw_only=True):
    """The quorum. While its leader does not respond, `is_live` is false and only what the log contains is known.

    `state_text` describes the problem: which voters do not respond, since when, how many are needed. "" without one.
    A past state is as the log tells it: `is_live` is false, and neither observers nor the voters' progress are known.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    kraft_version: int
    log_start_offset: int
    log_end_offset: int
    latest_snapshot: LatestSnapshotData | None
    voters: list[QuorumReplicaData]
    observers: list[QuorumObserverData]
    committed_voter_ids: list[int] | None
    is_voter_change_under_way: bool
    majority: int
    failures_tolerated: int
    max_follower_lag: int | None
    max_follower_lag_ms: int | None
    state: str
    state_text: str
    is_live: bool
    error: str | None


class QuorumEpochData(Answer, frozen=True, kw_only=True):
    """One leader epoch, read from the log. This process observes `leaderless_ms` and some values of `end_reason`.

    Times and durations are in ms by the leaders' clocks; an unknown value is -1 or null. `end_offset` is exclusive.
    `gap_ms` is the time between the previous leader's last record and this leader's first. It exceeds the time without
    a leader by at most 500 ms.
    """

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    leader_epoch: int
    leader_id: int
    start_offset: int
    timestamp: int
    end_offset: int
    last_timestamp: int
    led_ms: int | None
    voter_ids: list[int]
    granting_voter_ids: list[int]
    previous_leader_id: int | None
    epochs_without_leader_before: int | None
    gap_ms: int | None
    leaderless_ms: int | None
    end_reason: str
    end_detail: str


class QuorumEpochDataList(Answer, frozen=True, kw_only=True):
    """Leader epochs, newest first."""

    metadata: ListMetadata
    data: list[QuorumEpochData]
    kind: str


class VoterSetData(Answer, frozen=True, kw_only=True):
    """A voter set and how many failures it tolerates. `_now` counts voters that lag or are silent as failed."""

    voter_ids: list[int]
    behind_voter_ids: list[int]
    majority: int
    failures_tolerated: int
    failures_tolerated_now: int


class VoterChangeData(Answer, frozen=True, kw_only=True):
    """An added or removed voter. With `validate_only` nothing is changed and `offset` is null."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    operation: str
    voter_id: int
    directory_id: str
    endpoints: list[ListenerData]
    before: VoterSetData
    after: VoterSetData
    checks: list[CheckData]
    warnings: list[str]
    offset: int | None
