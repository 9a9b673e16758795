"""Reading the batch headers of a segment file.

Source: FileRecords and FileLogInputStream, Kafka 4.3.1.
"""

import os
from collections.abc import Iterator
from typing import Final

from kraft_core.protocol.batch_header import BATCH_LENGTH_MIN, HEADER_BYTES, MAGIC, BatchHeader, read_header

_SCAN_BYTES: Final = 64 * 1024


def scan_headers(file_descriptor: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch that lies wholly in [position, end) of the file.

    Stops without an error at an incomplete or invalid header (length too small, a magic other than 2): recovery
    decides what that means.
    """
    buffer = b""
    buffer_start = position
    while position + HEADER_BYTES <= end:
        relative = position - buffer_start
        if relative + HEADER_BYTES > len(buffer):
            buffer_start, relative = position, 0
            buffer = os.pread(file_descriptor, min(_SCAN_BYTES, end - position), position)
            if len(buffer) < HEADER_BYTES:
                return
        header = read_header(buffer, relative)
        if header.magic != MAGIC or header.batch_length < BATCH_LENGTH_MIN or position + header.size > end:
            return
        yield position, header
        position += header.size
