"""What a manager answers: the records to write and the response to give once they are committed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from kraft_core.controller.partitions.topic_access import EVERYTHING, TopicAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kraft_core.protocol.metadata_records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that has not said who it is. Source: KafkaPrincipal."""
NO_DEADLINE_MS: Final = 2**62
_NO_LOG_LEVELS: Final[Mapping[str, str]] = MappingProxyType({})

MAX_RECORDS_PER_USER_OP: Final = 10_000
"""More than this in one request is POLICY_VIOLATION; also the most records in one batch. Source: QuorumController."""


class ControllerResult(msgspec.Struct, Generic[T_co], frozen=True):
    """Records, the response, and whether the records must be one batch.

    Without records the response is given at once when nothing is pending, else after the newest pending write.
    `is_atomic`: all or nothing. Otherwise the records may be cut into batches. `appended` is called with the offset of
    the last record once all are in the log. Source: ControllerResult, ControllerWriteOperation.processBatchEndOffset.
    """

    records: Sequence[MetadataRecord]
    response: T_co
    is_atomic: bool = False
    appended: Callable[[int], None] | None = None

    @staticmethod
    def atomic_of(records: Sequence[MetadataRecord], response: T_co) -> ControllerResult[T_co]:  # type: ignore[misc]  # covariant T is safe in a factory
        """Build a result whose records are one batch."""
        return ControllerResult(records, response, is_atomic=True)


class RequestContext(msgspec.Struct, frozen=True):
    """Who asks, where, and until when an effect is wanted.

    `principal` is "User:name"; `deadline_ms` on the node's clock: a request not begun by then has no effect.
    `listener_name` is the listener that the request came in by. `forwarded`: it came in an Envelope. `access`: what the
    authorizer lets the sender do. `log_levels`: those of the node by logger, for a request that asks for them.
    `received_ms`: when the request came, None for when the controller is given it.
    Source: ControllerRequestContext.
    """

    principal: str = ANONYMOUS
    client_id: str = ""
    host: str = ""
    deadline_ms: int = NO_DEADLINE_MS
    listener_name: str = ""
    forwarded: bool = False
    security_protocol: int = 0
    token_authenticated: bool = False
    access: TopicAccess = EVERYTHING
    log_levels: Mapping[str, str] = _NO_LOG_LEVELS
    received_ms: int | None = None
