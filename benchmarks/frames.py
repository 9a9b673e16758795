"""Requests as frames, ready to be sent, and what their answers say."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from benchmarks.sides import BROKERS, Cluster
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraft_core.protocol.wire import Message

CREATE_TOPICS_VERSION = 7
ALTER_CONFIGS_VERSION = 1
HEARTBEAT_VERSION = 1
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


def heartbeat_frame(cluster: Cluster, broker_id: int) -> bytes:
    """A heartbeat of a registered broker."""
    return encode_request(cluster.heartbeat_of(broker_id), HEARTBEAT_VERSION, 1, "bench")


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
