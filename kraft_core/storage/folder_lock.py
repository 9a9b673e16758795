"""`.lock`: only one process uses a log directory. It is a flock, so that a killed process leaves no lock behind.

Source: FileLock and LogManager.lockLogDirs, Kafka 4.3.1.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from kraft_core.storage.files import StorageError, storage_errors

FILE_NAME: Final = ".lock"


class FolderInUseError(StorageError):
    """Another process holds the lock of the directory."""


class FolderLock:
    """An exclusive lock on a directory, from construction until `release` or the end of the process.

    Raises FolderInUseError when another process holds it, StorageError when the lock file cannot be created.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / FILE_NAME
        with storage_errors("create", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # A JVM's FileLock is an fcntl lock, so take both kinds: this excludes Apache's nodes as well.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise FolderInUseError(
                f"Failed to acquire lock on file .lock in {directory}. A Kafka instance in another process or "
                "thread is "
                "using this directory."
            ) from None

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
