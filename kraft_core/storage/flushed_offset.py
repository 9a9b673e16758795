"""`conclave.flushed-offset`: the offset up to which this directory's log has certainly been on disk.

Purpose
-------
In the log itself an unfinished write and damage to the last batches look alike. This file distinguishes them: it is
raised after each sync of the log and lowered, durably, before a truncation, so everything below it has been on disk and
may have been acknowledged.

Cost
----
Raising it takes a write without a sync. After a killed process it is exact, since the page cache survives. After a
power loss it may be as old as the kernel's write-back, about 30 s; then it proves less, but never too much.

Apache's node
-------------
Apache's node ignores this file. If one has used the directory and truncated the log meanwhile, the log has an epoch
above the one in this file, and the file is ignored.

Format
------
One line: offset, epoch of the record before it, CRC-32C of the two. A missing file or a wrong CRC means unknown.
"""

import logging
import os
from pathlib import Path
from typing import Final

from crc32c import crc32c

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import FileSystem, read_file, storage_errors, write_all

log = logging.getLogger(__name__)

FILE_NAME: Final = "conclave.flushed-offset"


class FlushedOffset:
    """The file of one directory. Used by one thread at a time."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._path = directory / FILE_NAME
        self._descriptor = -1
        self.known: OffsetAndEpoch | None = None
        self.is_damaged = False

    def open(self) -> None:
        """Read the file, or create it. Raises StorageError."""
        with storage_errors("open", self._path):
            if self._files.size_of(self._path):
                self.known = _parse(read_file(self._path, self._files))
                self.is_damaged = self.known is None
                if self.is_damaged:
                    log.warning("flushed_offset_unreadable", extra={"file": str(self._path)})
            self._descriptor = self._files.open(self._path, os.O_RDWR | os.O_CREAT)

    def raise_to(self, end: OffsetAndEpoch) -> None:
        """Record that everything below `end` is on disk. Raises StorageError."""
        if end != self.known:
            with storage_errors("write", self._path):
                self._write(end)

    def lower_to(self, end: OffsetAndEpoch) -> None:
        """Lower the offset to `end`, durably, before a truncation. Raises StorageError."""
        if self.known is None or self.known.offset > end.offset:
            with storage_errors("write", self._path):
                self._write(end)
                self._files.fdatasync(self._descriptor)

    def _write(self, end: OffsetAndEpoch) -> None:
        text = b"%020d %010d" % (end.offset, end.epoch)
        write_all(self._files, self._descriptor, b"%b %08x\n" % (text, crc32c(text)), 0)
        self.known = end

    def close(self) -> None:
        """Close the file, after an attempt to sync it. Raises StorageError."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                with storage_errors("write", self._path):
                    self._files.fdatasync(descriptor)
            finally:
                self._files.close(descriptor)


def _parse(raw: bytes) -> OffsetAndEpoch | None:
    words = raw.split()
    try:
        offset, epoch, checksum = int(words[0]), int(words[1]), int(words[2], 16)
    except (ValueError, IndexError):
        return None
    return OffsetAndEpoch(offset, epoch) if crc32c(b"%020d %010d" % (offset, epoch)) == checksum else None
