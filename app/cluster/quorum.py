"""The state of the quorum at one moment as one value: leader, epoch, voters, and which of them answer.

Everything that shows the quorum shows this value, so a page, a metric or a probe cannot combine the leader of one epoch
with the number of another.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from app.cluster.latest_snapshot import LatestSnapshot
from app.cluster.reach import Address, Reach
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    DescribeQuorumResponse,
    DescribeQuorumResponseReplicaState,
)

Endpoint = tuple[str, str, int]
"""(listener name, host, port)."""

Standing = Literal["led", "no-leader", "no-majority", "unknown"]
"""A confirmed leader and a majority; a majority without a leader; fewer voters than a majority; nothing known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One voter or observer. Offsets and times are -1 where unknown; times are in ms by the leader's clock.

    `lag` is the number of records behind the leader's log end, `lag_ms` the time since it had all records of the
    leader; None where unknown. `address` is where this process asks it, and `reach` the result, None before the first.
    `is_silent`: it does not answer this process, and the leader has not heard from it since then.
    """

    id: int
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    lag: int | None
    lag_ms: int | None
    is_leader: bool
    is_caught_up: bool
    address: Address | None = None
    reach: Reach | None = None
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The quorum at one moment.

    `leader_id` is the leader of `leader_epoch`, which this process has confirmed and not lost since; None without one.
    `is_live` is False without a current description by that leader. Then the voters are those of the log, or the last
    known. `failures_tolerated`: how many more voters may fail before the majority is lost. Only caught-up voters count.
    `committed_voters`: the voter set read from the log, None with static voters or when it was not read. The leader
    counts the newest set that it has appended, so a change is pending while the two differ.
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
    asked: tuple[Reach, ...] = ()

    @property
    def standing(self) -> Standing:
        """Whether the quorum can decide, and if not, why."""
        if self.voters and not self.has_majority:
            return "no-majority"
        if self.leader_id is not None:
            return "led"
        return "no-leader" if self.voters else "unknown"

    @property
    def has_majority(self) -> bool:
        """Whether a majority of voters answers. Voters not yet asked count as answering. False without voters."""
        return bool(self.voters) and len(self.voters) - len(self.silent) >= self.majority

    @property
    def silent(self) -> tuple[Replica, ...]:
        """The voters that do not answer."""
        return tuple(voter for voter in self.voters if voter.is_silent)

    @property
    def behind(self) -> tuple[Replica, ...]:
        """The voters that answer and are not caught up with the leader."""
        return tuple(voter for voter in self.voters if not voter.is_caught_up and not voter.is_silent)

    @property
    def leader(self) -> Replica | None:
        """The leader among the voters."""
        return next((voter for voter in self.voters if voter.is_leader), None)

    @property
    def log_end_offset(self) -> int:
        """Offset (exclusive) at which the leader's log ends; -1 when unknown."""
        return -1 if self.leader is None else self.leader.log_end_offset

    @property
    def is_change_pending(self) -> bool:
        """Whether a change of the voter set is pending: the leader counts other voters than are committed."""
        if not self.is_live or self.committed_voters is None:
            return False
        return set(self.committed_voters) != {(voter.id, voter.directory_id) for voter in self.voters}

    @property
    def majority(self) -> int:
        """The number of voters that a decision needs."""
        return len(self.voters) // 2 + 1

    @property
    def failures_tolerated(self) -> int:
        """How many more voters may fail before the majority is lost."""
        return max(0, sum(voter.is_caught_up for voter in self.voters) - self.majority)

    @property
    def max_follower_lag(self) -> int | None:
        """The largest known lag of a following voter in records, None when unknown."""
        return max((voter.lag for voter in self.voters if not voter.is_leader and voter.lag is not None), default=None)

    @property
    def max_follower_lag_ms(self) -> int | None:
        """The largest known lag of a following voter in ms, None when unknown."""
        return max(
            (voter.lag_ms for voter in self.voters if not voter.is_leader and voter.lag_ms is not None), default=None
        )


HEARD_MARGIN_MS: Final = 250  # a fetch that was in flight when the voter died
CAUGHT_UP_MS: Final = 3_000  # a follower fetches every 500 ms; silent for the check-quorum time, it does not count


def _since(timestamp: int, now_ms: int) -> int | None:
    return max(0, now_ms - timestamp) if timestamp >= 0 else None


async def describe_quorum(client: ControllerClient, timeout_ms: int) -> DescribeQuorumResponse:
    """Ask the leader for the quorum. The response describes one partition and carries no error.

    Raises KafkaError or ConnectionError.
    """
    request = describe_quorum_request()
    answer = cast("DescribeQuorumResponse", await client.request(request, timeout_ms, idempotent=True))
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message or None)
    if not answer.topics or not answer.topics[0].partitions:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The response describes no quorum.")
    described = answer.topics[0].partitions[0]
    if described.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(described.error_code), described.error_message or None)
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
    """Build the quorum from its leader's response and what else is known of it."""
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


def unmeasured(
    node_id: int,
    directory_id: uuid.UUID,
    endpoints: tuple[Endpoint, ...],
    address: Address | None = None,
    *,
    is_leader: bool = False,
) -> Replica:
    """Return a voter without offsets and times."""
    return Replica(
        id=node_id,
        directory_id=directory_id,
        endpoints=endpoints,
        log_end_offset=-1,
        last_fetch_timestamp=-1,
        last_caught_up_timestamp=-1,
        lag=None,
        lag_ms=None,
        is_leader=is_leader,
        is_caught_up=False,
        address=address,
    )


def with_reach(quorum: Quorum, found: Mapping[Address, Reach]) -> Quorum:
    """Return the quorum with what is known of each voter's answers.

    A voter is not silent while the leader hears from it, even if this process cannot reach it. The measure is how long
    before the leader's answer it fetched, so the leader's clock and ours need not agree.
    """
    leader = quorum.leader
    leader_now = leader.last_caught_up_timestamp if leader is not None else -1

    def is_heard(voter: Replica, lost_at_ms: int) -> bool:
        """Whether the leader has heard from the voter lately, and since this process lost it."""
        if not quorum.is_live or leader_now < 0 or voter.last_fetch_timestamp < 0:
            return False
        ago_ms = leader_now - voter.last_fetch_timestamp
        return ago_ms <= CAUGHT_UP_MS and quorum.asked_at_ms - ago_ms > lost_at_ms + HEARD_MARGIN_MS

    def reached(voter: Replica) -> Replica:
        reach = None if voter.address is None else found.get(voter.address)
        is_lost = reach is not None and not reach.answers and not voter.is_leader
        return replace(
            voter, reach=reach, is_silent=is_lost and reach is not None and not is_heard(voter, reach.since_ms)
        )

    return replace(quorum, voters=tuple(reached(voter) for voter in quorum.voters))
