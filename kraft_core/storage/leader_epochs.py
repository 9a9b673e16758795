"""Where each leader epoch of the log begins: LeaderEpochFileCache and its checkpoint file.

The file is written when an epoch begins or ends in the log, for the tools and nodes that read it; this program always
rebuilds the list from the batches, so a missing or damaged file costs nothing. Source: LeaderEpochFileCache, LeaderEpochCheckpointFile, Kafka 4.3.1.
"""

from bisect import bisect_right
from typing import Final

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"


class LeaderEpochs:
    """Epochs in rising order with the offset at which each begins."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int | None:
        """The last epoch; None while the log is empty."""
        return self._epochs[-1] if self._epochs else None

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, first offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, offset: int) -> None:
        """Note that a batch of `epoch` begins at `offset`; epochs never fall."""
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(offset)
        else:
            assert epoch == self._epochs[-1], (epoch, self._epochs[-1])

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int] | None:
        """Find the largest known epoch <= `epoch` and its end offset; None when `epoch` is above all known ones.

        An epoch below all known ones is answered with itself and the first offset of the log.
        """
        if not self._epochs or epoch > self._epochs[-1]:
            return None
        if epoch == self._epochs[-1]:
            return epoch, end_offset
        higher = bisect_right(self._epochs, epoch)
        return (epoch if higher == 0 else self._epochs[higher - 1]), self._starts[higher]

    def epoch_at(self, offset: int) -> int | None:
        """Epoch of the record at `offset`, which must be in the log; None below its first record."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def truncate_from(self, offset: int) -> None:
        """Forget epochs that begin at or after `offset`."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()

    def advance_start(self, offset: int) -> None:
        """Forget epochs that end at or before `offset`; the one that holds it now begins there."""
        keep = bisect_right(self._starts, offset) - 1
        if keep >= 0:
            del self._epochs[:keep]
            del self._starts[:keep]
            self._starts[0] = offset

    def clear(self) -> None:
        """Forget everything: the log is empty."""
        self._epochs.clear()
        self._starts.clear()

    def checkpoint_text(self) -> str:
        """Write the file: version 0, the number of entries, one entry a line."""
        lines = ["0", str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self.entries)]
        return "\n".join(lines) + "\n"
