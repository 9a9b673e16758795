"""Where the committed offsets of a group are moved: the scenarios of kafka-consumer-groups --reset-offsets.

`plan_reset` returns the new offsets and changes nothing, `apply_reset` sets them.
Source: ConsumerGroupCommand.resetOffsets, ShareGroupCommand.resetOffsets, OffsetsUtils of Kafka 4.3.1.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kraft_core.clients.admin.all_calls import AllCalls
from kraft_core.clients.admin.group_offsets import Offsets
from kraft_core.clients.admin.groups import GroupDescription
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.share_groups import ShareOffset, ShareOffsets
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError

INACTIVE_STATES: Final = ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class ToSpec:
    """To the earliest or latest offset, or to the first record at or after a timestamp in ms, else to the latest."""

    spec: OffsetSpec | int


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """To one offset for all partitions, or to one for each; moved into the range of the log."""

    offset: int | Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """By a number of records from the committed offset, which must exist; moved into the range of the log."""

    records: int


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """To the committed offset, or to the latest without one."""


Scenario = ToSpec | ToOffsets | ShiftBy | ToCurrent


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A partition's committed offset, None without one, and its new one.

    `note` says why the new offset is not the one asked for.
    """

    partition: TopicPartition
    committed: int | None
    new_offset: int
    note: str = ""


def require_inactive(group_id: str, found: GroupDescription | KafkaError) -> None:
    """Raise KafkaError if a group has members, which are named; a group that does not exist has none."""
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise found
    if found.state not in INACTIVE_STATES:
        members = ", ".join(f"{each.client_id} at {each.host} ({each.member_id})" for each in found.members)
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Offsets can only be reset while group '{group_id}' is inactive, but it is {found.state}. "
            f"Stop its members first: {members or 'none is known yet'}.",
        )


async def partitions_of(admin: AllCalls, topics: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of topics. Raises the first KafkaError."""
    described = await admin.describe_topics(tuple(topics))
    for name, error in described.failed.items():
        raise KafkaError(error.code, f"Topic '{name}': {error}")
    return [
        TopicPartition(name, each.partition) for name, topic in described.all().items() for each in topic.partitions
    ]


async def plan_reset(
    admin: AllCalls,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    scenario: Scenario,
    *,
    is_share: bool = False,
) -> list[OffsetReset]:
    """Return the new offset of each partition, ordered; `partitions` None takes those with a committed offset.

    The offsets of a share group are its start offsets. Raises KafkaError if an offset cannot be read, and ValueError
    for a shift without a committed offset.
    """
    if is_share:
        current = _started((await admin.list_share_group_offsets([group_id])).get_or_raise(group_id))
    else:
        current = _current((await admin.list_consumer_group_offsets({group_id: None})).get_or_raise(group_id))
    chosen = sorted(current if partitions is None else set(partitions))
    match scenario:
        case ToSpec(spec):
            planned = await _to_spec(admin, chosen, spec)
        case ToOffsets(offset):
            wanted = {each: offset if isinstance(offset, int) else offset[each] for each in chosen}
            planned = await _within_range(admin, wanted)
        case ShiftBy(records):
            missing = [each for each in chosen if each not in current]
            if missing:
                raise ValueError(f"Partition {_text(missing[0])} has no committed offset to shift by {records}.")
            planned = await _within_range(admin, {each: current[each] + records for each in chosen})
        case ToCurrent():
            latest = await _to_spec(admin, [each for each in chosen if each not in current], OffsetSpec.LATEST)
            planned = {each: (current[each], "") for each in chosen if each in current} | {
                each: (offset, "no committed offset") for each, (offset, _note) in latest.items()
            }
    return [OffsetReset(each, current.get(each), *planned[each]) for each in chosen]


def _current(committed: Offsets) -> dict[TopicPartition, int]:
    for each in committed.values():
        if isinstance(each, KafkaError):
            raise each
    return {partition: each.offset for partition, each in committed.items() if isinstance(each, OffsetAndMetadata)}


def _started(offsets: ShareOffsets) -> dict[TopicPartition, int]:
    for each in offsets.values():
        if isinstance(each, KafkaError):
            raise each
    return {partition: each.start_offset for partition, each in offsets.items() if isinstance(each, ShareOffset)}


async def apply_reset(
    admin: AllCalls, group_id: str, plan: Collection[OffsetReset], *, is_share: bool = False
) -> dict[TopicPartition, KafkaError]:
    """Set the offsets of a plan. Returns the partitions that were refused."""
    if is_share:
        wanted = {each.partition: each.new_offset for each in plan}
        return (await admin.alter_share_group_offsets(group_id, wanted)).failed
    offsets = {each.partition: OffsetAndMetadata(each.new_offset) for each in plan}
    return (await admin.alter_consumer_group_offsets(group_id, offsets)).failed


async def _to_spec(
    admin: AllCalls, partitions: Collection[TopicPartition], spec: OffsetSpec | int
) -> dict[TopicPartition, tuple[int, str]]:
    found = await _offsets(admin, partitions, spec)
    none = [each for each, offset in found.items() if offset < 0]
    latest = await _offsets(admin, none, OffsetSpec.LATEST)
    return {each: (latest[each], "no record that new") if each in latest else (found[each], "") for each in partitions}


async def _within_range(admin: AllCalls, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, str]]:
    first = await _offsets(admin, wanted, OffsetSpec.EARLIEST)
    last = await _offsets(admin, wanted, OffsetSpec.LATEST)
    planned = {}
    for each, offset in wanted.items():
        if offset > last[each]:
            planned[each] = last[each], f"{offset} is beyond the log's end"
        elif offset < first[each]:
            planned[each] = first[each], f"{offset} is before the log's start"
        else:
            planned[each] = offset, ""
    return planned


async def _offsets(
    admin: AllCalls, partitions: Collection[TopicPartition], spec: OffsetSpec | int
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(partitions, spec))
    for partition, error in found.failed.items():
        raise KafkaError(error.code, f"Partition {_text(partition)}: {error}")
    return {each: info.offset for each, info in found.all().items()}


def _text(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
