"""Checking that (offset, epoch) is the end of a prefix of the log.

Source: ValidOffsetAndEpoch and RaftLog.validateOffsetAndEpoch of Kafka 4.3.1.
"""

from enum import Enum

import msgspec

from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch, RaftLog


class Kind(Enum):
    """The result for an end offset and the epoch of the record before it."""

    VALID = "valid"  # the log has exactly this prefix
    DIVERGING = "diverging"  # the log has another epoch there, or ends before
    SNAPSHOT = "snapshot"  # that part of the log is deleted: the replica needs a snapshot


class ValidOffsetAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """The result with an offset and epoch: the prefix's end, the point of divergence, or the newest snapshot."""

    kind: Kind
    offset_and_epoch: OffsetAndEpoch


def validate_offset_and_epoch(log: RaftLog, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    """Compare an end offset and the epoch of the record before it with the log."""
    claimed = OffsetAndEpoch(offset, epoch)
    start_offset = log.start_offset
    if start_offset == 0 and offset == 0:
        return ValidOffsetAndEpoch(Kind.VALID, claimed)
    earliest, latest = log.earliest_snapshot_id(), log.latest_snapshot_id()
    if (
        earliest is not None
        and latest is not None
        and (offset < start_offset or (offset == start_offset and epoch != earliest.epoch) or epoch < earliest.epoch)
    ):
        return ValidOffsetAndEpoch(Kind.SNAPSHOT, latest)
    if epoch == log.last_epoch and offset <= log.end_offset:
        return ValidOffsetAndEpoch(Kind.VALID, claimed)
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return ValidOffsetAndEpoch(Kind.DIVERGING, end)
    return ValidOffsetAndEpoch(Kind.VALID, claimed)


def validate_fetch(log: RaftLog, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    """Do the same for a fetch: a replica with an empty log gets the newest snapshot, if there is one."""
    latest = log.latest_snapshot_id()
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
        return ValidOffsetAndEpoch(Kind.SNAPSHOT, latest)
    return validate_offset_and_epoch(log, offset, epoch)
