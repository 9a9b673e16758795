"""Requests about the offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers.

Source: KafkaApis and ListOffsetsRequest, Kafka 4.3.1.
"""

import asyncio
from collections import Counter
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.log.unified_log import TimestampAndOffset
from kraft_core.broker.slices import Work
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from kraft_core.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponseDeleteRecordsPartitionResult,
    DeleteRecordsResponseDeleteRecordsTopicResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartitionResponse,
    DescribeProducersResponseProducerState,
    DescribeProducersResponseTopicResponse,
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderEpochResponseOffsetForLeaderTopicResult,
)
from kraft_core.server.network.request import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_HIGH_WATERMARK: Final = -1
_UNKNOWN: Final = TimestampAndOffset(-1, -1, -1)


class OffsetsHandler:
    """Answers requests about offsets. Errors per partition are those of `ReplicaManager.leader`."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def list_offsets(self, body: ListOffsetsRequest, request: Request) -> Work[None]:
        """Find offsets by timestamp, or by a negative timestamp that stands for a place in the log.

        Per partition also INVALID_REQUEST for one that is listed twice.
        """
        named = Counter((topic.name, asked.partition_index) for topic in body.topics for asked in topic.partitions)
        topics = []
        for topic in body.topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    if named[topic.name, asked.partition_index] > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST)
                    found = yield from self._find(topic.name, asked, is_consumer=body.replica_id < 0)
                    partitions.append(
                        ListOffsetsResponseListOffsetsPartitionResponse(
                            partition_index=asked.partition_index,
                            timestamp=found.timestamp,
                            offset=found.offset,
                            leader_epoch=found.leader_epoch if request.header.api_version >= 4 else -1,
                        )
                    )
                except KafkaError as error:
                    partitions.append(
                        ListOffsetsResponseListOffsetsPartitionResponse(
                            partition_index=asked.partition_index,
                            error_code=error.code,
                        )
                    )
                yield 0
            topics.append(ListOffsetsResponseListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
        request.respond(ListOffsetsResponse(topics=tuple(topics)))

    def _find(
        self, topic: str, asked: ListOffsetsRequestListOffsetsPartition, *, is_consumer: bool
    ) -> Work[TimestampAndOffset]:
        partition, partition_log = self._context.replicas.leader(
            topic, asked.partition_index, asked.current_leader_epoch
        )
        end_offset = partition.high_watermark(self._context.node_id) if is_consumer else partition_log.log_end_offset
        leader_epoch = partition.registration.leader_epoch
        if asked.timestamp == LATEST:
            return TimestampAndOffset(-1, end_offset, leader_epoch)
        if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = partition_log.log_start_offset
            epoch = partition_log.epochs.epoch_for(start)
            return TimestampAndOffset(-1, start, -1 if epoch is None else epoch)
        if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return _UNKNOWN
        if asked.timestamp == MAX_TIMESTAMP:
            found = yield from partition_log.find_max_timestamp()
        else:
            found = yield from partition_log.find_by_timestamp(asked.timestamp)
        return found if found is not None and found.offset < end_offset else _UNKNOWN

    def offset_for_leader_epoch(self, body: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """Return the end offsets of leader epochs; UNDEFINED (-1, -1) for an epoch that the log does not know."""
        topics = []
        for topic in body.topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    partition, partition_log = self._context.replicas.leader(
                        topic.topic, asked.partition, asked.current_leader_epoch
                    )
                    limit = (
                        partition_log.log_end_offset
                        if body.replica_id >= 0
                        else partition.high_watermark(self._context.node_id)
                    )
                    found = partition_log.epochs.end_offset_for(asked.leader_epoch, limit)
                    epoch, end_offset = (-1, -1) if found is None else found
                    partitions.append(
                        OffsetForLeaderEpochResponseEpochEndOffset(
                            partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
                        )
                    )
                except KafkaError as error:
                    partitions.append(
                        OffsetForLeaderEpochResponseEpochEndOffset(partition=asked.partition, error_code=error.code)
                    )
            topics.append(
                OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))
            )
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def delete_records(self, body: DeleteRecordsRequest, request: Request) -> None:
        """Advance log start offsets; -1 stands for the high watermark.

        The response is sent after the segments before the new start are deleted, which makes room on a full disk. Per
        partition also OFFSET_OUT_OF_RANGE, POLICY_VIOLATION when cleanup.policy does not contain delete, and
        INVALID_TOPIC_EXCEPTION for internal topics.
        """
        topics = []
        deletions: list[asyncio.Task[None]] = []
        for topic in body.topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    start = self._delete_before(topic.name, asked.partition_index, asked.offset, deletions)
                    error_code = 0
                except KafkaError as error:
                    start, error_code = -1, error.code
                partitions.append(
                    DeleteRecordsResponseDeleteRecordsPartitionResult(
                        partition_index=asked.partition_index, low_watermark=start, error_code=error_code
                    )
                )
            topics.append(DeleteRecordsResponseDeleteRecordsTopicResult(name=topic.name, partitions=tuple(partitions)))
        answer = DeleteRecordsResponse(topics=tuple(topics))

        async def respond() -> None:
            await asyncio.wait(deletions)
            request.respond(answer)

        if deletions:
            self._context.spawn(respond())
        else:
            request.respond(answer)

    def _delete_before(self, topic: str, index: int, offset: int, deletions: list[asyncio.Task[None]]) -> int:
        partition, partition_log = self._context.replicas.leader(topic, index)
        if topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Records of {topic} cannot be deleted.")
        if not partition_log.config.is_deleted:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of {topic} does not include delete.")
        high_watermark = partition.high_watermark(self._context.node_id)
        wanted = high_watermark if offset == _HIGH_WATERMARK else offset
        if wanted < 0 or wanted > high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"Offset {wanted} is beyond the high watermark {high_watermark}."
            )
        partition_log.increment_log_start(wanted)
        deletion = self._context.replicas.logs.delete_expired(partition_log, delay_ms=0)
        if deletion is not None:
            deletions.append(deletion)
        return partition_log.log_start_offset

    def describe_producers(self, body: DescribeProducersRequest) -> DescribeProducersResponse:
        """Return the idempotent producers in the state of each partition."""
        topics = []
        for topic in body.topics:
            partitions = []
            for index in dict.fromkeys(topic.partition_indexes):
                try:
                    _, partition_log = self._context.replicas.leader(topic.name, index)
                    producers = tuple(
                        DescribeProducersResponseProducerState(
                            producer_id=state.producer_id,
                            producer_epoch=state.epoch,
                            last_sequence=state.last_sequence,
                            last_timestamp=state.last_timestamp,
                            coordinator_epoch=state.coordinator_epoch,
                            current_txn_start_offset=state.current_txn_first_offset,
                        )
                        for state in partition_log.producers.producers.values()
                    )
                    partitions.append(
                        DescribeProducersResponsePartitionResponse(
                            partition_index=index, error_message=None, active_producers=producers
                        )
                    )
                except KafkaError as error:
                    partitions.append(
                        DescribeProducersResponsePartitionResponse(
                            partition_index=index,
                            error_code=error.code,
                            error_message=error.message,
                        )
                    )
            topics.append(DescribeProducersResponseTopicResponse(name=topic.name, partitions=tuple(partitions)))
        return DescribeProducersResponse(topics=tuple(topics))
