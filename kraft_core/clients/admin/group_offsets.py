"""Admin's operations on the committed offsets of groups.

Source: ListConsumerGroupOffsetsHandler, AlterConsumerGroupOffsetsHandler, DeleteConsumerGroupOffsetsHandler of Kafka
4.3.1; KIP-396, KIP-496, KIP-709.
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from kraft_core.clients.admin.admin_call import AdminCall, AdminCalls, RequestContext, Results, by_topic, error_of
from kraft_core.clients.admin.groups import GROUP
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata, commit_partition, committed_offset
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestOffsetDeleteRequestPartition,
    OffsetDeleteRequestOffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
)
from kraft_core.protocol.messages import OffsetFetchRequestOffsetFetchRequestTopic as OldTopic
from kraft_core.protocol.messages import OffsetFetchRequestOffsetFetchRequestTopics as Topic

_LAST_NAMED_VERSION: Final = 9
"""Of OffsetCommit and OffsetFetch: version 10 has topic ids in the place of names."""
_FIRST_BATCHED_VERSION: Final = 8  # of OffsetFetch
_FIRST_STABLE_VERSION: Final = 7
T = TypeVar("T", OldTopic, Topic)

Offsets = dict[TopicPartition, OffsetAndMetadata | KafkaError | None]


class GroupOffsetCalls(AdminCalls):
    """Committed offsets."""

    async def list_consumer_group_offsets(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
    ) -> Results[str, Offsets]:
        """Return the committed offsets by group and partition; a group's None asks for all of its partitions.

        A partition's value is None without a commit, and a KafkaError that concerns it alone. `require_stable` waits
        for transactions that commit offsets (KIP-447).
        """

        def build(context: RequestContext[str]) -> OffsetFetchRequest:
            is_stable = require_stable and context.version >= _FIRST_STABLE_VERSION
            if context.version < _FIRST_BATCHED_VERSION:
                group_id = context.keys[0]
                return OffsetFetchRequest(
                    group_id=group_id,
                    topics=_topics(OldTopic, groups[group_id]),
                    require_stable=is_stable,
                )
            return OffsetFetchRequest(
                groups=tuple(
                    OffsetFetchRequestOffsetFetchRequestGroup(
                        group_id=group_id, topics=_topics(Topic, groups[group_id])
                    )
                    for group_id in context.keys
                ),
                require_stable=is_stable,
            )

        def read(answer: OffsetFetchResponse, context: RequestContext[str]) -> dict[str, Offsets | KafkaError]:
            if context.version < _FIRST_BATCHED_VERSION:
                old = {
                    TopicPartition(topic.name, each.partition_index): _committed(each)
                    for topic in answer.topics
                    for each in topic.partitions
                }
                return {context.keys[0]: error_of(answer.error_code) or _stable_or_error(old)}
            return {
                group.group_id: error_of(group.error_code)
                or _stable_or_error(
                    {
                        TopicPartition(topic.name, each.partition_index): _committed(each)
                        for topic in group.topics
                        for each in topic.partitions
                    }
                )
                for group in answer.groups
            }

        return await self.run(
            AdminCall(
                request=OffsetFetchRequest,
                keys=groups,
                target=GROUP,
                build=build,
                read=read,
                batched_since=_FIRST_BATCHED_VERSION,
                max_version=_LAST_NAMED_VERSION,
                retried=frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
            )
        )

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members, by partition. Members make it an UNKNOWN_MEMBER_ID."""

        def build(context: RequestContext[TopicPartition]) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetCommitRequestOffsetCommitRequestTopic(
                        name=topic,
                        partitions=tuple(
                            commit_partition(
                                OffsetCommitRequestOffsetCommitRequestPartition,
                                index,
                                offsets[TopicPartition(topic, index)],
                            )
                            for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(context.keys).items()
                ),
            )

        def read(answer: OffsetCommitResponse, _context: object) -> dict[TopicPartition, KafkaError | None]:
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(
                request=OffsetCommitRequest,
                keys=offsets,
                target=lambda _: GROUP(group_id),
                build=build,
                read=read,
                max_version=_LAST_NAMED_VERSION,
                retried=frozenset({ErrorCode.REBALANCE_IN_PROGRESS}),
            )
        )

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of topics that no member of the group subscribes to, by partition."""

        def build(context: RequestContext[TopicPartition]) -> OffsetDeleteRequest:
            return OffsetDeleteRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetDeleteRequestOffsetDeleteRequestTopic(
                        name=topic,
                        partitions=tuple(
                            OffsetDeleteRequestOffsetDeleteRequestPartition(partition_index=index) for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(context.keys).items()
                ),
            )

        def read(
            answer: OffsetDeleteResponse, context: RequestContext[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            error = error_of(answer.error_code)
            if error is not None:
                return dict.fromkeys(context.keys, error)
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(
                request=OffsetDeleteRequest, keys=partitions, target=lambda _: GROUP(group_id), build=build, read=read
            )
        )


def _topics(kind: type[T], partitions: Collection[TopicPartition] | None) -> tuple[T, ...] | None:
    if partitions is None:
        return None
    return tuple(kind(name=topic, partition_indexes=tuple(indexes)) for topic, indexes in by_topic(partitions).items())


def _committed(
    each: OffsetFetchResponseOffsetFetchResponsePartition | OffsetFetchResponseOffsetFetchResponsePartitions,
) -> OffsetAndMetadata | KafkaError | None:
    return error_of(each.error_code) or committed_offset(each)


def _stable_or_error(found: Offsets) -> Offsets | KafkaError:
    """Return the error of a group's partition that a transaction holds up, so that the group is asked for again."""
    errors = [each for each in found.values() if isinstance(each, KafkaError)]
    return next((each for each in errors if each.code == ErrorCode.UNSTABLE_OFFSET_COMMIT), found)
