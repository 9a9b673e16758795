"""OffsetFetch: one group up to version 7, several since version 8, by topic id since version 10.

Source: KafkaApis.handleOffsetFetchRequest, Kafka 4.3.1.
"""

import itertools
import uuid
from collections.abc import Sequence
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.coordinator.group_records import CommittedOffset
from kraft_core.broker.coordinator.offset_metadata_manager import OffsetsByPartition
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

_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_TOP_LEVEL_ERROR_SINCE: Final = 2
_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


class OffsetFetchHandler:
    """Answers OffsetFetch. The offset is -1 where none is committed; an unknown group is answered like an empty one."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def handle(self, body: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        """Answer the request.

        Errors: those of `GroupCoordinatorService.check` per group, UNKNOWN_TOPIC_ID per partition.
        """
        if version >= _GROUPS_SINCE:
            return OffsetFetchResponse(groups=tuple(self._group(group, version) for group in body.groups))
        error = self._context.coordinator.check(body.group_id)
        offsets = self._context.coordinator.groups.committed(body.group_id) if error is ErrorCode.NONE else {}
        if body.topics is None:
            asked: Sequence[tuple[str, Sequence[int]]] = _by_topic(offsets)
        else:
            asked = [(topic.name, topic.partition_indexes) for topic in body.topics]
        partition_error = error if version < _TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE
        show = error is ErrorCode.NONE or version < _TOP_LEVEL_ERROR_SINCE
        topics = []
        for name, indexes in asked if show else ():
            partitions = []
            for index in indexes:
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
    ) -> OffsetFetchResponseOffsetFetchResponseGroup:
        error = self._context.coordinator.check(asked.group_id)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseOffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        offsets = self._context.coordinator.groups.committed(asked.group_id)
        topics = asked.topics if asked.topics is not None else self._all(offsets)
        return OffsetFetchResponseOffsetFetchResponseGroup(
            group_id=asked.group_id, topics=tuple(self._topic(topic, offsets, version) for topic in topics)
        )

    def _all(self, offsets: OffsetsByPartition) -> list[OffsetFetchRequestOffsetFetchRequestTopics]:
        return [
            OffsetFetchRequestOffsetFetchRequestTopics(
                name=name, topic_id=self._context.metadata.topic_id(name), partition_indexes=tuple(indexes)
            )
            for name, indexes in _by_topic(offsets)
        ]

    def _topic(
        self, asked: OffsetFetchRequestOffsetFetchRequestTopics, offsets: OffsetsByPartition, version: int
    ) -> OffsetFetchResponseOffsetFetchResponseTopics:
        by_id = version >= _TOPIC_IDS_SINCE
        name = self._name(asked.topic_id) if by_id else asked.name
        partitions = []
        for index in asked.partition_indexes:
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


def _by_topic(offsets: OffsetsByPartition) -> list[tuple[str, list[int]]]:
    """Return the partitions with a committed offset, by topic."""
    keys = sorted(offsets)
    return [(topic, [index for _, index in found]) for topic, found in itertools.groupby(keys, key=lambda key: key[0])]
