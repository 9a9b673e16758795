"""Groups of all types with members, committed offsets and lag, which only the brokers know.

A list of groups comes from each broker (ListGroups); members and offsets of the groups that somebody looks at come from
their coordinators (ConsumerGroupDescribe, ShareGroupDescribe, OffsetFetch, …), ends of logs from the leaders
(ListOffsets). See `BrokerAnswers`: a broker that does not answer costs its own cells.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.cluster.broker_answers import FRESH_SECONDS, WAIT_SECONDS, Answer, BrokerAnswers
from app.cluster.broker_clients import BrokerClients
from app.cluster.coordinators import Missing, missing_coordinators
from app.cluster.lag_history import NO_TREND, LagHistory, LagTrend
from app.texts import phrase
from kraft_core.clients.admin.group_lag import LEADER_WAIT_MS, PartitionLag, partition_lags, share_partition_lags
from kraft_core.clients.admin.group_offsets import Offsets
from kraft_core.clients.admin.groups import GroupDescription, GroupListing
from kraft_core.clients.admin.offsets import ListOffsetsResultInfo, OffsetSpec
from kraft_core.clients.admin.share_groups import SHARE, ShareOffsets
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS

UNLISTED: Final = -1
"""In the place of a coordinator that no list names: Admin looks it up."""
GROUP_ID_BYTES_MAX: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in the list of its coordinator. `type` and `state` are "" where the broker is too old to say."""

    group_id: str
    type: str
    protocol: str
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupList:
    """All groups by id. `asked_at` is the age of the oldest answer, None without any.

    `errors` says by broker why its groups are missing or as of an earlier answer; `pending` has not answered yet;
    `missing` are the coordinators that no broker has.
    """

    groups: Sequence[ListedGroup]
    asked_at: dt.datetime | None
    errors: Mapping[int, KafkaError]
    pending: Sequence[int]
    missing: Missing | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """What a coordinator says of a group. A share group has `share_offsets` in the place of committed ones."""

    description: GroupDescription
    offsets: Offsets
    share_offsets: ShareOffsets | None = None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group with its lag, partition by partition, as kafka-consumer-groups counts it.

    `detail` is the coordinator's answer. `asked_at` is the age of the oldest figure; `errors` names what is missing.
    """

    detail: Answer[GroupDetail]
    partitions: Sequence[PartitionLag] = ()
    asked_at: dt.datetime | None = None
    trend: LagTrend = NO_TREND

    @classmethod
    def unknown(cls) -> "GroupLag":
        """Return a group of which nothing is known."""
        return cls(Answer())

    @property
    def total(self) -> int | None:
        """The sum of the known lags, None if no lag is known."""
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None

    @property
    def is_complete(self) -> bool:
        """Whether the lag of every partition with a committed offset is known."""
        return all(each.lag is not None or (each.committed is None and each.error is None) for each in self.partitions)

    @property
    def is_missing(self) -> bool:
        """Whether the coordinator says that there is no such group."""
        return is_missing(self.detail)


class _Budget:
    """What is left of the time that a reader waits, over several rounds."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - self._loop.time())


class Groups:
    """The groups of the cluster, as far as somebody looks at them. Used on the event loop only."""

    def __init__(self, clients: BrokerClients, image: Callable[[], MetadataImage]) -> None:
        self._clients = clients
        self._image = image
        self.changes = 0
        """How many changes of groups this process has made: what was read before one of them is no longer shown."""
        self._history = LagHistory()
        self._lists = BrokerAnswers[int, tuple[GroupListing, ...]](self._ask_lists)
        self._details = BrokerAnswers[str, GroupDetail](self._ask_details)
        self._ends = BrokerAnswers[TopicPartition, ListOffsetsResultInfo](self._ask_ends)

    async def stop(self) -> None:
        """Cancel pending requests."""
        await self._lists.stop()
        await self._details.stop()
        await self._ends.stop()

    async def list(self, wait_seconds: float = WAIT_SECONDS, fresh_seconds: float = FRESH_SECONDS) -> GroupList:
        """Return the groups of all brokers. A fenced broker is not asked: it coordinates nothing."""
        brokers = self._image().cluster.brokers
        active = [broker_id for broker_id in sorted(brokers) if not brokers[broker_id].fenced]
        answers = await self._lists.of({broker_id: broker_id for broker_id in active}, wait_seconds, fresh_seconds)
        found: dict[str, ListedGroup] = {}
        newest_first = sorted(answers.items(), key=lambda each: each[1].asked_at or _NEVER, reverse=True)
        for broker_id, answer in newest_first:
            for each in answer.value or ():
                found.setdefault(
                    each.group_id, ListedGroup(each.group_id, each.type, each.protocol, each.state, broker_id)
                )
        return GroupList(
            sorted(found.values(), key=lambda each: each.group_id),
            min((each.asked_at for each in answers.values() if each.asked_at is not None), default=None),
            {broker_id: each.error for broker_id, each in answers.items() if each.error is not None},
            [broker_id for broker_id, each in answers.items() if each.error is None and each.asked_at is None],
            missing_coordinators(self._image(), CONSUMER_OFFSETS),
        )

    async def details(
        self, coordinators: Mapping[str, int], wait_seconds: float, fresh_seconds: float
    ) -> dict[str, Answer[GroupDetail]]:
        """Return members and committed offsets of groups, given with the coordinator of each."""
        return await self._details.of(coordinators, wait_seconds, fresh_seconds)

    async def lags(
        self,
        coordinators: Mapping[str, int],
        wait_seconds: float = WAIT_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> dict[str, GroupLag]:
        """Return groups, given with the coordinator of each (UNLISTED if no list names it), with their lags."""
        budget = _Budget(wait_seconds)
        details = await self._details.of(coordinators, budget.left, fresh_seconds)
        wanted = {
            partition
            for answer in details.values()
            if answer.value is not None
            for partition in _partitions_of(answer.value)
        }
        ends = await self._ends_of(wanted, budget.left, fresh_seconds)
        return {group_id: self._lag(group_id, answer, ends) for group_id, answer in details.items()}

    async def lags_of_topic(
        self, topic: str, coordinators: Mapping[str, int], wait_seconds: float = WAIT_SECONDS, *, fresh_seconds: float
    ) -> dict[str, GroupLag]:
        """Return groups as `lags` does, with the partitions of one topic only and without a trend."""
        budget = _Budget(wait_seconds)
        details = await self._details.of(coordinators, budget.left, fresh_seconds)
        wanted = {
            each
            for answer in details.values()
            if answer.value is not None
            for each in _partitions_of(answer.value)
            if each.topic == topic
        }
        ends = await self._ends_of(wanted, budget.left, FRESH_SECONDS)
        return {group_id: _joined(answer, ends) for group_id, answer in details.items()}

    async def lag(
        self, group_id: str, wait_seconds: float = WAIT_SECONDS, fresh_seconds: float = FRESH_SECONDS
    ) -> GroupLag:
        """Return one group with its lag. Its coordinator is taken from the lists that are known now."""
        listed = await self.list(0.0)
        coordinator = next((each.coordinator for each in listed.groups if each.group_id == group_id), UNLISTED)
        return (await self.lags({group_id: coordinator}, wait_seconds, fresh_seconds))[group_id]

    def require_any(self) -> None:
        """Raise KafkaError GROUP_ID_NOT_FOUND while the cluster has no __consumer_offsets.

        Brokers create it for the first client that looks for a coordinator, and looking at a page must change nothing.
        """
        if self._image().topics.topic(CONSUMER_OFFSETS) is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, phrase("The cluster has no groups yet."))

    def type_of(self, group_id: str) -> str:
        """Return the type of a group as it was last described, "" if it was not. Nothing is asked."""
        detail = self._details.known(group_id).value
        return "" if detail is None else detail.description.type

    def forget(self, group_id: str) -> None:
        """Forget what a change of the group has made wrong."""
        self.changes += 1
        self._lists.forget(list(self._image().cluster.brokers))
        self._details.forget([group_id])
        self._history.forget(group_id)

    def _lag(
        self, group_id: str, detail: Answer[GroupDetail], ends: Mapping[TopicPartition, Answer[ListOffsetsResultInfo]]
    ) -> GroupLag:
        found = _joined(detail, ends)
        if found.asked_at is None:
            return found
        if found.is_complete and found.total is not None and detail.error is None:
            self._history.add(group_id, found.asked_at, found.total)
        return replace(found, trend=self._history.of(group_id))

    async def _ends_of(
        self, partitions: Collection[TopicPartition], wait_seconds: float, fresh_seconds: float
    ) -> dict[TopicPartition, Answer[ListOffsetsResultInfo]]:
        """Return the log end offsets of partitions; one without a leader in the image is not asked for."""
        topics = self._image().topics
        leaders: dict[TopicPartition, int] = {}
        found: dict[TopicPartition, Answer[ListOffsetsResultInfo]] = {}
        for each in sorted(partitions):
            topic = topics.topic(each.topic)
            placed = topic.partitions.get(each.partition) if topic else None
            if placed is None:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
                found[each] = Answer(error=error)
            elif not placed.has_leader:
                found[each] = Answer(error=KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "The partition has no leader."))
            else:
                leaders[each] = placed.leader
        return found | await self._ends.of(leaders, wait_seconds, fresh_seconds)

    # requests

    async def _ask_lists(
        self, broker_id: int, _keys: Sequence[int]
    ) -> Mapping[int, tuple[GroupListing, ...] | KafkaError]:
        return await self._clients.admin().list_groups(broker_ids=[broker_id])

    async def _ask_details(self, _broker_id: int, group_ids: Sequence[str]) -> Mapping[str, GroupDetail | KafkaError]:
        try:
            self.require_any()
        except KafkaError as error:
            return dict.fromkeys(group_ids, error)
        admin = self._clients.admin()
        described, committed = await asyncio.gather(
            admin.describe_groups(group_ids),
            admin.list_consumer_group_offsets(dict.fromkeys(group_ids)),
        )
        share_ids = [group_id for group_id, each in described.succeeded.items() if each.type == SHARE]
        started = await admin.list_share_group_offsets(share_ids) if share_ids else {}
        found: dict[str, GroupDetail | KafkaError] = {}
        for group_id in group_ids:
            description, offsets, shared = described[group_id], committed[group_id], started.get(group_id)
            if isinstance(description, KafkaError):
                found[group_id] = description
            elif isinstance(shared, KafkaError):
                found[group_id] = shared
            elif shared is not None:
                found[group_id] = GroupDetail(description, {}, shared)
            elif isinstance(offsets, KafkaError):
                found[group_id] = offsets
            else:
                found[group_id] = GroupDetail(description, offsets)
        return found

    async def _ask_ends(
        self, _broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ListOffsetsResultInfo | KafkaError]:
        wanted = dict.fromkeys(partitions, OffsetSpec.LATEST)
        return await self._clients.admin().list_offsets(wanted, timeout_ms=LEADER_WAIT_MS)


def _joined(detail: Answer[GroupDetail], ends: Mapping[TopicPartition, Answer[ListOffsetsResultInfo]]) -> GroupLag:
    if detail.value is None or detail.asked_at is None:
        return GroupLag(detail)
    answered = {partition: each.value or each.error for partition, each in ends.items()}
    known = {partition: each for partition, each in answered.items() if each is not None}
    if detail.value.share_offsets is not None:
        partitions = share_partition_lags(detail.value.share_offsets, known)
    else:
        partitions = partition_lags(detail.value.description.members, detail.value.offsets, known)
    times = [ends[each.partition].asked_at for each in partitions if each.partition in ends]
    return GroupLag(detail, partitions, min([detail.asked_at, *(each for each in times if each is not None)]))


def is_missing(answer: Answer[GroupDetail]) -> bool:
    """Whether the coordinator says that there is no such group."""
    return answer.error is not None and answer.error.code == ErrorCode.GROUP_ID_NOT_FOUND


def check_group_id(group_id: str) -> None:
    """Raise KafkaError INVALID_GROUP_ID for an id that no request can carry."""
    size = len(group_id.encode(errors="replace"))
    if size > GROUP_ID_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_GROUP_ID,
            phrase("The group id has %(size)s bytes; %(most)s are allowed.", size=size, most=GROUP_ID_BYTES_MAX),
        )


_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)


def _partitions_of(detail: GroupDetail) -> Iterable[TopicPartition]:
    yield from detail.offsets
    yield from detail.share_offsets or ()
    for member in detail.description.members:
        yield from member.assignment
