"""What the controller asks of the node that carries it: the log's writing end, and a look at the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord


class RecordWriter(Protocol):
    """Implemented by the node over raft; by a list in tests."""

    @property
    def tip(self) -> MetadataImage:
        """The image with everything appended so far, committed or not."""

    @property
    def next_offset(self) -> int:
        """Offset that the next record appended will get."""

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append one atomic batch, replay it on the tip, and return the offset of its last record.

        Raises KafkaError NOT_CONTROLLER when this node no longer leads the quorum; nothing is written then.
        """

    @property
    def leader_id(self) -> int:
        """Node that leads the quorum as far as this one knows, -1 for none."""

    @property
    def voter_ids(self) -> Collection[int]:
        """Ids of the quorum's voters."""

    @property
    def kraft_version(self) -> int:
        """Finalized kraft.version, from the control records: 0 or 1."""

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version, appending its control records unless `validate_only`.

        Raises KafkaError INVALID_UPDATE_VERSION saying why it cannot be.
        """
