"""Replays the stored log: the state at an offset, and the changes between two. Runs on a thread."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.cluster.log_store.files import Checkpoint, StoredLog
from kraft_core.clients.observed_log import CommittedChange, ObservedLog
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.storage.files import StorageError

EPOCH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Start:
    """Where a replay begins: the state before `end_offset`, whose newest change was made at `time_ms`."""

    image: MetadataImage
    end_offset: int
    time_ms: int


class Replay:
    """One pass over the stored log, from a checkpoint (None: from the empty state at offset 0) to the end of its run.

    Raises StorageError, also when the pass finds a damaged batch.
    """

    def __init__(self, files: StoredLog, checkpoint: Checkpoint | None) -> None:
        self._files = files
        self.log = ObservedLog(allow_gaps=True)
        if checkpoint is not None:
            self.log.load_snapshot(files.read_checkpoint(checkpoint), checkpoint.end_offset, checkpoint.epoch)
        self.start = Start(self.log.image, self.log.end_offset, self.log.snapshot_time_ms)

    def changes(self, end: int) -> Iterator[CommittedChange]:
        """Yield the changes up to offset `end`, exclusive, that the store has whole."""
        for data, data_end in self._files.read_from(self.start.end_offset, end):
            self.log.append(data, EPOCH_MAX)
            self.log.advance(min(end, self.log.end_offset))
            while (change := self.log.next_change()) is not None:
                yield change
            if self.log.end_offset < data_end:
                where = f"{self._files.folder} is damaged after offset {self.log.end_offset - 1}"
                raise StorageError(f"The stored metadata log in {where}.")
