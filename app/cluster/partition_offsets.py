"""The offsets of a topic's partitions, asked of their leaders, so that a dead broker costs its own partitions only."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from app.cluster.broker_requests import BrokerRequests
from app.tasks import cancel_tasks
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.admin_call import error_of
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
    ListOffsetsResponse,
)

CONCURRENCY: Final = 8
OTHERS_SECONDS: Final = 1.0
"""For how long the other leaders are waited for when one has answered: a broker that is silent holds nobody up."""
_CONSUMER: Final = -1  # the replica id of a consumer


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset of a partition, the one behind its last record that may be read, and the one asked for."""

    first: int
    end: int
    found: int


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What the leaders answered: bounds by partition, and why others are missing."""

    bounds: dict[int, Bounds] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


class PartitionOffsets:
    """Asks the leaders of partitions for their offsets."""

    def __init__(self, requests: BrokerRequests, image: Callable[[], MetadataImage]) -> None:
        self._requests = requests
        self._image = image
        self._limit = asyncio.Semaphore(CONCURRENCY)

    async def of(
        self, topic: TopicImage, partitions: Collection[int], *, time_ms: int | None = None, committed: bool = True
    ) -> TopicOffsets:
        """Return the bounds of partitions; `found` is the first offset at or after `time_ms`, else the end.

        With `committed` the end is the last stable offset, else the high watermark. Partitions without a leader that
        answers are in `errors`.
        """
        answer = TopicOffsets()
        by_leader: dict[int, list[int]] = defaultdict(list)
        brokers = self._image().cluster.brokers
        for index in partitions:
            leader = topic.partitions[index].leader
            broker = brokers.get(leader)
            if leader < 0:
                answer.errors[index] = phrase("has no leader")
            elif broker is None or broker.fenced:
                answer.errors[index] = phrase("leader %(id)s is fenced", id=leader)
            else:
                by_leader[leader].append(index)
        specs = [int(OffsetSpec.EARLIEST), int(OffsetSpec.LATEST), *([] if time_ms is None else [time_ms])]

        async def ask(leader: int, indexes: list[int]) -> None:
            try:
                async with self._limit, asyncio.TaskGroup() as asking:
                    tasks = [
                        asking.create_task(self._ask(leader, topic.name, indexes, spec, committed=committed))
                        for spec in specs
                    ]
            except* (ConnectionError, KafkaError) as failed:
                why = phrase("broker %(id)s: %(error)s", id=leader, error=sentence_of(failed.exceptions[0]))
                answer.errors.update(dict.fromkeys(indexes, why))
            else:
                _collect(answer, indexes, [task.result() for task in tasks])

        asking = {asyncio.create_task(ask(leader, indexes)): leader for leader, indexes in by_leader.items()}
        try:
            if asking:
                await _first_and_others(asking, lambda: bool(answer.bounds))
        finally:
            await cancel_tasks(*(task for task in asking if not task.done()))
        for task, leader in asking.items():
            if task.cancelled():
                text = phrase("broker %(id)s did not answer as fast as others", id=leader)
                answer.errors.update(dict.fromkeys(by_leader[leader], text))
            else:
                task.result()
        return answer

    async def _ask(
        self, leader: int, topic: str, indexes: list[int], spec: int, *, committed: bool
    ) -> Mapping[int, int | KafkaError]:
        broker = self._image().cluster.brokers.get(leader)
        if broker is None:
            raise ConnectionError("it was unregistered")
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(committed),
            topics=(
                ListOffsetsRequestListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        ListOffsetsRequestListOffsetsPartition(partition_index=index, timestamp=spec)
                        for index in indexes
                    ),
                ),
            ),
        )
        answer = cast("ListOffsetsResponse", await self._requests.send(broker, request))
        return {
            each.partition_index: error_of(each.error_code) or each.offset
            for found in answer.topics
            for each in found.partitions
        }


async def _first_and_others(asking: Collection[asyncio.Task[None]], has_answer: Callable[[], bool]) -> None:
    """Wait for the first answer, however long it takes, and a moment for the others."""
    others = set(asking)
    while others and not has_answer():
        _, others = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    if others:
        await asyncio.wait(others, timeout=OTHERS_SECONDS)


def _collect(answer: TopicOffsets, indexes: list[int], found: list[Mapping[int, int | KafkaError]]) -> None:
    """Add the bounds of a leader's partitions, or their errors."""
    for index in indexes:
        values = [each.get(index, -1) for each in found]
        error = next((each for each in values if isinstance(each, KafkaError)), None)
        if error is not None:
            answer.errors[index] = sentence_of(error)
            continue
        first, end, *timed = (each for each in values if not isinstance(each, KafkaError))
        answer.bounds[index] = Bounds(first, end, timed[0] if timed and timed[0] >= 0 else end)
