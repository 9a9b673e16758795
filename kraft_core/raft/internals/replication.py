"""The leader's side of replication: fetches, waiting fetches, the high watermark.

Source: KafkaRaftClient.handleFetchRequest and tryCompleteFetchRequest, RaftLog.validateOffsetAndEpoch of Kafka 4.3.1;
KIP-595, KIP-1166.
"""

from collections.abc import Iterable
from typing import Any

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_PARTITION
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseFetchableTopicResponse,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
)
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from kraft_core.raft.events import RequestReceived
from kraft_core.raft.internals.leader_state import Leader, ParkedFetch
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.internals.rpc import only_fetch_partition
from kraft_core.raft.internals.valid_offset_and_epoch import Kind, validate_fetch
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import ReplicaKey

MAX_PARKED = 10_000
"""Upper bound on waiting fetches; further ones get an empty response at once."""


def handle_fetch(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Answer a Fetch, or let it wait at the log's end for new records or a new high watermark.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR (a replica that claims to be the leader).
    """
    request = event.message
    assert isinstance(request, FetchRequest)
    if core.is_foreign(request.cluster_id):
        core.respond(event.request_id, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    asked = only_fetch_partition(request.topics)
    if asked is None:
        core.respond(event.request_id, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    replica_id = request.replica_state.replica_id if event.version >= 15 else request.replica_id  # KIP-903
    error = _refusal(core, request.max_wait_ms, asked, replica_id)
    if error != ErrorCode.NONE:
        core.respond(event.request_id, fetch_response(core, error=error))
        return
    leader = core.state
    assert isinstance(leader, Leader), "Only the leader passes the checks."
    found = validate_fetch(core.log, asked.fetch_offset, asked.last_fetched_epoch)
    if found.kind is Kind.DIVERGING:
        core.respond(event.request_id, fetch_response(core, diverging=found.offset_and_epoch))
        return
    if found.kind is Kind.SNAPSHOT:
        core.respond(event.request_id, fetch_response(core, snapshot_id=found.offset_and_epoch))
        return
    key = ReplicaKey(replica_id, asked.replica_directory_id)
    if leader.fetched(key, asked.fetch_offset, core.log.end_offset, now_ms):
        on_high_watermark(core, leader)
    max_bytes = min(request.max_bytes, core.config.max_batch_bytes)
    has_news = asked.fetch_offset < core.log.end_offset or asked.high_watermark < leader.high_watermark
    if has_news or request.max_wait_ms == 0 or len(leader.fetches) >= MAX_PARKED:
        core.respond(event.request_id, _records_response(core, asked.fetch_offset, max_bytes))
        return
    _park(core, leader, ParkedFetch(event.request_id, key, asked.fetch_offset, max_bytes), now_ms + request.max_wait_ms)


def refuse_unless_leader(core: RaftCore, epoch: int) -> ErrorCode:
    """Return an error unless this node leads `epoch`. Source: KafkaRaftClient.validateLeaderOnlyRequest."""
    if epoch < core.state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > core.state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(core.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE if core.shutdown_at_ms is None else ErrorCode.BROKER_NOT_AVAILABLE


def _refusal(core: RaftCore, max_wait_ms: int, asked: Any, replica_id: int) -> ErrorCode:
    if (
        max_wait_ms < 0
        or asked.fetch_offset < 0
        or asked.last_fetched_epoch < 0
        or asked.last_fetched_epoch > asked.current_leader_epoch
    ):
        return ErrorCode.INVALID_REQUEST
    error = refuse_unless_leader(core, asked.current_leader_epoch)
    if error == ErrorCode.NONE and replica_id == core.me.id:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


def _park(core: RaftCore, leader: Leader, fetch: ParkedFetch, deadline_ms: int) -> None:
    """Let a fetch wait. A replica has at most one: an older one is from a broken connection and is dropped."""
    ticket = leader.fetches.wait(fetch.offset + 1, fetch, deadline_ms)
    core.wake_at(deadline_ms)
    if fetch.key.id >= 0:
        older = leader.fetches.cancel(leader.fetch_tickets.get(fetch.key, 0))
        leader.fetch_tickets[fetch.key] = ticket
        if older is not None:
            core.respond(older.request_id, fetch_response(core))


def on_append(core: RaftCore, leader: Leader) -> None:
    """Send appended records to the followers that wait for them, then request a flush."""
    core.new_records = False
    _complete(core, leader, leader.fetches.complete(core.log.end_offset))
    core.flush()


def on_flushed(core: RaftCore, leader: Leader) -> None:
    """Count the leader's own log up to the flushed offset."""
    if leader.own_flushed(core.log.flushed_offset):
        on_high_watermark(core, leader)


def on_high_watermark(core: RaftCore, leader: Leader) -> None:
    """Answer every waiting follower at once after the high watermark rose (KIP-1166)."""
    assert leader.high_watermark <= core.log.end_offset, "The high watermark is within the log."
    core.high_watermark = max(core.high_watermark, leader.high_watermark)
    core.is_dirty = True
    core.committed += leader.appends.complete(leader.high_watermark)
    _complete(core, leader, leader.fetches.complete_all())


def _complete(core: RaftCore, leader: Leader, fetches: Iterable[ParkedFetch]) -> None:
    answers: dict[tuple[int, int], FetchResponse] = {}
    for each in fetches:
        leader.fetch_tickets.pop(each.key, None)
        wanted = (each.offset, each.max_bytes)
        answer = answers.get(wanted)
        if answer is None:
            answer = answers[wanted] = _records_response(core, each.offset, each.max_bytes)
        core.respond(each.request_id, answer)


def expire_fetches(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Answer the fetches whose maximum wait has expired."""
    _complete(core, leader, leader.fetches.expire(now_ms))
    core.wake_at(leader.fetches.next_deadline_ms())


def fail_fetches(core: RaftCore, leader: Leader) -> None:
    """Answer all waiting fetches after the leadership is lost: the replicas must find the new leader."""
    for each in leader.fetches.complete_all():
        core.respond(each.request_id, fetch_response(core, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _records_response(core: RaftCore, offset: int, max_bytes: int) -> FetchResponse:
    raft_log = core.log
    if offset < raft_log.start_offset:  # removed by cleaning meanwhile
        return fetch_response(core, snapshot_id=raft_log.latest_snapshot_id())
    records = raft_log.read(offset, max_bytes) if offset < raft_log.end_offset else b""
    return fetch_response(core, records=records)


def fetch_response(
    core: RaftCore,
    *,
    error: ErrorCode = ErrorCode.NONE,
    records: bytes = b"",
    diverging: OffsetAndEpoch | None = None,
    snapshot_id: OffsetAndEpoch | None = None,
) -> FetchResponse:
    """Return a response; it always contains the leader, its endpoint and the log's start offset."""
    state = core.state
    endpoint = core.leader_endpoint()
    nodes: tuple[FetchResponseNodeEndpoint, ...] = ()
    if state.leader_id >= 0 and endpoint is not None:
        nodes = (FetchResponseNodeEndpoint(node_id=state.leader_id, host=endpoint.host, port=endpoint.port),)
    optional: dict[str, Any] = {}
    if diverging is not None:
        optional["diverging_epoch"] = FetchResponseEpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
    if snapshot_id is not None:
        optional["snapshot_id"] = FetchResponseSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch)
    partition = FetchResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        high_watermark=state.high_watermark if isinstance(state, Leader) and error == ErrorCode.NONE else -1,
        log_start_offset=core.log.start_offset,
        current_leader=FetchResponseLeaderIdAndEpoch(leader_id=state.leader_id, leader_epoch=state.epoch),
        aborted_transactions=(),
        records=records,
        **optional,
    )
    topic = FetchResponseFetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return FetchResponse(responses=(topic,), node_endpoints=nodes)
