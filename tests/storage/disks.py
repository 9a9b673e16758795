"""The operating system's files with recorded operations or injected failures."""

from collections.abc import Sequence
from pathlib import Path

from kraft_core.storage.files import FileSystem


class RecordingFiles(FileSystem):
    """Records the durable steps in order, and which segments have unsynced bytes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.unsynced: set[int] = set()
        self.written: dict[str, bytes] = {}  # to each segment, by name
        self._segments: dict[int, str] = {}

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        descriptor = super().open(path, flags, mode)
        if path.suffix == ".log":
            self._segments[descriptor] = path.name
        return descriptor

    def pwritev(self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        name = self._segments.get(descriptor)
        if name is not None:
            self.unsynced.add(descriptor)
            self.written[name] = self.written.get(name, b"") + b"".join(buffers)
        return super().pwritev(descriptor, buffers, position)

    def fdatasync(self, descriptor: int) -> None:
        super().fdatasync(descriptor)
        self.unsynced.discard(descriptor)

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self.unsynced.discard(descriptor)
        self._segments.pop(descriptor, None)

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.unsynced.discard(descriptor)
        self.calls.append("sync")

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.calls.append("rename")

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.calls.append("sync directory")


class FailingFiles(FileSystem):
    """Does `steps_left` operations that change something; the next one fails with `error`, a write half done."""

    def __init__(self) -> None:
        self.steps_left = -1  # negative: never fails
        self.torn_bytes = 0
        self.error = OSError()

    def _step(self) -> None:
        if self.steps_left == 0:
            raise self.error
        self.steps_left -= 1

    def pwritev(self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if self.steps_left == 0:
            super().pwritev(descriptor, [b"".join(buffers)[: self.torn_bytes]], position)
        self._step()
        return super().pwritev(descriptor, buffers, position)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def fdatasync(self, descriptor: int) -> None:
        self._step()
        super().fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        self._step()
        super().fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)
