"""Offsets as clients commit them and look them up. Source: OffsetAndMetadata, OffsetAndTimestamp of Kafka 4.3.1."""

from dataclasses import dataclass
from typing import TypeVar

from kraft_core.protocol.messages import (
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    TxnOffsetCommitRequestTxnOffsetCommitRequestPartition,
)

_NO_EPOCH = -1
_CommitPartition = TypeVar(
    "_CommitPartition",
    OffsetCommitRequestOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTxnOffsetCommitRequestPartition,
)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the next record to read. `leader_epoch` is that of the last record read, None if unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"offset {self.offset} cannot be committed: it must be 0 or more")


def commit_partition(kind: type[_CommitPartition], index: int, offset: OffsetAndMetadata) -> _CommitPartition:
    """Return the part of a commit that is about one partition."""
    return kind(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=_NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def committed_offset(
    found: OffsetFetchResponseOffsetFetchResponsePartition | OffsetFetchResponseOffsetFetchResponsePartitions,
) -> OffsetAndMetadata | None:
    """Return what a partition of an answer without an error has committed, None for nothing."""
    if found.committed_offset < 0:
        return None
    epoch = found.committed_leader_epoch
    return OffsetAndMetadata(found.committed_offset, found.metadata or "", None if epoch < 0 else epoch)


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The offset and the timestamp (ms) of a record found by time. `leader_epoch` is None if unknown."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None
