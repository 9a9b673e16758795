"""Reads the committed part of the metadata log from an offset on, without an image: for the writer of the lake.

As any replica, the reader names the epoch of the record before its offset. So the leader notices when the lake
continues another log, and sends its newest snapshot for an offset that is no longer in the log, and for offset 0.

Source: KIP-595 (Fetch, DivergingEpoch), KIP-630 (FetchSnapshot).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, cast

from app.reports.lake.lake import LakeError, Position
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.quorum_fetch import (
    ObserverIdentity,
    fetch_partition,
    fetch_request,
    fetch_snapshot,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FetchResponse,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
)
from kraft_core.protocol.record_batch import RecordBatch, read_batches

BYTES_MAX: Final = 4 * 1024 * 1024
TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """A snapshot of the quorum: the state after `last_offset`, as the batches of its file."""

    last_offset: int
    epoch: int
    data: bytes


class LogReader:
    """Reads from the active controller. One reader per connection."""

    def __init__(self, client: ControllerClient, cluster_id: str) -> None:
        self._client = client
        self._identity = ObserverIdentity(cluster_id=cluster_id)
        self._epoch = 0  # the leader's; its first answer names it

    async def read(self, start: Position) -> AsyncIterator[RecordBatch | LogSnapshot]:
        """Yield the batches from `start` up to the high watermark of the first answer.

        Yields a snapshot first when the log no longer has the offset. Raises LakeError when the leader's log has no
        such offset and epoch, KafkaError and ConnectionError when the leader cannot be asked.
        """
        end = -1
        while end < 0 or start.next_offset < end:
            partition = await self._fetch(start)
            if partition.snapshot_id.end_offset >= 0:
                snapshot = await self._snapshot(partition.snapshot_id)
                yield snapshot
                start = Position(snapshot.last_offset + 1, snapshot.epoch)
                continue
            if partition.diverging_epoch.end_offset >= 0:
                raise LakeError(
                    f"The change feed ends before offset {start.next_offset} in epoch {start.epoch}, and the quorum's "
                    f"log has epoch {partition.diverging_epoch.epoch} up to {partition.diverging_epoch.end_offset}: "
                    "the quorum has lost records that are in the lake. Move the lake away to start a new one."
                )
            end = partition.high_watermark if end < 0 else end
            batches = [batch for batch in read_batches(partition.records or b"") if batch.last_offset < end]
            for batch in batches:
                if batch.last_offset >= start.next_offset:
                    yield batch
                    start = Position(batch.last_offset + 1, batch.leader_epoch)
            if not batches:
                return

    async def newest_snapshot(self) -> LogSnapshot | None:
        """Return the leader's newest snapshot, None before its first. A leader sends it for a fetch from offset 0."""
        partition = await self._fetch(Position(0, 0))
        return await self._snapshot(partition.snapshot_id) if partition.snapshot_id.end_offset >= 0 else None

    async def _fetch(self, start: Position) -> FetchResponsePartitionData:
        for _ in range(2):  # the first answer may only name the leader's epoch
            request = fetch_request(
                self._identity,
                leader_epoch=max(self._epoch, start.epoch),  # never below the last record's, which is invalid
                fetch_offset=start.next_offset,
                last_fetched_epoch=start.epoch,
                high_watermark=-1,
                max_wait_ms=0,
                max_bytes=BYTES_MAX,
            )
            answer = cast("FetchResponse", await self._client.request(request, TIMEOUT_MS, idempotent=True))
            partition = fetch_partition(answer)
            code = answer.error_code or (ErrorCode.INVALID_REQUEST if partition is None else partition.error_code)
            if partition is not None:
                self._epoch = max(self._epoch, partition.current_leader.leader_epoch)
            if code != ErrorCode.FENCED_LEADER_EPOCH:
                break
        if code != ErrorCode.NONE or partition is None:
            raise KafkaError(
                ErrorCode(code), f"The controller refused to read the log from offset {start.next_offset}."
            )
        return partition

    async def _snapshot(self, snapshot_id: FetchResponseSnapshotId) -> LogSnapshot:
        data = await fetch_snapshot(
            lambda request: self._client.request(request, TIMEOUT_MS, idempotent=True),
            self._identity,
            snapshot_id,
            leader_epoch=self._epoch,
            max_bytes=BYTES_MAX,
        )
        return LogSnapshot(snapshot_id.end_offset - 1, snapshot_id.epoch, data)
