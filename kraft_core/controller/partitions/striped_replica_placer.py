"""Placement of new replicas, striped over racks and over the brokers of each rack.

1. A broker holds at most one replica of a partition.
2. The first replica, the leader, is never on a fenced broker.
3. A partition takes its replicas from consecutive racks, and starts one rack after the previous partition. The brokers
   of a rack rotate alike. Both start at a random offset.
4. Fenced brokers of a rack come after its unfenced ones.
5. When every unfenced broker has led, everything is shuffled, so that the pairs of brokers vary.

Source: StripedReplicaPlacer, Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may get replicas: not shutting down, with a directory that is not cordoned."""

    id: int
    rack: str | None
    fenced: bool


class BrokerList:
    """A rotation of brokers: each epoch starts one broker after the previous epoch."""

    __slots__ = ("_brokers", "_epoch", "_index", "_offset")

    def __init__(self) -> None:
        self._brokers: list[int] = []
        self._index = 0
        self._offset = 0
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._brokers)

    def add(self, broker_id: int) -> None:
        """Add a broker; only before `initialize`."""
        self._brokers.append(broker_id)

    def initialize(self, random: Random) -> None:
        """Sort the brokers and draw the start offset."""
        if self._brokers:
            self._brokers.sort()
            self._offset = random.randrange(len(self._brokers))

    def shuffle(self, random: Random) -> None:
        """Shuffle the brokers."""
        random.shuffle(self._brokers)

    def next(self, epoch: int) -> int:
        """Return the next broker of this epoch, -1 after the last."""
        count = len(self._brokers)
        if not count:
            return -1
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return -1
        broker_id = self._brokers[(self._index + self._offset) % count]
        self._index += 1
        return broker_id


class Rack:
    """The fenced and the unfenced brokers of one rack."""

    __slots__ = ("fenced", "unfenced")

    def __init__(self) -> None:
        self.fenced = BrokerList()
        self.unfenced = BrokerList()

    def next(self, epoch: int) -> int:
        """Return the next unfenced broker, then the next fenced one, then -1."""
        broker_id = self.unfenced.next(epoch)
        return broker_id if broker_id >= 0 else self.fenced.next(epoch)


class RackList:
    """The rotation of racks for one request."""

    def __init__(self, random: Random, brokers: Iterable[UsableBroker]) -> None:
        self._random = random
        self._epoch = 0
        self.total_broker_count = 0
        self.unfenced_broker_count = 0
        racks: dict[str | None, Rack] = {}
        for broker in brokers:
            rack = racks.setdefault(broker.rack, Rack())
            (rack.fenced if broker.fenced else rack.unfenced).add(broker.id)
            self.total_broker_count += 1
            self.unfenced_broker_count += not broker.fenced
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        for rack in self._racks:
            rack.fenced.initialize(random)
            rack.unfenced.initialize(random)
        self._offset = random.randrange(len(self._racks)) if self._racks else 0

    def check(self, replication_factor: int) -> None:
        """Raise KafkaError INVALID_REPLICATION_FACTOR if no assignment with this factor exists."""
        if replication_factor <= 0:
            reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        elif not self.unfenced_broker_count:
            reason = "All brokers are currently fenced, or have all their log directories cordoned."
        elif replication_factor > self.total_broker_count:
            reason = (
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{self.total_broker_count} broker(s) are registered or some brokers have all their log directories "
                "cordoned."
            )
        else:
            return
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of the next partition, leader first."""
        self.check(replication_factor)
        racks, rack_count = self._racks, len(self._racks)
        if self._epoch == self.unfenced_broker_count > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == rack_count:
            self._offset = 0
        epoch = self._epoch
        first_rack = self._offset
        leader = racks[first_rack].unfenced.next(epoch)
        while leader < 0:  # terminates: check() has found an unfenced broker
            first_rack = (first_rack + 1) % rack_count
            leader = racks[first_rack].unfenced.next(epoch)
        brokers = [leader]
        index = self._offset
        while len(brokers) < replication_factor:
            if index == first_rack:
                first_rack = -1  # skip the leader's rack once
            else:
                broker_id = racks[index].next(epoch)
                if broker_id >= 0:
                    brokers.append(broker_id)
            index = (index + 1) % rack_count
        self._epoch += 1
        self._offset += 1
        return tuple(brokers)

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            rack.fenced.shuffle(self._random)
            rack.unfenced.shuffle(self._random)


class StripedReplicaPlacer:
    """Places partitions with the node's seeded generator."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def place(
        self, partition_count: int, replication_factor: int, brokers: Iterable[UsableBroker]
    ) -> list[tuple[int, ...]]:
        """Return the replicas of each new partition.

        Raises KafkaError INVALID_REPLICATION_FACTOR if there are too few brokers or all are fenced.
        """
        racks = RackList(self._random, brokers)
        racks.check(replication_factor)
        return [racks.place(replication_factor) for _ in range(partition_count)]
