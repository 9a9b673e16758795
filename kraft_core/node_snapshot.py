"""Writes a metadata image as a snapshot: batches of at most 1,024 records between raft's header and footer.

Equal images give equal bytes. Source: RaftSnapshotWriter, SnapshotEmitter of Kafka 4.3.1; KIP-630.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import encode_record
from kraft_core.protocol.metadata_version import MINIMUM_METADATA_VERSION, record_version
from kraft_core.raft.snapshot.writer import SnapshotWriter

RECORDS_PER_BATCH: Final = 1024


@dataclass(slots=True)
class SnapshotEmitterMetrics:
    """Metrics of the snapshots that this process wrote. Source: SnapshotEmitterMetrics.

    `latest_generated_time_ms`: by the node's clock; before the first snapshot the start of the process, as in Kafka.
    """

    latest_generated_time_ms: int
    latest_generated_bytes: int = 0


def image_values(image: MetadataImage) -> Iterator[list[bytes]]:
    """Yield the image's encoded records, one batch at a time."""
    metadata_version = image.features.metadata_version or MINIMUM_METADATA_VERSION
    records = image_records(image)
    while values := [
        encode_record(record, record_version(type(record), metadata_version))
        for record in islice(records, RECORDS_PER_BATCH)
    ]:
        yield values


def write_image(image: MetadataImage, writer: SnapshotWriter) -> int:
    """Write `image`, freeze the snapshot and return its size in bytes. A failed snapshot leaves no file.

    Raises the writer's errors, and UnwritableMetadataError for metadata that metadata.version cannot express.
    """
    try:
        for values in image_values(image):
            writer.append(values)
        return writer.freeze()
    finally:
        writer.close()
