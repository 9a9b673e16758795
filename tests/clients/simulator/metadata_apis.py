"""Metadata, FindCoordinator and InitProducerId without a transactional id, of a simulated broker."""

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseMetadataResponseBroker,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from kraft_core.protocol.wire import Message
from tests.clients.simulator.sim_broker import HANDLERS, Call, SimBroker


def metadata(broker: SimBroker, request: Message, call: Call) -> Message:
    """Answer from the broker's view, which may be old; a partition whose leader is known to be down has none."""
    assert isinstance(request, MetadataRequest)
    cluster = broker.cluster
    if request.topics is None:
        names = sorted(cluster.topic_ids)
    else:
        names = [topic.name or cluster.names_by_id.get(topic.topic_id, "") for topic in request.topics]
    nodes = [each for each in cluster.brokers.values() if each.is_up or cluster.world.chance(0.5)]
    return MetadataResponse(
        cluster_id="simulated",
        controller_id=1,
        brokers=tuple(
            MetadataResponseMetadataResponseBroker(node_id=node.id, host=node.address[0], port=node.address[1])
            for node in nodes
        ),
        topics=tuple(_topic(broker, name) for name in names),
    )


def _topic(broker: SimBroker, name: str) -> MetadataResponseMetadataResponseTopic:
    cluster = broker.cluster
    if name not in cluster.topic_ids or cluster.world.chance(cluster.disorder.refuse_before):
        return MetadataResponseMetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replicas = tuple(sorted(cluster.brokers))
    partitions = []
    for log in cluster.logs_of(name):
        leader, epoch = broker.view[log.partition]
        is_lost = not cluster.brokers[leader].is_up and cluster.world.chance(0.5)
        partitions.append(
            MetadataResponseMetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_lost else ErrorCode.NONE,
                partition_index=log.partition.partition,
                leader_id=-1 if is_lost else leader,
                leader_epoch=epoch,
                replica_nodes=replicas,
                isr_nodes=replicas,
            )
        )
    return MetadataResponseMetadataResponseTopic(
        name=name, topic_id=cluster.topic_ids[name], partitions=tuple(partitions)
    )


def find_coordinator(broker: SimBroker, request: Message, call: Call) -> Message:
    """Answer with the coordinator of each key, or an error while it is down."""
    assert isinstance(request, FindCoordinatorRequest)
    if call.header.api_version >= 4:
        found = tuple(_coordinator(broker, request.key_type, key) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(broker, request.key_type, request.key)
    return FindCoordinatorResponse(error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port)


def _coordinator(broker: SimBroker, key_type: int, key: str) -> FindCoordinatorResponseCoordinator:
    cluster = broker.cluster
    node = cluster.brokers[cluster.coordinator(key_type, key)]
    if not node.is_up or cluster.world.chance(cluster.disorder.refuse_before):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponseCoordinator(key=key, node_id=-1, port=-1, error_code=error)
    return FindCoordinatorResponseCoordinator(key=key, node_id=node.id, host=node.address[0], port=node.address[1])


HANDLERS[MetadataRequest.API_KEY] = metadata
HANDLERS[FindCoordinatorRequest.API_KEY] = find_coordinator
