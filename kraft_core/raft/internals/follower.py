"""The follower's side of replication: fetching, handling responses, suspecting the leader.

Source: KafkaRaftClient.handleFetchResponse, pollFollower, maybeSendFetchToBestNode of Kafka 4.3.1.
"""

import logging
from typing import Any, Final

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_PARTITION
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestReplicaState,
    FetchResponse,
)
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from kraft_core.raft.internals import election
from kraft_core.raft.internals.raft_core import Handled, Kind, Pending, RaftCore
from kraft_core.raft.internals.rpc import endpoint_of, only_fetched_partition
from kraft_core.raft.quorum_state import Follower, Unattached
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.snapshot import transfer as snapshot_transfer
from kraft_core.raft.snapshot.download import SnapshotDownload
from kraft_core.raft.voter_set import Endpoint

log = logging.getLogger(__name__)

FETCH_MIN_VERSION: Final = 15
"""The first version with topic ids (13) and the replica state (KIP-903)."""
FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers, whose node ids are unknown, get ids from here downwards."""


def poll_unattached(core: RaftCore, state: Unattached, now_ms: int) -> None:
    """Look for a leader; a voter starts a pre-vote when the election timeout expires."""
    if core.may_stand and now_ms >= state.deadline_ms:
        election.become_prospective(core, now_ms)
        return
    if core.may_stand and state.deadline_ms == NEVER_MS:  # became a voter in this state
        state.deadline_ms = now_ms + core.election_timeout_ms()
    core.wake_at(state.deadline_ms)
    if not core.is_durable:
        core.flush()  # a fetch acknowledges the whole log
    elif not core.is_out(Kind.FETCH):
        _fetch_from_anyone(core, now_ms)


def poll_follower(core: RaftCore, state: Follower, now_ms: int) -> None:
    """Fetch from the leader; a voter starts a pre-vote when the leader is silent or suspected dead."""
    if core.flush_in_flight:
        return  # fetch again only when the fetched records are durable
    if not core.is_durable:
        core.flush()
        return
    if core.may_stand and now_ms >= min(state.deadline_ms, state.suspect_at_ms):
        election.become_prospective(core, now_ms)
        return
    core.wake_at(min(state.deadline_ms, state.suspect_at_ms) if core.may_stand else NEVER_MS)
    if core.is_out(Kind.FETCH, Kind.FETCH_SNAPSHOT):
        return
    kind = Kind.FETCH if state.download is None else Kind.FETCH_SNAPSHOT
    if core.is_backing_off(kind, state.leader_id, now_ms) and kind is Kind.FETCH:
        core.can_send(kind, state.leader_id, now_ms)
        _fetch_from_anyone(core, now_ms)
    elif core.can_send(kind, state.leader_id, now_ms):
        if state.download is None:
            core.send(kind, state.leader_id, state.leader_endpoint, fetch_request(core), FETCH_MIN_VERSION)
            patience_ms = core.config.unanswered_fetch_ms + _suspicion_delay_ms(core)
        else:
            request = snapshot_transfer.fetch_snapshot_request(core, state.download)
            core.send(kind, state.leader_id, state.leader_endpoint, request)
            patience_ms = core.config.request_timeout_ms
        if not state.is_suspect:
            state.suspect_at_ms = now_ms + patience_ms
        if core.may_stand:
            core.wake_at(state.suspect_at_ms)


def _suspicion_delay_ms(core: RaftCore) -> int:
    """Return a few random ms in this voter's slot, so that voters that suspect the leader together do not collide."""
    slot_ms = core.config.suspicion_slot_ms
    turn = sum(each < core.me.id for each in core.control.voters.by_id if each != core.state.leader_id)
    return turn * slot_ms + 1 + core.random.randrange(max(slot_ms // 2, 1))


def suspect_leader(core: RaftCore, now_ms: int) -> None:
    """After a broken connection to the leader: start a pre-vote in a few ms, and grant pre-votes until then."""
    state = core.state
    if isinstance(state, Follower):
        state.has_fetched = False
        state.is_suspect = True
        state.suspect_at_ms = min(
            state.suspect_at_ms, max(now_ms + _suspicion_delay_ms(core), state.makes_way_until_ms)
        )
        core.is_dirty = True


def _fetch_from_anyone(core: RaftCore, now_ms: int) -> None:
    """Send a Fetch to a random bootstrap server or known voter to find the leader."""
    asked = {(each.host, each.port) for each in core.config.endpoints}
    candidates: list[tuple[int, Endpoint]] = []
    for index, (host, port) in enumerate(core.config.bootstrap_servers):
        if (host, port) not in asked:
            asked.add((host, port))
            candidates.append((FIRST_BOOTSTRAP_ID - index, Endpoint("", host, port)))
    for node_id in core.control.voters.by_id:
        endpoint = core.voter_endpoint(node_id)
        if endpoint is not None and node_id != core.me.id and (endpoint.host, endpoint.port) not in asked:
            candidates.append((node_id, endpoint))
    ready = [each for each in candidates if core.can_send(Kind.FETCH, each[0], now_ms)]
    if ready:
        node_id, endpoint = ready[core.random.randrange(len(ready))]
        core.send(Kind.FETCH, node_id, endpoint, fetch_request(core), FETCH_MIN_VERSION)


def fetch_request(core: RaftCore) -> FetchRequest:
    """Return a Fetch from the end of this node's log, all of which is durable."""
    config = core.config
    partition = FetchRequestFetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=core.state.epoch,
        fetch_offset=core.log.end_offset,
        last_fetched_epoch=core.log.last_epoch,
        replica_directory_id=config.directory_id,
        high_watermark=core.high_watermark,
    )
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=FetchRequestReplicaState(replica_id=config.node_id),
        max_wait_ms=config.fetch_max_wait_ms,
        max_bytes=config.fetch_max_bytes,
        topics=(FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def on_fetch_response(core: RaftCore, pending: Pending, response: FetchResponse, now_ms: int) -> bool:
    """Handle a response to this node's Fetch. False requests a backoff before the next one to that node."""
    answer = only_fetched_partition(response.responses)
    if response.error_code != ErrorCode.NONE or answer is None:
        return False
    leader = answer.current_leader
    endpoint = endpoint_of(response.node_endpoints, leader.leader_id, core.config.listener_name)
    handled = core.handle_common(answer.error_code, leader.leader_id, leader.leader_epoch, endpoint, now_ms)
    if handled is not Handled.CONTINUE:
        return handled is Handled.DONE
    state = core.state
    if answer.error_code != ErrorCode.NONE or not isinstance(state, Follower) or leader.leader_id != state.leader_id:
        return False
    if pending.epoch != state.epoch or not core.is_durable:
        return False
    if not _take(core, state, answer):
        return False
    core.leader_answered(state, now_ms)
    return True


def _take(core: RaftCore, state: Follower, answer: Any) -> bool:
    if answer.diverging_epoch.epoch >= 0:
        return _truncate(core, OffsetAndEpoch(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch))
    snapshot_id = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
    if snapshot_id.offset >= 0 or snapshot_id.epoch >= 0:
        if snapshot_id.offset < max(core.high_watermark, 0) or snapshot_id.epoch < 0:
            log.error("bad_snapshot_id", extra={"node_id": core.me.id, "snapshot_id": str(snapshot_id)})
            return False
        state.download = SnapshotDownload(core.log.begin_snapshot(snapshot_id))
        return True
    is_whole = append_from_leader(core, answer.records or b"")
    _raise_high_watermark(core, answer.high_watermark)
    return is_whole


def _raise_high_watermark(core: RaftCore, leaders: int) -> None:
    """Raise the high watermark to what the leader has committed and this log contains; it never decreases."""
    core.high_watermark = max(core.high_watermark, min(leaders, core.log.end_offset))


def append_from_leader(core: RaftCore, records: bytes) -> bool:
    """Append the valid batches: complete, right CRC, contiguous, epochs not decreasing and not above this node's.

    Return whether any was appended. The rest is dropped and fetched again. Source: RecordsBatchReader and
    appendAsFollower (KAFKA-18723).
    """
    if not records:
        return True
    good: list[RecordBatch] = []
    expected, epoch, size = core.log.end_offset, core.log.last_epoch, 0
    try:
        for batch in read_batches(records):
            if batch.base_offset != expected or not epoch <= batch.leader_epoch <= core.state.epoch:
                raise CorruptBatch(size, f"({batch.base_offset}, {batch.leader_epoch}) after ({expected}, {epoch})")
            if batch.is_control:
                core.control.check(batch)
            good.append(batch)
            expected, epoch, size = batch.last_offset + 1, batch.leader_epoch, size + batch.size
    except KafkaError as error:
        log.warning("fetched_batch_dropped", extra={"node_id": core.me.id, "offset": expected, "reason": str(error)})
    if good:
        core.log.append(records if size == len(records) else records[:size])
        core.control.append(good)
        core.flush()
    return bool(good)


def _truncate(core: RaftCore, diverging: OffsetAndEpoch) -> bool:
    """Truncate the log to where it may still agree with the leader's. Source: RaftLog.truncateToEndOffset."""
    own = core.log.end_offset_for_epoch(diverging.epoch)
    offset = min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset
    offset = min(offset, core.log.end_offset)
    if offset < max(core.high_watermark, core.log.start_offset):
        log.error(
            "truncation_below_high_watermark_refused",
            extra={"node_id": core.me.id, "offset": offset, "high_watermark": core.high_watermark},
        )
        return False
    log.info("log_truncated", extra={"node_id": core.me.id, "offset": offset, "end_offset": core.log.end_offset})
    core.log.truncate_to(offset)
    core.control.truncate(offset)
    return True
