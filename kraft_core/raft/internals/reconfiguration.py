"""Voter changes: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, auto-join, and the upgrade to kraft.version 1.

One change at a time, of at most one voter, and only after a record of the leader's epoch is committed. A new voter set
takes effect when it is appended. Source: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler, KRaftVersionUpgrade
of Kafka 4.3.1; KIP-853, KIP-1186.
"""

from typing import Any

from kraft_core.protocol.control_records import ControlRecord, KRaftVersionRecord
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterRequestKRaftVersionFeature,
    UpdateRaftVoterRequestListener,
    UpdateRaftVoterResponse,
    UpdateRaftVoterResponseCurrentLeader,
)
from kraft_core.protocol.metadata_version import KRAFT_VERSION
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text
from kraft_core.protocol.wire import Message
from kraft_core.raft.events import RequestReceived
from kraft_core.raft.internals import leadership
from kraft_core.raft.internals.leader_state import Leader, VoterChange
from kraft_core.raft.internals.raft_core import Handled, Kind, RaftCore
from kraft_core.raft.internals.replication import refuse_unless_leader
from kraft_core.raft.internals.rpc import listener_endpoint
from kraft_core.raft.quorum_state import Follower
from kraft_core.raft.raft_config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet

CAUGHT_UP_WITHIN_MS = 3_600_000


# --- the leader's side ------------------------------------------------------------------------------------------------


def _refuse_change(core: RaftCore, leader: Leader, doing: str) -> tuple[ErrorCode, str]:
    """Return why no voter can be added or removed now, in Kafka's words; NONE when one can."""
    waits = "Request timed out waiting for"
    level, changed_at = core.control.kraft_version, core.control.voters_offset
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, f"{waits} leader to handle previous voter change request"
    if leader.high_watermark < 0:
        return ErrorCode.REQUEST_TIMED_OUT, f"{waits} leader to establish HWM and fence previous voter changes"
    if level < 1:
        text = f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION} feature is {level}"
        return ErrorCode.UNSUPPORTED_VERSION, text
    if changed_at >= leader.high_watermark:
        text = f"voters to commit the latest voter change at {changed_at} with HWM {leader.high_watermark}"
        return ErrorCode.REQUEST_TIMED_OUT, f"{waits} {text}"
    return ErrorCode.NONE, ""


def _named(key: ReplicaKey) -> str:
    """Return a replica as Kafka's messages write it."""
    directory_id = "<undefined>" if key.directory_id == ZERO_UUID else uuid_to_text(key.directory_id)
    return f"ReplicaKey(id={key.id}, directoryId={directory_id})"


def _all_named(voters: VoterSet) -> str:
    return f"[{', '.join(_named(each.key) for each in voters.by_id.values())}]"


def handle_add(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Start adding a voter by requesting its versions. Errors: docs/protocol.md, "Voter changes", in that order."""
    request = event.message
    assert isinstance(request, AddRaftVoterRequest)
    error, text = _check_sender(core, request.cluster_id)
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
    endpoint = listener_endpoint(request.listeners, core.config.listener_name)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if error == ErrorCode.NONE and (key.id < 0 or key.directory_id == ZERO_UUID):
        error, text = ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    elif error == ErrorCode.NONE and endpoint is None:
        listener = core.config.listener_name
        error = ErrorCode.INVALID_REQUEST
        text = f"Add voter request didn't include the endpoint for the default listener {listener}"
    leader = core.state
    if error == ErrorCode.NONE and isinstance(leader, Leader):
        error, text = _refuse_change(core, leader, "adding")
        if error == ErrorCode.NONE and key.id in core.control.voters.by_id:
            voters = _all_named(core.control.voters)
            error = ErrorCode.DUPLICATE_VOTER
            text = f"The voter id for {_named(key)} is already part of the set of voters {voters}."
    if error != ErrorCode.NONE or endpoint is None or not isinstance(leader, Leader):
        core.respond(event.request_id, AddRaftVoterResponse(error_code=error, error_message=text or None))
        return
    leader.change = VoterChange(
        event.request_id,
        VoterNode(key, endpoints),
        now_ms + core.config.request_timeout_ms,
        ack_when_committed=request.ack_when_committed,
    )
    core.send(Kind.API_VERSIONS, key.id, endpoint, api_versions_request())
    core.is_dirty = True


def on_api_versions(core: RaftCore, node_id: int, response: ApiVersionsResponse | None, now_ms: int) -> bool:
    """Continue an addition with the new voter's versions (None: the request failed)."""
    leader = core.state
    change = leader.change if isinstance(leader, Leader) else None
    if not isinstance(leader, Leader) or change is None or change.voter is None or change.voter.key.id != node_id:
        return True
    if response is None or response.error_code != ErrorCode.NONE:
        finish(core, leader, ErrorCode.REQUEST_TIMED_OUT, "The new voter did not answer.")
        return False
    supported = next((each for each in response.supported_features if each.name == KRAFT_VERSION), None)
    level = core.control.kraft_version
    if supported is None or not supported.min_version <= level <= supported.max_version:
        finish(core, leader, ErrorCode.INVALID_REQUEST, f"The new voter does not support {KRAFT_VERSION} {level}.")
        return True
    known = leader.observers.get(change.voter.key)
    if known is None or known.last_caught_up_ms <= 0 or known.last_fetch_ms <= now_ms - CAUGHT_UP_WITHIN_MS:
        text = f"Aborted add voter operation for {_named(change.voter.key)} since it is lagging behind"
        finish(core, leader, ErrorCode.REQUEST_TIMED_OUT, text)
        return True
    node = VoterNode(change.voter.key, change.voter.endpoints, supported.min_version, supported.max_version)
    change.last_offset = _append_voters(core, leader, core.control.voters.with_voter(node), now_ms)
    if not change.ack_when_committed and change.request_id is not None:
        core.respond(change.request_id, AddRaftVoterResponse())
        change.request_id = None
    return True


def handle_remove(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Remove a voter and respond when the removal is committed.

    Errors: docs/protocol.md, "Voter changes", in that order.
    """
    request = event.message
    assert isinstance(request, RemoveRaftVoterRequest)
    error, text = _check_sender(core, request.cluster_id)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if error == ErrorCode.NONE and (key.id < 0 or key.directory_id == ZERO_UUID):
        error, text = ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
    leader = core.state
    voters: VoterSet | None = None
    if error == ErrorCode.NONE and isinstance(leader, Leader):
        error, text = _refuse_change(core, leader, "removing")
        voters = core.control.voters.without_voter(key) if error == ErrorCode.NONE else None
        if error == ErrorCode.NONE and voters is None:
            error = ErrorCode.VOTER_NOT_FOUND
            text = f"Cannot remove voter {_named(key)} from the set of voters {_all_named(core.control.voters)}"
    if voters is None or not isinstance(leader, Leader):
        core.respond(event.request_id, RemoveRaftVoterResponse(error_code=error, error_message=text or None))
        return
    change = VoterChange(event.request_id, None, now_ms + core.config.request_timeout_ms)
    change.last_offset = _append_voters(core, leader, voters, now_ms)
    leader.change = change
    core.is_dirty = True


def _check_sender(core: RaftCore, cluster_id: str | None) -> tuple[ErrorCode, str]:
    if core.is_foreign(cluster_id):
        text = f'The given id "{cluster_id}" doesn\'t match the cluster id "{core.config.cluster_id}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    return refuse_unless_leader(core, core.state.epoch), ""


def _append_voters(core: RaftCore, leader: Leader, voters: VoterSet, now_ms: int) -> int:
    assert core.control.voters.has_overlapping_majority(voters), "At most one voter changes at a time."
    return leadership.append_control(core, leader, [voters.to_record()], now_ms)


def poll_leader(core: RaftCore, leader: Leader, now_ms: int) -> None:
    """Finish a change that is committed or has timed out; a leader that was removed resigns."""
    change = leader.change
    if change is not None:
        if change.last_offset is not None and leader.high_watermark > change.last_offset:
            finish(core, leader, ErrorCode.NONE, None)
        elif now_ms >= change.deadline_ms:
            finish(core, leader, ErrorCode.REQUEST_TIMED_OUT, "The change was not committed in time.")
        else:
            core.wake_at(change.deadline_ms)
    if not leader.is_voter and core.control.voters_offset < leader.high_watermark:
        leadership.resign(core, leader, now_ms)


def finish(core: RaftCore, leader: Leader, error: ErrorCode, text: str | None) -> None:
    """Respond to the request of the pending change, and allow the next change."""
    change, leader.change = leader.change, None
    if change is not None and change.request_id is not None:
        response_class = RemoveRaftVoterResponse if change.voter is None else AddRaftVoterResponse
        core.respond(change.request_id, response_class(error_code=error, error_message=text))


def handle_update(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Change a voter's endpoints or version range. Errors: docs/protocol.md, "Voter changes", in that order."""
    request = event.message
    assert isinstance(request, UpdateRaftVoterRequest)
    error = _update(core, request, now_ms)
    endpoint = core.leader_endpoint() if core.state.leader_id >= 0 else None
    current = UpdateRaftVoterResponseCurrentLeader(
        leader_id=core.state.leader_id,
        leader_epoch=core.state.epoch,
        host="" if endpoint is None else endpoint.host,
        port=0 if endpoint is None else endpoint.port,
    )
    core.respond(event.request_id, UpdateRaftVoterResponse(error_code=error, current_leader=current))


def _update(core: RaftCore, request: UpdateRaftVoterRequest, now_ms: int) -> ErrorCode:
    if core.is_foreign(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    error = refuse_unless_leader(core, request.current_leader_epoch)
    leader = core.state
    if error != ErrorCode.NONE or not isinstance(leader, Leader):
        return error
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    level, has_versions = core.control.kraft_version, core.control.kraft_version >= 1
    if leader.change is not None or leader.high_watermark < 0:
        return ErrorCode.REQUEST_TIMED_OUT
    if has_versions and core.control.voters_offset >= leader.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT
    supported = request.kraft_version_feature
    if not supported.min_supported_version <= level <= supported.max_supported_version:
        return ErrorCode.INVALID_REQUEST
    if listener_endpoint(request.listeners, core.config.listener_name) is None:
        return ErrorCode.INVALID_REQUEST
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
    node = VoterNode(key, endpoints, supported.min_supported_version, supported.max_supported_version)
    if not has_versions:  # kept in memory for the upgrade to kraft.version 1
        if key.id not in core.control.voters.by_id:
            return ErrorCode.VOTER_NOT_FOUND
        leader.volatile_voters[key.id] = node
    else:
        updated = core.control.voters.with_updated(node)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        _append_voters(core, leader, updated, now_ms)
    leader.fetched_snapshot(key, now_ms)  # counts as contact
    return ErrorCode.NONE


def upgrade_kraft_version(core: RaftCore, level: int, now_ms: int, *, validate_only: bool) -> None:
    """Upgrade from kraft.version 0 to 1: append the version and the voters to the log.

    Raises KafkaError NOT_CONTROLLER when this node is not the leader, INVALID_UPDATE_VERSION when the level is unknown
    or lower than the current one, or a voter has not sent this leader its directory and versions. Does nothing for the
    current level.
    """
    leader = core.state
    if not isinstance(leader, Leader):
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"Node {core.me.id} does not lead the quorum.")
    now = core.control.kraft_version
    if level == now:
        return
    if not MIN_KRAFT_VERSION <= level <= MAX_KRAFT_VERSION or level < now:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{KRAFT_VERSION} cannot go from {now} to {level}.")
    nodes = {**leader.volatile_voters, core.me.id: core.config.voter_node}
    for node_id in core.control.voters.by_id:
        node = nodes.get(node_id)
        if node is None or not node.min_kraft_version <= level <= node.max_kraft_version:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"Voter {node_id} has not said that it supports version {level}."
            )
    if leader.high_watermark < 0:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "The leader has not committed a record of its epoch yet.")
    if not validate_only:
        voters = VoterSet.of(nodes[node_id] for node_id in core.control.voters.by_id)
        records: list[ControlRecord] = [KRaftVersionRecord(kraft_version=level), voters.to_record()]
        leadership.append_control(core, leader, records, now_ms)


# --- the follower's side ----------------------------------------------------------------------------------------------


def poll_follower(core: RaftCore, state: Follower, now_ms: int) -> None:
    """Keep this node's entry in the voter set up to date, or join the voters when configured to (KIP-1186)."""
    if not core.config.is_voter_capable or not core.config.endpoints:
        return
    if now_ms < state.update_voter_at_ms:
        core.wake_at(state.update_voter_at_ms)
        return
    state.update_voter_at_ms = now_ms + core.config.fetch_timeout_ms
    core.wake_at(state.update_voter_at_ms)
    if not state.has_fetched:
        return
    request: Message | None = None
    kind = Kind.UPDATE_VOTER
    if core.is_voter:
        if _should_update(core, state):
            request = _update_request(core)
    elif core.config.auto_join and core.control.kraft_version >= 1:
        old = core.control.voters.by_id.get(core.me.id)
        kind = Kind.ADD_VOTER if old is None else Kind.REMOVE_VOTER
        request = _add_request(core) if old is None else _remove_request(core, old.key)
    if request is not None and core.can_send(kind, state.leader_id, now_ms):
        core.send(kind, state.leader_id, state.leader_endpoint, request)


def _should_update(core: RaftCore, state: Follower) -> bool:
    if core.control.kraft_version < 1:
        return not state.has_updated_voter
    return core.control.voters.by_id[core.me.id] != core.config.voter_node


def _update_request(core: RaftCore) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=core.config.cluster_id,
        current_leader_epoch=core.state.epoch,
        voter_id=core.me.id,
        voter_directory_id=core.me.directory_id,
        listeners=tuple(
            UpdateRaftVoterRequestListener(name=each.name, host=each.host, port=each.port)
            for each in core.config.endpoints
        ),
        kraft_version_feature=UpdateRaftVoterRequestKRaftVersionFeature(
            min_supported_version=MIN_KRAFT_VERSION, max_supported_version=MAX_KRAFT_VERSION
        ),
    )


def _add_request(core: RaftCore) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=core.config.cluster_id,
        timeout_ms=core.config.request_timeout_ms,
        voter_id=core.me.id,
        voter_directory_id=core.me.directory_id,
        listeners=tuple(
            AddRaftVoterRequestListener(name=each.name, host=each.host, port=each.port)
            for each in core.config.endpoints
        ),
        ack_when_committed=False,
    )


def _remove_request(core: RaftCore, old: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=core.config.cluster_id, voter_id=old.id, voter_directory_id=old.directory_id
    )


def on_update_response(core: RaftCore, response: Any, now_ms: int) -> bool:
    """Handle a response to this node's UpdateRaftVoter. False requests a backoff."""
    leader = response.current_leader
    endpoint = Endpoint("", leader.host, leader.port) if leader.host else None
    handled = core.handle_common(response.error_code, leader.leader_id, leader.leader_epoch, endpoint, now_ms)
    state = core.state
    if handled is Handled.CONTINUE and isinstance(state, Follower):
        if response.error_code in {ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION}:
            state.has_updated_voter = True
            core.leader_answered(state, now_ms)
            return True
        return False
    return handled is Handled.DONE
