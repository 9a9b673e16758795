"""The records that have become part of an image, for its listeners. Source: KIP-868."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.protocol.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from kraft_core.protocol.metadata_records import MetadataRecord


class AppliedRecords:
    """Collects the records that a MetadataLoader reads, with their offsets.

    Records of a metadata transaction wait for its end. When it is aborted they are dropped, except the abort record.
    """

    __slots__ = ("_applied", "_held")

    def __init__(self) -> None:
        self._applied: list[tuple[int, MetadataRecord]] = []
        self._held: list[tuple[int, MetadataRecord]] | None = None

    def add(self, offset: int, record: MetadataRecord) -> None:
        """Add the next record of the log."""
        if isinstance(record, BeginTransactionRecord):
            self._held = []
        elif isinstance(record, AbortTransactionRecord):
            self._held = None
        (self._applied if self._held is None else self._held).append((offset, record))
        if isinstance(record, EndTransactionRecord):
            self._applied += self._held or ()
            self._held = None

    def take(self) -> list[tuple[int, MetadataRecord]]:
        """Remove and return the records that are part of the loader's image."""
        taken, self._applied = self._applied, []
        return taken

    def clear(self) -> None:
        """Remove all records: the loader continues from another image."""
        self._applied = []
        self._held = None
