"""A fetch that waits until enough bytes are there or its time is over.

Source: DelayedFetch and ReplicaManager.readFromLog, Kafka 4.3.1; KIP-595 (diverging epochs).
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.current_leaders import CurrentLeaders
from kraft_core.broker.log.unified_log import LogSlice, UnifiedLog
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
)
from kraft_core.server.network.request import Request

TOPIC_IDS_SINCE: Final = 13
_NEW_LEADER_SINCE: Final = 16
_READ_COMMITTED: Final = 1
_HOT_BYTES: Final = 8 * 1024 * 1024
"""The last bytes of a log, which are in the page cache as a rule."""
_NO_EPOCH: Final = -1

Endpoints = tuple[FetchResponseNodeEndpoint, ...]


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a fetch. `response` lacks the records, which are the bytes of `records`.

    `is_cold` says that the bytes may have to be read from the disk.
    """

    topic: str | None
    topic_id: uuid.UUID
    wanted: FetchRequestFetchPartition
    response: FetchResponsePartitionData
    records: LogSlice | None = None
    is_cold: bool = False


OnComplete = Callable[[Request, list[FetchedPartition], Endpoints], None]


class DelayedFetch:
    """One Fetch request, tried when it arrives and at each change of its partitions, until it completes."""

    def __init__(self, context: BrokerContext, request: Request, body: FetchRequest, on_complete: OnComplete) -> None:
        self._context = context
        self._request = request
        self._body = body
        self._on_complete = on_complete
        self._keys: list[tuple[str, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_complete = False
        self._is_follower = max(body.replica_id, body.replica_state.replica_id) >= 0
        self._leaders = CurrentLeaders(
            context.metadata,
            request,
            _NEW_LEADER_SINCE,
            FetchResponseLeaderIdAndEpoch,
            FetchResponseNodeEndpoint,
        )

    def start(self) -> None:
        """Complete at once if there are enough bytes, an error or no time to wait; else wait for the partitions."""
        partitions, is_enough = self._try_read()
        if is_enough or self._body.max_wait_ms <= 0 or not partitions:
            self._complete(partitions)
            return
        self._keys = [(each.topic, each.wanted.partition) for each in partitions if each.topic is not None]
        self._context.replicas.wait_for(self._keys, self._on_change)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._body.max_wait_ms / 1000, self._on_timeout)

    def _on_change(self, key: tuple[str, int]) -> None:
        if not self._is_complete:
            partitions, is_enough = self._try_read()
            if is_enough:
                self._complete(partitions)

    def _on_timeout(self) -> None:
        if not self._is_complete:
            self._complete(self._try_read()[0])

    def _complete(self, partitions: list[FetchedPartition]) -> None:
        self._is_complete = True
        self._context.replicas.stop_waiting(self._keys, self._on_change)
        if self._timer is not None:
            self._timer.cancel()
        self._on_complete(self._request, partitions, self._leaders.endpoints())

    def _try_read(self) -> tuple[list[FetchedPartition], bool]:
        """Return each partition as it can be answered now, and whether that completes the fetch."""
        found = []
        room = self._request.answer_room
        left = max(0, min(self._body.max_bytes, room))
        size, is_enough = 0, False
        by_id = self._request.header.api_version >= TOPIC_IDS_SINCE
        for topic in self._body.topics:
            name = self._context.metadata.topic_name(topic.topic_id) if by_id else topic.topic
            for wanted in topic.partitions:
                max_bytes = min(left, max(0, wanted.partition_max_bytes))
                try:
                    read = self._read(name, topic.topic_id, wanted, max_bytes, at_least_one=room > 0 and size == 0)
                except KafkaError as error:
                    read = FetchedPartition(name, topic.topic_id, wanted, self._error(name, wanted, error))
                    is_enough = True
                if read.records is not None:
                    size += read.records.size
                    left = max(0, left - read.records.size)
                is_enough = is_enough or read.response.diverging_epoch.epoch >= 0
                found.append(read)
        return found, is_enough or size >= min(self._body.min_bytes, room or self._body.min_bytes)

    def _read(
        self,
        topic: str | None,
        topic_id: uuid.UUID,
        wanted: FetchRequestFetchPartition,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> FetchedPartition:
        """Find the records of one partition. Raises KafkaError UNKNOWN_TOPIC_ID and as `leader` and `read` do."""
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic_id}.")
        partition, log = self._context.replicas.leader(topic, wanted.partition, wanted.current_leader_epoch)
        high_watermark = partition.high_watermark(self._context.node_id)
        diverging = _diverging_epoch(log, wanted)
        response = FetchResponsePartitionData(
            partition_index=wanted.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging or FetchResponseEpochEndOffset(),
            aborted_transactions=self._aborted_transactions(),
        )
        if diverging is not None:
            return FetchedPartition(topic, topic_id, wanted, response)
        end_offset = log.log_end_offset if self._is_follower else high_watermark
        records = log.read(wanted.fetch_offset, max_bytes, end_offset, at_least_one=at_least_one)
        behind = log.active.size - records.position
        is_tail = records.file_descriptor == log.active.file_descriptor and behind <= _HOT_BYTES
        return FetchedPartition(topic, topic_id, wanted, response, records, records.size > 0 and not is_tail)

    def _error(
        self, topic: str | None, wanted: FetchRequestFetchPartition, error: KafkaError
    ) -> FetchResponsePartitionData:
        has_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        return FetchResponsePartitionData(
            partition_index=wanted.partition,
            error_code=error.code,
            high_watermark=-1,
            current_leader=self._leaders.of(topic, wanted.partition) if has_moved else FetchResponseLeaderIdAndEpoch(),
            aborted_transactions=self._aborted_transactions(),
        )

    def _aborted_transactions(self) -> tuple[()] | None:
        return () if self._body.isolation_level == _READ_COMMITTED else None


def _diverging_epoch(log: UnifiedLog, wanted: FetchRequestFetchPartition) -> FetchResponseEpochEndOffset | None:
    """Return where the reader's last epoch ends in this log, for a reader that has to truncate its own; else None.

    Raises KafkaError OFFSET_OUT_OF_RANGE for an unknown epoch.
    """
    if wanted.last_fetched_epoch <= _NO_EPOCH:
        return None
    found = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.log_end_offset)
    if found is None:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"Epoch {wanted.last_fetched_epoch} is unknown.")
    epoch, end_offset = found
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)
