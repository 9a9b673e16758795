"""The names of the files in a partition's folder, and their deletion.

Source: LogFileUtils and UnifiedLog, Kafka 4.3.1.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
"""Added to the name of a file that is waiting to be deleted."""
CLEANED_SUFFIX: Final = ".cleaned"
"""Added to the name of an unfinished compacted segment."""
SWAP_SUFFIX: Final = ".swap"
"""Added to the name of a finished compacted segment that replaces others."""


def file_name(offset: int, suffix: str) -> str:
    """Return a file's name: the offset in 20 digits, and the suffix."""
    return f"{offset:020d}{suffix}"


def base_offsets(folder: Path) -> list[int]:
    """Return the base offsets of the segments in a partition's folder, in order. Raises OSError."""
    return sorted(int(path.stem) for path in folder.glob("*" + LOG_SUFFIX) if path.stem.isdecimal())


def delete_files(paths: Iterable[Path]) -> None:
    """Delete files, which may already be gone. Raises OSError."""
    for path in paths:
        path.unlink(missing_ok=True)
