"""Admin's operation on the offsets of partitions. Source: KafkaAdminClient.listOffsets, OffsetSpec, Kafka 4.3.1."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kraft_core.clients.admin.admin_call import (
    AdminCall,
    AdminCalls,
    Leader,
    RequestContext,
    Results,
    by_topic,
    error_of,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
    ListOffsetsResponse,
)

_CONSUMER: Final = -1  # the replica id of a consumer


class OffsetSpec(IntEnum):
    """An offset to look for that is not a timestamp. Source: OffsetSpec, ListOffsetsRequest."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


_SINCE: Final = {OffsetSpec.MAX_TIMESTAMP: 7, OffsetSpec.EARLIEST_LOCAL: 8, OffsetSpec.LATEST_TIERED: 9}
"""The first version of ListOffsets that has a spec."""


class IsolationLevel(IntEnum):
    """Whether the latest offset is the high watermark or the last stable offset. Source: IsolationLevel."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ListOffsetsResultInfo(NamedTuple):
    """An offset with the timestamp of its record in ms (-1: none). The offset is -1 if no record is that new."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetCalls(AdminCalls):
    """Offsets of partitions."""

    async def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, ListOffsetsResultInfo]:
        """Return offsets by partition: the earliest, the latest, or the first one at or after a timestamp in ms.

        `timeout_ms` takes the place of default.api.timeout.ms, for those who cannot wait for a leader.
        """

        def build(context: RequestContext[TopicPartition]) -> ListOffsetsRequest:
            wanted = {topic_partition_offsets[partition] for partition in context.keys}
            since = max(_SINCE.get(OffsetSpec(each), 0) for each in wanted if each < 0) if min(wanted) < 0 else 0
            if context.version < since:
                raise UnsupportedVersion(f"Broker {context.node.id} does not support this offset spec.")
            return ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=isolation_level,
                topics=tuple(
                    ListOffsetsRequestListOffsetsTopic(
                        name=topic,
                        partitions=tuple(
                            ListOffsetsRequestListOffsetsPartition(
                                partition_index=index, timestamp=topic_partition_offsets[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(context.keys).items()
                ),
                timeout_ms=context.timeout_ms,
            )

        def read(
            answer: ListOffsetsResponse, _context: object
        ) -> dict[TopicPartition, ListOffsetsResultInfo | KafkaError]:
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
                or ListOffsetsResultInfo(each.offset, each.timestamp, each.leader_epoch)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(
                request=ListOffsetsRequest,
                keys=topic_partition_offsets,
                target=Leader,
                build=build,
                read=read,
                timeout_ms=timeout_ms,
            )
        )
