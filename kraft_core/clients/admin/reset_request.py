"""What a reset of a group's offsets is asked for, as people write it, and its plan; nothing is changed.

The command, the pages and the REST API share these rules. All texts raise ValueError that names what is allowed.
Source: ConsumerGroupCommand, OffsetsUtils of Kafka 4.3.1.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kraft_core.clients.admin.all_calls import AllCalls
from kraft_core.clients.admin.offset_reset import OffsetReset, Scenario, partitions_of, plan_reset, require_inactive
from kraft_core.clients.admin.share_groups import SHARE
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError

Named = Mapping[str, set[int] | None]
"""Partition indexes by topic, None for all of a topic."""

_DURATION: Final = re.compile(
    r"P(?!$)(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_DURATION_CHARACTERS_MAX: Final = 40


def datetime_ms(text: str) -> int:
    """Return an ISO 8601 time as ms since 1970; without a zone it is UTC, as in Kafka's tool."""
    try:
        parsed = datetime.fromisoformat(text.strip())
        return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text[:80]}' is not a time such as 2026-01-31T12:00:00") from None


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration in ms."""
    found = _DURATION.fullmatch(text.strip()) if len(text) <= _DURATION_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"'{text[:80]}' is not a duration such as P1DT12H or PT30M")
    return round(sum(float(value or 0) * _UNIT_MS[unit] for unit, value in found.groupdict().items()))


def named_partitions(texts: Iterable[str]) -> dict[str, set[int] | None]:
    """Return the partitions of texts such as `TOPIC` and `TOPIC:0,2`."""
    found: dict[str, set[int] | None] = {}
    for text in texts:
        topic, colon, listed = text.partition(":")
        if not colon:
            found[topic] = None
            continue
        indexes = [each.strip() for each in listed.split(",")]
        if not topic or not all(is_index(each) for each in indexes):
            raise ValueError(f"'{text[:300]}' is not TOPIC or TOPIC:PARTITION,…")
        known = found.setdefault(topic, set())
        if known is not None:
            known.update(map(int, indexes))
    return found


def is_number(text: str) -> bool:
    """Whether a text is a whole number from 0 that fits into 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


def is_index(text: str) -> bool:
    """Whether a text is the number of a partition, which has 32 bits."""
    return is_number(text) and int(text) < 2**31


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The new offsets of a group, and whether it is a share group."""

    offsets: list[OffsetReset]
    is_share: bool = False


async def prepare_reset(admin: AllCalls, group_id: str, named: Named | None, scenario: Scenario) -> ResetPlan:
    """Return the new offsets of a group; `named` None takes the partitions with a committed offset.

    Raises KafkaError if the group has members, which are named, if it has no committed offset and no topic is named,
    and if an offset cannot be read; ValueError for a shift without a committed offset.
    """
    described = (await admin.describe_groups([group_id]))[group_id]
    require_inactive(group_id, described)
    is_share = not isinstance(described, KafkaError) and described.type == SHARE
    partitions: list[TopicPartition] | None = None
    if named is not None:
        whole = [topic for topic, indexes in named.items() if indexes is None]
        some = [TopicPartition(topic, index) for topic, indexes in named.items() for index in indexes or ()]
        partitions = some + (await partitions_of(admin, whole) if whole else [])
    plan = await plan_reset(admin, group_id, partitions, scenario, is_share=is_share)
    if not plan and named is None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group '{group_id}' has no committed offsets: name the topics to reset."
        )
    return ResetPlan(plan, is_share)
