"""A virtual disk: the `FileSystem` of one simulated node, with a page cache, a platter and its faults.

What a file holds is known twice: `data` is what reads see (the page cache), `platter` what is on the medium. A sync
moves one to the other; until then each write is pending, and a power loss keeps any of them, whole or torn at 512
bytes. Names work the same way: a rename or an unlink is certain only after the sync of its directory. A killed process
loses nothing but its descriptors. Directories themselves are taken for durable.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from kraft_core.storage.files import FileSystem

SECTOR_BYTES = 512


class Crashed(BaseException):  # not an error: the process has been killed
    """The process dies in a file operation. Only the simulator may catch this."""


class Inode:
    """A file: its bytes in the cache and on the platter, and the pending changes, oldest first."""

    __slots__ = ("data", "is_damaged", "pending", "platter")

    def __init__(self) -> None:
        self.data = bytearray()
        self.platter = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # (position, bytes written) or (size, None): a truncation
        self.is_damaged = False

    def sync(self) -> None:
        """Write all pending changes to the platter."""
        for change in self.pending:
            _apply(self.platter, change)
        self.pending.clear()


def _apply(target: bytearray, change: tuple[int, bytes | None]) -> None:
    position, data = change
    if data is None:
        if position < len(target):
            del target[position:]
        else:
            target.extend(bytes(position - len(target)))
        return
    if position > len(target):
        target.extend(bytes(position - len(target)))
    target[position : position + len(data)] = data


class Renaming(NamedTuple):
    """An atomic change of names: one may disappear, one may appear."""

    gone: Path | None
    come: Path | None
    inode: Inode


class SimDisk(FileSystem):
    """One disk. `random` is the world's, so the seed determines what a crash leaves."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.directories: set[Path] = {Path("/")}
        self.files: dict[Path, Inode] = {}
        self.has_lost_power = False  # since a process last started on it
        self.named: dict[Path, Inode] = {}  # the names on the platter
        self.renames: list[Renaming] = []  # unsynced changes of names
        self.descriptors: dict[int, Inode] = {}
        self.paths: dict[int, Path] = {}  # of the open descriptors
        self.steps: list[str] | None = None  # if set: records every change
        self.died_in = ""  # the change at which the process died last
        self._last_step = ""
        self._next_descriptor = 3
        self.is_down = False
        self.crash_in = -1  # operations until the process dies; negative: it does not
        self.failing_write = False  # the next write or truncation fails
        self.failing_sync = False  # the next sync does, of a file or a directory
        self.free_bytes: int | None = None  # None: unlimited

    # --- calls of the node ------------------------------------------------------------------------------------------

    def _change(self, operation: str, path: Path) -> None:
        """Announce a change; the process may die before it."""
        if self.is_down:
            raise Crashed
        step = f"{operation} {path.suffix or path.name}"
        if operation == "sync directory":
            step = f"sync directory after {self._last_step}"
        else:
            self._last_step = step
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.is_down, self.died_in = True, step
                raise Crashed
        if self.steps is not None:
            self.steps.append(step)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        inode = self.files.get(path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self._change("create", path)
            inode = self.files[path] = Inode()
            self.renames.append(Renaming(None, path, inode))
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        elif flags & os.O_TRUNC and inode.data:
            self._change("empty", path)
            self._write(inode, (0, None))
        self._next_descriptor += 1
        self.descriptors[self._next_descriptor] = inode
        self.paths[self._next_descriptor] = path
        return self._next_descriptor

    def close(self, descriptor: int) -> None:
        self.descriptors.pop(descriptor, None)
        self.paths.pop(descriptor, None)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        return bytes(self.descriptors[descriptor].data[position : position + size])

    def pwritev(self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        inode = self.descriptors[descriptor]
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if self.crash_in == 0:  # dies during the write: a part of it is in the cache
            data = data[: self.random.randint(0, len(data))]
            self._write(inode, (position, bytes(data)))
        self._change("write", self.paths[descriptor])
        self._check_write()
        if self.free_bytes is not None:
            grows = position + len(data) - len(inode.data)
            if grows > self.free_bytes:
                room = len(data) - grows + self.free_bytes
                if room <= 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                data = data[:room]
            self.free_bytes -= max(position + len(data) - len(inode.data), 0)
        self._write(inode, (position, bytes(data)))
        return len(data)

    def _write(self, inode: Inode, change: tuple[int, bytes | None]) -> None:
        _apply(inode.data, change)
        inode.pending.append(change)

    def truncate(self, descriptor: int, size: int) -> None:
        self._change("truncate", self.paths[descriptor])
        self._check_write()
        self._write(self.descriptors[descriptor], (size, None))

    def _check_write(self) -> None:
        if self.failing_write:
            self.failing_write = False
            raise OSError(errno.EIO, "Input/output error")

    def fdatasync(self, descriptor: int) -> None:
        inode = self.descriptors[descriptor]
        self._change("sync", self.paths[descriptor])
        if self.failing_sync:  # as on Linux: the pages count as clean and are never written
            inode.pending.clear()
        self._check_sync()
        inode.sync()

    def _check_sync(self) -> None:
        if self.failing_sync:
            self.failing_sync = False
            raise OSError(errno.EIO, "Input/output error")

    fsync = fdatasync

    def chmod(self, descriptor: int, mode: int) -> None:
        self._change("chmod", self.paths[descriptor])

    def size(self, descriptor: int) -> int:
        return len(self.descriptors[descriptor].data)

    def size_of(self, path: Path) -> int | None:
        inode = self.files.get(path)
        return None if inode is None else len(inode.data)

    def is_directory(self, path: Path) -> bool:
        return path in self.directories

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in self.files if path.parent == directory)

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", source)
        inode = self.files.pop(source)
        self.files[target] = inode
        self.renames.append(Renaming(source, target, inode))

    def unlink(self, path: Path) -> None:
        if path in self.files:
            self._change("unlink", path)
            self.renames.append(Renaming(path, None, self.files.pop(path)))

    def make_directory(self, path: Path) -> None:
        self._change("make directory", path)
        self.directories.add(path)

    def sync_directory(self, path: Path) -> None:
        self._change("sync directory", path)
        self._check_sync()
        others = []
        for change in self.renames:
            name = change.gone or change.come
            if name is not None and name.parent == path:
                self._rename_durably(change)
            else:
                others.append(change)
        self.renames = others

    def _rename_durably(self, change: Renaming) -> None:
        if change.gone is not None:
            self.named.pop(change.gone, None)
        if change.come is not None:
            self.named[change.come] = change.inode

    # --- faults ---------------------------------------------------------------------------------------------------

    def killed(self) -> None:
        """End the process; the machine keeps running and writes the cache back."""
        self.descriptors.clear()
        self.paths.clear()
        self.is_down = False
        self.crash_in = -1
        self.failing_write = self.failing_sync = False

    def write_back(self) -> None:
        """Write the whole cache to the platter."""
        for inode in self.files.values():
            inode.sync()
        for change in self.renames:
            self._rename_durably(change)
        self.renames.clear()

    def lose_power(self, *, leaves_holes: bool) -> None:
        """Lose the cache; unsynced changes survive in part. `leaves_holes`: later ones may survive without earlier."""
        random = self.random
        self.has_lost_power = True
        kept = random.choice([0.0, 0.5, 1.0])
        for change in self.renames:
            if random.random() < kept:
                self._rename_durably(change)
        self.renames.clear()
        self.files = dict(self.named)
        for inode in self.files.values():
            if inode.pending:
                _lose(inode, random, leaves_holes=leaves_holes)
            inode.pending.clear()
            inode.data = bytearray(inode.platter)
        self.killed()

    def is_synced(self, path: Path) -> bool:
        """Report whether a file's bytes and name are on the platter."""
        inode = self.files[path]
        return inode.platter == inode.data and self.named.get(path) is inode

    @property
    def is_damaged(self) -> bool:
        """Whether a damaged file still exists."""
        return any(inode.is_damaged for inode in self.files.values())

    def damage(self, path: Path, kind: str) -> None:
        """Damage a file at a random place: flip a bit, zero a sector, or misdirect another sector's write to it."""
        random, inode = self.random, self.files[path]
        position = random.randrange(len(inode.data))
        start = position - position % SECTOR_BYTES
        before = bytes(inode.data)
        if kind == "bit_flip":
            inode.data[position] ^= 1 << random.randrange(8)
        else:
            width = min(SECTOR_BYTES, len(inode.data) - start)
            sector = bytes(width)
            if kind == "misdirected_write":
                other = random.choice([each.data for each in self.files.values() if each.data])
                at = random.randrange(len(other)) // SECTOR_BYTES * SECTOR_BYTES
                sector = bytes(other[at : at + width]).ljust(width, b"\0")
            inode.data[start : start + width] = sector
        inode.platter = bytearray(inode.data)
        inode.is_damaged |= inode.data != before


def _lose(inode: Inode, random: Random, *, leaves_holes: bool) -> None:
    """Write a part of the pending changes: a prefix torn at a sector or, with holes, any of its sectors.

    A hole counts as damage: a start may be refused for it.
    """
    kind = random.choice(["none", "prefix", "prefix", "all", "holes" if leaves_holes else "prefix"])
    if kind == "none":
        return
    if kind == "all":
        inode.sync()
        return
    kept = random.randint(0, len(inode.pending))
    for index, (position, data) in enumerate(inode.pending):
        if data is None:
            if index < kept:
                _apply(inode.platter, (position, None))
        elif kind == "prefix":
            if index < kept:
                _apply(inode.platter, (position, data))
            elif index == kept:
                end = random.randint(position, position + len(data))
                _apply(inode.platter, (position, data[: max(end - end % SECTOR_BYTES - position, 0)]))
        else:
            _keep_some_sectors(inode.platter, position, data, random)
    if kind == "holes":
        inode.is_damaged |= inode.platter != inode.data


def _keep_some_sectors(platter: bytearray, position: int, data: bytes, random: Random) -> None:
    at = position
    end = position + len(data)
    while at < end:
        up_to = min(at - at % SECTOR_BYTES + SECTOR_BYTES, end)
        if random.random() < 0.5:
            _apply(platter, (at, data[at - position : up_to - position]))
        at = up_to
