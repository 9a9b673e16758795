"""The loader: turns committed batches and snapshots into images.

It holds back the records of a metadata transaction (KIP-868) until its end, and drops them when it is aborted, so no
image contains part of a transaction. Source: MetadataLoader, MetadataBatchLoader, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.image.metadata_delta import MetadataDelta
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kraft_core.protocol.metadata_records import MetadataRecord
    from kraft_core.protocol.record_batch import RecordBatch

_SNAPSHOT_HEADER: Final = 3
_SNAPSHOT_FOOTER: Final = 4

_TRANSACTION_MARKS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})


class MetadataLoader:
    """Applies the log in order, from the start or from a snapshot.

    `image`: the newest image outside a transaction. `last_offset`: the last offset read; it is ahead of the image's
    while a transaction is open.
    """

    def __init__(self, image: MetadataImage = MetadataImage.EMPTY) -> None:
        self.image = image
        self.last_offset = image.offset
        self._open: MetadataDelta | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether the log read so far ends inside a metadata transaction."""
        return self._open is not None

    def reset(self, image: MetadataImage) -> None:
        """Continue from another image, which is outside any transaction."""
        self.image = image
        self.last_offset = image.offset
        self._open = None

    def apply_batch(
        self, batch: RecordBatch, on_record: Callable[[int, MetadataRecord], None] | None = None
    ) -> MetadataImage | None:
        """Apply the next committed batch; return the new image, None while a transaction is open.

        A control batch changes only the image's offset. `on_record` is called with each (offset, record) read.
        Raises ReplayError with the offset; then the loader must not be used any more.
        """
        assert batch.base_offset > self.last_offset, f"batch {batch.base_offset} after offset {self.last_offset}"
        if not batch.is_control:
            offset = batch.base_offset
            delta = self._open or MetadataDelta(self.image)
            for value in batch.values():
                try:
                    record = decode_record(value)
                    if type(record) in _TRANSACTION_MARKS:
                        delta = self._mark(record, delta, offset, batch.leader_epoch)
                    else:
                        delta.replay(record)
                except Exception as error:  # any error in a committed record must stop the reader
                    raise ReplayError(f"Error loading metadata log record from offset {offset}: {error}") from error
                if on_record is not None:
                    on_record(offset, record)
                offset += 1
            if self._open is None:
                self.image = delta.apply(batch.last_offset, batch.leader_epoch)
        elif self._open is None:
            self.image = msgspec.structs.replace(self.image, offset=batch.last_offset, epoch=batch.leader_epoch)
        self.last_offset = batch.last_offset
        return self.image if self._open is None else None

    def _mark(self, mark: MetadataRecord, delta: MetadataDelta, offset: int, epoch: int) -> MetadataDelta:
        """Begin, end or abort a transaction; return the delta to continue with."""
        if isinstance(mark, BeginTransactionRecord):
            if self._open is not None:
                raise ReplayError("Encountered BeginTransactionRecord while already in a transaction")
            self.image = delta.apply(offset - 1, epoch) if offset > self.image.offset + 1 else self.image
            self._open = MetadataDelta(self.image)
            return self._open
        if self._open is None:
            raise ReplayError(f"Encountered {type(mark).__name__} without having seen a BeginTransactionRecord")
        self._open = None
        return MetadataDelta(self.image) if isinstance(mark, AbortTransactionRecord) else delta

    def load_snapshot(self, batches: Iterable[RecordBatch], end_offset: int, epoch: int) -> MetadataImage:
        """Replace the image by a snapshot with the id (`end_offset`, `epoch`), the offset exclusive.

        Raises ReplayError when the header is not first, the footer is not last, a record cannot be applied, or the
        snapshot contains a transaction marker.
        """
        for _ in self.load_in_pieces(batches, end_offset, epoch):
            pass
        return self.image

    def load_in_pieces(
        self, batches: Iterable[RecordBatch], end_offset: int, epoch: int, records_per_piece: int = 1 << 60
    ) -> Iterator[None]:
        """Do the same as `load_snapshot`, yielding after each `records_per_piece` records.

        The loader keeps its image until the snapshot is complete; an abandoned one changes nothing.
        """
        image = MetadataImage.EMPTY
        control: list[int] = []
        left = records_per_piece
        for batch in batches:
            if batch.is_control:
                types = [int.from_bytes((record.key or b"")[2:4]) for record in batch.records()]
                if not control and types[:1] != [_SNAPSHOT_HEADER]:
                    raise ReplayError("A snapshot must begin with its header")
                control += types
                continue
            if not control or control[-1] == _SNAPSHOT_FOOTER:
                raise ReplayError("A snapshot must have its records between header and footer")
            delta = MetadataDelta(image)
            for index, value in enumerate(batch.values()):
                if left == 0:
                    yield
                    left = records_per_piece
                left -= 1
                try:
                    record = decode_record(value)
                    if type(record) in _TRANSACTION_MARKS:
                        raise ReplayError(f"{type(record).__name__} cannot appear within a snapshot")
                    delta.replay(record)
                except Exception as error:  # a snapshot with any error must not be used
                    raise ReplayError(
                        f"Error loading record {batch.base_offset + index} of snapshot {end_offset}-{epoch}: {error}"
                    ) from error
            image = delta.apply(end_offset - 1, epoch)
        if control[-1:] != [_SNAPSHOT_FOOTER]:
            raise ReplayError(f"Snapshot {end_offset}-{epoch} has no footer: it was cut short")
        self.reset(msgspec.structs.replace(image, offset=end_offset - 1, epoch=epoch))
