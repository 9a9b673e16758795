"""OffsetCommit and OffsetFetch for the versions of a coordinator, with topic ids where both sides have them.

Source: OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse of Kafka 4.3.1.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kraft_core.clients.client_metadata import TopicInfo, TopicPartition
from kraft_core.clients.network_requests import NodeRequest
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata, commit_partition, committed_offset
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchRequestOffsetFetchRequestTopic,
    OffsetFetchRequestOffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
)
from kraft_core.protocol.uuids import ZERO_UUID

_LAST_VERSION_WITH_NAMES: Final = 9
_FIRST_VERSION_WITH_GROUPS: Final = 8
_FIRST_STABLE_VERSION: Final = 7

Versions = Mapping[int, tuple[int, int]]


class MemberIdentity(NamedTuple):
    """In whose name offsets are committed: generation or member epoch, -1 and "" without a membership."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def offset_commit_request(
    node_id: int,
    group_id: str,
    identity: MemberIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topics: Mapping[str, TopicInfo],
) -> NodeRequest:
    """Return a commit for a node; topics are named by id from version 10 if all ids are known."""
    by_topic: dict[str, list[OffsetCommitRequestOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            commit_partition(OffsetCommitRequestOffsetCommitRequestPartition, partition, offset)
        )
    message = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=tuple(
            OffsetCommitRequestOffsetCommitRequestTopic(
                name=name, topic_id=_topic_id(name, topics), partitions=tuple(partitions)
            )
            for name, partitions in by_topic.items()
        ),
    )
    return NodeRequest(node_id, message, max_version=_version_max(by_topic, topics))


def read_offset_commit(
    request: NodeRequest, offsets: Collection[TopicPartition]
) -> Iterable[tuple[TopicPartition, ErrorCode]]:
    """Return the outcome of each partition; a partition that the answer leaves out has UNKNOWN_SERVER_ERROR."""
    message, answer = request.message, request.answer
    assert isinstance(message, OffsetCommitRequest)
    assert isinstance(answer, OffsetCommitResponse)
    names_by_id = {topic.topic_id: topic.name for topic in message.topics}
    found = {
        TopicPartition(topic.name or names_by_id.get(topic.topic_id, ""), each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    return [(each, ErrorCode(found.get(each, ErrorCode.UNKNOWN_SERVER_ERROR))) for each in offsets]


def offset_fetch_request(
    node_id: int,
    group_id: str,
    identity: MemberIdentity | None,
    partitions: Collection[TopicPartition],
    versions: Versions,
    topics: Mapping[str, TopicInfo],
) -> NodeRequest:
    """Return a lookup for a node, of stable offsets where it knows them (KIP-447)."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    newest = versions.get(ApiKey.OFFSET_FETCH, OffsetFetchRequest.VERSIONS)[1]
    if newest < _FIRST_VERSION_WITH_GROUPS:
        old = OffsetFetchRequest(
            group_id=group_id,
            topics=tuple(
                OffsetFetchRequestOffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes))
                for name, indexes in by_topic.items()
            ),
            require_stable=newest >= _FIRST_STABLE_VERSION,
        )
        return NodeRequest(node_id, old, max_version=_FIRST_VERSION_WITH_GROUPS - 1)
    group = OffsetFetchRequestOffsetFetchRequestGroup(
        group_id=group_id,
        member_id=None if identity is None else identity.member_id,
        member_epoch=-1 if identity is None else identity.generation_id,
        topics=tuple(
            OffsetFetchRequestOffsetFetchRequestTopics(
                name=name, topic_id=_topic_id(name, topics), partition_indexes=tuple(indexes)
            )
            for name, indexes in by_topic.items()
        ),
    )
    return NodeRequest(
        node_id,
        OffsetFetchRequest(groups=(group,), require_stable=True),
        min_version=_FIRST_VERSION_WITH_GROUPS,
        max_version=_version_max(by_topic, topics),
    )


def read_offset_fetch(
    request: NodeRequest,
) -> tuple[ErrorCode, dict[TopicPartition, OffsetAndMetadata | ErrorCode | None]]:
    """Return the group's error, and what each partition has: an offset, None without one, or its error."""
    message, answer = request.message, request.answer
    assert isinstance(message, OffsetFetchRequest)
    assert isinstance(answer, OffsetFetchResponse)
    if not answer.groups:
        found = {
            TopicPartition(topic.name, each.partition_index): _outcome(each)
            for topic in answer.topics
            for each in topic.partitions
        }
        return ErrorCode(answer.error_code), found
    names_by_id = {topic.topic_id: topic.name for each in message.groups for topic in each.topics or ()}
    group = next(
        (each for each in answer.groups if message.groups and each.group_id == message.groups[0].group_id), None
    )
    if group is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR, {}
    return ErrorCode(group.error_code), {
        TopicPartition(topic.name or names_by_id.get(topic.topic_id, ""), each.partition_index): _outcome(each)
        for topic in group.topics
        for each in topic.partitions
    }


def _outcome(
    each: OffsetFetchResponseOffsetFetchResponsePartition | OffsetFetchResponseOffsetFetchResponsePartitions,
) -> OffsetAndMetadata | ErrorCode | None:
    return committed_offset(each) if each.error_code == ErrorCode.NONE else ErrorCode(each.error_code)


def _topic_id(name: str, topics: Mapping[str, TopicInfo]) -> UUID:
    known = topics.get(name)
    return ZERO_UUID if known is None else known.topic_id


def _version_max(names: Iterable[str], topics: Mapping[str, TopicInfo]) -> int | None:
    return None if all(_topic_id(name, topics).int for name in names) else _LAST_VERSION_WITH_NAMES
