"""Which leader epoch wrote which offsets of a partition, with its checkpoint file.

Source: KIP-101; LeaderEpochFileCache, Kafka 4.3.1.
"""

import bisect
from pathlib import Path

from kraft_core.broker.log.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    CorruptCheckpointError,
    read_checkpoint,
    write_checkpoint,
)


class LeaderEpochs:
    """(epoch, start offset) in rising order. The file is written at each change without a sync; it can be rebuilt from batches."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LEADER_EPOCH_CHECKPOINT
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []

    def load(self) -> None:
        """Read the file. Raises CorruptCheckpointError."""
        entries = []
        for words in read_checkpoint(self._path):
            try:
                epoch, offset = (int(word) for word in words)
            except ValueError:
                raise CorruptCheckpointError(f"{self._path} has the entry {' '.join(words)!r}") from None
            entries.append((epoch, offset))
        self._epochs = [epoch for epoch, _ in entries]
        self._start_offsets = [offset for _, offset in entries]

    @property
    def latest(self) -> int | None:
        """The newest epoch with records, None when there is none."""
        return self._epochs[-1] if self._epochs else None

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int, *, write: bool = True) -> None:
        """Note that `epoch` begins at `start_offset`; nothing happens when it is the newest already. Raises OSError with nothing noted."""
        if self._epochs and epoch == self._epochs[-1]:
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._start_offsets[keep - 1] >= start_offset):
            keep -= 1
        epochs, start_offsets = [*self._epochs[:keep], epoch], [*self._start_offsets[:keep], start_offset]
        if write:
            self._write(epochs, start_offsets)
        self._epochs, self._start_offsets = epochs, start_offsets

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, where it ends); (-1, -1) when no epoch that old or new is known."""
        if not self._epochs or epoch < 0 or epoch > self._epochs[-1]:
            return -1, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        index = bisect.bisect_right(self._epochs, epoch)
        if index == 0:
            return epoch, self._start_offsets[0]
        return self._epochs[index - 1], self._start_offsets[index]

    def epoch_for(self, offset: int) -> int | None:
        """Epoch of the record at `offset`, None when unknown."""
        index = bisect.bisect_right(self._start_offsets, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def truncate_from_end(self, end_offset: int, *, write: bool = True) -> None:
        """Drop epochs that begin at or behind `end_offset`."""
        keep = bisect.bisect_left(self._start_offsets, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            if write:
                self.write()

    def truncate_from_start(self, start_offset: int, *, write: bool = True) -> None:
        """Drop epochs that end at or before `start_offset`; the one that holds it then begins there."""
        index = bisect.bisect_right(self._start_offsets, start_offset) - 1
        if index < 0 or (index == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:index], self._start_offsets[:index]
        self._start_offsets[0] = start_offset
        if write:
            self.write()

    def clear(self) -> None:
        """Forget all epochs."""
        self._epochs.clear()
        self._start_offsets.clear()
        self.write()

    def write(self) -> None:
        """Write the checkpoint file."""
        self._write(self._epochs, self._start_offsets)

    def _write(self, epochs: list[int], start_offsets: list[int]) -> None:
        entries = (f"{epoch} {start}" for epoch, start in zip(epochs, start_offsets, strict=True))
        write_checkpoint(self._path, entries, sync=False)
