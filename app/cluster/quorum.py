"""The quorum as its leader describes it, asked at most once a second; the observer's own view when nobody answers."""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from app.cluster.latest_snapshot import LatestSnapshot, SnapshotWatch
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponseReplicaState,
)
from kraft_core.server.kafka_client import ControllerClient
from kraft_core.server.metadata_observer import MetadataObserver

CACHED_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One voter or observer. Offsets and times are -1 where unknown; times are the leader's clock, in ms.

    `lag` is the number of records behind the leader's log end, `lag_ms` how long ago it had all that the leader had; None
    where unknown.
    """

    id: int
    directory_id: uuid.UUID
    endpoints: tuple[tuple[str, str, int], ...]  # (listener name, host, port)
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    lag: int | None
    lag_ms: int | None
    is_leader: bool
    is_caught_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The quorum at one moment. `is_live` is False when the leader did not answer: then only the log is known.

    `failures_tolerated`: how many more voters may fail before no majority is left, counting only caught-up ones.
    `committed_voters`: the voter set as read in the log, None with static voters or when it was not read. The leader counts by
    the newest set it has appended, so while the two differ a change is under way.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    kraft_version: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    committed_voters: tuple[tuple[int, uuid.UUID], ...] | None
    log_start_offset: int
    snapshot: LatestSnapshot | None
    is_live: bool
    error: str | None
    asked_at_ms: int

    @property
    def leader(self) -> Replica | None:
        """The leader among the voters."""
        return next((voter for voter in self.voters if voter.is_leader), None)

    @property
    def log_end_offset(self) -> int:
        """Offset (exclusive) at which the leader's log ends; -1 when unknown."""
        return -1 if self.leader is None else self.leader.log_end_offset

    @property
    def is_change_under_way(self) -> bool:
        """Whether the leader counts other voters than are committed."""
        if not self.is_live or self.committed_voters is None:
            return False
        return set(self.committed_voters) != {(voter.id, voter.directory_id) for voter in self.voters}

    @property
    def majority(self) -> int:
        """How many voters a decision needs."""
        return len(self.voters) // 2 + 1

    @property
    def failures_tolerated(self) -> int:
        """How many more voters may fail before no majority is left."""
        return max(0, sum(voter.is_caught_up for voter in self.voters) - self.majority)

    @property
    def max_follower_lag(self) -> int | None:
        """The largest known lag of a voter that follows; None without such a voter."""
        return max((voter.lag for voter in self.voters if not voter.is_leader and voter.lag is not None), default=None)

    @property
    def max_follower_lag_ms(self) -> int | None:
        """The longest known time that a voter which follows is behind; None without such a voter."""
        return max(
            (voter.lag_ms for voter in self.voters if not voter.is_leader and voter.lag_ms is not None), default=None
        )


CAUGHT_UP_MS: Final = 3_000  # a follower fetches every 500 ms; silent for check-quorum's time it does not count


def _since(timestamp: int, now_ms: int) -> int | None:
    return max(0, now_ms - timestamp) if timestamp >= 0 else None


async def describe_quorum(client: ControllerClient, timeout_ms: int) -> DescribeQuorumResponse:
    """Ask the leader for the quorum; the answer describes one partition and carries no error.

    Raises KafkaError or ConnectionError.
    """
    partition = DescribeQuorumRequestPartitionData(partition_index=METADATA_PARTITION)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    request = DescribeQuorumRequest(topics=(topic,))
    answer = cast("DescribeQuorumResponse", await client.request(request, timeout_ms, idempotent=True))
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message or None)
    if not answer.topics or not answer.topics[0].partitions:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The answer describes no quorum.")
    told = answer.topics[0].partitions[0]
    if told.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(told.error_code), told.error_message or None)
    return answer


def quorum_of(
    answer: DescribeQuorumResponse,
    *,
    asked_at_ms: int,
    kraft_version: int,
    committed_voters: tuple[tuple[int, uuid.UUID], ...] | None = None,
    log_start_offset: int = -1,
    snapshot: LatestSnapshot | None = None,
) -> Quorum:
    """Put the quorum together from its leader's answer and what else is known of it."""
    partition = answer.topics[0].partitions[0]
    endpoints = {node.node_id: tuple((at.name, at.host, at.port) for at in node.listeners) for node in answer.nodes}
    leader = next((one for one in partition.current_voters if one.replica_id == partition.leader_id), None)
    leader_end = leader.log_end_offset if leader is not None else partition.high_watermark
    leader_now = leader.last_caught_up_timestamp if leader is not None else asked_at_ms

    def replica(state: DescribeQuorumResponseReplicaState) -> Replica:
        is_leader = state.replica_id == partition.leader_id
        known = state.log_end_offset >= 0
        return Replica(
            id=state.replica_id,
            directory_id=state.replica_directory_id,
            endpoints=endpoints.get(state.replica_id, ()),
            log_end_offset=state.log_end_offset,
            last_fetch_timestamp=state.last_fetch_timestamp,
            last_caught_up_timestamp=state.last_caught_up_timestamp,
            lag=max(0, leader_end - state.log_end_offset) if known else None,
            lag_ms=0 if is_leader else _since(state.last_caught_up_timestamp, leader_now),
            is_leader=is_leader,
            is_caught_up=is_leader or (known and leader_now - state.last_caught_up_timestamp <= CAUGHT_UP_MS),
        )

    return Quorum(
        leader_id=partition.leader_id if partition.leader_id >= 0 else None,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        kraft_version=kraft_version,
        voters=tuple(sorted((replica(state) for state in partition.current_voters), key=lambda one: one.id)),
        observers=tuple(sorted((replica(state) for state in partition.observers), key=lambda one: one.id)),
        committed_voters=committed_voters,
        log_start_offset=log_start_offset,
        snapshot=snapshot,
        is_live=True,
        error=None,
        asked_at_ms=asked_at_ms,
    )


class QuorumWatch:
    """Asks the leader, shares the answer for a second, and never lets two askers ask twice."""

    def __init__(
        self, client: ControllerClient, observer: MetadataObserver, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._observer = observer
        self._clock = clock
        self._snapshots = SnapshotWatch(client)
        self._asking = asyncio.Lock()
        self._cached: Quorum | None = None
        self._cached_at = 0.0

    async def get(self, timeout_ms: int = 2_000) -> Quorum:
        """Return the quorum, at most a second old. Always answers: `is_live` says whether the leader did."""
        async with self._asking:
            now = time.monotonic()
            if self._cached is None or now - self._cached_at >= CACHED_SECONDS:
                self._cached = await self._ask(timeout_ms)
                self._cached_at = time.monotonic()
            return self._cached

    def forget(self) -> None:
        """Ask anew next time, e.g. because the voters have changed."""
        self._cached = None

    async def high_watermark(self, timeout_ms: int) -> int:
        """Ask the leader for its high watermark now: all that was answered before lies below it.

        Raises KafkaError or ConnectionError.
        """
        return (await describe_quorum(self._client, timeout_ms)).topics[0].partitions[0].high_watermark

    async def _ask(self, timeout_ms: int) -> Quorum:
        try:
            answer = await describe_quorum(self._client, timeout_ms)
        except (ConnectionError, KafkaError) as cause:
            return self._from_log(str(cause))
        asked_at_ms = int(self._clock() * 1000)
        return quorum_of(
            answer,
            asked_at_ms=asked_at_ms,
            kraft_version=self._kraft_version(),
            committed_voters=self._committed_voters(),
            log_start_offset=self._observer.log_start_offset,
            snapshot=await self._snapshot(answer.topics[0].partitions[0].leader_epoch, timeout_ms),
        )

    async def _snapshot(self, leader_epoch: int, timeout_ms: int) -> LatestSnapshot | None:
        try:
            return await self._snapshots.get(leader_epoch, timeout_ms)
        except (ConnectionError, KafkaError):  # a leader that goes just now; the rest of its answer still holds
            return None

    def _committed_voters(self) -> tuple[tuple[int, uuid.UUID], ...] | None:
        voters = self._observer.voters
        return None if voters is None else tuple((each.voter_id, each.voter_directory_id) for each in voters.voters)

    def _kraft_version(self) -> int:
        """1 once a voter set stands in the log (INTEROP 2.9), else 0: the voters are then in the settings."""
        return 1 if self._observer.voters is not None else 0

    def _from_log(self, error: str) -> Quorum:
        """What can be said without the leader: the voter set, epoch and high watermark of the log."""
        voters = self._observer.voters
        known = self._observer.leader()
        return Quorum(
            leader_id=None if known is None else known.node_id,
            leader_epoch=self._observer.epoch,
            high_watermark=self._observer.high_watermark,
            kraft_version=self._kraft_version(),
            voters=tuple(
                Replica(
                    id=voter.voter_id,
                    directory_id=voter.voter_directory_id,
                    endpoints=tuple((at.name, at.host, at.port) for at in voter.endpoints),
                    log_end_offset=-1,
                    last_fetch_timestamp=-1,
                    last_caught_up_timestamp=-1,
                    lag=None,
                    lag_ms=None,
                    is_leader=known is not None and known.node_id == voter.voter_id,
                    is_caught_up=False,
                )
                for voter in (voters.voters if voters is not None else ())
            ),
            observers=(),
            committed_voters=self._committed_voters(),
            log_start_offset=self._observer.log_start_offset,
            snapshot=None,
            is_live=False,
            error=error,
            asked_at_ms=int(self._clock() * 1000),
        )
