"""Small file systems for tests of full disks."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class NoSmallDiskError(Exception):
    """No file system can be mounted here, which needs root; the message contains the reason."""


@contextmanager
def mounted(path: Path, mebibytes: int) -> Iterator[None]:
    """Mount a small file system at an existing `path`. Raises NoSmallDiskError."""
    outcome = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)],  # found on the PATH
        capture_output=True,
        text=True,
    )
    if outcome.returncode:
        raise NoSmallDiskError(outcome.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)  # found on the PATH


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[None]:
    """Mount one in a new folder. The test is skipped where that is impossible."""
    path.mkdir()
    try:
        with mounted(path, mebibytes):
            yield
    except NoSmallDiskError as error:
        pytest.skip(f"a small disk cannot be mounted, which needs root: {error}")
