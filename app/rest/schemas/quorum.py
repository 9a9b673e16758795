"""Answers about the quorum and its leader epochs."""

from typing import Literal

from app.rest.schemas.base import Answer, ListenerData, ListOf, Resource


class QuorumReplicaData(Answer):
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


class QuorumObserverData(QuorumReplicaData):
    """An observer, or a registered node from which the leader receives no Fetch (`is_fetching` false)."""

    kind: Literal["BROKER", "CONTROLLER", "UNKNOWN"]
    is_fetching: bool


class LatestSnapshotData(Answer):
    """The leader's newest snapshot. `end_offset` is exclusive; an unknown value is -1; the timestamp is in ms."""

    end_offset: int
    epoch: int
    size_bytes: int
    last_contained_log_timestamp: int


class QuorumData(Resource):
    """The quorum. While its leader does not respond, `is_live` is false and only what the log contains is known.

    `state_text` describes the problem: which voters do not respond, since when, how many are needed. "" without one.
    A past state is as the log tells it: `is_live` is false, and neither observers nor the voters' progress are known.
    """

    kind: Literal["KafkaQuorum"]
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
    state: Literal["LED", "NO_LEADER", "NO_MAJORITY", "UNKNOWN"]
    state_text: str
    is_live: bool
    error: str | None


class QuorumEpochData(Resource):
    """One leader epoch, read from the log. This process observes `leaderless_ms` and some values of `end_reason`.

    Times and durations are in ms by the leaders' clocks; an unknown value is -1 or null. `end_offset` is exclusive.
    `gap_ms` is the time between the previous leader's last record and this leader's first. It exceeds the time without
    a leader by at most 500 ms.
    """

    kind: Literal["KafkaQuorumEpoch"]
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
    end_reason: Literal[
        "leads", "removed", "resigned", "connection-closed", "silent", "voted-for-successor", "led-again", "unknown"
    ]
    end_detail: str


class QuorumEpochDataList(ListOf[QuorumEpochData]):
    """Leader epochs, newest first."""

    kind: Literal["KafkaQuorumEpochList"]
