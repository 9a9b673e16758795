"""Topics and configs: created, deleted, grown, altered, and finished only when this process sees it (see changes).

Raises KafkaError for what the controller refuses and ConnectionError subclasses while there is none.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.cluster.changes import Changes, only, raise_for
from kraft_core.configs.config_resource import TOPIC
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kraft_core.protocol.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

INT32_MAX: Final = 2**31 - 1
INT16_MAX: Final = 2**15 - 1
OPERATIONS: Final = {"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one config; APPEND and SUBTRACT are for lists. `value` is None for DELETE."""

    name: str
    value: str | None = None
    operation: Literal["SET", "DELETE", "APPEND", "SUBTRACT"] = "SET"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as the controller made it, or would make it. `offset` is None when it was only validated."""

    name: str
    topic_id: uuid.UUID
    partitions_count: int
    replication_factor: int
    offset: int | None


class ClusterAdmin(Changes):
    """Changes of topics and configs. Each answers with the offset at which it was committed."""

    async def create_topic(
        self,
        name: str,
        *,
        partitions_count: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 means the cluster's default. `assignments`: partition → broker ids, in place of both counts.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, POLICY_VIOLATION, INVALID_REQUEST.
        """
        _check_range(partitions_count, INT32_MAX, ErrorCode.INVALID_PARTITIONS, "partitions_count")
        _check_range(replication_factor, INT16_MAX, ErrorCode.INVALID_REPLICATION_FACTOR, "replication_factor")
        topic = CreateTopicsRequestCreatableTopic(
            name=name,
            num_partitions=-1 if assignments else partitions_count,
            replication_factor=-1 if assignments else replication_factor,
            assignments=tuple(
                CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=tuple(broker_ids))
                for index, broker_ids in sorted((assignments or {}).items())
            ),
            configs=tuple(
                CreateTopicsRequestCreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
            ),
        )
        before = self._history.newest_offset
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._timeout_ms, validate_only=validate_only)
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

    async def delete_topic(self, name: str, *, validate_only: bool = False) -> int | None:
        """Delete a topic by name. Answers None when it was only validated.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED.
        """
        known = self._observer.image.topics.topic(name)
        before = self._history.newest_offset
        request = DeleteTopicsRequest(
            topics=(DeleteTopicsRequestDeleteTopicState(name=name),),
            topic_names=() if validate_only else (name,),  # for versions without `topics`; each writes only its own
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
        """Grow a topic to `count` partitions in all. Answers None when it was only validated.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (the same count or fewer too).
        """
        _check_range(count, INT32_MAX, ErrorCode.INVALID_PARTITIONS, "partitions_count")
        before = self._history.newest_offset
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=None),),
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._ask(request, CreatePartitionsResponse)
        result = only(answer.results)
        raise_for(result.error_code, result.error_message)
        if validate_only:
            return None
        return await self._committed(
            before, lambda record: isinstance(record, PartitionRecord) and record.partition_id == count - 1
        )

    async def alter_configs(
        self, resource_type: int, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of one resource, all or none of them. Answers None when it was only validated.

        `name` is a topic, a broker id as text, or "" for the default of all brokers.
        Raises KafkaError INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, INVALID_REQUEST.
        """
        before = self._history.newest_offset
        results = await self._alter({(resource_type, name): changes}, validate_only)
        code, message = results[resource_type, name]
        raise_for(code, message)
        if validate_only:
            return None
        return await self._configs_committed(before, {(resource_type, name)})

    async def alter_topics_configs(
        self, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> tuple[int | None, dict[str, KafkaError]]:
        """Change configs of several topics; each is all or none, and fails alone. Returns offset and failures by topic."""
        before = self._history.newest_offset
        results = await self._alter({(TOPIC, name): each for name, each in changes.items()}, validate_only)
        failures = {
            name: KafkaError(ErrorCode(code), message or None) for (_, name), (code, message) in results.items() if code
        }
        if validate_only or len(failures) == len(changes):
            return None, failures
        done = {(TOPIC, name) for name in changes if name not in failures}
        return await self._configs_committed(before, done), failures

    async def _alter(
        self, changes: Mapping[tuple[int, str], Sequence[ConfigChange]], validate_only: bool
    ) -> dict[tuple[int, str], tuple[int, str | None]]:
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=tuple(
                        IncrementalAlterConfigsRequestAlterableConfig(
                            name=change.name, config_operation=OPERATIONS[change.operation], value=change.value
                        )
                        for change in each
                    ),
                )
                for (resource_type, name), each in changes.items()
            ),
            validate_only=validate_only,
        )
        answer = await self._ask(request, IncrementalAlterConfigsResponse)
        results = {
            (one.resource_type, one.resource_name): (one.error_code, one.error_message) for one in answer.responses
        }
        missing = (ErrorCode.UNKNOWN_SERVER_ERROR, "The controller did not answer for this resource.")
        return {resource: results.get(resource, missing) for resource in changes}

    async def _configs_committed(self, before: int, resources: set[tuple[int, str]]) -> int:
        return await self._committed(
            before,
            lambda record: (
                isinstance(record, ConfigRecord) and (record.resource_type, record.resource_name) in resources
            ),
        )


def _check_range(value: int, highest: int, code: ErrorCode, name: str) -> None:
    """Refuse what the wire cannot carry; what it can, the controller judges."""
    if not -highest - 1 <= value <= highest:
        raise KafkaError(code, f"{name} {value} is out of range.")
