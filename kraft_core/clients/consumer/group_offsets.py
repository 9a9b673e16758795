"""The committed offsets of a group: OffsetCommit and OffsetFetch with their retries, as a state machine without I/O.

Both group protocols use it: a `Membership` says in whose name offsets are committed.

1. Commits are sent in the order in which they were asked for, and a commit that waits for a retry holds back later
   ones; so an older offset never replaces a newer one.
2. A commit that failed after a later commit of the same partitions was sent is not retried.
3. A commit without a deadline is sent once. The others are retried until their deadline.

Source: ConsumerCoordinator, CommitRequestManager of Kafka 4.3.1; KIP-447 (stable offsets), KIP-848 (topic ids).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.consumer.consumer_errors import API_TIMEOUT, timed_out
from kraft_core.clients.consumer.group_errors import (
    GroupAuthorizationFailed,
    RetriableCommitFailed,
    TopicAuthorizationFailed,
)
from kraft_core.clients.consumer.offset_requests import (
    MemberIdentity,
    offset_commit_request,
    offset_fetch_request,
    read_offset_commit,
    read_offset_fetch,
)
from kraft_core.clients.coordinator_lookup import CoordinatorLookup
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Committed = dict[TopicPartition, OffsetAndMetadata | None]

_LOST_COORDINATOR: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
_UNKNOWN_TOPIC: Final = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_MEMBERSHIP: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
}
_FENCED: Final = {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
"""A lookup with an old epoch or of a removed member (KIP-848) is sent again in the name of the present one."""


class Membership(Protocol):
    """What a group protocol decides about committed offsets."""

    def commit_identity(self) -> MemberIdentity:
        """Return the member. Raises KafkaError if it cannot commit now, such as RebalanceInProgress."""

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity, now_ms: float) -> KafkaError:
        """Act on a coordinator's refusal of the member, and return the error of the commit."""

    def fetch_identity(self) -> MemberIdentity | None:
        """Return the member whose epoch an OffsetFetch names (KIP-848); None for a classic group."""


@dataclass(eq=False)
class _Operation:
    """A commit or a lookup. `deadline_ms` None stands for one attempt, which must be sent before `send_by_ms`."""

    deadline_ms: float | None
    send_by_ms: float
    started_ms: float
    not_before_ms: float = 0
    attempts: int = 0
    request: NodeRequest | None = None
    last_error: KafkaError | None = None


@dataclass(eq=False)
class _Commit(_Operation):
    offsets: Offsets = field(default_factory=dict)
    pending: Pending[None] = field(default_factory=Pending)
    identity: MemberIdentity = field(default_factory=MemberIdentity)
    number: int = 0  # counts commits in the order of their first sending
    retries_unknown_topics: bool = True


@dataclass(eq=False)
class _Lookup(_Operation):
    partitions: tuple[TopicPartition, ...] = ()
    pending: Pending[Committed] = field(default_factory=Pending)


class GroupOffsets:
    """Commits and looks up offsets of one group. `on_commit` is called with the offsets of each successful commit."""

    def __init__(
        self,
        network: NetworkClient,
        lookup: CoordinatorLookup,
        group_id: str,
        membership: Membership,
        backoff: ExponentialBackoff,
        on_commit: Callable[[Offsets], None] = lambda _offsets: None,
    ) -> None:
        self._network = network
        self._on_commit = on_commit
        self._lookup = lookup
        self._group_id = group_id
        self._membership = membership
        self._backoff = backoff
        self._commits: list[_Commit] = []
        self._lookups: list[_Lookup] = []
        self._sent = 0
        self._last_sent: dict[TopicPartition, int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no commit and no lookup is pending."""
        return not self._commits and not self._lookups

    @property
    def needs_coordinator(self) -> bool:
        """Whether something waits to be sent."""
        return any(each.request is None for each in (*self._commits, *self._lookups))

    def commit(
        self, offsets: Offsets, deadline_ms: float | None, now_ms: float, *, retries_unknown_topics: bool = True
    ) -> Pending[None]:
        """Commit offsets: until `deadline_ms`, or with one attempt if that is None or has passed.

        A commit of nothing ends when all commits before it have ended. Without `retries_unknown_topics` a topic that
        the coordinator does not know fails the commit at once: it was deleted.
        """
        if deadline_ms is not None and deadline_ms <= now_ms:
            deadline_ms = None
        send_by_ms = now_ms + self._network.config.request_timeout_ms if deadline_ms is None else deadline_ms
        commit = _Commit(
            deadline_ms, send_by_ms, now_ms, offsets=dict(offsets), retries_unknown_topics=retries_unknown_topics
        )
        self._commits.append(commit)
        self._end_empty()
        return commit.pending

    def fetch(self, partitions: Collection[TopicPartition], deadline_ms: float, now_ms: float) -> Pending[Committed]:
        """Look up the committed offsets of partitions, None for those without one."""
        lookup = _Lookup(deadline_ms, deadline_ms, now_ms, partitions=tuple(sorted(set(partitions))))
        if partitions:
            self._lookups.append(lookup)
        else:
            lookup.pending.complete({})
        return lookup.pending

    def step(self, node: Node | None, now_ms: float) -> None:
        """Send what is due to the coordinator `node`, None if it is not ready, and end what is too late."""
        for each in (*self._commits, *self._lookups):
            if each.request is None and now_ms >= each.send_by_ms:
                what = "the offsets were not committed" if isinstance(each, _Commit) else "no committed offsets"
                limit = "request.timeout.ms" if each.deadline_ms is None else API_TIMEOUT
                self._fail(each, timed_out(what, each.send_by_ms - each.started_ms, each.last_error, limit))
        if node is not None:
            self._send_commits(node, now_ms)
            self._send_lookups(node, now_ms)

    def fail(self, error: KafkaError) -> None:
        """End all operations with an error that no retry heals."""
        for each in (*self._commits, *self._lookups):
            self._fail(each, error)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        waiting = [each for each in (*self._commits, *self._lookups) if each.request is None]
        times = [time for each in waiting for time in (each.not_before_ms, each.send_by_ms) if time > now_ms]
        return min(times, default=None)

    # Commits

    def _send_commits(self, node: Node, now_ms: float) -> None:
        for commit in list(self._commits):
            if commit.request is not None or not commit.offsets:
                continue
            if commit.not_before_ms > now_ms or not self._network.is_ready(node.id, now_ms):
                return
            try:
                commit.identity = self._membership.commit_identity()
            except KafkaError as error:
                self._fail(commit, error)
                continue
            self._sent += 1
            commit.number = commit.number or self._sent
            for partition in commit.offsets:
                self._last_sent[partition] = max(self._last_sent.get(partition, 0), commit.number)
            topics = self._network.metadata.topics
            commit.request = offset_commit_request(node.id, self._group_id, commit.identity, commit.offsets, topics)
            commit.request.context = lambda request, now_ms, commit=commit: self._committed(commit, request, now_ms)
            self._network.send(commit.request, now_ms)

    def _committed(self, commit: _Commit, request: NodeRequest, now_ms: float) -> None:
        commit.request = None
        if commit.pending.is_done:
            return
        error = self._commit_error(commit, request, now_ms)
        if error is None:
            self._end(commit)
            self._on_commit(commit.offsets)
            commit.pending.complete(None)
            self._end_empty()
            return
        commit.last_error = error
        is_deleted = error.code in _UNKNOWN_TOPIC and not commit.retries_unknown_topics
        if not error.retriable or is_deleted:
            self._fail(commit, error)
        elif commit.deadline_ms is None or self._is_superseded(commit):
            self._fail(commit, RetriableCommitFailed(error))
        else:
            self._retry_later(commit, now_ms)

    def _commit_error(self, commit: _Commit, request: NodeRequest, now_ms: float) -> KafkaError | None:
        if request.answer is None:
            return self._request_error(request, now_ms)
        unauthorized = set()
        for partition, code in read_offset_commit(request, commit.offsets):
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(partition.topic)
            elif code in _MEMBERSHIP:
                return self._membership.commit_refused(code, commit.identity, now_ms)
            elif code != ErrorCode.NONE:
                where = f"{partition.topic}-{partition.partition}"
                return self._error(code, f"the offset of {where} is not committed: {code.default_message}", now_ms)
        return TopicAuthorizationFailed(unauthorized) if unauthorized else None

    def _is_superseded(self, commit: _Commit) -> bool:
        return any(self._last_sent[partition] > commit.number for partition in commit.offsets)

    def _end_empty(self) -> None:
        """End the commits of nothing that have become the oldest."""
        while self._commits and not self._commits[0].offsets:
            self._commits.pop(0).pending.complete(None)

    # Lookups

    def _send_lookups(self, node: Node, now_ms: float) -> None:
        for lookup in self._lookups:
            if lookup.request is not None or lookup.not_before_ms > now_ms:
                continue
            if not self._network.is_ready(node.id, now_ms):
                return
            versions = (self._network.versions_of(node.id) or {}, self._network.metadata.topics)
            identity = self._membership.fetch_identity()
            lookup.request = offset_fetch_request(node.id, self._group_id, identity, lookup.partitions, *versions)
            lookup.request.context = lambda request, now_ms, lookup=lookup: self._looked_up(lookup, request, now_ms)
            self._network.send(lookup.request, now_ms)

    def _looked_up(self, lookup: _Lookup, request: NodeRequest, now_ms: float) -> None:
        lookup.request = None
        if lookup.pending.is_done:
            return
        found = self._found(lookup, request, now_ms)
        if not isinstance(found, KafkaError):
            self._end(lookup)
            lookup.pending.complete(found)
            return
        lookup.last_error = found
        if found.retriable or found.code in _FENCED:
            self._retry_later(lookup, now_ms)
        else:
            self._fail(lookup, found)

    def _found(self, lookup: _Lookup, request: NodeRequest, now_ms: float) -> Committed | KafkaError:
        if request.answer is None:
            return self._request_error(request, now_ms)
        code, offsets = read_offset_fetch(request)
        if code != ErrorCode.NONE:
            text = f"the offsets of the group '{self._group_id}' cannot be looked up: {code.default_message}"
            return self._error(code, text, now_ms)
        found: Committed = {}
        unauthorized = set()
        for partition in lookup.partitions:
            outcome = offsets.get(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if outcome is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(partition.topic)
            elif isinstance(outcome, ErrorCode):
                where = f"{partition.topic}-{partition.partition}"
                return self._error(outcome, f"no committed offset of {where}: {outcome.default_message}", now_ms)
            else:
                found[partition] = outcome
        return TopicAuthorizationFailed(unauthorized) if unauthorized else found

    # Both

    def _request_error(self, request: NodeRequest, now_ms: float) -> KafkaError:
        error = request.error
        assert error is not None, "a completed request has an answer or an error"
        if isinstance(error, Disconnected):
            self._lookup.mark_unknown(now_ms, is_disconnected=True)
        return error

    def _error(self, code: ErrorCode, text: str, now_ms: float) -> KafkaError:
        if code in _LOST_COORDINATOR:
            self._lookup.mark_unknown(now_ms)
        elif code in _UNKNOWN_TOPIC:
            self._network.metadata.request_update()
        elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return GroupAuthorizationFailed(self._group_id)
        return KafkaError(code, text)

    def _retry_later(self, operation: _Operation, now_ms: float) -> None:
        operation.not_before_ms = now_ms + self._backoff.after(operation.attempts)
        operation.attempts += 1

    def _fail(self, operation: _Operation, error: KafkaError) -> None:
        self._end(operation)
        assert isinstance(operation, (_Commit, _Lookup)), "only these two exist"
        operation.pending.fail(error)
        self._end_empty()

    def _end(self, operation: _Operation) -> None:
        if isinstance(operation, _Commit) and operation in self._commits:
            self._commits.remove(operation)
            if not self._commits:
                self._last_sent.clear()
        elif isinstance(operation, _Lookup) and operation in self._lookups:
            self._lookups.remove(operation)
