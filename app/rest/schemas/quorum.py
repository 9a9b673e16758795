"""Answers about the quorum and its leader epochs."""

from typing import Literal

from app.rest.schemas.base import Answer, ListenerData, ListOf, Resource


class QuorumReplicaData(Answer):
    """A voter or observer; -1 where an offset or time is unknown, times are the leader's clock in ms.

    `is_silent`: a voter that answers neither the web process nor, since then, the leader.
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
    """An observer, or (`is_fetching` false) a node that registered and that the leader hears no fetch of."""

    kind: Literal["BROKER", "CONTROLLER", "UNKNOWN"]
    is_fetching: bool


class LatestSnapshotData(Answer):
    """The leader's newest snapshot: all before `end_offset`; -1 where unknown, times in ms."""

    end_offset: int
    epoch: int
    size_bytes: int
    last_contained_log_timestamp: int


class QuorumData(Resource):
    """The quorum; `is_live` is false while its leader does not answer, then only what the log says is here.

    `state_text` says in words what is wrong: who does not answer, since when, how many are needed; "" if nothing is.
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
    """One leadership: from the log, by the leaders' clocks; `leaderless_ms` and some of `end_reason` as this process saw it.

    Times and durations in ms; -1 or null where not known. `end_offset` is exclusive. `gap_ms` lies between the last record
    of the leader before and the first of this one: at most half a second more than there was no leader.
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
    """Leaderships, newest first."""

    kind: Literal["KafkaQuorumEpochList"]
