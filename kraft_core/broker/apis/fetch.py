"""Fetch: read records from logs.

Fetch sessions are not kept: every response has the session id 0, so clients send full requests (KIP-227). Records far
from the log's end may have to come from the disk and are read on a thread; the tail is read in place.

Source: KafkaApis.handleFetchRequest, Kafka 4.3.1.
"""

import asyncio
import os
import uuid
from concurrent.futures import ThreadPoolExecutor

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.delayed_fetch import TOPIC_IDS_SINCE, DelayedFetch, Endpoints, FetchedPartition
from kraft_core.broker.log.unified_log import LogSlice
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FetchResponseFetchableTopicResponse,
    FetchResponsePartitionData,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.server.network.request import Request


class FetchHandler:
    """Answers Fetch requests."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="broker-read")

    def close(self) -> None:
        """End the reading threads."""
        self._readers.shutdown(wait=False)

    def handle(self, request: Request) -> None:
        """Answer at once if enough records are there or something is wrong, else when the fetch completes.

        Top level: FETCH_SESSION_ID_NOT_FOUND. Per partition: UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE and the errors of
        `ReplicaManager.leader`.
        """
        body = request.body()
        assert isinstance(body, FetchRequest)
        if body.session_id != 0:
            request.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        request.hold()
        DelayedFetch(self._context, request, body, self._on_complete).start()

    def _on_complete(self, request: Request, partitions: list[FetchedPartition], endpoints: Endpoints) -> None:
        if any(each.is_cold for each in partitions):
            # Duplicate the descriptors before anything else runs: a segment may be closed at the next turn of the loop.
            slices = [
                LogSlice(os.dup(found.file_descriptor), found.position, found.size) if found else None
                for found in (each.records for each in partitions)
            ]
            request.expect_answer(sum(found.size for found in slices if found))
            self._context.spawn(self._read_cold(request, partitions, slices, endpoints))
            return
        records = [each.records.read() if each.records is not None else b"" for each in partitions]
        _respond(request, partitions, records, endpoints)

    async def _read_cold(
        self,
        request: Request,
        partitions: list[FetchedPartition],
        slices: list[LogSlice | None],
        endpoints: Endpoints,
    ) -> None:
        loop = asyncio.get_running_loop()
        records = await loop.run_in_executor(self._readers, lambda: _read_and_close(slices))
        _respond(request, partitions, records, endpoints)


def _respond(request: Request, partitions: list[FetchedPartition], records: list[bytes], endpoints: Endpoints) -> None:
    by_id = request.header.api_version >= TOPIC_IDS_SINCE
    topics: dict[tuple[str | None, uuid.UUID], list[FetchResponsePartitionData]] = {}
    for each, data in zip(partitions, records, strict=True):
        response = each.response
        with_records = FetchResponsePartitionData(
            partition_index=response.partition_index,
            error_code=response.error_code,
            high_watermark=response.high_watermark,
            last_stable_offset=response.last_stable_offset,
            log_start_offset=response.log_start_offset,
            diverging_epoch=response.diverging_epoch,
            current_leader=response.current_leader,
            aborted_transactions=response.aborted_transactions,
            records=data,
        )
        topics.setdefault((each.topic, each.topic_id), []).append(with_records)
    responses = tuple(
        FetchResponseFetchableTopicResponse(
            topic="" if by_id else (name or ""), topic_id=topic_id if by_id else ZERO_UUID, partitions=tuple(found)
        )
        for (name, topic_id), found in topics.items()
    )
    request.respond(FetchResponse(responses=responses, node_endpoints=endpoints))


def _read_and_close(slices: list[LogSlice | None]) -> list[bytes]:
    """Read on a thread and close the descriptors, which are duplicates made for this read."""
    records = []
    for each in slices:
        if each is None:
            records.append(b"")
            continue
        try:
            records.append(each.read())
        finally:
            os.close(each.file_descriptor)
    return records
