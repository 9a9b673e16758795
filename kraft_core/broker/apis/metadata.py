"""Metadata, DescribeTopicPartitions and DescribeCluster, answered from the metadata image.

Source: KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache and DescribeTopicPartitionsRequestHandler, Kafka 4.3.1;
KIP-516, KIP-966.
"""

from collections.abc import Sequence
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.slices import Work
from kraft_core.image.metadata_image import PartitionRegistration, TopicImage
from kraft_core.image.topics_image import TopicsImage
from kraft_core.protocol.endpoint_type import EndpointType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseDescribeClusterBroker,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    MetadataResponseMetadataResponseBroker,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from kraft_core.protocol.topic_names import validate_topic_name
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.server.network.request import Request

_LISTENER_ERROR_SINCE: Final = 6
_NULL_NAME_SINCE: Final = 12


class MetadataHandler:
    """Answers requests about brokers and topics."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def metadata(self, body: MetadataRequest, request: Request) -> Work[None]:
        """Return brokers and topics, one topic per step. Missing topics are created if request and configs allow it.

        Per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION. Per partition:
        LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND.
        """
        image = self._context.metadata.image.topics
        topics: list[MetadataResponseMetadataResponseTopic] = []
        if body.topics is None or (request.header.api_version == 0 and not body.topics):
            for existing in sorted(image.by_name):
                topics.append(self._topic(image.by_id[image.by_name[existing]], request))
                yield 0
        else:
            asked = dict.fromkeys((topic.topic_id, topic.name) for topic in body.topics)
            for topic_id, name in asked:
                topics.append(
                    self._requested_topic(
                        MetadataRequestMetadataRequestTopic(topic_id=topic_id, name=name), body, request, image
                    )
                )
                yield 0
        request.respond(self._answer(topics, request))

    def _answer(self, topics: Sequence[MetadataResponseMetadataResponseTopic], request: Request) -> MetadataResponse:
        brokers = self._context.metadata.alive_brokers(request.listener_name)
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseMetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
                for broker, endpoint in brokers
            ),
            cluster_id=self._context.cluster_id,
            controller_id=self._controller_id(request),
            topics=tuple(topics),
        )

    def _controller_id(self, request: Request) -> int:
        """Return this broker's id as the controller's: it forwards the requests that clients send to a controller."""
        endpoint = self._context.metadata.endpoint(self._context.node_id, request.listener_name)
        return self._context.node_id if endpoint is not None else -1

    def _requested_topic(
        self,
        asked: MetadataRequestMetadataRequestTopic,
        body: MetadataRequest,
        request: Request,
        topics: TopicsImage,
    ) -> MetadataResponseMetadataResponseTopic:
        if asked.topic_id != ZERO_UUID:
            topic = topics.by_id.get(asked.topic_id)
            if topic is None:
                name = None if request.header.api_version >= _NULL_NAME_SINCE else ""
                return MetadataResponseMetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=asked.topic_id, name=name
                )
            return self._topic(topic, request)
        name = asked.name or ""
        topic = topics.topic(name)
        if topic is not None:
            return self._topic(topic, request)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not _is_legal(name):
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif body.allow_auto_topic_creation and self._context.config.auto_create_topics_enable:
            self._context.topic_creation.create_soon(name)
        return MetadataResponseMetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)

    def _topic(self, topic: TopicImage, request: Request) -> MetadataResponseMetadataResponseTopic:
        return MetadataResponseMetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(
                MetadataResponseMetadataResponsePartition(
                    error_code=self._partition_error(partition, request),
                    partition_index=index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=partition.replicas,
                    isr_nodes=partition.isr,
                    offline_replicas=self._offline(partition),
                )
                for index, partition in topic.sorted_partitions()
            ),
        )

    def _partition_error(self, partition: PartitionRegistration, request: Request) -> int:
        if self._context.metadata.endpoint(partition.leader, request.listener_name) is not None:
            return ErrorCode.NONE
        broker = self._context.metadata.image.cluster.brokers.get(partition.leader)
        alive = broker is not None and not broker.fenced
        if alive and request.header.api_version >= _LISTENER_ERROR_SINCE:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _offline(self, partition: PartitionRegistration) -> tuple[int, ...]:
        return tuple(
            broker_id
            for broker_id in partition.replicas
            if not self._context.metadata.image.is_replica_online(partition, broker_id)
        )

    def describe_topic_partitions(self, body: DescribeTopicPartitionsRequest, request: Request) -> Work[None]:
        """Return partitions with their ELR, one per step, and a cursor when there are more.

        The page has at most as many partitions as the request and max.request.partition.size.limit allow.
        """
        answer = yield from self._partitions_page(body, request)
        request.respond(answer)

    def _partitions_page(
        self, body: DescribeTopicPartitionsRequest, request: Request
    ) -> Work[DescribeTopicPartitionsResponse]:
        topics = self._context.metadata.image.topics
        names = sorted({topic.name for topic in body.topics}) if body.topics else sorted(topics.by_name)
        first = 0
        if body.cursor is not None:
            names = [name for name in names if name >= body.cursor.topic_name]
            first = body.cursor.partition_index
        limit = max(1, min(body.response_partition_limit, self._context.config.max_request_partition_size_limit))
        answered: list[DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic] = []
        for name in names:
            yield 0
            if limit == 0:
                return DescribeTopicPartitionsResponse(
                    topics=tuple(answered),
                    next_cursor=DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0),
                )
            start = first if body.cursor is not None and name == body.cursor.topic_name else 0
            topic = topics.topic(name)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
                answered.append(
                    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic(error_code=code, name=name)
                )
                continue
            partitions = [entry for entry in topic.sorted_partitions() if entry[0] >= start]
            page = partitions[:limit]
            described = yield from self._described(topic, page, request)
            answered.append(described)
            limit -= len(page)
            if len(page) < len(partitions):
                cursor = DescribeTopicPartitionsResponseCursor(
                    topic_name=name, partition_index=partitions[len(page)][0]
                )
                return DescribeTopicPartitionsResponse(topics=tuple(answered), next_cursor=cursor)
        return DescribeTopicPartitionsResponse(topics=tuple(answered))

    def _described(
        self, topic: TopicImage, page: list[tuple[int, PartitionRegistration]], request: Request
    ) -> Work[DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic]:
        partitions = []
        for index, partition in page:
            partitions.append(
                DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition(
                    error_code=self._partition_error(partition, request),
                    partition_index=index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=partition.replicas,
                    isr_nodes=partition.isr,
                    eligible_leader_replicas=partition.elr,
                    last_known_elr=partition.last_known_elr,
                    offline_replicas=self._offline(partition),
                )
            )
            yield 0
        return DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(partitions),
        )

    def describe_cluster(self, body: DescribeClusterRequest, request: Request) -> DescribeClusterResponse:
        """Return the brokers; fenced ones only on request.

        Errors: MISMATCHED_ENDPOINT_TYPE for the controllers' endpoints, UNSUPPORTED_ENDPOINT_TYPE.
        """
        if body.endpoint_type != EndpointType.BROKER:
            known = body.endpoint_type == EndpointType.CONTROLLER
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            return DescribeClusterResponse(
                error_code=code,
                error_message="The request was sent to an endpoint of type BROKER.",
                endpoint_type=EndpointType.BROKER,
            )
        brokers = []
        for _, broker in sorted(self._context.metadata.image.cluster.brokers.items()):
            endpoint = broker.listener(request.listener_name)
            if endpoint is None or (broker.fenced and not body.include_fenced_brokers):
                continue
            brokers.append(
                DescribeClusterResponseDescribeClusterBroker(
                    broker_id=broker.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
        return DescribeClusterResponse(
            error_message=None,
            endpoint_type=EndpointType.BROKER,
            cluster_id=self._context.cluster_id,
            controller_id=self._controller_id(request),
            brokers=tuple(brokers),
        )


def _is_legal(topic: str) -> bool:
    try:
        validate_topic_name(topic)
    except KafkaError:
        return False
    return True
