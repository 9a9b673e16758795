"""Produce: append batches to logs.

Source: KafkaApis.handleProduceRequest, Kafka 4.3.1; KIP-951 (the new leader in the response), KIP-516 (topic ids,
version 13).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.current_leaders import CurrentLeaders
from kraft_core.broker.log.log_validator import RECORD_ERRORS_MAX, ZSTD, InvalidRecords, validate_produced
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.slices import Work
from kraft_core.protocol.batch_header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS
from kraft_core.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
    ProduceResponseBatchIndexAndErrorMessage,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    ProduceResponsePartitionProduceResponse,
    ProduceResponseTopicProduceResponse,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.server.network.request import Request

_TOPIC_IDS_SINCE: Final = 13
_NEW_LEADER_SINCE: Final = 10
_ZSTD_SINCE: Final = 7
_ALLOWED_ACKS: Final = (-1, 0, 1)
_RECORD_ERROR_BYTES: Final = 100

Unflushed = dict[tuple[str, int], UnifiedLog]


class _Progress:
    """What the response to one request needs to know of its partitions."""

    def __init__(self, context: BrokerContext, request: Request) -> None:
        self.request = request
        self.unflushed: Unflushed = {}
        self.leaders = CurrentLeaders(
            context.metadata,
            request,
            _NEW_LEADER_SINCE,
            ProduceResponseLeaderIdAndEpoch,
            ProduceResponseNodeEndpoint,
        )
        self._room = max(RECORD_ERRORS_MAX, request.size // _RECORD_ERROR_BYTES)

    def record_errors(self, error: KafkaError) -> tuple[ProduceResponseBatchIndexAndErrorMessage, ...]:
        """Return the invalid records of a batch (KIP-467), at most as many as the size of the request justifies."""
        if not isinstance(error, InvalidRecords):
            return ()
        named = error.record_errors[: self._room]
        self._room -= len(named)
        return tuple(
            ProduceResponseBatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in named
        )


class ProduceHandler:
    """Answers Produce requests. With `acks` 0 there is no response; an error closes the connection instead."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def handle(self, request: Request) -> None:
        """Append the batch of each partition.

        Errors per partition: UNKNOWN_TOPIC_ID, INVALID_REQUIRED_ACKS, INVALID_TXN_STATE, INVALID_TOPIC_EXCEPTION and
        those of `ReplicaManager.append`.
        """
        body = request.take_body()
        assert isinstance(body, ProduceRequest)
        self._context.work(request, self._append(request, body))

    def _append(self, request: Request, body: ProduceRequest) -> Work[None]:
        progress = _Progress(self._context, request)
        topics: list[ProduceResponseTopicProduceResponse] = []
        for topic in body.topic_data:
            response_topic = yield from self._topic(body, topic, progress)
            topics.append(response_topic)
        if body.acks == 0:
            if any(part.error_code for topic in topics for part in topic.partition_responses):
                request.close("a produce request with acks=0 failed")
            else:
                request.respond_nothing()
            return
        response = ProduceResponse(responses=tuple(topics), node_endpoints=progress.leaders.endpoints())
        if progress.unflushed:
            self._context.spawn(self._respond_flushed(request, response, progress.unflushed))
        else:
            request.respond(response)

    async def _respond_flushed(self, request: Request, response: ProduceResponse, unflushed: Unflushed) -> None:
        """Flush the logs that reached flush.messages, then respond."""
        failed: dict[tuple[str, int], KafkaError] = {}
        for key, partition_log in unflushed.items():
            try:
                await self._context.replicas.logs.flush_log(partition_log)
            except KafkaError as error:
                failed[key] = error
        if failed:
            response = msgspec.structs.replace(
                response, responses=tuple(self._with_failures(topic, failed) for topic in response.responses)
            )
        request.respond(response)

    def _with_failures(
        self, topic: ProduceResponseTopicProduceResponse, failed: Mapping[tuple[str, int], KafkaError]
    ) -> ProduceResponseTopicProduceResponse:
        name = topic.name or self._context.metadata.topic_name(topic.topic_id) or ""
        partitions = tuple(
            part
            if error is None
            else msgspec.structs.replace(part, error_code=error.code, base_offset=-1, error_message=error.message)
            for part in topic.partition_responses
            for error in (failed.get((name, part.index)),)
        )
        return msgspec.structs.replace(topic, partition_responses=partitions)

    def _topic(
        self, body: ProduceRequest, topic: ProduceRequestTopicProduceData, progress: "_Progress"
    ) -> Work[ProduceResponseTopicProduceResponse]:
        by_id = progress.request.header.api_version >= _TOPIC_IDS_SINCE
        name = self._context.metadata.topic_name(topic.topic_id) if by_id else topic.name
        partitions = []
        for data in topic.partition_data:
            try:
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic.topic_id}.")
                partitions.append((yield from self._partition(body, name, data, progress)))
            except KafkaError as error:
                partitions.append(self._refused(name, data.index, error, progress))
            yield 0
        return ProduceResponseTopicProduceResponse(
            name="" if by_id else topic.name,
            topic_id=topic.topic_id if by_id else ZERO_UUID,
            partition_responses=tuple(partitions),
        )

    def _partition(
        self, body: ProduceRequest, topic: str, data: ProduceRequestPartitionProduceData, progress: "_Progress"
    ) -> Work[ProduceResponsePartitionProduceResponse]:
        if body.acks not in _ALLOWED_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {body.acks}; allowed are -1, 0 and 1.")
        replicas = self._context.replicas
        if not self._context.metadata.has_partition(topic, data.index):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{data.index}.")
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to the internal topic {topic}.")
        records = data.records or b""
        self._check_features(body, records, progress.request.header.api_version)
        _, partition_log = replicas.leader(topic, data.index)
        batch = yield from validate_produced(
            records, partition_log.config, self._context.clock_ms(), f"{topic}-{data.index}"
        )
        info = replicas.append(topic, data.index, batch, body.acks)
        _, partition_log = replicas.leader(topic, data.index)
        if partition_log.log_end_offset - partition_log.recovery_point >= partition_log.config.flush_messages:
            progress.unflushed[topic, data.index] = partition_log
        return ProduceResponsePartitionProduceResponse(
            index=data.index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=partition_log.log_start_offset,
        )

    @staticmethod
    def _check_features(body: ProduceRequest, records: bytes, version: int) -> None:
        if len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
            return  # the validator rejects it
        attributes = records[ATTRIBUTES_POSITION + 1]
        if attributes & TRANSACTIONAL_MASK or body.transactional_id is not None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "This broker does not serve transactions.")
        if attributes & COMPRESSION_MASK == ZSTD and version < _ZSTD_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {version} does not support zstd."
            )

    def _refused(
        self, topic: str | None, index: int, error: KafkaError, progress: "_Progress"
    ) -> ProduceResponsePartitionProduceResponse:
        has_moved = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = progress.leaders.of(topic, index) if has_moved else ProduceResponseLeaderIdAndEpoch()
        log_start_offset = -1
        if isinstance(error, InvalidRecords):
            log_start_offset = self._context.replicas.leader(topic or "", index)[1].log_start_offset
        return ProduceResponsePartitionProduceResponse(
            index=index,
            error_code=error.code,
            base_offset=-1,
            log_start_offset=log_start_offset,
            record_errors=progress.record_errors(error),
            error_message=error.message,
            current_leader=leader,
        )
