"""A group of the consumer protocol as its coordinator keeps it (KIP-848): epochs, targets, revocation before hand-over.

Targets are by round robin over the member ids; a static member has its instance's place. Every change of a member is a
record, so that another coordinator can load the group. Source: CurrentAssignmentBuilder, GroupMetadataManager.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import msgspec

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
SESSION_MS, INTERVAL_MS = 1_000, 200
_EPOCH_TYPE, _MEMBER_TYPE = struct.pack(">h", 3), struct.pack(">h", 8)
_NEVER: Final = float("inf")

Partitions = frozenset[TopicPartition]


class Seat(msgspec.Struct, frozen=True):
    """A member. `assigned` and `revoking` are what no other member may get."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    assigned: Partitions = frozenset()
    revoking: Partitions = frozenset()


class SimConsumerGroup:
    """One group. `records` are those of the last changes, for the log."""

    def __init__(self, partitions: Iterable[TopicPartition], names_by_id: Mapping[UUID, str]) -> None:
        self.partitions = sorted(partitions)
        self.names_by_id = names_by_id
        self.ids = {name: topic_id for topic_id, name in names_by_id.items()}
        self.epoch = 0
        self.seats: dict[str, Seat] = {}
        self.records: list[tuple[bytes, bytes | None]] = []
        self.session_until_ms: dict[str, float] = {}
        self.revoked_until_ms: dict[str, float] = {}

    # The log

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Replay a record; those of other types are left out."""
        if key == _EPOCH_TYPE and value is not None:
            self.epoch = int(value)
        elif key.startswith(_MEMBER_TYPE):
            member_id = key[2:].decode()
            if value is None:
                self.seats.pop(member_id, None)
            else:
                self.seats[member_id] = msgspec.json.decode(value, type=Seat)

    def begin_sessions(self, now_ms: float) -> None:
        """Count the sessions of all members from here on, as after a load."""
        for seat in self.seats.values():
            self.session_until_ms[seat.member_id] = now_ms + SESSION_MS
            if seat.revoking:
                self.revoked_until_ms[seat.member_id] = now_ms + seat.timeout_ms

    def _set_epoch(self) -> None:
        self.epoch += 1
        self.records.append((_EPOCH_TYPE, str(self.epoch).encode()))

    def _put(self, seat: Seat) -> None:
        if self.seats.get(seat.member_id) != seat:
            self.seats[seat.member_id] = seat
            self.records.append((_MEMBER_TYPE + seat.member_id.encode(), msgspec.json.encode(seat)))

    def _remove(self, member_id: str) -> None:
        del self.seats[member_id]
        self.session_until_ms.pop(member_id, None)
        self.revoked_until_ms.pop(member_id, None)
        self.records.append((_MEMBER_TYPE + member_id.encode(), None))

    # Time

    def expire(self, now_ms: float) -> None:
        """Remove the members that were silent, or did not give up partitions in time."""
        for member_id in sorted(self.seats):
            until_ms = min(self.session_until_ms.get(member_id, _NEVER), self.revoked_until_ms.get(member_id, _NEVER))
            if until_ms <= now_ms:
                self.fence(member_id)

    def fence(self, member_id: str) -> None:
        """Remove a member."""
        self._remove(member_id)
        self._set_epoch()

    # Requests

    def checked_epoch(self, member_id: str, epoch: int) -> None:
        """Check the sender of a commit or of a lookup. Raises UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH."""
        seat = self.seats.get(member_id)
        if seat is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if seat.epoch != epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, now_ms: float) -> ConsumerGroupHeartbeatResponse:
        """Take a heartbeat. Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH and the errors of instance ids."""
        if request.member_epoch < 0:
            return self._leave(request)
        seat = self._joined(request) if request.member_epoch == JOIN else self._checked(request)
        member_id = request.member_id
        if request.rebalance_timeout_ms >= 0:
            seat = msgspec.structs.replace(seat, timeout_ms=request.rebalance_timeout_ms)
        if request.subscribed_topic_names is not None:
            seat = msgspec.structs.replace(seat, topics=frozenset(request.subscribed_topic_names))
        known = self.seats.get(member_id)
        if known is None or known.topics != seat.topics:
            self._set_epoch()
        self._put(seat)
        self.session_until_ms[member_id] = now_ms + SESSION_MS
        self._put(self._reconciled(seat, self._owned(request)))
        seat = self.seats[member_id]
        if seat.revoking:
            self.revoked_until_ms.setdefault(member_id, now_ms + seat.timeout_ms)
        else:
            self.revoked_until_ms.pop(member_id, None)
        is_full = request.rebalance_timeout_ms >= 0 and request.topic_partitions is not None
        is_told = request.member_epoch == JOIN or is_full or known is None or known.assigned != seat.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=seat.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=self._assignment(seat.assigned) if is_told else None,
        )

    def _joined(self, request: ConsumerGroupHeartbeatRequest) -> Seat:
        instance_id, member_id = request.instance_id, request.member_id
        if instance_id is None:
            return self.seats.get(member_id) or Seat(member_id)
        for seat in self.seats.values():
            if seat.instance_id == instance_id and seat.member_id != member_id:
                if seat.epoch != LEAVE_STATIC:
                    raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID)
                self._remove(seat.member_id)
                joined = msgspec.structs.replace(seat, member_id=member_id, epoch=0, previous_epoch=-1)
                self.seats[member_id] = joined  # not in the log yet: the heartbeat ends with its record
                return msgspec.structs.replace(joined, revoking=frozenset())
        return self.seats.get(member_id) or Seat(member_id, instance_id)

    def _checked(self, request: ConsumerGroupHeartbeatRequest) -> Seat:
        seat = self.seats.get(request.member_id)
        if seat is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch != seat.epoch:
            owned = self._owned(request)
            is_late = request.member_epoch == seat.previous_epoch and owned is not None and owned <= seat.assigned
            if not is_late:
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
        return seat

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        seat = self.seats.get(request.member_id)
        if seat is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch == LEAVE_STATIC:
            self._put(msgspec.structs.replace(seat, epoch=LEAVE_STATIC, previous_epoch=-1))
        else:
            self.fence(seat.member_id)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    # Assignments

    def _owned(self, request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
        if request.topic_partitions is None:
            return None
        return frozenset(
            TopicPartition(self.names_by_id[each.topic_id], index)
            for each in request.topic_partitions
            for index in each.partitions
        )

    def _target(self, seat: Seat) -> Partitions:
        members = sorted(self.seats.values(), key=lambda each: (each.instance_id or each.member_id, each.member_id))
        place = members.index(self.seats[seat.member_id])
        return frozenset(each for each in self.partitions[place :: len(members)] if each.topic in seat.topics)

    def _reconciled(self, seat: Seat, owned: Partitions | None) -> Seat:
        """Return the member's next state: first it gives up what it must, then it gets what the others gave up."""
        if seat.revoking and (owned is None or owned & seat.revoking):
            return seat
        target = self._target(seat)
        revoked = seat.assigned - target
        kept = seat.assigned & target
        if revoked and (owned is None or owned & revoked):
            return msgspec.structs.replace(seat, assigned=kept, revoking=revoked)
        others = [each for each in self.seats.values() if each.member_id != seat.member_id]
        taken = {each for other in others for each in other.assigned | other.revoking}
        previous_epoch = seat.epoch if seat.epoch != self.epoch else seat.previous_epoch
        return msgspec.structs.replace(
            seat,
            epoch=self.epoch,
            previous_epoch=previous_epoch,
            assigned=kept | (target - taken),
            revoking=frozenset(),
        )

    def _assignment(self, partitions: Partitions) -> ConsumerGroupHeartbeatResponseAssignment:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            by_topic.setdefault(topic, []).append(index)
        return ConsumerGroupHeartbeatResponseAssignment(
            topic_partitions=tuple(
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=self.ids[name], partitions=tuple(indices))
                for name, indices in by_topic.items()
            )
        )
