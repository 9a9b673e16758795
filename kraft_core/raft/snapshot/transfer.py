"""FetchSnapshot on the leader and on the replica (KIP-630).

Source: KafkaRaftClient.handleFetchSnapshotRequest and handleFetchSnapshotResponse of Kafka 4.3.1.
"""

import logging
from typing import Any

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponseLeaderIdAndEpoch,
    FetchSnapshotResponseNodeEndpoint,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
)
from kraft_core.raft.events import RequestReceived
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import Handled, RaftCore
from kraft_core.raft.internals.replication import refuse_unless_leader
from kraft_core.raft.internals.rpc import endpoint_of
from kraft_core.raft.quorum_state import Follower
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from kraft_core.raft.snapshot.download import SnapshotDownload
from kraft_core.raft.voter_set import ReplicaKey

log = logging.getLogger(__name__)


def handle_fetch_snapshot(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Answer a FetchSnapshot with a piece of the snapshot.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, those of `refuse_unless_leader`,
    SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
    """
    request = event.message
    assert isinstance(request, FetchSnapshotRequest)
    if core.is_foreign(request.cluster_id):
        core.respond(event.request_id, FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        core.respond(event.request_id, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    topic = request.topics[0]
    asked = topic.partitions[0]
    if topic.name != METADATA_TOPIC or asked.partition != METADATA_PARTITION:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        core.respond(event.request_id, _response(core, topic.name, index=asked.partition, error_code=error))
        return
    snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    error = refuse_unless_leader(core, asked.current_leader_epoch)
    piece = None
    if error == ErrorCode.NONE and snapshot_id != BOOTSTRAP_SNAPSHOT_ID:
        max_bytes = max(min(request.max_bytes, core.config.max_batch_bytes), 1)
        piece = core.log.read_snapshot(snapshot_id, max(asked.position, 0), max_bytes)
    if error == ErrorCode.NONE and piece is None:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    elif piece is not None and not 0 <= asked.position < piece[1]:
        error = ErrorCode.POSITION_OUT_OF_RANGE
    if error != ErrorCode.NONE or piece is None:
        core.respond(event.request_id, _response(core, METADATA_TOPIC, index=METADATA_PARTITION, error_code=error))
        return
    if isinstance(core.state, Leader):
        core.state.fetched_snapshot(ReplicaKey(request.replica_id, asked.replica_directory_id), now_ms)
    answer = _response(
        core,
        METADATA_TOPIC,
        index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        snapshot_id=FetchSnapshotResponseSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        size=piece[1],
        position=asked.position,
        unaligned_records=piece[0],
    )
    core.respond(event.request_id, answer)


def _response(core: RaftCore, topic: str, **fields: Any) -> FetchSnapshotResponse:
    state = core.state
    endpoint = core.leader_endpoint()
    nodes: tuple[FetchSnapshotResponseNodeEndpoint, ...] = ()
    if state.leader_id >= 0 and endpoint is not None:
        nodes = (FetchSnapshotResponseNodeEndpoint(node_id=state.leader_id, host=endpoint.host, port=endpoint.port),)
    current = FetchSnapshotResponseLeaderIdAndEpoch(leader_id=state.leader_id, leader_epoch=state.epoch)
    fields = {"unaligned_records": b"", "current_leader": current, **fields}
    partition = FetchSnapshotResponsePartitionSnapshot(**fields)
    return FetchSnapshotResponse(
        topics=(FetchSnapshotResponseTopicSnapshot(name=topic, partitions=(partition,)),), node_endpoints=nodes
    )


def fetch_snapshot_request(core: RaftCore, download: SnapshotDownload) -> FetchSnapshotRequest:
    """Return the request for the next piece."""
    snapshot_id = download.sink.id
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=core.state.epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        position=download.sink.size,
        replica_directory_id=core.config.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=core.config.cluster_id,
        replica_id=core.me.id,
        max_bytes=core.config.fetch_snapshot_max_bytes,
        topics=(FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def on_fetch_snapshot_response(core: RaftCore, response: FetchSnapshotResponse, now_ms: int) -> bool:
    """Handle a piece. False requests a backoff. An invalid piece or snapshot discards the download."""
    if response.error_code != ErrorCode.NONE or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return False
    answer = response.topics[0].partitions[0]
    if response.topics[0].name != METADATA_TOPIC or answer.index != METADATA_PARTITION:
        return False
    leader = answer.current_leader
    endpoint = endpoint_of(response.node_endpoints, leader.leader_id, core.config.listener_name)
    handled = core.handle_common(answer.error_code, leader.leader_id, leader.leader_epoch, endpoint, now_ms)
    state = core.state
    if handled is not Handled.CONTINUE or not isinstance(state, Follower) or state.download is None:
        return handled is Handled.DONE
    download = state.download
    snapshot_id = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
    if answer.error_code not in {ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE}:
        return False
    core.leader_answered(state, now_ms)
    piece = answer.unaligned_records or b""
    is_wanted = answer.error_code == ErrorCode.NONE and snapshot_id == download.sink.id
    if not is_wanted or answer.position != download.sink.size or not piece or not download.add(piece):
        return _drop(
            state, download, f"unusable piece of {snapshot_id} at {answer.position}, error {answer.error_code}"
        )
    if download.sink.size < answer.size:
        return True
    if not download.is_complete:
        return _drop(state, download, f"snapshot {snapshot_id} does not end with its footer")
    state.download = None
    _install(core, download)
    return True


def _drop(state: Follower, download: SnapshotDownload, reason: str) -> bool:
    log.warning("snapshot_dropped", extra={"reason": reason})
    download.sink.abort()
    state.download = None
    return False


def _install(core: RaftCore, download: SnapshotDownload) -> None:
    """Truncate the log so that it begins at the downloaded snapshot."""
    snapshot_id = download.sink.id
    assert snapshot_id.offset >= core.high_watermark, f"Snapshot {snapshot_id} is below the high watermark."
    download.sink.freeze()
    core.log.truncate_fully_to_snapshot(snapshot_id)
    core.control.load(core.log)
    core.high_watermark = max(core.high_watermark, snapshot_id.offset)
    log.info("snapshot_installed", extra={"node_id": core.me.id, "snapshot_id": str(snapshot_id)})
