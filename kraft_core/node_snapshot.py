"""A metadata image into a snapshot: its records in batches of at most 1,024, between raft's header and footer.

Equal images give equal bytes. Source: RaftSnapshotWriter, SnapshotEmitter of Kafka 4.3.1; KIP-630.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import encode_record
from kraft_core.protocol.metadata_version import MINIMUM_METADATA_VERSION, record_version
from kraft_core.raft.snapshot_writer import SnapshotWriter

RECORDS_PER_BATCH: Final = 1024


def image_values(image: MetadataImage) -> Iterator[list[bytes]]:
    """Yield the image's records, encoded, a batch's worth at a time."""
    metadata_version = image.features.metadata_version or MINIMUM_METADATA_VERSION
    records = image_records(image)
    while values := [
        encode_record(record, record_version(type(record), metadata_version))
        for record in islice(records, RECORDS_PER_BATCH)
    ]:
        yield values


def write_image(image: MetadataImage, writer: SnapshotWriter) -> None:
    """Write all of `image` and freeze the snapshot; nothing is left of it when that fails. Raises as the writer."""
    try:
        for values in image_values(image):
            writer.append(values)
        writer.freeze()
    finally:
        writer.close()
