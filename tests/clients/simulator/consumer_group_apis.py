"""The coordinator of consumer-protocol groups in a simulated broker: ConsumerGroupHeartbeat, and who may commit.

Groups of this protocol have ids that begin with PREFIX. Their log and their offsets are where those of classic groups
are; a broker that becomes the coordinator loads the members from the log and restarts their sessions.
"""

from typing import Final, cast

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
)
from tests.clients.simulator.consumer_groups import SimConsumerGroup
from tests.clients.simulator.sim_broker import SimBroker

PREFIX: Final = "consumer-protocol"
_KEY: Final = "consumer groups"
_GROUP: Final = 0  # the type of the key in FindCoordinator


def group_of(broker: SimBroker, group_id: str) -> SimConsumerGroup:
    """Return a group of which this broker is the coordinator, with its sessions up to date."""
    loaded = cast("dict[str, tuple[int, SimConsumerGroup]]", broker.state.setdefault(_KEY, {}))
    known_term, group = loaded.get(group_id, (-1, None))
    now_ms, term = broker.cluster.now_ms, broker.cluster.terms[_GROUP, group_id]
    if group is None or known_term != term:  # moved since, even if it has come back
        group = SimConsumerGroup(broker.cluster.logs, broker.cluster.names_by_id)
        loaded[group_id] = term, group
        for key, value in broker.cluster.group_logs.get(group_id, ()):
            group.apply(key, value)
        group.begin_sessions(now_ms)
    group.expire(now_ms)
    write(broker, group_id, group)
    return group


def write(broker: SimBroker, group_id: str, group: SimConsumerGroup) -> None:
    """Write what changed to the group's log."""
    if group.records:
        broker.cluster.group_logs.setdefault(group_id, []).extend(group.records)
        group.records.clear()


def heartbeat(broker: SimBroker, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Take a heartbeat, and look at the owners of all partitions."""
    group = group_of(broker, request.group_id)
    try:
        answer = group.heartbeat(request, broker.cluster.now_ms)
    except KafkaError as refused:
        answer = ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)
    write(broker, request.group_id, group)
    broker.cluster.on_group_change()
    return answer


def commit_error(broker: SimBroker, request: OffsetCommitRequest) -> ErrorCode:
    """Return why a member may not commit."""
    try:
        group = group_of(broker, request.group_id)
        group.checked_epoch(request.member_id, request.generation_id_or_member_epoch)
    except KafkaError as refused:
        return refused.code
    return ErrorCode.NONE


def fetch_error(broker: SimBroker, wanted: OffsetFetchRequestOffsetFetchRequestGroup) -> ErrorCode:
    """Return why a member may not look up offsets; without a member id anyone may."""
    if not wanted.member_id or wanted.member_epoch < 0:
        return ErrorCode.NONE
    try:
        group_of(broker, wanted.group_id).checked_epoch(wanted.member_id, wanted.member_epoch)
    except KafkaError as refused:
        return refused.code
    return ErrorCode.NONE
