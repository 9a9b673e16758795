"""Fetch: records out of logs, at once or when enough have come.

Sessions are not kept: every answer has the session id 0, which clients and followers take as "always send everything" (KIP-227).
Reads far behind the log's end may have to wait for the disk, so they go to a thread; the tail is in the page cache and is read in place.

Source: KafkaApis.handleFetchRequest, DelayedFetch and ReplicaManager.readFromLog, Kafka 4.3.1.
"""

import asyncio
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.current_leaders import CurrentLeaders
from kraft_core.broker.log.unified_log import LogSlice, UnifiedLog
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseFetchableTopicResponse,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.server.network.client_connection import Request

_TOPIC_IDS_SINCE: Final = 13
_NEW_LEADER_SINCE: Final = 16
_READ_COMMITTED: Final = 1
_HOT_BYTES: Final = 8 * 1024 * 1024
_NO_EPOCH: Final = -1


@dataclass(slots=True)
class _Part:
    """One partition of a fetch: what to read, and how far reading got. `answer` holds all but the records."""

    topic: str | None
    topic_id: uuid.UUID
    wanted: FetchRequestFetchPartition
    answer: FetchResponsePartitionData | None = None
    part: LogSlice | None = None
    is_cold: bool = False


class FetchHandler:
    """Answers Fetch requests."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="broker-read")

    def close(self) -> None:
        """End the reading threads."""
        self._readers.shutdown(wait=False)

    def handle(self, request: Request) -> None:
        """Answer now if enough records are there or something is wrong, else park.

        Top level: FETCH_SESSION_ID_NOT_FOUND. Per partition: those of `ReplicaManager.leader`, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_ID.
        """
        body = request.body()
        assert isinstance(body, FetchRequest)
        if body.session_id != 0:
            request.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        fetch = _Fetch(self._context, request, body, self._finish)
        fetch.start()

    def _finish(self, request: Request, parts: list[_Part], endpoints: "Endpoints") -> None:
        if any(part.is_cold for part in parts):
            # Duplicated before anything else runs: a segment may be closed at the next turn of the loop.
            duplicates = [
                LogSlice(os.dup(part.part.file_descriptor), part.part.position, part.part.size) if part.part else None
                for part in parts
            ]
            self._context.spawn(self._finish_cold(request, parts, duplicates, endpoints))
            return
        blobs = [part.part.read() if part.part is not None else b"" for part in parts]
        self._respond(request, parts, blobs, endpoints)

    async def _finish_cold(
        self, request: Request, parts: list[_Part], duplicates: list[LogSlice | None], endpoints: "Endpoints"
    ) -> None:
        loop = asyncio.get_running_loop()
        blobs = await loop.run_in_executor(self._readers, lambda: _read_and_close(duplicates))
        self._respond(request, parts, blobs, endpoints)

    def _respond(self, request: Request, parts: list[_Part], blobs: list[bytes], endpoints: "Endpoints") -> None:
        by_id = request.header.api_version >= _TOPIC_IDS_SINCE
        topics: dict[tuple[str | None, uuid.UUID], list[FetchResponsePartitionData]] = {}
        for part, blob in zip(parts, blobs, strict=True):
            answer = part.answer
            assert answer is not None, "every partition was looked at"
            with_records = FetchResponsePartitionData(
                partition_index=answer.partition_index,
                error_code=answer.error_code,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
                log_start_offset=answer.log_start_offset,
                diverging_epoch=answer.diverging_epoch,
                current_leader=answer.current_leader,
                aborted_transactions=answer.aborted_transactions,
                records=blob,
            )
            topics.setdefault((part.topic, part.topic_id), []).append(with_records)
        responses = tuple(
            FetchResponseFetchableTopicResponse(
                topic="" if by_id else (name or ""), topic_id=topic_id if by_id else ZERO_UUID, partitions=tuple(found)
            )
            for (name, topic_id), found in topics.items()
        )
        request.respond(FetchResponse(responses=responses, node_endpoints=endpoints))


Endpoints = tuple[FetchResponseNodeEndpoint, ...]
Finish = Callable[[Request, list[_Part], Endpoints], None]


class _Fetch:
    """One request: looked at when it comes and each time a partition it waits for changes, until it is answered."""

    def __init__(self, context: BrokerContext, request: Request, body: FetchRequest, finish: Finish) -> None:
        self._context = context
        self._request = request
        self._body = body
        self._finish = finish
        self._keys: list[tuple[str, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._done = False
        self._leaders = CurrentLeaders(
            context.metadata,
            request,
            _NEW_LEADER_SINCE,
            FetchResponseLeaderIdAndEpoch,
            FetchResponseNodeEndpoint,
        )
        self.is_follower = max(body.replica_id, body.replica_state.replica_id) >= 0

    def start(self) -> None:
        """Look once; park when there is too little and the request may wait."""
        parts, enough = self._look()
        if enough or self._body.max_wait_ms <= 0 or not parts:
            self._finish(self._request, parts, self._leaders.endpoints())
            return
        self._keys = [(part.topic, part.wanted.partition) for part in parts if part.topic is not None]
        self._context.replicas.wait_for(self._keys, self._on_change)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._body.max_wait_ms / 1000, self._on_timeout)

    def _on_change(self, key: tuple[str, int]) -> None:
        if not self._done:
            parts, enough = self._look()
            if enough:
                self._complete(parts)

    def _on_timeout(self) -> None:
        if not self._done:
            self._complete(self._look()[0])

    def _complete(self, parts: list[_Part]) -> None:
        self._done = True
        self._context.replicas.stop_waiting(self._keys, self._on_change)
        if self._timer is not None:
            self._timer.cancel()
        self._finish(self._request, parts, self._leaders.endpoints())

    def _look(self) -> tuple[list[_Part], bool]:
        """What could be answered now, and whether that is enough to answer."""
        parts = []
        left = max(0, self._body.max_bytes)
        got, enough = 0, False
        by_id = self._request.header.api_version >= _TOPIC_IDS_SINCE
        for topic in self._body.topics:
            name = self._context.metadata.topic_name(topic.topic_id) if by_id else topic.topic
            for wanted in topic.partitions:
                part = _Part(name, topic.topic_id, wanted)
                try:
                    self._read(part, min(left, max(0, wanted.partition_max_bytes)), at_least_one=got == 0)
                except KafkaError as error:
                    part.answer = self._refused(part, error)
                    enough = True
                if part.part is not None:
                    got += part.part.size
                    left = max(0, left - part.part.size)
                assert part.answer is not None
                enough = enough or part.answer.diverging_epoch.epoch >= 0
                parts.append(part)
        return parts, enough or got >= self._body.min_bytes

    def _read(self, part: _Part, max_bytes: int, *, at_least_one: bool) -> None:
        wanted = part.wanted
        if part.topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {part.topic_id}.")
        partition, partition_log = self._context.replicas.leader(
            part.topic, wanted.partition, wanted.current_leader_epoch
        )
        high_watermark = partition.high_watermark(self._context.node_id)
        diverging = _diverging(partition_log, wanted)
        if diverging is None:
            end_offset = partition_log.log_end_offset if self.is_follower else high_watermark
            part.part = partition_log.read(wanted.fetch_offset, max_bytes, end_offset, at_least_one=at_least_one)
            behind = partition_log.active.size - part.part.position
            is_tail = part.part.file_descriptor == partition_log.active.file_descriptor and behind <= _HOT_BYTES
            part.is_cold = part.part.size > 0 and not is_tail
        part.answer = FetchResponsePartitionData(
            partition_index=wanted.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=partition_log.log_start_offset,
            diverging_epoch=diverging or FetchResponseEpochEndOffset(),
            aborted_transactions=() if self._body.isolation_level == _READ_COMMITTED else None,
        )

    def _refused(self, part: _Part, error: KafkaError) -> FetchResponsePartitionData:
        index = part.wanted.partition
        has_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        leader = self._leaders.of(part.topic, index) if has_moved else FetchResponseLeaderIdAndEpoch()
        return FetchResponsePartitionData(
            partition_index=index,
            error_code=error.code,
            high_watermark=-1,
            current_leader=leader,
            aborted_transactions=() if self._body.isolation_level == _READ_COMMITTED else None,
        )


def _diverging(partition_log: UnifiedLog, wanted: FetchRequestFetchPartition) -> FetchResponseEpochEndOffset | None:
    """KIP-595: a reader whose last epoch ended elsewhere in our log is told where, to cut its own log there."""
    if wanted.last_fetched_epoch <= _NO_EPOCH:
        return None
    epoch, end_offset = partition_log.epochs.end_offset_for(wanted.last_fetched_epoch, partition_log.log_end_offset)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"Epoch {wanted.last_fetched_epoch} is unknown.")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)


def _read_and_close(slices: list[LogSlice | None]) -> list[bytes]:
    """Read in a thread; the descriptors are duplicates that belong to this read."""
    blobs = []
    for entry in slices:
        if entry is None:
            blobs.append(b"")
            continue
        try:
            blobs.append(entry.read())
        finally:
            os.close(entry.file_descriptor)
    return blobs
