"""Admin's operations on topics and partitions. Source: KafkaAdminClient, Kafka 4.3.1."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    Leader,
    RequestContext,
    Results,
    by_topic,
    error_of,
    single,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsAssignment,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DeleteTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    MetadataResponseMetadataResponsePartition,
)

_FIRST_STATES_VERSION: Final = 6  # of DeleteTopics


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created. -1: the broker's default; `replicas_assignments` by partition takes the place of both."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replicas_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. -1 and the zero id where the broker does not say (no permission to describe configs)."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """The partition count that a topic shall have, and the replicas of each new partition unless the broker chooses."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic's name and id."""

    name: str
    topic_id: UUID
    is_internal: bool


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """A partition. `leader` is -1 without one; `elr` (KIP-966) is None if the broker does not say."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, ordered by index."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[TopicPartitionInfo, ...]


class TopicCalls(AdminCalls):
    """Topics, partitions and records."""

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create topics, by name; with `validate_only` check whether they could be created."""
        wanted = {topic.name: topic for topic in topics}

        def build(context: RequestContext[str]) -> CreateTopicsRequest:
            new_topics = (wanted[name] for name in context.keys)
            return create_topics_request(new_topics, context.timeout_ms, validate_only=validate_only)

        def read(answer: CreateTopicsResponse, _context: object) -> dict[str, CreatedTopic | KafkaError]:
            return {
                each.name: error_of(each.error_code, each.error_message)
                or CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
                for each in answer.topics
            }

        return await self.run(
            AdminCall(request=CreateTopicsRequest, keys=wanted, target=lambda _: CONTROLLER, build=build, read=read)
        )

    async def delete_topics(self, topics: Collection[str | UUID]) -> Results[str | UUID, None]:
        """Delete topics by name or by id, all in one manner. Raises ValueError for a mixture."""
        has_ids = any(isinstance(topic, UUID) for topic in topics)
        if has_ids and not all(isinstance(topic, UUID) for topic in topics):
            raise ValueError("Topics are deleted by name or by id: one call cannot have both.")

        def build(context: RequestContext[str | UUID]) -> DeleteTopicsRequest:
            if context.version < _FIRST_STATES_VERSION:
                if has_ids:
                    raise UnsupportedVersion("The broker deletes topics by name only.")
                names = tuple(str(key) for key in context.keys)
                return DeleteTopicsRequest(topic_names=names, timeout_ms=context.timeout_ms)
            states = tuple(
                DeleteTopicsRequestDeleteTopicState(topic_id=key)
                if isinstance(key, UUID)
                else DeleteTopicsRequestDeleteTopicState(name=key)
                for key in context.keys
            )
            return DeleteTopicsRequest(topics=states, timeout_ms=context.timeout_ms)

        def read(answer: DeleteTopicsResponse, _context: object) -> dict[str | UUID, KafkaError | None]:
            return {
                each.topic_id if has_ids else each.name or "": error_of(each.error_code, each.error_message)
                for each in answer.responses
            }

        return await self.run(
            AdminCall(request=DeleteTopicsRequest, keys=topics, target=lambda _: CONTROLLER, build=build, read=read)
        )

    async def create_partitions(
        self, new_partitions: Mapping[str, NewPartitions], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Raise the partition counts of topics, by name."""

        def build(context: RequestContext[str]) -> CreatePartitionsRequest:
            wanted = {name: new_partitions[name] for name in context.keys}
            return create_partitions_request(wanted, context.timeout_ms, validate_only=validate_only)

        def read(answer: CreatePartitionsResponse, _context: object) -> dict[str, KafkaError | None]:
            return {each.name: error_of(each.error_code, each.error_message) for each in answer.results}

        return await self.run(
            AdminCall(
                request=CreatePartitionsRequest,
                keys=new_partitions,
                target=lambda _: CONTROLLER,
                build=build,
                read=read,
            )
        )

    async def list_topics(self, *, list_internal: bool = False) -> dict[str, TopicListing]:
        """Return all topics that the user may describe, by name."""

        def read(answer: MetadataResponse) -> dict[str, TopicListing] | KafkaError:
            return error_of(answer.error_code) or {
                each.name: TopicListing(each.name, each.topic_id, each.is_internal)
                for each in sorted(answer.topics, key=lambda topic: topic.name or "")
                if each.name is not None and (list_internal or not each.is_internal)
            }

        return await self.run_single(single(MetadataRequest(topics=None, allow_auto_topic_creation=False), read))

    async def describe_topics(
        self, topics: Collection[str], *, partition_size_limit_per_response: int = 2000
    ) -> Results[str, TopicDescription]:
        """Describe topics by name, in pages of partitions where the broker can (DescribeTopicPartitions, KIP-966)."""
        names = sorted(set(topics))
        found: dict[str, TopicDescription | KafkaError] = {}
        cursor: DescribeTopicPartitionsRequestCursor | None = None
        while names:
            request = DescribeTopicPartitionsRequest(
                topics=tuple(DescribeTopicPartitionsRequestTopicRequest(name=name) for name in names),
                response_partition_limit=partition_size_limit_per_response,
                cursor=cursor,
            )
            answer = (await self.run(single(request, _described)))[None]
            if isinstance(answer, UnsupportedVersion):
                return await self._describe_by_metadata(topics)
            if isinstance(answer, KafkaError):
                found |= dict.fromkeys(names, answer)
                break
            _add_page(found, answer)
            following = answer.next_cursor
            if following is None:
                break
            cursor = DescribeTopicPartitionsRequestCursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
            names = [name for name in names if name >= following.topic_name]
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Results({name: found.get(name, unknown) for name in topics})

    async def _describe_by_metadata(self, topics: Collection[str]) -> Results[str, TopicDescription]:
        request = MetadataRequest(
            topics=tuple(MetadataRequestMetadataRequestTopic(name=name) for name in sorted(set(topics))),
            allow_auto_topic_creation=False,
        )
        answer = (await self.run(single(request, _metadata)))[None]
        if isinstance(answer, KafkaError):
            return Results(dict.fromkeys(topics, answer))
        found = {
            each.name: error_of(each.error_code)
            or TopicDescription(
                each.name or "",
                each.topic_id,
                each.is_internal,
                tuple(sorted(map(_info, each.partitions), key=lambda info: info.partition)),
            )
            for each in answer.topics
        }
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Results({name: found.get(name, unknown) for name in topics})

    async def delete_records(self, records_to_delete: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        """Delete the records before an offset, by partition; -1: up to the high watermark.

        The values are the new first offsets.
        """

        def build(context: RequestContext[TopicPartition]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=tuple(
                    DeleteRecordsRequestDeleteRecordsTopic(
                        name=topic,
                        partitions=tuple(
                            DeleteRecordsRequestDeleteRecordsPartition(
                                partition_index=index, offset=records_to_delete[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(context.keys).items()
                ),
                timeout_ms=context.timeout_ms,
            )

        def read(answer: DeleteRecordsResponse, _context: object) -> dict[TopicPartition, int | KafkaError]:
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code) or each.low_watermark
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(request=DeleteRecordsRequest, keys=records_to_delete, target=Leader, build=build, read=read)
        )


def create_topics_request(
    topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool = False
) -> CreateTopicsRequest:
    """Return the request that creates topics, or only validates them."""
    return CreateTopicsRequest(
        topics=tuple(map(_creatable, topics)), timeout_ms=timeout_ms, validate_only=validate_only
    )


def create_partitions_request(
    new_partitions: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    """Return the request that raises the partition counts of topics, by name, or only validates that."""
    return CreatePartitionsRequest(
        topics=tuple(_more_partitions(name, new) for name, new in new_partitions.items()),
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def _described(answer: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse | KafkaError:
    return answer


def _metadata(answer: MetadataResponse) -> MetadataResponse | KafkaError:
    return error_of(answer.error_code) or answer


def _add_page(found: dict[str, TopicDescription | KafkaError], answer: DescribeTopicPartitionsResponse) -> None:
    """Add a page; the partitions of a topic may begin on the page before."""
    for topic in answer.topics:
        name = topic.name or ""
        error = error_of(topic.error_code)
        if error is not None:
            found[name] = error
            continue
        before = found.get(name)
        known = before.partitions if isinstance(before, TopicDescription) else ()
        partitions = {each.partition: each for each in (*known, *map(_info, topic.partitions))}
        ordered = tuple(partitions[index] for index in sorted(partitions))
        found[name] = TopicDescription(name, topic.topic_id, topic.is_internal, ordered)


def _info(
    each: DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition
    | MetadataResponseMetadataResponsePartition,
) -> TopicPartitionInfo:
    elr: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = None, None
    if isinstance(each, DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition):
        elr = each.eligible_leader_replicas, each.last_known_elr
    return TopicPartitionInfo(
        each.partition_index,
        each.leader_id,
        each.leader_epoch,
        each.replica_nodes,
        each.isr_nodes,
        each.offline_replicas,
        *elr,
    )


def _creatable(topic: NewTopic) -> CreateTopicsRequestCreatableTopic:
    has_assignments = topic.replicas_assignments is not None
    return CreateTopicsRequestCreatableTopic(
        name=topic.name,
        num_partitions=-1 if has_assignments else topic.num_partitions,
        replication_factor=-1 if has_assignments else topic.replication_factor,
        assignments=tuple(
            CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=tuple(replicas))
            for index, replicas in sorted((topic.replicas_assignments or {}).items())
        ),
        configs=tuple(
            CreateTopicsRequestCreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ),
    )


def _more_partitions(name: str, new: NewPartitions) -> CreatePartitionsRequestCreatePartitionsTopic:
    assignments = new.new_assignments
    return CreatePartitionsRequestCreatePartitionsTopic(
        name=name,
        count=new.total_count,
        assignments=None
        if assignments is None
        else tuple(
            CreatePartitionsRequestCreatePartitionsAssignment(broker_ids=tuple(replicas)) for replicas in assignments
        ),
    )
