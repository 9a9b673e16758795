"""The placement of all partitions in a run's output folder, from which any loss is answered without Spark.

`placement.arrow` (Arrow IPC, not compressed, so that it is mapped and not read) has a record batch per file of the
snapshot, sorted by topic and partition:

- topic: dictionary<string>; partition: int32; state: int32, the index of its state
- replicas: list<int32> of broker_idx

The metadata `report` of its schema is JSON: `states`, and `brokers` as in the snapshot. About 25 MB per million
partitions with three replicas.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from app.reports.aggregates import Brokers
from app.reports.columns import Chunk, list_column
from app.reports.states import PartitionState

FILE = "placement.arrow"


class PlacementWriter:
    """Writes `placement.arrow`. A file that is not finished has another name."""

    def __init__(self, path: Path, names: Sequence[str], states: Sequence[PartitionState], brokers: Brokers) -> None:
        meta = {
            "states": [
                [list(state.codes), state.replication_factor, state.min_isr_config, state.unclean] for state in states
            ],
            "brokers": [dict(row) for row in brokers.rows],
        }
        self._path = path
        self._names = pa.array(names, pa.string())
        self._schema = pa.schema(
            [
                ("topic", pa.dictionary(pa.int32(), pa.string())),
                ("partition", pa.int32()),
                ("state", pa.int32()),
                ("replicas", pa.list_(pa.int32())),
            ],
            metadata={"report": json.dumps(meta)},
        )

    def __enter__(self) -> Self:
        self._file = pa.OSFile(str(self._path.with_suffix(".part")), "wb")
        self._writer = pa.ipc.new_file(self._file, self._schema)
        return self

    def write(self, chunk: Chunk) -> None:
        """Write a chunk as a record batch."""
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(chunk.topic), self._names),
            pa.array(chunk.partition),
            pa.array(chunk.state),
            pa.ListArray.from_arrays(pa.array(chunk.offsets), pa.array(chunk.replicas)),
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))

    def __exit__(self, kind: object, *_: object) -> None:
        self._writer.close()
        self._file.close()
        if kind is None:
            self._path.with_suffix(".part").replace(self._path)


def read_placement(path: Path) -> tuple[dict[str, Any], Callable[[int], str], Iterator[Chunk]]:
    """Return the metadata, the topic's name by index, and the chunks of a `placement.arrow`, which stays mapped.

    Raises FileNotFoundError.
    """
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    meta: dict[str, Any] = json.loads(file.schema.metadata[b"report"])
    batches = [file.get_batch(number) for number in range(file.num_record_batches)]

    def name(topic: int) -> str:
        return str(batches[0]["topic"].dictionary[topic].as_py())

    def chunks() -> Iterator[Chunk]:
        for batch in batches:
            replicas, offsets = list_column(pa.Table.from_batches([batch]), "replicas")
            yield Chunk(
                batch["topic"].indices.to_numpy(),
                batch["partition"].to_numpy(),
                batch["state"].to_numpy(),
                replicas,
                offsets,
            )

    return meta, name, chunks()
