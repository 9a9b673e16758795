"""Which of the records that were read have become part of an image, to be told with it. Source: KIP-868."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.protocol.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from kraft_core.protocol.metadata_records import MetadataRecord


class AppliedRecords:
    """Collects records as a MetadataLoader reads them, with their offsets.

    What lies in a metadata transaction waits for its end, and is dropped when it is aborted; of that only the abort is kept.
    """

    __slots__ = ("_applied", "_held")

    def __init__(self) -> None:
        self._applied: list[tuple[int, MetadataRecord]] = []
        self._held: list[tuple[int, MetadataRecord]] | None = None

    def add(self, offset: int, record: MetadataRecord) -> None:
        """Note the next record of the log."""
        if isinstance(record, BeginTransactionRecord):
            self._held = []
        elif isinstance(record, AbortTransactionRecord):
            self._held = None
        (self._applied if self._held is None else self._held).append((offset, record))
        if isinstance(record, EndTransactionRecord):
            self._applied += self._held or ()
            self._held = None

    def take(self) -> list[tuple[int, MetadataRecord]]:
        """Return what the loader's image has and was not taken yet."""
        taken, self._applied = self._applied, []
        return taken

    def clear(self) -> None:
        """Forget everything: the loader goes on from another image."""
        self._applied = []
        self._held = None
