"""What an operation of the controller returns: records to append, and a response for when they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraft_core.protocol.metadata_records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)

MAX_RECORDS_PER_USER_OP: Final = 10_000
"""Maximum of records of one user request, otherwise POLICY_VIOLATION, and of one batch. Source: QuorumController."""


class ControllerResult(msgspec.Struct, Generic[T_co], frozen=True):
    """Records, the response, and whether the records must be one batch.

    Without records the response is sent at once if no write is pending, else after the newest pending write.
    `is_atomic`: the records are one batch; otherwise they may be split. `appended` is called with the offset of the
    last record once all are appended, or of the log's last record if there are none. Source: ControllerResult,
    ControllerWriteOperation.processBatchEndOffset.
    """

    records: Sequence[MetadataRecord]
    response: T_co
    is_atomic: bool = False
    appended: Callable[[int], None] | None = None

    @staticmethod
    def atomic_of(
        records: Sequence[MetadataRecord],
        response: T_co,  # type: ignore[misc]  # the covariant T is safe in a factory
    ) -> ControllerResult[T_co]:
        """Return a result whose records are one batch."""
        return ControllerResult(records, response, is_atomic=True)


def check_record_count(count: int) -> None:
    """Raise KafkaError POLICY_VIOLATION if a user's request writes more than MAX_RECORDS_PER_USER_OP records."""
    if count > MAX_RECORDS_PER_USER_OP:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
