"""Topics: created, deleted and grown through the active controller."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.changes import Changes, only, raise_for
from kraft_core.clients.admin.topics import (
    NewPartitions,
    NewTopic,
    create_partitions_request,
    create_topics_request,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DeleteTopicsResponse,
)
from kraft_core.protocol.metadata_records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

INT32_MAX: Final = 2**31 - 1
INT16_MAX: Final = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as the controller created it, or would create it. `offset` is None when only validated."""

    name: str
    topic_id: uuid.UUID
    partitions_count: int
    replication_factor: int
    offset: int | None


class TopicAdmin(Changes):
    """Changes of topics. Each returns the offset at which it was committed."""

    async def create(
        self,
        name: str,
        *,
        partitions_count: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 means the cluster's default. `assignments` (partition → broker ids) replaces both counts.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, POLICY_VIOLATION, INVALID_REQUEST.
        """
        _check_range(partitions_count, INT32_MAX, ErrorCode.INVALID_PARTITIONS, "partitions_count")
        _check_range(replication_factor, INT16_MAX, ErrorCode.INVALID_REPLICATION_FACTOR, "replication_factor")
        topic = NewTopic(
            name=name,
            num_partitions=partitions_count,
            replication_factor=replication_factor,
            replicas_assignments=assignments or None,
            configs=configs or {},
        )
        before = self._history.newest_offset
        request = create_topics_request((topic,), self._timeout_ms, validate_only=validate_only)
        answer = await self._ask(request, CreateTopicsResponse)
        result = only(answer.topics)
        raise_for(result.error_code, result.error_message)
        offset = None
        if not validate_only:
            offset = await self._committed(
                before, lambda record: isinstance(record, TopicRecord) and record.topic_id == result.topic_id
            )
        return CreatedTopic(
            name=name,
            topic_id=result.topic_id,
            partitions_count=result.num_partitions if not assignments else len(assignments),
            replication_factor=result.replication_factor,
            offset=offset,
        )

    async def delete(self, name: str, *, validate_only: bool = False) -> int | None:
        """Delete a topic by name. Returns the offset, None when only validated.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED.
        """
        known = self._observer.image.topics.topic(name)
        before = self._history.newest_offset
        request = DeleteTopicsRequest(
            topics=(DeleteTopicsRequestDeleteTopicState(name=name),),
            topic_names=() if validate_only else (name,),  # for versions without `topics`
            timeout_ms=self._timeout_ms,
        )
        answer = await self._ask(request, DeleteTopicsResponse, dry_run=validate_only)
        result = only(answer.responses)
        raise_for(result.error_code, result.error_message)
        if validate_only:
            return None
        topic_id = known.id if known is not None else result.topic_id
        return await self._committed(
            before, lambda record: isinstance(record, RemoveTopicRecord) and record.topic_id == topic_id
        )

    async def create_partitions(self, name: str, count: int, *, validate_only: bool = False) -> int | None:
        """Grow a topic to `count` partitions in total. Returns the offset, None when only validated.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (also for the present count or fewer).
        """
        _check_range(count, INT32_MAX, ErrorCode.INVALID_PARTITIONS, "partitions_count")
        before = self._history.newest_offset
        wanted = {name: NewPartitions(total_count=count)}
        request = create_partitions_request(wanted, self._timeout_ms, validate_only=validate_only)
        answer = await self._ask(request, CreatePartitionsResponse)
        result = only(answer.results)
        raise_for(result.error_code, result.error_message)
        if validate_only:
            return None
        return await self._committed(
            before, lambda record: isinstance(record, PartitionRecord) and record.partition_id == count - 1
        )


def _check_range(value: int, highest: int, code: ErrorCode, name: str) -> None:
    """Raise KafkaError `code` for a number that the wire format cannot carry. The controller validates all others."""
    if not -highest - 1 <= value <= highest:
        raise KafkaError(code, f"{name} {value} is not between {-highest - 1} and {highest}.")
