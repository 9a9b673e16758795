"""Every API in every version that an embedded node advertises, and invalid bytes."""

import asyncio
import socket
import struct
import uuid
from collections.abc import Iterator

import pytest

from kraft_core.broker.apis.kafka_apis import FORWARDED, SERVED
from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.configs import config_resource
from kraft_core.protocol.api_keys import ApiKey, request_class
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopicRequest,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchRequestOffsetFetchRequestTopic,
    OffsetFetchRequestOffsetFetchRequestTopics,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestOffsetForLeaderPartition,
    OffsetForLeaderEpochRequestOffsetForLeaderTopic,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from kraft_core.protocol.wire import Message
from tests.broker.batches import batch
from tests.interop import kafka
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node

PARKED_FOR_MS = 60_000
"""How long to wait for the response to a fetch that waits ten times as long for records."""
TOPIC = "wire"
GROUP = "wire-group"
PAIRS = [(ApiKey(key), version) for key, (low, high) in SERVED.items() for version in range(low, high + 1)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("apis") / "node") as started:
        topic = CreateTopicsRequest(
            topics=(CreateTopicsRequestCreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1),),
            timeout_ms=5_000,
        )
        assert ask(started, topic, 7).topics[0].error_code == ErrorCode.NONE
        kafka.wait_until(lambda: is_whole(started), kafka.PATIENCE_S, "the topic takes records and the group offsets")
        yield started


def is_whole(node: EmbeddedNode) -> bool:
    """Return whether the broker leads the topic, has producer ids and has loaded the group."""
    apis = (ApiKey.PRODUCE, 9), (ApiKey.INIT_PRODUCER_ID, 4), (ApiKey.FIND_COORDINATOR, 4), (ApiKey.OFFSET_COMMIT, 9)
    answers = [ask(node, meaningful(api, version, uuid.UUID(int=0)), version) for api, version in apis]
    return {code for answer in answers for code in error_codes(answer)} <= {ErrorCode.NONE}


def produce_request(topic_id: uuid.UUID | None = None, acks: int = -1) -> ProduceRequest:
    data = ProduceRequestPartitionProduceData(index=0, records=batch([b"value"]))
    if topic_id is not None:
        topic = ProduceRequestTopicProduceData(topic_id=topic_id, partition_data=(data,))
    else:
        topic = ProduceRequestTopicProduceData(name=TOPIC, partition_data=(data,))
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=(topic,))


def ask(node: EmbeddedNode, request: Message, version: int) -> Message:
    """Send one request in one version on its own connection."""

    async def send() -> Message:
        connection = await KafkaConnection.open("127.0.0.1", node.port, "test", 60_000)
        try:
            return await connection.request(request, 60_000, max_version=version)
        finally:
            connection.close()

    return asyncio.run(send())


def topic_id(node: EmbeddedNode) -> uuid.UUID:
    return next(topic.topic_id for topic in node.metadata().topics if topic.name == TOPIC)


def of_groups(version: int, topic: uuid.UUID) -> dict[ApiKey, Message]:
    """Return requests of a group that commits an offset of the topic."""
    offset = OffsetCommitRequestOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return {
        ApiKey.OFFSET_COMMIT: OffsetCommitRequest(
            group_id=GROUP,
            topics=(OffsetCommitRequestOffsetCommitRequestTopic(name=TOPIC, topic_id=topic, partitions=(offset,)),),
        ),
        ApiKey.OFFSET_FETCH: OffsetFetchRequest(
            group_id=GROUP,
            topics=(OffsetFetchRequestOffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),),
        )
        if version < 8
        else OffsetFetchRequest(
            groups=(
                OffsetFetchRequestOffsetFetchRequestGroup(
                    group_id=GROUP,
                    topics=(
                        OffsetFetchRequestOffsetFetchRequestTopics(name=TOPIC, topic_id=topic, partition_indexes=(0,)),
                    ),
                ),
            )
        ),
        ApiKey.FIND_COORDINATOR: FindCoordinatorRequest(key=GROUP)
        if version < 4
        else FindCoordinatorRequest(coordinator_keys=(GROUP,)),
        ApiKey.LEAVE_GROUP: LeaveGroupRequest(group_id=GROUP, member_id="m")
        if version < 3
        else LeaveGroupRequest(group_id=GROUP, members=(LeaveGroupRequestMemberIdentity(member_id="m"),)),
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=(GROUP, "unknown")),
    }


def meaningful(api: ApiKey, version: int, topic: uuid.UUID) -> Message:
    """Return a request with a non-empty response where possible."""
    by_api: dict[ApiKey, Message] = {
        **of_groups(version, topic),
        ApiKey.PRODUCE: produce_request(topic if version >= 13 else None),
        ApiKey.FETCH: FetchRequest(
            topics=(
                FetchRequestFetchTopic(
                    topic=TOPIC,
                    topic_id=topic,
                    partitions=(FetchRequestFetchPartition(partition=0, partition_max_bytes=1_000),),
                ),
            ),
        ),
        ApiKey.LIST_OFFSETS: ListOffsetsRequest(
            replica_id=-1,
            topics=(
                ListOffsetsRequestListOffsetsTopic(
                    name=TOPIC,
                    partitions=(ListOffsetsRequestListOffsetsPartition(partition_index=0, timestamp=-1),),
                ),
            ),
        ),
        ApiKey.METADATA: MetadataRequest(topics=(MetadataRequestMetadataRequestTopic(name=TOPIC),)),
        ApiKey.DELETE_RECORDS: DeleteRecordsRequest(
            topics=(
                DeleteRecordsRequestDeleteRecordsTopic(
                    name=TOPIC,
                    partitions=(DeleteRecordsRequestDeleteRecordsPartition(partition_index=1, offset=0),),
                ),
            )
        ),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id=None),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
            topics=(
                OffsetForLeaderEpochRequestOffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=(OffsetForLeaderEpochRequestOffsetForLeaderPartition(partition=0, leader_epoch=0),),
                ),
            )
        ),
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsRequestDescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in ((2, TOPIC), (4, "1"), (4, ""), (16, "s"), (32, GROUP))
            ),
            include_synonyms=True,
            include_documentation=version >= 3,
        ),
        ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest(
            topics=(DescribeProducersRequestTopicRequest(name=TOPIC, partition_indexes=(0,)),)
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(
            topics=(DescribeTopicPartitionsRequestTopicRequest(name=TOPIC),)
        ),
    }
    return by_api.get(api, request_class(api)())


def error_codes(message: Message) -> Iterator[int]:
    """Yield every error code in a response."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, tuple):
            for element in value:
                if isinstance(element, Message):
                    yield from error_codes(element)


EXPECTED = {
    ApiKey.JOIN_GROUP: {ErrorCode.INVALID_GROUP_ID},
    ApiKey.SYNC_GROUP: {ErrorCode.INVALID_GROUP_ID},
    ApiKey.HEARTBEAT: {ErrorCode.INVALID_GROUP_ID},
    ApiKey.OFFSET_DELETE: {ErrorCode.INVALID_GROUP_ID},
    ApiKey.LEAVE_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.DESCRIBE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.API_VERSIONS: {ErrorCode.INVALID_REQUEST},
    ApiKey.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},  # the listener has no SASL
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {ErrorCode.UNSUPPORTED_VERSION},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {ErrorCode.UNSUPPORTED_VERSION},
}
LOCAL_PAIRS = [pair for pair in PAIRS if pair[0] not in FORWARDED]


@pytest.mark.parametrize(("api", "version"), LOCAL_PAIRS, ids=[f"{api.name}-{version}" for api, version in LOCAL_PAIRS])
def test_an_advertised_version_is_served(node: EmbeddedNode, api: ApiKey, version: int) -> None:
    request = meaningful(api, version, topic_id(node))

    answer = ask(node, request, version)

    assert set(error_codes(answer)) <= {ErrorCode.NONE, *EXPECTED.get(api, set())}


@pytest.mark.parametrize("api", FORWARDED, ids=[api.name for api in FORWARDED])
def test_a_forwarded_request_is_answered_by_the_controller(node: EmbeddedNode, api: ApiKey) -> None:
    for version in range(SERVED[api][0], SERVED[api][1] + 1):
        answer = ask(node, request_class(api)(), version)

        assert type(answer).__name__.removesuffix("Response") == request_class(api).__name__.removesuffix("Request")


def test_the_advertised_apis_are_the_served_ones(node: EmbeddedNode) -> None:
    async def versions() -> dict[int, tuple[int, int]]:
        connection = await KafkaConnection.open("127.0.0.1", node.port, "test")
        connection.close()
        return connection.node_versions

    assert asyncio.run(versions()) == SERVED


def raw(node: EmbeddedNode, frame: bytes) -> bytes:
    """Send bytes. Return one response without its size, b"" when the connection is closed instead."""
    with (
        socket.create_connection(("127.0.0.1", node.port), kafka.PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        try:
            connection.sendall(frame)
            return answers.read(int.from_bytes(answers.read(4), "big"))
        except ConnectionError:  # closed before everything was read
            return b""


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(node: EmbeddedNode) -> None:
    answer = raw(node, struct.pack(">ihhihb", 11, ApiKey.API_VERSIONS, 99, 7, -1, 0))

    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, answer)
    assert correlation_id == 7
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 1, -1),
        struct.pack(">ihhih", 10, ApiKey.VOTE, 0, 1, -1),
        struct.pack(">i", -5) + b"garbage",
        struct.pack(">i", 2**31 - 1) + b"huge",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhih", 11, ApiKey.PRODUCE, 3, 1, -1) + b"\xff",
    ],
    ids=["unknown-api", "unknown-version", "controllers-api", "negative-size", "huge-size", "http", "cut-body"],
)
def test_an_invalid_frame_closes_its_connection_only(node: EmbeddedNode, frame: bytes) -> None:
    assert raw(node, frame) == b""
    assert node.metadata().topics


def test_a_failed_produce_without_acks_closes_the_connection(node: EmbeddedNode) -> None:
    data = ProduceRequestPartitionProduceData(index=99, records=batch([b"v"]))
    topic = ProduceRequestTopicProduceData(name=TOPIC, partition_data=(data,))

    assert raw(node, encode_request(ProduceRequest(acks=0, topic_data=(topic,)), 9, 1, "test")) == b""


def test_each_faulty_produce_has_its_error_code(node: EmbeddedNode) -> None:
    def code(request: ProduceRequest, version: int) -> int:
        return ask(node, request, version).responses[0].partition_responses[0].error_code

    assert code(produce_request(acks=2), 9) == ErrorCode.INVALID_REQUIRED_ACKS
    assert code(produce_request(uuid.uuid4()), 13) == ErrorCode.UNKNOWN_TOPIC_ID
    data = ProduceRequestPartitionProduceData(index=0, records=b"nonsense" * 10)
    topic = ProduceRequestTopicProduceData(name=TOPIC, partition_data=(data,))
    assert code(ProduceRequest(acks=1, topic_data=(topic,)), 9) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_configs_that_cannot_be_described_have_apaches_errors(node: EmbeddedNode) -> None:
    """ConfigHelper.describeConfigs: errors are per resource, but an unknown type fails the whole request."""

    def errors(*resources: tuple[int, str]) -> list[tuple[int, str | None]]:
        asked = tuple(
            DescribeConfigsRequestDescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in resources
        )
        answer = ask(node, DescribeConfigsRequest(resources=asked), 4)
        return [(result.error_code, result.error_message) for result in answer.results]

    invalid = ErrorCode.INVALID_REQUEST
    assert errors(
        (config_resource.TOPIC, "absent"),
        (config_resource.BROKER, "9"),
        (config_resource.BROKER, "x"),
        (config_resource.BROKER_LOGGER, ""),
        (config_resource.GROUP, ""),
    ) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (invalid, "Unexpected broker id, expected 1 or empty string, but received 9"),
        (invalid, "Broker id must be an integer, but it is: x"),
        (invalid, "Broker id must not be empty"),
        (invalid, "Group name must not be empty"),
    ]
    assert errors((config_resource.TOPIC, TOPIC), (99, "x")) == [(invalid, None)] * 2


def test_the_log_levels_of_a_broker_are_described(node: EmbeddedNode) -> None:
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=config_resource.BROKER_LOGGER, resource_name="1", configuration_keys=("root",)
    )
    (result,) = ask(node, DescribeConfigsRequest(resources=(resource,)), 4).results

    assert [(each.name, each.value) for each in result.configs] == [("root", "INFO")]


def test_a_delayed_fetch_completes_when_records_arrive(node: EmbeddedNode) -> None:
    async def run() -> int:
        reader = await KafkaConnection.open("127.0.0.1", node.port, "reader")
        writer = await KafkaConnection.open("127.0.0.1", node.port, "writer")
        end = (
            (await reader.request(meaningful(ApiKey.LIST_OFFSETS, 9, uuid.UUID(int=0)))).topics[0].partitions[0].offset
        )
        fetch = FetchRequest(
            max_wait_ms=10 * PARKED_FOR_MS,
            min_bytes=1,
            topics=(
                FetchRequestFetchTopic(
                    topic=TOPIC,
                    partitions=(FetchRequestFetchPartition(fetch_offset=end, partition_max_bytes=1_000),),
                ),
            ),
        )
        waiting = asyncio.create_task(reader.request(fetch, PARKED_FOR_MS, max_version=12))
        await writer.request(produce_request(), max_version=9)
        answer = await waiting
        reader.close()
        writer.close()
        return len(answer.responses[0].partitions[0].records)

    assert asyncio.run(run()) > 61
