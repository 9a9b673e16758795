"""A metadata snapshot file (`.checkpoint`) as a data source of Spark, read in parts by Python workers.

    spark.dataSource.register(CheckpointSource)
    spark.read.format("kraft_checkpoint").load("/…/00000000000000014457-0000000001.checkpoint")

-> one row per partition: topic_id binary (16 bytes), partition; replicas, isr, elr, adding, removing, offline_replicas
array<int> of broker ids; leader (-1: none), leader_epoch, partition_epoch. With the option `outline`, a file of
`Outline.save`, brokers are its dense indexes instead, and the file is not read an additional time to find them.

Source: KIP-630; Snapshots, Kafka 4.3.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from app.reports.checkpoint_outline import load_brokers, partition_of, read_outline
from app.reports.image_tables import offline_replicas
from kraft_core.image.metadata_image import BrokerRegistration
from kraft_core.protocol.metadata_records import PartitionRecord
from kraft_core.protocol.record_batch import read_batches

FORMAT: Final = "kraft_checkpoint"
SPLIT_BYTES: Final = 8 * 1024 * 1024
"""Least size of a part of the file, which ends with a batch. Apache's controllers write batches of up to 8 MiB."""
HEAD_BYTES: Final = 12
"""Bytes of a batch up to the end of its length, which counts what follows."""
ROWS_MAX: Final = 20_000
_ROWS: Final = (
    "topic_id binary, partition int, replicas array<int>, isr array<int>, elr array<int>, adding array<int>, "
    "removing array<int>, offline_replicas array<int>, leader int, leader_epoch int, partition_epoch int"
)
_IDS: Final = pa.list_(pa.int32())
_SCHEMA: Final = pa.schema(
    [
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        *((name, _IDS) for name in ("replicas", "isr", "elr", "adding", "removing", "offline_replicas")),
        *((name, pa.int32()) for name in ("leader", "leader_epoch", "partition_epoch")),
    ]
)


@dataclass
class Part(InputPartition):
    """A range of bytes of the file, which begins and ends with a batch."""

    start: int
    end: int


class CheckpointSource(DataSource):
    """The data source; see the module's docstring."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return _ROWS

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of one file."""
        return CheckpointReader(Path(self.options["path"]), self.options.get("outline"))


class CheckpointReader(DataSourceReader):
    """Reads the partitions of one file, a part at a time."""

    def __init__(self, path: Path, outline: str | None) -> None:
        self._path = path
        self._outline = outline

    def partitions(self) -> list[InputPartition]:
        """Return the parts of the file. Only the heads of batches are read."""
        parts: list[InputPartition] = []
        size = self._path.stat().st_size
        with self._path.open("rb") as file:
            start = position = 0
            while position < size:
                file.seek(position)
                head = file.read(HEAD_BYTES)
                position += HEAD_BYTES + int.from_bytes(head[8:])
                if position - start >= SPLIT_BYTES or position >= size:
                    parts.append(Part(start, position))
                    start = position
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Raises CorruptBatch."""
        assert isinstance(partition, Part), "as `partitions` has made it"
        with self._path.open("rb") as file:
            file.seek(partition.start)
            data = file.read(partition.end - partition.start)
        rows = _Rows(*self._brokers())
        for batch in read_batches(data):
            for value in () if batch.is_control else batch.values():
                if value[1] == PartitionRecord.API_KEY:
                    rows.add(partition_of(value))
                    if rows.count >= ROWS_MAX:
                        yield rows.take()
        if rows.count:
            yield rows.take()

    def _brokers(self) -> tuple[dict[int, BrokerRegistration], dict[int, int] | None]:
        if self._outline is not None:
            return load_brokers(Path(self._outline))
        return dict(read_outline(self._path, 0, 0).image.cluster.brokers.items()), None


class _Rows:
    """The columns of some rows."""

    def __init__(self, brokers: dict[int, BrokerRegistration], index_of: dict[int, int] | None) -> None:
        self._brokers = brokers
        self._index_of = index_of
        self._translated: dict[tuple[int, ...], list[int]] = {}
        self._columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}

    @property
    def count(self) -> int:
        return len(self._columns["partition"])

    def add(self, record: PartitionRecord) -> None:
        columns, brokers = self._columns, self._translate
        columns["topic_id"].append(record.topic_id.bytes)
        columns["partition"].append(record.partition_id)
        columns["replicas"].append(brokers(record.replicas))
        columns["isr"].append(brokers(record.isr))
        columns["elr"].append(brokers(record.eligible_leader_replicas or ()))
        columns["adding"].append(brokers(record.adding_replicas))
        columns["removing"].append(brokers(record.removing_replicas))
        columns["offline_replicas"].append(
            brokers(offline_replicas(self._brokers, record.replicas, record.directories))
        )
        leader = record.leader
        columns["leader"].append(leader if self._index_of is None else self._index_of.get(leader, -1))
        columns["leader_epoch"].append(record.leader_epoch)
        columns["partition_epoch"].append(record.partition_epoch)

    def _translate(self, ids: tuple[int, ...]) -> list[int]:
        found = self._translated.get(ids)
        if found is None:
            index_of = self._index_of
            found = list(ids) if index_of is None else [index_of[broker] for broker in ids if broker in index_of]
            self._translated[ids] = found
        return found

    def take(self) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_pydict(self._columns, schema=_SCHEMA)
        for column in self._columns.values():
            column.clear()
        return batch
