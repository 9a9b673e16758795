"""Durable file operations and the one error that a disk can give.

A file's bytes are durable after fdatasync, its name after fsync of the directory. Nothing here retries a failed sync:
after one the kernel may have dropped the dirty pages, so a second that succeeds would prove nothing.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final


class StorageError(Exception):
    """A disk operation failed or a file cannot be trusted; the message is one line and names the file."""


class CorruptFile(StorageError):  # noqa: N818  # Kafka says CorruptRecordException
    """The bytes of a file are damaged at a known place; going on would lose acknowledged data.

    `path` and `position` (bytes from the start of the file) say where.
    """

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position


_REASONS: Final = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EIO: "the device reports an I/O error",
}


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that says what could not be done to which file."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"Cannot {action} {path}: {reason}") from error


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_directory(path: Path) -> None:
    """Create a directory and its missing parents, durably; one that exists is left alone."""
    if path.is_dir():
        return
    with storage_errors("create", path):
        create_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def write_all(descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Write every byte at `position`; a short write goes on where it stopped. Raises OSError."""
    written = os.pwrite(descriptor, data, position)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(descriptor, view[written:], position + written)


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace a file as a whole: temporary file, fsync, rename, fsync of the directory.

    A crash leaves the old content or the new. Raises StorageError.
    """
    temporary = path.with_name(path.name + ".tmp")
    with storage_errors("write", path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            try:
                write_all(descriptor, data, 0)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.rename(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
