"""Reads epochs that the log still holds and this process skipped because it started from a snapshot.

It takes a few small fetches, not a read of the log. The leader answers a fetch beyond the end of an epoch with the
offset at which that epoch ended (a diverging epoch), so the reader walks the epochs from the newest down, then reads
the first and the last batch of each. Epochs before the leader's earliest snapshot cannot be read. Source:
KafkaRaftLog.validateOffsetAndEpoch, KafkaRaftClient.tryCompleteFetchRequest.
"""

from collections.abc import Mapping
from typing import Final, cast

from app.cluster.epochs import Epoch
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.quorum_fetch import ObserverIdentity, fetch_partition, fetch_request
from kraft_core.protocol.control_records import LeaderChangeMessage, decode_control
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchResponse, FetchResponsePartitionData
from kraft_core.protocol.record_batch import RecordBatch, read_batches

BEYOND_EVERYTHING: Final = 2**62
WALK_MAX: Final = 500  # epochs read at most
TIMEOUT_MS: Final = 5_000


class EpochReader:
    """Reads from the leader of `leader_epoch`, as an observer that the quorum does not list."""

    def __init__(self, client: ControllerClient, cluster_id: str, leader_epoch: int) -> None:
        self._client = client
        self._identity = ObserverIdentity(cluster_id=cluster_id)
        self._leader_epoch = leader_epoch

    async def read(self, known: Mapping[int, Epoch]) -> list[Epoch]:
        """Return the epochs in the log that are not, or not completely, `known`.

        Raises KafkaError when the leader has changed or refuses, ConnectionError when none can be reached.
        """
        ends = await self._ends()
        found: list[Epoch] = []
        for (number, end), (before, start) in zip(ends, [*ends[1:], (0, 0)], strict=True):
            here = known.get(number)
            if here is not None and here.start_offset == start and here.last_offset == end - 1:
                continue
            epoch = (
                here if here is not None and here.start_offset == start else await self._first(number, start, before)
            )
            if epoch is not None:
                last = await self._batch_at(end - 1, number)
                found.append(epoch if last is None else _with_last(epoch, last))
        return found

    async def _ends(self) -> list[tuple[int, int]]:
        """Return (epoch, offset after its last record), newest first, as far back as the leader answers."""
        ends: list[tuple[int, int]] = []
        epoch = self._leader_epoch
        while epoch > 0 and len(ends) < WALK_MAX:
            diverging = (await self._fetch(BEYOND_EVERYTHING, epoch)).diverging_epoch
            if (
                not 0 < diverging.epoch <= epoch
                or diverging.end_offset <= 0
                or (ends and diverging.end_offset >= ends[-1][1])
            ):
                break
            ends.append((diverging.epoch, diverging.end_offset))
            epoch = diverging.epoch - 1
        return ends

    async def _first(self, epoch: int, start: int, epoch_before: int) -> Epoch | None:
        """Return the epoch that starts at `start`, None when its first record cannot be read."""
        # the leader may answer offset 0 with a snapshot; a first batch of two records is also found at offset 1
        batch = await self._batch_at(start, epoch_before) if start > 0 else await self._batch_at(1, epoch)
        if batch is None or not batch.is_control or batch.leader_epoch != epoch:
            return None
        for record in batch.records():
            control = decode_control(record.key or b"", record.value or b"")
            if isinstance(control, LeaderChangeMessage):
                return Epoch.of_record(epoch, record.offset, batch.max_timestamp, control)
        return None

    async def _batch_at(self, offset: int, epoch: int) -> RecordBatch | None:
        data = (await self._fetch(offset, epoch)).records or b""
        try:
            batch = next(iter(read_batches(data)), None)
        except CorruptBatch:
            return None
        return batch if batch is not None and batch.base_offset <= offset <= batch.last_offset else None

    async def _fetch(self, offset: int, epoch: int) -> FetchResponsePartitionData:
        request = fetch_request(
            self._identity,
            leader_epoch=self._leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            high_watermark=-1,
            max_wait_ms=0,
            max_bytes=1,  # the leader returns at least one batch, whatever this is
        )
        answer = cast("FetchResponse", await self._client.request(request, TIMEOUT_MS, idempotent=True))
        partition = fetch_partition(answer)
        code = answer.error_code or (ErrorCode.INVALID_REQUEST if partition is None else partition.error_code)
        if code != ErrorCode.NONE or partition is None:
            raise KafkaError(ErrorCode(code), f"the log's epoch {epoch} cannot be read")
        return partition


def _with_last(epoch: Epoch, batch: RecordBatch) -> Epoch:
    last = Epoch(
        epoch=epoch.epoch,
        leader_id=epoch.leader_id,
        start_offset=epoch.start_offset,
        timestamp_ms=epoch.timestamp_ms,
        last_offset=batch.last_offset,
        last_timestamp_ms=batch.max_timestamp,
    )
    return epoch.completed_by(last)
