"""The newest snapshot of the metadata log on the leader. No other request reports it.

The leader answers a fetch at offset 0 with the id of its newest snapshot, if it has one. The first bytes of that
snapshot carry its size and, in its header record, the time of its newest record. Source: KIP-630,
SnapshotHeaderRecord.json.
"""

from dataclasses import dataclass
from typing import Final, cast

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.quorum_fetch import (
    ObserverIdentity,
    fetch_partition,
    fetch_request,
    fetch_snapshot_request,
    snapshot_partition,
)
from kraft_core.protocol.control_records import SnapshotHeaderRecord, decode_control
from kraft_core.protocol.errors import CorruptBatch, ErrorCode
from kraft_core.protocol.messages import FetchResponse, FetchSnapshotResponse
from kraft_core.protocol.record_batch import read_batches

HEADER_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class LatestSnapshot:
    """A snapshot of everything before `end_offset`, whose last record has `epoch`. -1 where unknown.

    `last_timestamp_ms`: when its newest record was written, by the clock of the leader at that time.
    """

    end_offset: int
    epoch: int
    size_bytes: int = -1
    last_timestamp_ms: int = -1


class SnapshotWatch:
    """Asks for the newest snapshot, and reads the header of each snapshot once."""

    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._known: LatestSnapshot | None = None

    async def get(self, leader_epoch: int, timeout_ms: int) -> LatestSnapshot | None:
        """Return the leader's newest snapshot, None without one or when the leader does not report it.

        Raises KafkaError or ConnectionError.
        """
        request = fetch_request(
            ObserverIdentity(),
            leader_epoch=leader_epoch,
            fetch_offset=0,
            last_fetched_epoch=0,
            high_watermark=-1,
            max_wait_ms=0,
            max_bytes=1,
        )
        answer = cast("FetchResponse", await self._client.request(request, timeout_ms, idempotent=True))
        partition = fetch_partition(answer)
        if partition is None or partition.error_code != ErrorCode.NONE or partition.snapshot_id.end_offset < 0:
            return None
        found = LatestSnapshot(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        known = self._known
        if known is None or (known.end_offset, known.epoch) != (found.end_offset, found.epoch):
            self._known = known = await self._with_header(found, leader_epoch, timeout_ms)
        return known

    async def _with_header(self, found: LatestSnapshot, leader_epoch: int, timeout_ms: int) -> LatestSnapshot:
        request = fetch_snapshot_request(
            ObserverIdentity(),
            leader_epoch=leader_epoch,
            end_offset=found.end_offset,
            epoch=found.epoch,
            position=0,
            max_bytes=HEADER_BYTES,
        )
        answer = cast("FetchSnapshotResponse", await self._client.request(request, timeout_ms, idempotent=True))
        partition = snapshot_partition(answer)
        if answer.error_code or partition is None or partition.error_code != ErrorCode.NONE:
            return found
        timestamp = _header_timestamp(partition.unaligned_records or b"")
        return LatestSnapshot(found.end_offset, found.epoch, partition.size, timestamp)


def _header_timestamp(data: bytes) -> int:
    """Return the time of the newest record in a snapshot from the snapshot's first bytes, -1 when they lack it."""
    try:
        batch = next(iter(read_batches(data)), None)
    except CorruptBatch:
        return -1
    if batch is not None and batch.is_control:
        for record in batch.records():
            control = decode_control(record.key or b"", record.value or b"")
            if isinstance(control, SnapshotHeaderRecord):
                return control.last_contained_log_timestamp
    return -1
