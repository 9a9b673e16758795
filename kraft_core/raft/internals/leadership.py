"""Leading an epoch: its first batch, BeginQuorumEpoch, check-quorum, leadership rounds, resignation, EndQuorumEpoch.

Source: KafkaRaftClient.onBecomeLeader, pollLeader, pollResigned, handleBegin/EndQuorumEpochRequest of Kafka 4.3.1.
"""

from collections.abc import Sequence
from typing import Any

from kraft_core.protocol.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestLeaderEndpoint,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponseNodeEndpoint,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestReplicaInfo,
    EndQuorumEpochRequestTopicData,
    EndQuorumEpochResponse,
    EndQuorumEpochResponseNodeEndpoint,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.raft.events import RequestReceived
from kraft_core.raft.internals.kraft_control_record_state_machine import BEFORE_THE_LOG
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import Handled, Kind, Pending, RaftCore
from kraft_core.raft.internals.rpc import endpoint_of, listener_endpoint, only_partition
from kraft_core.raft.quorum_state import Candidate, Follower, Resigned
from kraft_core.raft.voter_set import ReplicaKey


def become_leader(core: RaftCore, state: Candidate, now_ms: int) -> None:
    """Become leader of the epoch after a won election, and append its first control batch."""
    assert state.election.is_won, f"The election of epoch {state.epoch} has no majority."
    leader = Leader(
        epoch=state.epoch,
        me=core.me,
        voters=core.control.voters,
        granting=state.election.granting,
        epoch_start_offset=core.log.end_offset,
        flushed_offset=core.log.flushed_offset,
        check_quorum_timeout_ms=core.config.check_quorum_timeout_ms,
        max_batch_bytes=core.config.max_batch_bytes,
        now_ms=now_ms,
    )
    core.move(leader)
    append_control(core, leader, _epoch_start_records(core, leader), now_ms)


def _epoch_start_records(core: RaftCore, leader: Leader) -> list[ControlRecord]:
    """Return LeaderChange, and the voter set if it is not in the log yet or this node's entry has changed."""
    records: list[ControlRecord] = [
        LeaderChangeMessage(
            leader_id=core.me.id,
            voters=tuple(LeaderChangeMessageVoter(voter_id=node_id) for node_id in leader.voters),
            granting_voters=tuple(LeaderChangeMessageVoter(voter_id=node_id) for node_id in leader.granting),
        )
    ]
    control = core.control
    if control.kraft_version < 1 or not core.is_voter:
        return records
    own = core.config.voter_node
    updated = control.voters.with_updated(own) if own.endpoints else control.voters
    assert updated is not None, f"The leader {core.me} is not in {control.voters}."
    if control.voters_offset == BEFORE_THE_LOG or updated != control.voters:
        records += [KRaftVersionRecord(kraft_version=control.kraft_version), updated.to_record()]
    return records


def append_control(core: RaftCore, leader: Leader, records: Sequence[ControlRecord], now_ms: int) -> int:
    """Append a control batch as leader, after the prepared records; it takes effect at once. Return its last offset."""
    last_offset = leader.accumulator.append_control(records)
    write_prepared(core, leader, now_ms)
    core.new_records = True
    return last_offset


def write_prepared(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Write the accumulator's batches to the log; they are committed when the high watermark passes them."""
    for batch in leader.accumulator.drain(now_ms):
        core.log.append(batch.raw)
        leader.appends.wait(batch.last_offset + 1, batch)
        if batch.is_control and core.control.append(read_batches(batch.raw, verify_crc=False)):
            leader.set_voters(core.control.voters)
            core.is_dirty = True


def poll_leader(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Resign on request or without a quorum; send BeginQuorumEpoch to silent voters."""
    if leader.is_resign_requested:
        resign(core, leader, now_ms)
        return
    if len(leader.voter_progress) > 1 or not leader.is_voter:
        if now_ms >= leader.check_quorum_at_ms and not leader.has_quorum(now_ms):
            resign(core, leader, now_ms)
            return
        core.wake_at(leader.check_quorum_at_ms)
    if now_ms >= leader.begin_at_ms:
        period_ms = core.config.fetch_timeout_ms // 2
        for voter in leader.silent_voters(period_ms, now_ms):
            _send_begin(core, leader, voter.id, voter.directory_id, now_ms)
        leader.begin_at_ms = now_ms + period_ms
    core.wake_at(leader.begin_at_ms)
    _poll_rounds(core, leader, now_ms)


def _poll_rounds(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Start a wanted round, send requests to voters that have not confirmed it, finish it when a majority has."""
    rounds = leader.rounds
    while rounds.is_wanted:
        if not rounds.is_running:
            rounds.begin(core.next_correlation, leader.accumulator.next_offset)
        if not leader.is_confirmed:
            for each in leader.voter_progress:
                if each.key.id != leader.me.id and each.key not in rounds.answered:
                    _send_begin(core, leader, each.key.id, each.key.directory_id, now_ms)
            return
        rounds.finish()


def _send_begin(core: RaftCore, leader: Leader, node_id: int, directory_id: Any, now_ms: int) -> None:
    endpoint = core.voter_endpoint(node_id)
    if endpoint is None or not core.can_send(Kind.BEGIN_QUORUM_EPOCH, node_id, now_ms):
        return
    partition = BeginQuorumEpochRequestPartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=directory_id,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
    )
    request = BeginQuorumEpochRequest(
        cluster_id=core.config.cluster_id,
        voter_id=node_id,
        topics=(BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=tuple(
            BeginQuorumEpochRequestLeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in core.config.endpoints
        ),
    )
    core.send(Kind.BEGIN_QUORUM_EPOCH, node_id, endpoint, request)


def handle_begin(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Handle a leader's BeginQuorumEpoch.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_VOTER_KEY.
    """
    request = event.message
    assert isinstance(request, BeginQuorumEpochRequest)
    announced, error = _check_announcement(core, request, now_ms)
    if announced is None:
        core.respond(event.request_id, BeginQuorumEpochResponse(error_code=error))
        return
    if error == ErrorCode.NONE and not core.is_meant(request.voter_id, announced.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    state, endpoint = core.state, core.leader_endpoint()
    nodes: tuple[BeginQuorumEpochResponseNodeEndpoint, ...] = ()
    if state.leader_id >= 0 and endpoint is not None:
        nodes = (BeginQuorumEpochResponseNodeEndpoint(node_id=state.leader_id, host=endpoint.host, port=endpoint.port),)
    partition = BeginQuorumEpochResponsePartitionData(
        partition_index=METADATA_PARTITION, error_code=error, leader_id=state.leader_id, leader_epoch=state.epoch
    )
    topic = BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    core.respond(event.request_id, BeginQuorumEpochResponse(topics=(topic,), node_endpoints=nodes))


def _check_announcement(
    core: RaftCore, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int
) -> tuple[Any | None, ErrorCode]:
    """Return the request's partition entry and its error; with None the error is a top-level one."""
    if core.is_foreign(request.cluster_id):
        return None, ErrorCode.INCONSISTENT_CLUSTER_ID
    announced = only_partition(request.topics)
    if announced is None:
        return None, ErrorCode.INVALID_REQUEST
    if announced.leader_id < 0:
        return announced, ErrorCode.INVALID_REQUEST
    if announced.leader_epoch < core.state.epoch:
        return announced, ErrorCode.FENCED_LEADER_EPOCH
    endpoint = listener_endpoint(request.leader_endpoints, core.config.listener_name)
    if not core.observe(announced.leader_id, announced.leader_epoch, endpoint, now_ms):
        return announced, ErrorCode.INVALID_REQUEST
    return announced, ErrorCode.NONE


def on_begin_response(core: RaftCore, pending: Pending, response: BeginQuorumEpochResponse, now_ms: int) -> bool:
    """Handle a response to BeginQuorumEpoch and count it for the round. False requests a backoff."""
    answer = only_partition(response.topics)
    if response.error_code != ErrorCode.NONE or answer is None:
        return False
    endpoint = endpoint_of(response.node_endpoints, answer.leader_id, core.config.listener_name)
    handled = core.handle_common(answer.error_code, answer.leader_id, answer.leader_epoch, endpoint, now_ms)
    state = core.state
    is_ours = isinstance(state, Leader) and pending.epoch == answer.leader_epoch == state.epoch
    if is_ours and handled is Handled.CONTINUE and answer.error_code == ErrorCode.NONE:
        assert isinstance(state, Leader)
        assert isinstance(pending.request, BeginQuorumEpochRequest)
        asked = only_partition(pending.request.topics)
        assert asked is not None
        state.rounds.count(ReplicaKey(pending.node_id, asked.voter_directory_id), pending.correlation)
    return handled is not Handled.FAILED


# --- resigning --------------------------------------------------------------------------------------------------------


def resign(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Resign from the epoch, and send the voters the order of preferred successors."""
    successors = leader.successors()
    deadline_ms = now_ms + core.election_timeout_ms()
    unacknowledged = {key.id for key in successors}
    core.move(Resigned(leader.epoch, deadline_ms, core.me.id, None, successors, unacknowledged))


def poll_resigned(core: RaftCore, state: Resigned, now_ms: int) -> None:
    """Send EndQuorumEpoch until the voters acknowledge it; after the timeout wait for an election in the next epoch."""
    if now_ms >= state.deadline_ms and core.shutdown_at_ms is None:
        core.become_unattached(state.epoch + 1, now_ms)
        return
    if core.shutdown_at_ms is None:
        core.wake_at(state.deadline_ms)
    for node_id in sorted(state.unacknowledged):
        endpoint = core.voter_endpoint(node_id)
        if endpoint is not None and core.can_send(Kind.END_QUORUM_EPOCH, node_id, now_ms):
            core.send(Kind.END_QUORUM_EPOCH, node_id, endpoint, _end_request(core, state))


def _end_request(core: RaftCore, state: Resigned) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        preferred_successors=tuple(key.id for key in state.preferred),
        preferred_candidates=tuple(
            EndQuorumEpochRequestReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in state.preferred
        ),
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return EndQuorumEpochRequest(cluster_id=core.config.cluster_id, topics=(topic,))


def handle_end(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Handle a leader's resignation: start a pre-vote, earlier as a preferred successor. Errors as BeginQuorumEpoch."""
    request = event.message
    assert isinstance(request, EndQuorumEpochRequest)
    announced, error = _check_announcement(core, request, now_ms)
    if announced is None:
        core.respond(event.request_id, EndQuorumEpochResponse(error_code=error))
        return
    state = core.state
    if error == ErrorCode.NONE and isinstance(state, Follower) and state.leader_id == announced.leader_id:
        state.deadline_ms = now_ms + _succession_delay_ms(core, event.version, announced)
        state.has_fetched = False
        core.is_dirty = True
    endpoint = core.leader_endpoint()
    nodes: tuple[EndQuorumEpochResponseNodeEndpoint, ...] = ()
    if state.leader_id >= 0 and endpoint is not None:
        nodes = (EndQuorumEpochResponseNodeEndpoint(node_id=state.leader_id, host=endpoint.host, port=endpoint.port),)
    partition = EndQuorumEpochResponsePartitionData(
        partition_index=METADATA_PARTITION, error_code=error, leader_id=state.leader_id, leader_epoch=state.epoch
    )
    topic = EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    core.respond(event.request_id, EndQuorumEpochResponse(topics=(topic,), node_endpoints=nodes))


def _succession_delay_ms(core: RaftCore, version: int, announced: Any) -> int:
    """Return 0 for the first successor or an empty list, more for later ones.

    Source: strictExponentialElectionBackoffMs.
    """
    if version == 0:
        places = [node_id == core.me.id for node_id in announced.preferred_successors]
    else:
        places = [
            each.candidate_id == core.me.id and each.candidate_directory_id in {ZERO_UUID, core.me.directory_id}
            for each in announced.preferred_candidates
        ]
    longest, count = core.config.election_backoff_max_ms, len(places)
    place = places.index(True) if True in places else count
    if place == 0:
        return 0
    if place == count:
        return longest
    return min(longest, (longest >> (count - 1)) << (place - 1))


def on_end_response(core: RaftCore, node_id: int, response: EndQuorumEpochResponse, now_ms: int) -> bool:
    """Record a voter's acknowledgement of EndQuorumEpoch. False requests a backoff."""
    answer = only_partition(response.topics)
    if response.error_code != ErrorCode.NONE or answer is None:
        return False
    endpoint = endpoint_of(response.node_endpoints, answer.leader_id, core.config.listener_name)
    handled = core.handle_common(answer.error_code, answer.leader_id, answer.leader_epoch, endpoint, now_ms)
    if handled is Handled.CONTINUE and isinstance(core.state, Resigned):
        core.state.unacknowledged.discard(node_id)
    return handled is not Handled.FAILED
