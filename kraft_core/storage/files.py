"""File operations, the atomic replacement of files, and the error of storage.

Everything in storage goes through a `FileSystem`: the operating system's by default; the simulator passes one that
loses, tears and damages data. A file's bytes are durable after fdatasync, its name after a sync of its directory. A
failed sync is never retried: the kernel may have dropped the dirty pages, so a second, successful one would prove
nothing.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Final


class StorageError(Exception):
    """A disk operation failed or a file cannot be trusted; the message is one line and names the file."""


class CorruptFile(StorageError):  # noqa: N818  # Kafka says CorruptRecordException
    """A file is damaged at `path` and `position` (bytes from its start); continuing would lose acknowledged data."""

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
    """Turn an OSError into a StorageError with the action, the file and the reason."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"Cannot {action} {path}: {reason}") from error


class FileSystem:
    """The operating system's files. Every method raises OSError; `storage_errors` turns it into StorageError."""

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """Open a file and return its descriptor. `flags` are those of os.open; child processes do not inherit it."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at most `size` bytes at `position`, fewer only at the end of the file."""
        return os.pread(descriptor, size, position)

    def pwritev(self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        """Write buffers consecutively at `position`; return the bytes written, which may be fewer than given."""
        return os.pwritev(descriptor, buffers, position)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate a file to `size` bytes."""
        os.ftruncate(descriptor, size)

    def fdatasync(self, descriptor: int) -> None:
        """Make a file's bytes and its size durable."""
        os.fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        """Make a file's bytes and metadata durable, except for its name."""
        os.fsync(descriptor)

    def chmod(self, descriptor: int, mode: int) -> None:
        """Set a file's permissions."""
        os.fchmod(descriptor, mode)

    def size(self, descriptor: int) -> int:
        """Return the size of an open file in bytes."""
        return os.fstat(descriptor).st_size

    def size_of(self, path: Path) -> int | None:
        """Return the size of a file in bytes; None when it does not exist."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def is_directory(self, path: Path) -> bool:
        """Return whether the path is a directory."""
        return path.is_dir()

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208  # names are wanted, not paths

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, replacing the target."""
        source.rename(target)

    def unlink(self, path: Path) -> None:
        """Delete a file if it exists."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Create a directory, unless it exists; its parent must exist."""
        path.mkdir(exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


OPERATING_SYSTEM: Final = FileSystem()
"""The default of every `files` parameter."""


def create_directory(path: Path, files: FileSystem = OPERATING_SYSTEM) -> None:
    """Create a directory and its missing parents durably, unless it exists. Raises StorageError."""
    if files.is_directory(path):
        return
    with storage_errors("create", path):
        create_directory(path.parent, files)
        files.make_directory(path)
        files.sync_directory(path.parent)


def write_all(files: FileSystem, descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Write all bytes at `position`, continuing after short writes. Raises OSError."""
    written = files.pwritev(descriptor, [data], position)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += files.pwritev(descriptor, [view[written:]], position + written)


def read_file(path: Path, files: FileSystem = OPERATING_SYSTEM) -> bytes:
    """Read a small file as a whole. Raises OSError, such as FileNotFoundError."""
    descriptor = files.open(path, os.O_RDONLY)
    try:
        return files.pread(descriptor, files.size(descriptor), 0)
    finally:
        files.close(descriptor)


class Sync(Enum):
    """What `replace_file` makes durable before it returns."""

    NONE = "none"
    """Nothing: a crash may leave the old content, the new, or an empty file."""
    BYTES = "bytes"
    """The new content before it gets the file's name: a crash leaves the old content or the new."""
    BYTES_AND_NAME = "bytes and name"
    """The name as well: a crash leaves the new content."""


def replace_file(
    path: Path,
    data: bytes,
    files: FileSystem = OPERATING_SYSTEM,
    *,
    mode: int = 0o644,
    sync: Sync = Sync.BYTES_AND_NAME,
) -> None:
    """Replace a file as a whole: write a temporary file beside it, fsync it, rename it, fsync the directory.

    A reader sees the old content or the new, also when another process replaces the same file. Raises OSError with
    the old content in place; if only the directory's fsync failed, with the new.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            write_all(files, descriptor, data, 0)
            if sync is not Sync.NONE:
                files.fsync(descriptor)
        finally:
            files.close(descriptor)
        files.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            files.unlink(temporary)
        raise
    if sync is Sync.BYTES_AND_NAME:
        files.sync_directory(path.parent)


def write_file(path: Path, data: bytes, files: FileSystem = OPERATING_SYSTEM) -> None:
    """Replace a file as `replace_file` does. Raises StorageError."""
    with storage_errors("write", path):
        replace_file(path, data, files)
