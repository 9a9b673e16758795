"""Small file systems for tests of full disks."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class NoSmallDiskError(Exception):
    """No file system can be mounted here, which needs root; the message says why."""


@contextmanager
def mounted(path: Path, mebibytes: int) -> Iterator[None]:
    """A file system of its own at `path`, which must be there. Raises NoSmallDiskError."""
    outcome = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)],  # wherever it is
        capture_output=True,
        text=True,
    )
    if outcome.returncode:
        raise NoSmallDiskError(outcome.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)  # wherever it is


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[None]:
    """The same in a new folder; a test that cannot have it is skipped and says so."""
    path.mkdir()
    try:
        with mounted(path, mebibytes):
            yield
    except NoSmallDiskError as error:
        pytest.skip(f"a small disk cannot be mounted, which needs root: {error}")
