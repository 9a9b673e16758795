"""Encoded requests and checks of their answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from benchmarks.sides import BROKERS, Cluster
from kraft_core.image.topics_image import PartitionRegistration
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraft_core.protocol.wire import Message

CREATE_TOPICS_VERSION = 7
ALTER_CONFIGS_VERSION = 1
HEARTBEAT_VERSION = 1
DELETE_TOPICS_VERSION = 6
ALTER_PARTITION_VERSION = 3
TOPIC_RESOURCE = 2


def create_topics_frame(names: Sequence[str], partitions: int, replicas: int = len(BROKERS)) -> bytes:
    """Return a CreateTopics request; by default each broker gets a replica."""
    request = CreateTopicsRequest(
        timeout_ms=60_000,
        topics=tuple(
            CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
            for name in names
        ),
    )
    return encode_request(request, CREATE_TOPICS_VERSION, 1, "bench")


def create_topic_frames(prefix: str, count: int, partitions: int = 3, per_request: int = 1) -> list[bytes]:
    """Return `count` CreateTopics requests; topic names begin with `prefix`."""
    return [
        create_topics_frame([f"{prefix}-{number}-{each}" for each in range(per_request)], partitions)
        for number in range(count)
    ]


def alter_config_frames(topic: str, count: int) -> list[bytes]:
    """Return `count` changes of one topic's retention.ms, each to another value."""
    return [
        encode_request(
            IncrementalAlterConfigsRequest(
                resources=(
                    IncrementalAlterConfigsRequestAlterConfigsResource(
                        resource_type=TOPIC_RESOURCE,
                        resource_name=topic,
                        configs=(
                            IncrementalAlterConfigsRequestAlterableConfig(
                                name="retention.ms", config_operation=0, value=str(1_000_000 + number)
                            ),
                        ),
                    ),
                ),
            ),
            ALTER_CONFIGS_VERSION,
            number,
            "bench",
        )
        for number in range(count)
    ]


def heartbeat_frame(
    cluster: Cluster, broker_id: int, *, want_fence: bool = False, want_shut_down: bool = False
) -> bytes:
    """Return a heartbeat of a registered broker. With WantFence or WantShutDown it loses its leaderships."""
    request = cluster.heartbeat_of(broker_id)
    wish = msgspec.structs.replace(request, want_fence=want_fence, want_shut_down=want_shut_down)
    return encode_request(wish, HEARTBEAT_VERSION, 1, "bench")


def delete_topics_frame(names: Sequence[str]) -> bytes:
    """Return a DeleteTopics request."""
    request = DeleteTopicsRequest(
        timeout_ms=60_000, topics=tuple(DeleteTopicsRequestDeleteTopicState(name=name) for name in names)
    )
    return encode_request(request, DELETE_TOPICS_VERSION, 1, "bench")


def alter_partition_frame(
    broker_id: int,
    broker_epoch: int,
    topic_id: UUID,
    partitions: Mapping[int, PartitionRegistration],
    isr: Mapping[int, int],
) -> bytes:
    """Return an AlterPartition of the leader `broker_id`. `isr` (broker id -> epoch) is the ISR of each partition."""
    states = tuple(
        AlterPartitionRequestBrokerState(broker_id=replica, broker_epoch=epoch) for replica, epoch in isr.items()
    )
    data = tuple(
        AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=states,
        )
        for index, partition in partitions.items()
    )
    topics = (AlterPartitionRequestTopicData(topic_id=topic_id, partitions=data),)
    request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)
    return encode_request(request, ALTER_PARTITION_VERSION, 1, "bench")


def check_answers(
    answers: Iterable[bytes], api_key: int, version: int, codes: Callable[[Message], Iterable[int]]
) -> None:
    """Raise AssertionError when an answer has an error: figures of refused requests are meaningless."""
    found: Counter[int] = Counter()
    for answer in answers:
        found.update(codes(decode_response(api_key, version, answer)[1]))
    wrong = {ErrorCode(code).name: count for code, count in found.items() if code}
    if wrong:
        raise AssertionError(f"requests were refused: {wrong}")


def check_topics_created(answers: Iterable[bytes]) -> None:
    """Raise AssertionError unless all topics of the CreateTopics answers were created."""
    check_answers(answers, 19, CREATE_TOPICS_VERSION, lambda answer: [each.error_code for each in answer.topics])  # type: ignore[attr-defined]  # a CreateTopicsResponse


def check_topics_deleted(answers: Iterable[bytes]) -> None:
    """Raise AssertionError unless all topics of the DeleteTopics answers were deleted."""
    check_answers(answers, 20, DELETE_TOPICS_VERSION, lambda answer: [each.error_code for each in answer.responses])  # type: ignore[attr-defined]  # a DeleteTopicsResponse


def check_configs_altered(answers: Iterable[bytes]) -> None:
    """Raise AssertionError unless all IncrementalAlterConfigs requests succeeded."""
    check_answers(answers, 44, ALTER_CONFIGS_VERSION, lambda answer: [each.error_code for each in answer.responses])  # type: ignore[attr-defined]  # an IncrementalAlterConfigsResponse


def check_heartbeats(answers: Iterable[bytes]) -> None:
    """Raise AssertionError unless all heartbeats succeeded."""
    check_answers(answers, 63, HEARTBEAT_VERSION, lambda answer: [answer.error_code])  # type: ignore[attr-defined]  # a BrokerHeartbeatResponse


def check_partitions_altered(answers: Iterable[bytes]) -> None:
    """Raise AssertionError unless all AlterPartition requests succeeded for each partition."""
    check_answers(
        answers,
        56,
        ALTER_PARTITION_VERSION,
        lambda answer: [  # an AlterPartitionResponse
            answer.error_code,  # type: ignore[attr-defined]  # an AlterPartitionResponse
            *(each.error_code for topic in answer.topics for each in topic.partitions),  # type: ignore[attr-defined]  # the same
        ],
    )
