"""Records of topics, partitions and configuration.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class TopicRecord(Message):
    """A topic was created; its partitions follow; apiKey 2, v0. Source: TopicRecord.json."""

    API_KEY = 2
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    name: Annotated[str, wire("string")] = ""
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID


class PartitionRecord(Message):
    """State of one partition at its creation or in a snapshot; apiKey 3, v0-2. Source: PartitionRecord.json."""

    API_KEY = 3
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    partition_id: Annotated[int, wire("int32")] = -1
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()
    isr: Annotated[tuple[int, ...], wire("[]int32")] = ()
    removing_replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()
    adding_replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()
    leader: Annotated[int, wire("int32")] = -1
    leader_recovery_state: Annotated[int, wire("int8", tag=0)] = 0
    leader_epoch: Annotated[int, wire("int32")] = -1
    partition_epoch: Annotated[int, wire("int32")] = -1
    directories: Annotated[tuple[UUID, ...], wire("[]uuid", since=1)] = ()
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, wire("[]int32", since=2, nullable_since=2, tag=1)] = (
        None
    )
    last_known_elr: Annotated[tuple[int, ...] | None, wire("[]int32", since=2, nullable_since=2, tag=2)] = None


class ConfigRecord(Message):
    """One configuration value of a resource; null removes it; apiKey 4, v0. Source: ConfigRecord.json."""

    API_KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    name: Annotated[str, wire("string")] = ""
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""


class PartitionChangeRecord(Message):
    """A partition changed; absent fields are unchanged; apiKey 5, v0-2. Source: PartitionChangeRecord.json."""

    API_KEY = 5
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    partition_id: Annotated[int, wire("int32")] = -1
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    isr: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0, tag=0)] = None
    leader: Annotated[int, wire("int32", tag=1)] = -2
    replicas: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0, tag=2)] = None
    removing_replicas: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0, tag=3)] = None
    adding_replicas: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0, tag=4)] = None
    leader_recovery_state: Annotated[int, wire("int8", tag=5)] = -1
    directories: Annotated[tuple[UUID, ...] | None, wire("[]uuid", since=1, nullable_since=1, tag=8)] = None
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, wire("[]int32", since=2, nullable_since=2, tag=6)] = (
        None
    )
    last_known_elr: Annotated[tuple[int, ...] | None, wire("[]int32", since=2, nullable_since=2, tag=7)] = None


class RemoveTopicRecord(Message):
    """A topic was deleted, with its partitions and configuration; apiKey 9, v0. Source: RemoveTopicRecord.json."""

    API_KEY = 9
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID


class ClearElrRecord(Message):
    """The ELRs of a topic (of all for an empty name) were cleared; apiKey 28, v0. Source: ClearElrRecord.json."""

    API_KEY = 28
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    topic_name: Annotated[str, wire("string")] = ""
