"""Read the committed metadata log from its first offset as an observer, and replay it to an image."""

import struct
from collections.abc import Iterator
from typing import cast

from benchmarks.load import connected, read_answer
from benchmarks.sides import Cluster
from kraft_core.clients.quorum_fetch import ObserverIdentity, fetch_partition, fetch_request
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import FetchResponse
from kraft_core.protocol.record_batch import read_batches

FETCH_VERSION = 17
FETCH_BYTES = 8 * 1024 * 1024
_BATCH_START = struct.Struct(">qii")


def fetch_log(cluster: Cluster) -> Iterator[bytes]:
    """Yield the log in complete batches, with fetches of 8 MB."""
    identity = ObserverIdentity(cluster_id=cluster.quorum.cluster_id)
    offset, epoch = 0, 0
    leader_epoch = cluster.leader_epoch()
    with connected(cluster.leader_port) as connection:
        while True:
            request = fetch_request(
                identity,
                leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                high_watermark=-1,
                max_wait_ms=0,
                max_bytes=FETCH_BYTES,
            )
            connection.sendall(encode_request(request, FETCH_VERSION, 1, "bench"))
            answer = cast("FetchResponse", decode_response(1, FETCH_VERSION, read_answer(connection))[1])
            partition = fetch_partition(answer)
            assert partition is not None, answer
            assert (answer.error_code, partition.error_code) == (0, 0), partition
            records = partition.records or b""
            if not records:
                return
            position = 0
            while position + _BATCH_START.size <= len(records):
                base, length, batch_epoch = _BATCH_START.unpack_from(records, position)
                if position + 12 + length > len(records):
                    break  # Apache truncates the last batch at the fetch size; the next fetch returns it again
                offset, epoch = base + int.from_bytes(records[position + 23 : position + 27]) + 1, batch_epoch
                position += 12 + length
            assert position, f"no whole batch in {len(records)} bytes"
            yield records[:position]


def committed_image(cluster: Cluster) -> MetadataImage:
    """Return the image of the log. A leader returns only committed records to observers."""
    loader = MetadataLoader()
    for records in fetch_log(cluster):
        for batch in read_batches(records):
            loader.apply_batch(batch)
    return loader.image
