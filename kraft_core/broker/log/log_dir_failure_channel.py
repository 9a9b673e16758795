"""Failed log directories: one failed operation takes a directory offline until the process restarts.

A failed write may have left anything on the disk, and a failed sync may have lost earlier writes, so nothing in such a
directory is read or written before a restart has recovered it.

Source: LogDirFailureChannel and ReplicaManager.handleLogDirFailure, Kafka 4.3.1.
"""

import errno
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kraft_core.broker.log.log_directory import LogDirectory

log = logging.getLogger(__name__)

Listener = Callable[[LogDirectory], None]

_NOT_OF_THE_DISK: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_COMPLAINT_S: Final = 60
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_full(error: OSError) -> bool:
    """Return whether the error means that the disk is full, so that the data on it are still good."""
    return error.errno in _FULL


class LogDirFailureChannel:
    """The state of each log directory. Used on the event loop's thread only."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._by_path = {directory.path: directory for directory in directories}
        self._failed: set[Path] = set()
        self._listeners: list[Listener] = []
        self._silent_until = 0.0

    def on_failure(self, listener: Listener) -> None:
        """Call `listener` once for each directory that fails."""
        self._listeners.append(listener)

    def is_online(self, path: Path) -> bool:
        """Return whether a log directory may be used."""
        return path not in self._failed

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that may be used, in the order of log.dirs."""
        return [directory for path, directory in self._by_path.items() if path not in self._failed]

    def _complain(self, path: Path, operation: str, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _COMPLAINT_S
            log.error("file_not_used", extra={"directory": str(path), "operation": operation, "cause": str(error)})

    def report(self, path: Path, operation: str, error: OSError) -> None:
        """Take a directory offline because `operation` failed in it.

        A lack of file descriptors or memory is no disk error: it is logged, at most once a minute.
        """
        if path in self._failed:
            return
        if error.errno in _NOT_OF_THE_DISK:
            self._complain(path, operation, error)
            return
        self._failed.add(path)
        extra = {
            "directory": str(path),
            "operation": operation,
            "cause": str(error),
            "remedy": "repair the disk or make room on it, then restart this node",
        }
        log.error("log_directory_offline", extra=extra)
        for listener in self._listeners:
            listener(self._by_path[path])
