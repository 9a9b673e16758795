"""Records per second of topics, from the end offsets of their partitions (ListOffsets, latest) at two times.

Asked for as `BrokerAnswers` does, only for topics that somebody looks at, so a topic has no rate until it was asked for
twice. End offsets never shrink by retention or compaction. They also count control records, which end transactions.
"""

import datetime as dt
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from app.cluster.broker_answers import Answer, BrokerAnswers
from app.cluster.broker_clients import BrokerClients
from kraft_core.clients.admin.group_lag import LEADER_WAIT_MS
from kraft_core.clients.admin.offsets import ListOffsetsResultInfo, OffsetSpec
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.errors import KafkaError

STEP: Final = dt.timedelta(seconds=4)
"""The least time between two requests for a partition: a shorter one would make rates jump."""
PARTITIONS_MAX: Final = 20_000
"""The most partitions that one page asks for; the topics after them have no rate."""
POINTS_MAX: Final = 120
TOPICS_MAX: Final = 2_000


class End(NamedTuple):
    """The end offset of a partition at a time."""

    at: dt.datetime
    offset: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The end offset of a partition now and at the request before, None without one to compare with."""

    now: End
    before: End | None = None

    def then(self, end: End) -> "Ends":
        """Return what is known after another answer. An end that went back (an unclean election) starts again."""
        return Ends(end, self.now if end.offset >= self.now.offset and end.at > self.now.at else None)


class RatePoint(NamedTuple):
    """The rate of a topic at a time."""

    at: dt.datetime
    per_second: float


@dataclass(frozen=True, slots=True)
class TopicRate:
    """The records per second of a topic, None while they are unknown.

    They are those from `since` to `asked_at`, the latest and the earliest time of a partition's two requests. `points`
    are the newest rates, oldest first. `unknown` are the partitions without a rate, `error` is that of the first one
    whose leader did not answer.
    """

    per_second: float | None = None
    since: dt.datetime | None = None
    asked_at: dt.datetime | None = None
    points: Sequence[RatePoint] = ()
    unknown: Sequence[int] = ()
    error: KafkaError | None = None


class _Key(NamedTuple):
    """A partition of a topic: one of the same name that was created later is another one."""

    topic_id: UUID
    topic: str
    partition: int


class TopicRates:
    """The rates of topics, as far as somebody looks at them. Used on the event loop only."""

    def __init__(self, clients: BrokerClients) -> None:
        self._clients = clients
        self._answers = BrokerAnswers[_Key, Ends](self._ask)
        self._points: OrderedDict[UUID, deque[RatePoint]] = OrderedDict()

    async def of(self, topics: Iterable[TopicImage], wait_seconds: float) -> dict[UUID, TopicRate]:
        """Return the rates of topics, by id, after asking for partitions with no answer or one older than STEP.

        Waits for the answers for `wait_seconds` at most; a request that takes longer continues in the background.
        """
        shown = list(topics)
        leaders: dict[_Key, int] = {}
        for topic in shown:
            if len(leaders) + len(topic.partitions) > PARTITIONS_MAX:
                break
            leaders.update(
                (key, topic.partitions[key.partition].leader)
                for key in _keys(topic)
                if topic.partitions[key.partition].has_leader
            )
        answers = await self._answers.of(leaders, wait_seconds, STEP.total_seconds())
        return {topic.id: self._rate(topic, answers) for topic in shown}

    def known(self, topics: Iterable[TopicImage]) -> dict[UUID, TopicRate]:
        """Return what is known of topics without asking for it."""
        return {
            topic.id: self._rate(topic, {key: self._answers.known(key) for key in _keys(topic)}) for topic in topics
        }

    async def stop(self) -> None:
        """Cancel pending requests."""
        await self._answers.stop()

    def _rate(self, topic: TopicImage, answers: Mapping[_Key, Answer[Ends]]) -> TopicRate:
        known: list[tuple[End, End]] = []
        unknown: list[int] = []
        error = None
        for key in _keys(topic):
            answer = answers.get(key, Answer())
            error = error or answer.error
            if answer.error is None and answer.value is not None and answer.value.before is not None:
                known.append((answer.value.before, answer.value.now))
            else:
                unknown.append(key.partition)
        points = self._points.get(topic.id, ())
        if unknown or not known:
            return TopicRate(points=tuple(points), unknown=unknown, error=error)
        rate = sum((now.offset - before.offset) / (now.at - before.at).total_seconds() for before, now in known)
        since, asked_at = max(before.at for before, _ in known), min(now.at for _, now in known)
        return TopicRate(rate, since, asked_at, self._noted(topic.id, RatePoint(asked_at, rate)))

    def _noted(self, topic_id: UUID, point: RatePoint) -> tuple[RatePoint, ...]:
        """Return the points of a topic with this one. The topics looked at least recently are forgotten first."""
        points = self._points.setdefault(topic_id, deque(maxlen=POINTS_MAX))
        self._points.move_to_end(topic_id)
        if not points or point.at > points[-1].at:
            points.append(point)
        while len(self._points) > TOPICS_MAX:
            self._points.popitem(last=False)
        return tuple(points)

    async def _ask(self, _leader: int, keys: Sequence[_Key]) -> Mapping[_Key, Ends | KafkaError]:
        wanted = {TopicPartition(key.topic, key.partition): OffsetSpec.LATEST for key in keys}
        answers = await self._clients.admin().list_offsets(wanted, timeout_ms=LEADER_WAIT_MS)
        at = dt.datetime.now(dt.UTC)
        return {key: self._ends(key, answers[TopicPartition(key.topic, key.partition)], at) for key in keys}

    def _ends(self, key: _Key, answer: ListOffsetsResultInfo | KafkaError, at: dt.datetime) -> Ends | KafkaError:
        if isinstance(answer, KafkaError):
            return answer
        before, end = self._answers.known(key).value, End(at, answer.offset)
        return Ends(end) if before is None else before.then(end)


def _keys(topic: TopicImage) -> list[_Key]:
    return [_Key(topic.id, topic.name, index) for index, _ in topic.sorted_partitions()]
