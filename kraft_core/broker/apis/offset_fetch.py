"""OffsetFetch: one group up to version 7, several since version 8, by topic id since version 10.

Source: KafkaApis.handleOffsetFetchRequest, Kafka 4.3.1.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.coordinator.group_records import CommittedOffset
from kraft_core.broker.coordinator.offset_metadata_manager import OffsetsByPartition
from kraft_core.broker.slices import Work
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchRequestOffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopic,
    OffsetFetchResponseOffsetFetchResponseTopics,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.server.network.request import Request

_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_TOP_LEVEL_ERROR_SINCE: Final = 2
_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


class OffsetFetchHandler:
    """Answers OffsetFetch. The offset is -1 where none is committed; an unknown group is answered like an empty one."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def handle(self, body: OffsetFetchRequest, request: Request) -> Work[None]:
        """Answer the request, one partition per step.

        Errors: those of `GroupCoordinatorService.check` per group, UNKNOWN_TOPIC_ID per partition.
        """
        version = request.header.api_version
        if version < _GROUPS_SINCE:
            answer = yield from self._only_group(body, version)
            request.respond(answer)
            return
        groups = []
        for asked in body.groups:
            group = yield from self._group(asked, version)
            groups.append(group)
        request.respond(OffsetFetchResponse(groups=tuple(groups)))

    def _only_group(self, body: OffsetFetchRequest, version: int) -> Work[OffsetFetchResponse]:
        error = self._context.coordinator.check(body.group_id)
        offsets = self._context.coordinator.groups.committed(body.group_id) if error is ErrorCode.NONE else {}
        if body.topics is None:
            asked: Sequence[tuple[str, Sequence[int]]] = yield from _by_topic(offsets)
        else:
            asked = [(topic.name, topic.partition_indexes) for topic in body.topics]
        partition_error = error if version < _TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE
        show = error is ErrorCode.NONE or version < _TOP_LEVEL_ERROR_SINCE
        topics = []
        for name, indexes in asked if show else ():
            partitions = []
            for index in indexes:
                yield 0
                value = offsets.get((name, index), _NOTHING)
                partitions.append(
                    OffsetFetchResponseOffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=value.offset,
                        committed_leader_epoch=value.leader_epoch,
                        metadata=value.metadata,
                        error_code=partition_error,
                    )
                )
            topics.append(OffsetFetchResponseOffsetFetchResponseTopic(name=name, partitions=tuple(partitions)))
        return OffsetFetchResponse(topics=tuple(topics), error_code=error)

    def _group(
        self, asked: OffsetFetchRequestOffsetFetchRequestGroup, version: int
    ) -> Work[OffsetFetchResponseOffsetFetchResponseGroup]:
        yield 0
        error = self._context.coordinator.check(asked.group_id)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseOffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        offsets = self._context.coordinator.groups.committed(asked.group_id)
        topics = asked.topics
        if topics is None:
            topics = yield from self._all(offsets)
        answered = []
        for topic in topics:
            found = yield from self._topic(topic, offsets, version)
            answered.append(found)
        return OffsetFetchResponseOffsetFetchResponseGroup(group_id=asked.group_id, topics=tuple(answered))

    def _all(self, offsets: OffsetsByPartition) -> Work[tuple[OffsetFetchRequestOffsetFetchRequestTopics, ...]]:
        by_topic = yield from _by_topic(offsets)
        return tuple(
            OffsetFetchRequestOffsetFetchRequestTopics(
                name=name, topic_id=self._context.metadata.topic_id(name), partition_indexes=tuple(indexes)
            )
            for name, indexes in by_topic
        )

    def _topic(
        self, asked: OffsetFetchRequestOffsetFetchRequestTopics, offsets: OffsetsByPartition, version: int
    ) -> Work[OffsetFetchResponseOffsetFetchResponseTopics]:
        yield 0
        by_id = version >= _TOPIC_IDS_SINCE
        name = self._name(asked.topic_id) if by_id else asked.name
        partitions = []
        for index in asked.partition_indexes:
            yield 0
            value = offsets.get((name, index), _NOTHING) if name is not None else _NOTHING
            partitions.append(
                OffsetFetchResponseOffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE,
                )
            )
        return OffsetFetchResponseOffsetFetchResponseTopics(
            name=asked.name, topic_id=asked.topic_id if by_id else ZERO_UUID, partitions=tuple(partitions)
        )

    def _name(self, topic_id: uuid.UUID) -> str | None:
        return self._context.metadata.topic_name(topic_id)


def _by_topic(offsets: OffsetsByPartition) -> Work[list[tuple[str, list[int]]]]:
    """Return the partitions that had a committed offset at the first step, by topic; both sorted."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in tuple(offsets):
        by_topic.setdefault(topic, []).append(index)
        yield 0
    return [(topic, sorted(indexes)) for topic, indexes in sorted(by_topic.items())]
