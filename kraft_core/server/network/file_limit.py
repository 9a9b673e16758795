"""The limit on open files and sockets of the process.

A new descriptor gets the lowest free number, so its number tells about how many are in use.
"""

import logging
import resource
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

FEW_FILES: Final = 4096
"""Below this limit a warning is logged: a broker keeps a file open for each log segment."""


@dataclass(frozen=True, slots=True)
class FileSlots:
    """Descriptor numbers from which connections are refused, so that logs, snapshots and other nodes can use the rest.

    From `clients` on only connections to protected listeners are admitted, from `protected` on only in exchange for
    another connection.
    """

    clients: int
    protected: int

    @classmethod
    def of(cls, limit: int) -> "FileSlots":
        """Divide a limit: an eighth (32 to 4,096) for files, a sixteenth (8 to 256) for protected listeners."""
        for_files = min(4096, max(32, limit // 8))
        for_protected = min(256, max(8, limit // 16))
        return cls(max(0, limit - for_files - for_protected), max(0, limit - for_files))


def file_limit() -> int:
    """Return how many descriptors the process may open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_file_limit() -> int:
    """Raise the soft limit, 1,024 in most shells, to the hard one and return it; RLIM_INFINITY for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def warn_of_few_files(limit: int) -> None:
    """Log a warning if a node may open only a few files."""
    if 0 <= limit < FEW_FILES:
        slots = FileSlots.of(limit)
        extra = {"limit": limit, "client_connections": slots.clients, "remedy": "raise the hard limit (ulimit -Hn)"}
        log.warning("few_open_files_allowed", extra=extra)
