"""A disk that fails, or a machine that crashes, at the Nth change of a file."""

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from unittest import mock


class Crash(BaseException):
    """The process ends here: no error handler runs, and the files stay as they are."""


class FaultyDisk:
    """Counts every change of a file. Change number `at` raises `fault` after half of a write's bytes."""

    def __init__(self, at: int | None, fault: Callable[[], BaseException]) -> None:
        self.changes: list[str] = []
        self._at = at
        self._fault = fault

    @property
    def has_struck(self) -> bool:
        """Whether the chosen change was reached."""
        return self._at is not None and len(self.changes) >= self._at

    def change(self, what: str) -> bool:
        """Count a change. Return True if it must fail."""
        self.changes.append(what)
        return len(self.changes) == self._at

    def strike(self, what: str) -> None:
        """Count a change, and raise if it is the chosen one."""
        if self.change(what):
            raise self._fault()

    @contextmanager
    def plugged_in(self) -> Iterator[Self]:
        """Use this disk for every file of the process."""
        names = ("ftruncate", "rename", "replace", "unlink", "mkdir", "rmdir")
        patches = [mock.patch.object(os, name, self._faulty(name, getattr(os, name))) for name in names]
        patches += [
            mock.patch.object(os, name, self._faulty(name, lambda _: None))  # a failed sync keeps what was written
            for name in ("fdatasync", "fsync")
        ]
        patches += [
            mock.patch.object(os, "pwrite", self._pwrite(os.pwrite)),
            mock.patch.object(os, "pwritev", self._pwritev(os.pwrite)),
            mock.patch.object(os, "open", self._open(os.open)),
            mock.patch.object(io, "open", self._open_file(io.open)),
        ]
        for patch in patches:
            patch.start()
        try:
            yield self
        finally:
            for patch in patches:
                patch.stop()

    def _faulty(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.strike(f"{name} {arguments[0]}")
            return real(*arguments, **options)

        return call

    def _pwrite(self, real: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
        def pwrite(descriptor: int, data: bytes, position: int) -> int:
            if self.change("pwrite"):
                real(descriptor, data[: len(data) // 2], position)
                raise self._fault()
            return real(descriptor, data, position)

        return pwrite

    def _pwritev(self, real: Callable[[int, bytes, int], int]) -> Callable[[int, list[bytes], int], int]:
        pwrite = self._pwrite(real)
        return lambda descriptor, buffers, position: pwrite(descriptor, b"".join(buffers), position)

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & os.O_CREAT and not os.path.exists(path):  # noqa: PTH110 # pathlib is under observation
                self.strike(f"create {path}")
            return real(path, flags, *rest, **options)

        return call

    def _open_file(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if mode[0] == "r" or isinstance(path, int):
                return real(path, mode, *rest, **options)
            self.strike(f"open {path}")
            return _File(real(path, mode, *rest, **options), self)

        return call


class FullDisk(FaultyDisk):
    """A disk on which nothing can be written, but anything deleted."""

    def __init__(self) -> None:
        super().__init__(None, full)

    def change(self, what: str) -> bool:
        """Count a change. Return True if it needs space."""
        return what.startswith(("pwrite", "write"))


class _File:
    """A file opened for writing, whose writes count as changes."""

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self._file = file
        self._disk = disk

    def write(self, data: Any) -> int:
        """Write the data, or half of them if this is the chosen change."""
        if self._disk.change(f"write {self._file.name}"):
            self._file.write(data[: len(data) // 2])
            self._file.close()
            raise self._disk._fault()
        return int(self._file.write(data))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def io_error() -> OSError:
    """Return the error of a broken disk."""
    return OSError(errno.EIO, os.strerror(errno.EIO))


def full() -> OSError:
    """Return the error of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def changes_of(work: Callable[[], None]) -> int:
    """Return the number of changes that a piece of work makes without faults."""
    disk = FaultyDisk(None, Crash)
    with disk.plugged_in():
        work()
    return len(disk.changes)


def open_descriptors() -> int:
    """Return the number of files that this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # as above
