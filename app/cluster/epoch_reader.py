"""Leaderships that the log still holds but that this process skipped, because it began with a snapshot.

A handful of small fetches, not a read of the log: a fetch far beyond an epoch's end is answered with where that epoch ended
(the leader's way to tell a follower where they diverge), so the epochs are walked from the newest down; then the first and
the last batch of each is read. Epochs older than the leader's earliest snapshot cannot be asked for.
Source: KafkaRaftLog.validateOffsetAndEpoch, KafkaRaftClient.tryCompleteFetchRequest.
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
WALK_MAX: Final = 500  # epochs asked for at most
TIMEOUT_MS: Final = 5_000


class EpochReader:
    """Reads through the leader of `leader_epoch`, as an observer that the quorum does not list."""

    def __init__(self, client: ControllerClient, cluster_id: str, leader_epoch: int) -> None:
        self._client = client
        self._identity = ObserverIdentity(cluster_id=cluster_id)
        self._leader_epoch = leader_epoch

    async def read(self, known: Mapping[int, Epoch]) -> list[Epoch]:
        """Return what the log tells of epochs that are not, or not wholly, `known`.

        Raises KafkaError when the leader has changed meanwhile or refuses, ConnectionError while there is none.
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
        """(epoch, offset after its last record), newest first, as far down as the leader tells."""
        ends: list[tuple[int, int]] = []
        epoch = self._leader_epoch
        while epoch > 0 and len(ends) < WALK_MAX:
            told = (await self._fetch(BEYOND_EVERYTHING, epoch)).diverging_epoch
            if not 0 < told.epoch <= epoch or told.end_offset <= 0 or (ends and told.end_offset >= ends[-1][1]):
                break
            ends.append((told.epoch, told.end_offset))
            epoch = told.epoch - 1
        return ends

    async def _first(self, epoch: int, start: int, epoch_before: int) -> Epoch | None:
        """The leadership that began at `start`; None when its record cannot be had."""
        # offset 0 may be answered with a snapshot: the batch that holds offset 1 is the first too, if it has two records
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
            max_bytes=1,  # at least one batch comes, however small this is
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
