"""Requests as frames, ready to be sent, and what their answers say."""

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
    """Create topics, with a replica on each broker where nothing else is said."""
    request = CreateTopicsRequest(
        timeout_ms=60_000,
        topics=tuple(
            CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
            for name in names
        ),
    )
    return encode_request(request, CREATE_TOPICS_VERSION, 1, "bench")


def create_topic_frames(prefix: str, count: int, partitions: int = 3, per_request: int = 1) -> list[bytes]:
    """`count` requests that create topics whose names nobody else uses."""
    return [
        create_topics_frame([f"{prefix}-{number}-{each}" for each in range(per_request)], partitions)
        for number in range(count)
    ]


def alter_config_frames(topic: str, count: int) -> list[bytes]:
    """`count` changes of one topic's retention, each to another value."""
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
    """A heartbeat of a registered broker; one that wants to be fenced or shut down loses its leaderships by it."""
    request = cluster.heartbeat_of(broker_id)
    wish = msgspec.structs.replace(request, want_fence=want_fence, want_shut_down=want_shut_down)
    return encode_request(wish, HEARTBEAT_VERSION, 1, "bench")


def delete_topics_frame(names: Sequence[str]) -> bytes:
    """Delete topics by name."""
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
    """A leader's word that `isr` (broker id -> broker epoch) is in sync in each of these partitions, which it leads."""
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


def must_succeed(
    answers: Iterable[bytes], api_key: int, version: int, codes: Callable[[Message], Iterable[int]]
) -> None:
    """Every answer must be free of errors: a figure of refused requests would say nothing."""
    found: Counter[int] = Counter()
    for answer in answers:
        found.update(codes(decode_response(api_key, version, answer)[1]))
    wrong = {ErrorCode(code).name: count for code, count in found.items() if code}
    if wrong:
        raise AssertionError(f"requests were refused: {wrong}")


def topics_must_be_created(answers: Iterable[bytes]) -> None:
    """Every topic of every CreateTopics answer was created."""
    must_succeed(answers, 19, CREATE_TOPICS_VERSION, lambda answer: [each.error_code for each in answer.topics])  # type: ignore[attr-defined]  # a CreateTopicsResponse


def topics_must_be_deleted(answers: Iterable[bytes]) -> None:
    """Every topic of every DeleteTopics answer was deleted."""
    must_succeed(answers, 20, DELETE_TOPICS_VERSION, lambda answer: [each.error_code for each in answer.responses])  # type: ignore[attr-defined]  # a DeleteTopicsResponse


def configs_must_be_changed(answers: Iterable[bytes]) -> None:
    """Every IncrementalAlterConfigs was carried out."""
    must_succeed(answers, 44, ALTER_CONFIGS_VERSION, lambda answer: [each.error_code for each in answer.responses])  # type: ignore[attr-defined]  # an IncrementalAlterConfigsResponse


def heartbeats_must_be_well(answers: Iterable[bytes]) -> None:
    """Every heartbeat was taken in."""
    must_succeed(answers, 63, HEARTBEAT_VERSION, lambda answer: [answer.error_code])  # type: ignore[attr-defined]  # a BrokerHeartbeatResponse


def partitions_must_be_altered(answers: Iterable[bytes]) -> None:
    """Every AlterPartition was carried out, for each of its partitions."""
    must_succeed(
        answers,
        56,
        ALTER_PARTITION_VERSION,
        lambda answer: [  # an AlterPartitionResponse
            answer.error_code,  # type: ignore[attr-defined]  # an AlterPartitionResponse
            *(each.error_code for topic in answer.topics for each in topic.partitions),  # type: ignore[attr-defined]  # the same
        ],
    )
