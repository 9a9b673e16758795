"""Events in the metadata log, taken from its changes record by record.

Election of a leader outside the ISR
    The controller elects such a leader in two cases. From the eligible leader replicas (KIP-966): the leader has every
    record below the high watermark. Unclean: it may lack records that were acknowledged, and the partition is then
    RECOVERING until the leader reports the opposite. A new leader outside the ISR is also what a completed move looks
    like, whose record replaces ISR and replicas at once; that is neither.
"""

from collections.abc import Iterator
from typing import Final, Literal
from uuid import UUID

import msgspec

from app.cluster.history import Change
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.image.topics_image import LEADER_NONE, RECOVERING
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.uuids import uuid_to_text

Election = Literal["", "elr", "last-known-leader", "unclean"]
BrokerState = Literal["unregistered", "fenced", "shutting-down", "active", "unknown"]
BrokerEventKind = Literal[
    "registered",
    "registered-again",
    "unfenced",
    "fenced",
    "controlled-shutdown",
    "directories-offline",
    "directories-online",
    "cordoned",
    "unregistered",
]

LEADER_UNCHANGED: Final = -2
STATE_UNCHANGED: Final = -1
_BrokerRecord = (
    records.RegisterBrokerRecord
    | records.UnregisterBrokerRecord
    | records.FenceBrokerRecord
    | records.UnfenceBrokerRecord
    | records.BrokerRegistrationChangeRecord
)


class PartitionMove(msgspec.Struct, frozen=True, gc=False):
    """Another leader or another ISR of a partition. Leader -1 is none. `change` is the last offset of its change.

    `election` says how a leader outside the ISR was elected, "" for every other change.
    """

    offset: int
    change: int
    time_ms: int
    topic_id: UUID
    topic: str
    partition: int
    leader_before: int
    leader: int
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    election: Election = ""

    @property
    def left(self) -> list[int]:
        """The brokers that left the ISR."""
        return [each for each in self.isr_before if each not in self.isr]

    @property
    def joined(self) -> list[int]:
        """The brokers that joined the ISR."""
        return [each for each in self.isr if each not in self.isr_before]


class BrokerEvent(msgspec.Struct, frozen=True, gc=False):
    """What happened to a broker, with its state before and after, and the epoch of its registration."""

    offset: int
    change: int
    time_ms: int
    broker_id: int
    kind: BrokerEventKind
    before: BrokerState
    after: BrokerState
    epoch: int
    detail: str = ""


class FeatureChange(msgspec.Struct, frozen=True, gc=False):
    """Another finalized level of a feature; 0 is off."""

    offset: int
    change: int
    time_ms: int
    name: str
    before: int
    after: int


Event = PartitionMove | BrokerEvent | FeatureChange


class _Partition(msgspec.Struct, frozen=True, gc=False):
    """The part of a partition's state that events are about."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    recovery: int


def events_of(change: Change) -> Iterator[Event]:
    """Yield the events of a change in the order of its records."""
    reader = _Reader(change)
    for offset, record in change.records:
        if isinstance(record, records.PartitionChangeRecord):
            yield from reader.move(offset, record)
        elif isinstance(record, records.PartitionRecord):
            reader.create(record)
        elif isinstance(record, _BrokerRecord):
            yield from reader.broker(offset, record)
        elif isinstance(record, records.FeatureLevelRecord):
            yield from reader.feature(offset, record)


def state_of(broker: BrokerRegistration | None) -> BrokerState:
    """Return the state of a registration, None for no registration."""
    if broker is None:
        return "unregistered"
    if broker.fenced:
        return "fenced"
    return "shutting-down" if broker.in_controlled_shutdown else "active"


class _Reader:
    """Follows the state within one change, in which several records may be about the same partition or broker."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._partitions: dict[tuple[UUID, int], _Partition] = {}
        self._levels: dict[str, int] = {}
        self._image = change.before  # with the records of brokers up to now

    def create(self, record: records.PartitionRecord) -> None:
        """Note a new partition."""
        self._partitions[record.topic_id, record.partition_id] = _Partition(
            record.leader,
            record.isr,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
            record.leader_recovery_state,
        )

    def move(self, offset: int, record: records.PartitionChangeRecord) -> Iterator[PartitionMove]:
        """Yield the move that a record makes, if it makes one."""
        key = (record.topic_id, record.partition_id)
        before = self._partitions.get(key) or self._known(*key)
        if before is None:
            return
        after = _Partition(
            before.leader if record.leader == LEADER_UNCHANGED else record.leader,
            before.isr if record.isr is None else record.isr,
            before.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas,
            before.last_known_elr if record.last_known_elr is None else record.last_known_elr,
            before.recovery if record.leader_recovery_state == STATE_UNCHANGED else record.leader_recovery_state,
        )
        self._partitions[key] = after
        if before.leader == after.leader and set(before.isr) == set(after.isr):
            return
        yield PartitionMove(
            offset,
            self._change.offset,
            self._change.timestamp_ms,
            record.topic_id,
            self._topic_name(record.topic_id),
            record.partition_id,
            before.leader,
            after.leader,
            before.isr,
            after.isr,
            _election(before, after),
        )

    def _known(self, topic_id: UUID, index: int) -> _Partition | None:
        found = self._change.before.topics.partition(topic_id, index)
        if found is None:
            return None
        return _Partition(found.leader, found.isr, found.elr, found.last_known_elr, found.leader_recovery_state)

    def _topic_name(self, topic_id: UUID) -> str:
        topics = self._change.before.topics.by_id, self._change.after.topics.by_id
        return next((found.name for each in topics if (found := each.get(topic_id)) is not None), "")

    def broker(self, offset: int, record: _BrokerRecord) -> Iterator[BrokerEvent]:
        """Yield what a record of a broker says, mostly one event."""
        broker_id = _broker_id(record)
        before = self._image.cluster.brokers.get(broker_id)
        self._image = replay_all(self._image, (record,), self._change.offset, self._change.epoch)
        after = self._image.cluster.brokers.get(broker_id)
        for kind, detail in _happened(before, after):
            epoch = after.epoch if after is not None else before.epoch if before is not None else -1
            at = (offset, self._change.offset, self._change.timestamp_ms)
            yield BrokerEvent(*at, broker_id, kind, state_of(before), state_of(after), epoch, detail)

    def feature(self, offset: int, record: records.FeatureLevelRecord) -> Iterator[FeatureChange]:
        """Yield the change of a level, if it changes."""
        before = self._levels.get(record.name, _level(self._change.before, record.name))
        self._levels[record.name] = record.feature_level
        if before != record.feature_level:
            at = (offset, self._change.offset, self._change.timestamp_ms)
            yield FeatureChange(*at, record.name, before, record.feature_level)


def _broker_id(record: _BrokerRecord) -> int:
    match record:
        case records.FenceBrokerRecord() | records.UnfenceBrokerRecord():
            return record.id
        case _:
            return record.broker_id


def _level(image: MetadataImage, name: str) -> int:
    return image.features.level(name)


def _election(before: _Partition, after: _Partition) -> Election:
    """Return how a leader outside the ISR was elected, "" if it was not."""
    if after.leader in {LEADER_NONE, before.leader} or after.leader in before.isr:
        return ""
    if after.leader in before.elr:
        return "elr"
    if after.recovery != RECOVERING:
        return ""  # a move that completes
    return "last-known-leader" if after.leader in before.last_known_elr else "unclean"


def _happened(
    before: BrokerRegistration | None, after: BrokerRegistration | None
) -> Iterator[tuple[BrokerEventKind, str]]:
    """Yield what differs between two registrations of a broker, last what may cost it leaders."""
    if after is None:
        if before is not None:
            yield "unregistered", ""
        return
    if before is None or before.epoch != after.epoch:
        words = [f"incarnation {uuid_to_text(after.incarnation_id)}"]
        if after.rack is not None:
            words.append(f"rack {after.rack}")
        if before is not None:
            is_new = before.incarnation_id != after.incarnation_id
            words.append("the broker was restarted" if is_new else "the same incarnation as before")
        yield "registered" if before is None else "registered-again", ", ".join(words)
        return
    found = [uuid_to_text(each) for each in after.directories if each not in before.directories]
    if found:
        yield "directories-online", ", ".join(found)
    if (before.cordoned_directories or ()) != (after.cordoned_directories or ()):
        cordoned = [uuid_to_text(each) for each in after.cordoned_directories or ()]
        yield "cordoned", ", ".join(cordoned) or "none any more"
    if before.in_controlled_shutdown != after.in_controlled_shutdown:
        yield "controlled-shutdown", ""
    if before.fenced != after.fenced:
        yield "fenced" if after.fenced else "unfenced", ""
    lost = [uuid_to_text(each) for each in before.directories if each not in after.directories]
    if lost:
        yield "directories-offline", ", ".join(lost)
