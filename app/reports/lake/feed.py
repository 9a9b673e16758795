"""Turns batches of the metadata log into files of the table `records`.

A file ends outside of a metadata transaction (KIP-868), so the records of an aborted one are left out, and with the
date, so that retention can delete whole days. NoOps and transaction markers have no rows; control records have, with
their own types.
"""

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from app.reports.lake.lake import Lake, Position, rows_table
from app.reports.lake.stored_history import LogSnapshot
from app.reports.lake.tables import LOG, RECORDS, SCHEMA_VERSION, SNAPSHOT, record_row
from kraft_core.protocol.control_records import SnapshotHeaderRecord, decode_control
from kraft_core.protocol.errors import MetadataRecordError
from kraft_core.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.storage.dump_log import control_json, control_name

ROWS_MAX: Final = 25_000
"""Rows of a file, and of a row group of a snapshot."""
SILENT_OFFSETS_MAX: Final = 50_000
"""Offsets without rows after which a file without rows is written, so that NoOps are not read again and again."""

_BEGIN, _END, _ABORT = BeginTransactionRecord.API_KEY, EndTransactionRecord.API_KEY, AbortTransactionRecord.API_KEY


class Feed:
    """The end of one cluster's change feed. Give it what follows `position`, in order, and call `flush` at the end."""

    def __init__(self, lake: Lake, cluster_id: str, position: Position | None) -> None:
        self._lake = lake
        self._cluster_id = cluster_id
        self.position = position or Position(0, 0)
        self._rows: list[dict[str, Any]] = []
        self._end = self.position  # of what is in `_rows` or has no rows
        self._time_ms = 0
        self._begun: int | None = None  # rows before the open transaction
        self._committed = self.position, 0  # end and rows before the open transaction's batch
        self.files = 0

    def add(self, batch: RecordBatch) -> None:
        """Add the next batch. Writes a file when enough rows have come. Raises OSError, MetadataRecordError."""
        assert batch.base_offset >= self._end.next_offset, f"batch {batch.base_offset} after {self._end.next_offset}"
        if self._begun is None and (len(self._rows) >= ROWS_MAX or self._is_later_date(batch.max_timestamp)):
            self.flush()
        if self._begun is None:
            self._committed = self._end, len(self._rows)
        try:
            if batch.is_control:
                self._rows += _control_rows(batch, LOG)
            else:
                for offset, value in enumerate(batch.values(), batch.base_offset):
                    self._add_record(value, offset, batch)
        except MetadataRecordError:
            (self._end, rows), self._begun = self._committed, None
            del self._rows[rows:]
            raise
        self._time_ms = batch.max_timestamp
        self._end = Position(batch.last_offset + 1, batch.leader_epoch)

    def _add_record(self, value: bytes, offset: int, batch: RecordBatch) -> None:
        kind = value[1]  # the frame's apiKey, below 128 as in every version of Kafka
        if kind == NoOpRecord.API_KEY:
            return
        if kind == _BEGIN:
            self._begun = len(self._rows)
        elif kind == _END:
            self._begun = None
        elif kind == _ABORT:
            del self._rows[self._begun :]
            self._begun = None
        else:
            self._rows.append(record_row(value, offset, batch.leader_epoch, batch.max_timestamp, LOG))

    def _is_later_date(self, time_ms: int) -> bool:
        return bool(self._rows) and _date(time_ms) != _date(self._rows[0]["time"])

    def add_snapshot(self, snapshot: LogSnapshot) -> None:
        """Write a snapshot as a file. The feed continues after it if it lies behind the feed's end. Raises OSError."""
        is_gap = snapshot.last_offset >= self._end.next_offset
        if is_gap:
            self.flush()
        name = f"snapshot-{snapshot.last_offset:020d}-{snapshot.epoch:010d}.parquet"
        self._lake.write("records", self._cluster_id, _snapshot_time(snapshot), name, _snapshot_tables(snapshot))
        self.files += 1
        if is_gap:
            self.position = self._end = Position(snapshot.last_offset + 1, snapshot.epoch)
            self._begun = None

    def flush(self) -> None:
        """Write what was added, without an open transaction, which is then to be added again. Raises OSError."""
        end, rows = (self._end, len(self._rows)) if self._begun is None else self._committed
        offsets = end.next_offset - self.position.next_offset
        if rows or offsets > SILENT_OFFSETS_MAX:
            time_ms = self._rows[0]["time"] if rows else self._time_ms
            name = f"{self.position.next_offset:020d}-{end.next_offset - 1:020d}-{end.epoch:010d}.parquet"
            table = rows_table(self._rows[:rows], "records")
            self._lake.write("records", self._cluster_id, time_ms, name, [table])
            self.files += 1
            self.position = end
        self._rows.clear()


def _date(time_ms: int) -> dt.date:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).date()


def _control_rows(batch: RecordBatch, origin: str) -> Iterator[dict[str, Any]]:
    for record in batch.records():
        control = decode_control(record.key or b"", record.value or b"")
        if control is not None:
            yield dict.fromkeys(RECORDS.names) | {
                "offset": record.offset,
                "epoch": batch.leader_epoch,
                "time": batch.max_timestamp,
                "origin": origin,
                "type": control_name(control),
                "version": control.version,
                "data": json.dumps(control_json(control), separators=(",", ":")),
                "value": record.value,
                "schema_version": SCHEMA_VERSION,
            }


def _snapshot_time(snapshot: LogSnapshot) -> int:
    """Return the time of the last record that a snapshot contains, in ms."""
    for batch in read_batches(snapshot.data):
        for record in batch.records() if batch.is_control else ():
            header = decode_control(record.key or b"", record.value or b"")
            if isinstance(header, SnapshotHeaderRecord):
                return header.last_contained_log_timestamp
    return 0


def _snapshot_tables(snapshot: LogSnapshot) -> Iterator[pa.Table]:
    time_ms = _snapshot_time(snapshot)
    rows: list[dict[str, Any]] = []
    for batch in read_batches(snapshot.data):
        for value in () if batch.is_control else batch.values():
            rows.append(record_row(value, snapshot.last_offset, snapshot.epoch, time_ms, SNAPSHOT))
            if len(rows) >= ROWS_MAX:
                yield rows_table(rows, "records")
                rows.clear()
    yield rows_table(rows, "records")
