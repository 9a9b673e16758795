"""The interface between the controller and its node: appending records, and the state of the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord


class RecordWriter(Protocol):
    """The log as the controller sees it. The node implements it over raft, tests with a list."""

    @property
    def tip(self) -> MetadataImage:
        """The image with all appended records, committed or not."""

    @property
    def next_offset(self) -> int:
        """Offset of the next record to append."""

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append one atomic batch, replay it on the tip, and return the offset of its last record.

        Raises KafkaError NOT_CONTROLLER, without writing, when this node no longer leads the quorum.
        """

    @property
    def leader_id(self) -> int:
        """Id of the quorum's leader as far as this node knows, -1 for none."""

    @property
    def voter_ids(self) -> Collection[int]:
        """Ids of the quorum's voters."""

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version, from the control records: 0 or 1."""

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version, appending its control records unless `validate_only`.

        Raises KafkaError INVALID_UPDATE_VERSION with the reason.
        """
