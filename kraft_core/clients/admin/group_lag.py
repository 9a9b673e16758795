"""The lag of groups, partition by partition, as kafka-consumer-groups counts it: log end offset minus committed offset.

A group's partitions are those assigned to its members and those with a committed offset.
Source: ConsumerGroupCommand.collectConsumerAssignment and describePartitions, Kafka 4.3.1.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kraft_core.clients.admin.all_calls import AllCalls
from kraft_core.clients.admin.group_offsets import Offsets
from kraft_core.clients.admin.groups import GroupDescription, MemberDescription
from kraft_core.clients.admin.offsets import ListOffsetsResultInfo, OffsetSpec
from kraft_core.clients.admin.share_groups import ShareOffset, ShareOffsets
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import KafkaError

LEADER_WAIT_MS: Final = 5_000
"""For how long a partition may have no leader until its log end offset counts as unknown."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition of a group. `committed` is None without a commit, `log_end_offset` while it cannot be read.

    `error` says why one of them is missing. In a share group `committed` is the start offset, several members may have
    the partition, so that none is named, and `share_lag` are the records that are not acknowledged.
    """

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    log_end_offset: int | None
    member: MemberDescription | None
    error: KafkaError | None = None
    share_lag: int | None = None

    @property
    def lag(self) -> int | None:
        """The records that the group has not read; None if one of the offsets is unknown."""
        if self.share_lag is not None:
            return self.share_lag
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


async def group_lags(
    admin: AllCalls, groups: Collection[GroupDescription]
) -> dict[str, tuple[PartitionLag, ...] | KafkaError]:
    """Return the partitions of groups with their lags, ordered by topic and index, by group id."""
    committed = await admin.list_consumer_group_offsets({group.group_id: None for group in groups})
    wanted = {partition for offsets in committed.succeeded.values() for partition in offsets}
    wanted |= {partition for group in groups for member in group.members for partition in member.assignment}
    ends = await admin.list_offsets(dict.fromkeys(sorted(wanted), OffsetSpec.LATEST), timeout_ms=LEADER_WAIT_MS)

    found: dict[str, tuple[PartitionLag, ...] | KafkaError] = {}
    for group in groups:
        offsets = committed[group.group_id]
        found[group.group_id] = (
            offsets if isinstance(offsets, KafkaError) else partition_lags(group.members, offsets, ends)
        )
    return found


def partition_lags(
    members: Iterable[MemberDescription],
    offsets: Offsets,
    ends: Mapping[TopicPartition, ListOffsetsResultInfo | KafkaError],
) -> tuple[PartitionLag, ...]:
    """Return the partitions of one group, ordered by topic and index. A partition that `ends` lacks has no lag."""
    owners = owners_of(members)

    def lag(partition: TopicPartition) -> PartitionLag:
        offset, end = offsets.get(partition), ends.get(partition)
        errors = [each for each in (offset, end) if isinstance(each, KafkaError)]
        return PartitionLag(
            partition,
            None if isinstance(offset, KafkaError) else offset,
            end.offset if isinstance(end, ListOffsetsResultInfo) else None,
            owners.get(partition),
            errors[0] if errors else None,
        )

    return tuple(
        lag(each) for each in sorted(offsets.keys() | owners.keys()) if each in owners or offsets[each] is not None
    )


def share_partition_lags(
    offsets: ShareOffsets, ends: Mapping[TopicPartition, ListOffsetsResultInfo | KafkaError]
) -> tuple[PartitionLag, ...]:
    """Return the partitions of one share group, ordered by topic and index."""
    found = []
    for partition, offset in sorted(offsets.items(), key=lambda each: each[0]):
        end = ends.get(partition)
        errors = [each for each in (offset, end) if isinstance(each, KafkaError)]
        known = offset if isinstance(offset, ShareOffset) else None
        found.append(
            PartitionLag(
                partition,
                None if known is None else OffsetAndMetadata(known.start_offset),
                end.offset if isinstance(end, ListOffsetsResultInfo) else None,
                None,
                errors[0] if errors else None,
                None if known is None else known.lag,
            )
        )
    return tuple(found)


def owners_of(members: Iterable[MemberDescription]) -> dict[TopicPartition, MemberDescription]:
    """Return the member that each assigned partition belongs to."""
    return {partition: member for member in members for partition in member.assignment}
