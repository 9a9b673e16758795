"""DescribeQuorum (KIP-595, KIP-836, KIP-853): the leader reports its replicas' progress.

Source: KafkaRaftClient.handleDescribeQuorumRequest, RaftUtil.singletonDescribeQuorumResponse of Kafka 4.3.1.
"""

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
)
from kraft_core.raft.events import RequestReceived
from kraft_core.raft.internals.leader_state import Leader, ReplicaProgress
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.internals.rpc import only_partition


def handle_describe_quorum(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Answer a DescribeQuorum. Errors, both per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
    request = event.message
    assert isinstance(request, DescribeQuorumRequest)
    if only_partition(request.topics) is None:
        topics = tuple(
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _failed(partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        core.respond(event.request_id, DescribeQuorumResponse(topics=topics))
        return
    leader = core.state
    if not isinstance(leader, Leader):
        partition = _failed(METADATA_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
        core.respond(event.request_id, DescribeQuorumResponse(topics=(topic,)))
        return
    end_offset = core.log.end_offset
    partition = DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_message="",
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        current_voters=tuple(_replica(leader, each, end_offset, now_ms) for each in leader.voter_progress),
        observers=tuple(_replica(leader, each, end_offset, now_ms) for each in leader.live_observers(now_ms)),
    )
    nodes = tuple(
        DescribeQuorumResponseNode(
            node_id=voter.key.id,
            listeners=tuple(
                DescribeQuorumResponseListener(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ),
        )
        for voter in core.control.voters.by_id.values()
    )
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    core.respond(event.request_id, DescribeQuorumResponse(error_message="", topics=(topic,), nodes=nodes))


def _failed(index: int, error: ErrorCode) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=index, error_code=error, error_message=error.default_message
    )


def _replica(
    leader: Leader, progress: ReplicaProgress, end_offset: int, now_ms: int
) -> DescribeQuorumResponseReplicaState:
    is_leader = progress.key.id == leader.me.id
    return DescribeQuorumResponseReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=end_offset if is_leader else progress.end_offset,
        last_fetch_timestamp=now_ms if is_leader else progress.last_fetch_ms,
        last_caught_up_timestamp=now_ms if is_leader else progress.last_caught_up_ms,
    )
