"""ISR and leader changes counted by partition and by broker, as the trends of reports count them.

- A leader change is another leader, also none.
- A shrink is a change in which brokers leave the ISR, an expansion one in which brokers join it.
- A flap is the return of a broker to an ISR that it had left; the time in between is its time out. Whether it had left
  is known as far back as the log was read, also before the window.

A completed move shrinks the ISR too: the log does not tell a broker that was moved from one that fell behind.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from app.cluster.log_events.events import PartitionMove
from app.texts import phrase

By = Literal["isr", "leader"]
Period = Literal["hour", "day", "all"]

HOURS: Final = {"hour": 1, "day": 24}
OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """The events that count: from `first` to `last` offset, and not before `since_ms`."""

    first: int = 0
    last: int = OFFSET_MAX
    since_ms: int = 0

    @classmethod
    def of(cls, period: Period, first: int | None, last: int | None, now_ms: int) -> "Window":
        """Return the window of a period until now, or of two offsets if one is given. Raises ValueError."""
        if first is not None or last is not None:
            if first is not None and last is not None and first > last:
                raise ValueError(
                    phrase("the first offset (%(first)s) is greater than the last (%(last)s)", first=first, last=last)
                )
            return cls(first or 0, OFFSET_MAX if last is None else last)
        return cls() if period == "all" else cls(since_ms=now_ms - HOURS[period] * 3_600_000)

    def __contains__(self, move: PartitionMove) -> bool:
        return self.first <= move.offset <= self.last and move.time_ms >= self.since_ms


@dataclass(slots=True)
class PartitionFlaps:
    """The changes of one partition. `last_offset` is that of the newest."""

    topic_id: UUID
    topic: str
    partition: int
    shrinks: int = 0
    expansions: int = 0
    flaps: int = 0
    out_ms: int = 0
    leader_changes: int = 0
    last_offset: int = -1

    @property
    def isr_changes(self) -> int:
        """Shrinks and expansions."""
        return self.shrinks + self.expansions


@dataclass(slots=True)
class BrokerFlaps:
    """How often a broker left and joined ISRs, returned to one, and gained and lost leaders."""

    broker_id: int
    left: int = 0
    joined: int = 0
    flaps: int = 0
    out_ms: int = 0
    leaders_gained: int = 0
    leaders_lost: int = 0

    @property
    def isr_changes(self) -> int:
        """How often it left or joined an ISR."""
        return self.left + self.joined

    @property
    def leader_changes(self) -> int:
        """Leaders that it gained or lost."""
        return self.leaders_gained + self.leaders_lost


@dataclass(frozen=True, slots=True)
class Ranking:
    """Partitions and brokers with changes in a window, those with the most first."""

    partitions: Sequence[PartitionFlaps]
    brokers: Sequence[BrokerFlaps]
    isr_changes: int
    flaps: int
    leader_changes: int


def partition_key(by: By) -> Callable[[PartitionFlaps], tuple[int, int, str, int, str]]:
    """Return the key by which partitions are ranked."""

    def key(row: PartitionFlaps) -> tuple[int, int, str, int, str]:
        first, second = _both(by, row)
        return -first, -second, row.topic, row.partition, str(row.topic_id)

    return key


def broker_key(by: By) -> Callable[[BrokerFlaps], tuple[int, int, int]]:
    """Return the key by which brokers are ranked."""

    def key(row: BrokerFlaps) -> tuple[int, int, int]:
        first, second = _both(by, row)
        return -first, -second, row.broker_id

    return key


def _both(by: By, row: PartitionFlaps | BrokerFlaps) -> tuple[int, int]:
    return (row.isr_changes, row.leader_changes) if by == "isr" else (row.leader_changes, row.isr_changes)


def rank(moves: Iterable[PartitionMove], window: Window, by: By = "isr") -> Ranking:
    """Count the moves of a window. `moves` are oldest first, and may begin before it."""
    partitions: dict[tuple[UUID, int], PartitionFlaps] = {}
    brokers: dict[int, BrokerFlaps] = {}
    out: dict[tuple[UUID, int, int], int] = {}  # since when a broker is out of an ISR that it left

    def of_broker(broker_id: int) -> BrokerFlaps:
        return brokers.setdefault(broker_id, BrokerFlaps(broker_id))

    for move in moves:
        left, joined = move.left, move.joined
        was_out = {each: out.pop((move.topic_id, move.partition, each), None) for each in joined}
        out.update({(move.topic_id, move.partition, each): move.time_ms for each in left})
        if move not in window:
            continue
        row = partitions.setdefault(
            (move.topic_id, move.partition), PartitionFlaps(move.topic_id, move.topic, move.partition)
        )
        row.last_offset = move.offset
        row.shrinks += bool(left)
        row.expansions += bool(joined)
        for broker_id in left:
            of_broker(broker_id).left += 1
        for broker_id, since_ms in was_out.items():
            broker = of_broker(broker_id)
            broker.joined += 1
            if since_ms is not None:
                for each in (row, broker):
                    each.flaps += 1
                    each.out_ms += move.time_ms - since_ms
        if move.leader != move.leader_before:
            row.leader_changes += 1
            if move.leader >= 0:
                of_broker(move.leader).leaders_gained += 1
            if move.leader_before >= 0:
                of_broker(move.leader_before).leaders_lost += 1
    return Ranking(
        sorted(partitions.values(), key=partition_key(by)),
        sorted(brokers.values(), key=broker_key(by)),
        sum(row.isr_changes for row in partitions.values()),
        sum(row.flaps for row in partitions.values()),
        sum(row.leader_changes for row in partitions.values()),
    )


def elections(moves: Iterable[PartitionMove], topic: str = "", partition: int | None = None) -> list[PartitionMove]:
    """Return the elections of leaders outside the ISR, newest first; of one topic or partition if it is named."""
    found = [
        each
        for each in moves
        if each.election and (not topic or each.topic == topic) and (partition is None or each.partition == partition)
    ]
    return found[::-1]
