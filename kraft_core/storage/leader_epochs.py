"""Where each leader epoch of a log begins, for the metadata log and for topic partitions, and its checkpoint's text.

Source: KIP-101; LeaderEpochFileCache and LeaderEpochCheckpointFile, Kafka 4.3.1.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, Self

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"


class LeaderEpochs:
    """(epoch, start offset), both in rising order."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        pairs = list(entries)
        self._epochs = [epoch for epoch, _ in pairs]
        self._start_offsets = [offset for _, offset in pairs]

    @property
    def latest(self) -> int | None:
        """The newest epoch with records; None when there is none."""
        return self._epochs[-1] if self._epochs else None

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`; does nothing if it is the latest already.

        Entries that contradict the new one, with a later epoch or start offset, are removed.
        """
        if epoch == self.latest:
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._start_offsets[keep - 1] >= start_offset):
            keep -= 1
        self._epochs[keep:] = [epoch]
        self._start_offsets[keep:] = [start_offset]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """Return the largest known epoch <= `epoch` and its end offset; None for a negative one or one above `latest`.

        For an epoch below all known ones, return that epoch and the first offset of the log.
        """
        if not self._epochs or not 0 <= epoch <= self._epochs[-1]:
            return None
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        return (epoch if higher == 0 else self._epochs[higher - 1]), self._start_offsets[higher]

    def epoch_for(self, offset: int) -> int | None:
        """Return the epoch of the record at `offset`, which must be in the log; None below the first entry."""
        index = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after `end_offset`."""
        keep = bisect_left(self._start_offsets, end_offset)
        del self._epochs[keep:], self._start_offsets[keep:]

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove epochs that end at or before `start_offset`; the epoch that contains it then begins there.

        Return whether anything changed.
        """
        if not self._start_offsets or start_offset <= self._start_offsets[0]:
            return False
        keep = bisect_right(self._start_offsets, start_offset) - 1
        del self._epochs[:keep], self._start_offsets[:keep]
        self._start_offsets[0] = start_offset
        return True

    def clear(self) -> None:
        """Remove all epochs: the log is empty."""
        self._epochs.clear()
        self._start_offsets.clear()

    def checkpoint_text(self) -> str:
        """Return the checkpoint file's content: version 0, the number of entries, one entry per line."""
        lines = ["0", str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self.entries)]
        return "\n".join(lines) + "\n"
