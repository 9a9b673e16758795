"""CreateTopics and CreatePartitions: validation, placement and records.

Source: ReplicationControlManager.createTopics, createPartitions, and ControllerApis, Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import TOPIC
from kraft_core.controller.access.request_access import EVERYTHING, RequestAccess
from kraft_core.controller.controller_result import ControllerResult, check_record_count
from kraft_core.controller.partitions.striped_replica_placer import StripedReplicaPlacer
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    CreatePartitionsResponse,
    CreatePartitionsResponseCreatePartitionsTopicResult,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicConfigs,
    CreateTopicsResponseCreatableTopicResult,
)
from kraft_core.protocol.metadata_records import PartitionRecord, TopicRecord
from kraft_core.protocol.metadata_version import is_directory_assignment_supported
from kraft_core.protocol.topic_names import find_collision, validate_topic_name
from kraft_core.protocol.uuids import random_uuid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random
    from uuid import UUID

    from kraft_core.configs.effective_config import ConfigEntry
    from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
    from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import TopicImage
    from kraft_core.protocol.messages import (
        CreatePartitionsRequest,
        CreatePartitionsRequestCreatePartitionsTopic,
        CreateTopicsRequest,
        CreateTopicsRequestCreatableTopic,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

NO_VALUE = -1
"""A count for which the cluster's default is used."""

Assignment = tuple[tuple[int, ...], tuple[int, ...]]
"""(replicas, initial ISR) of a partition; the first in the ISR is the leader."""


class TopicCreation:
    """Creates topics and partitions. The config listing of a response is reused while the configs are the same."""

    def __init__(
        self,
        config: ControllerConfig,
        configuration_control: ConfigurationControlManager,
        replication: ReplicationControlManager,
        random: Random,
    ) -> None:
        self._config = config
        self._configuration_control = configuration_control
        self._replication = replication
        self._placer = StripedReplicaPlacer(random)
        self._random = random
        self._listed: tuple[tuple[ConfigEntry, ...], tuple[CreateTopicsResponseCreatableTopicConfigs, ...]] | None = (
            None
        )

    def create_topics(
        self,
        image: MetadataImage,
        request: CreateTopicsRequest,
        access: RequestAccess = EVERYTHING,
    ) -> ControllerResult[CreateTopicsResponse]:
        """Create the valid topics; docs/protocol.md, "Admin operations", lists the errors of the others.

        Raises KafkaError POLICY_VIOLATION if the request is too large.
        """
        counts = Counter(topic.name for topic in request.topics)
        allowed: list[CreateTopicsRequestCreatableTopic] = []
        refused: dict[str, CreateTopicsResponseCreatableTopicResult] = {}
        for topic in request.topics:
            try:
                _check_may_create(topic.name, counts[topic.name], access)
            except KafkaError as error:
                refused.setdefault(topic.name, _creation_error(topic.name, error))
            else:
                allowed.append(topic)
        self._check_partition_total(allowed)
        cluster = self._replication.cluster(image)
        records: list[MetadataRecord] = []
        results: list[CreateTopicsResponseCreatableTopicResult] = []
        for topic in allowed:
            try:
                results.append(self._create_topic(image, cluster, topic, access, records))
            except KafkaError as error:
                results.append(_creation_error(topic.name, error))
        check_record_count(len(records))
        response = CreateTopicsResponse(topics=(*results, *refused.values()))
        return ControllerResult.atomic_of(() if request.validate_only else records, response)

    def create_partitions(
        self,
        image: MetadataImage,
        request: CreatePartitionsRequest,
        access: RequestAccess = EVERYTHING,
    ) -> ControllerResult[CreatePartitionsResponse]:
        """Add partitions to the valid topics; docs/protocol.md, "Admin operations", lists the errors of the others.

        Raises KafkaError POLICY_VIOLATION if the request is too large.
        """
        cluster = self._replication.cluster(image)
        counts = Counter(topic.name for topic in request.topics)
        records: list[MetadataRecord] = []
        results: dict[str, CreatePartitionsResponseCreatePartitionsTopicResult] = {}
        for topic in request.topics:
            code, message = ErrorCode.NONE, None
            try:
                if counts[topic.name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                if not access.may_alter(topic.name):
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                records.extend(self._create_partitions(image, cluster, topic, access, len(records)))
            except KafkaError as error:
                code, message = error.code, error.message
            results[topic.name] = CreatePartitionsResponseCreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
        response = CreatePartitionsResponse(results=tuple(results.values()))
        return ControllerResult.atomic_of(() if request.validate_only else records, response)

    def _check_partition_total(self, topics: Sequence[CreateTopicsRequestCreatableTopic]) -> None:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == NO_VALUE:
                total += self._config.default_num_partitions
            else:
                total += max(0, topic.num_partitions)
        if total > self._config.max_partitions_per_batch:
            message = "Excessively large number of partitions per request."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, message)

    def _create_topic(
        self,
        image: MetadataImage,
        cluster: ClusterDescriber,
        topic: CreateTopicsRequestCreatableTopic,
        access: RequestAccess,
        records: list[MetadataRecord],
    ) -> CreateTopicsResponseCreatableTopicResult:
        name = topic.name
        if name in image.topics.by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        validate_topic_name(name)
        collision = find_collision(name, image.topics.by_name)
        if collision is not None:
            message = f"Topic '{name}' collides with existing topic: {collision}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            message = f"Null value not supported for topic configs: {','.join(nulls)}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        configs = {config.name: config.value or "" for config in topic.configs}
        config_records: list[MetadataRecord] = []
        if configs:
            config_records = self._configuration_control.incremental_alter_resource(
                image, TOPIC, name, {key: (AlterConfigOp.SET, value) for key, value in configs.items()}, is_new=True
            )
        assignments = _manual_assignments(cluster, topic) if topic.assignments else self._place_topic(cluster, topic)
        access.apply_partition_change_quota(len(assignments))
        topic_id = self._new_topic_id(image)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records.extend(config_records)
        records.extend(_partition_records(image, cluster, topic_id, 0, assignments))
        if not access.may_describe_configs(name):
            return CreateTopicsResponseCreatableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE,
                error_message=None,
                topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                configs=(),
            )
        return CreateTopicsResponseCreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            topic_config_error_code=ErrorCode.NONE,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0][0]),
            configs=self._list_configs(self._configuration_control.effective_topic_configs(image, configs)),
        )

    def _place_topic(self, cluster: ClusterDescriber, topic: CreateTopicsRequestCreatableTopic) -> Sequence[Assignment]:
        if topic.replication_factor < NO_VALUE or topic.replication_factor == 0:
            message = "Replication factor must be larger than 0, or -1 to use the default value."
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        if topic.num_partitions < NO_VALUE or topic.num_partitions == 0:
            message = "Number of partitions was set to an invalid non-positive value."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        defaults = self._config
        partitions = defaults.default_num_partitions if topic.num_partitions == NO_VALUE else topic.num_partitions
        factor = (
            defaults.default_replication_factor if topic.replication_factor == NO_VALUE else topic.replication_factor
        )
        try:
            placed = self._placer.place(partitions, factor, cluster.usable_brokers)
        except KafkaError as error:
            message = f"Unable to replicate the partition {factor} time(s): {error.message}"
            raise KafkaError(error.code, message) from None
        return _placed_assignments(cluster, placed, factor)

    def _create_partitions(
        self,
        image: MetadataImage,
        cluster: ClusterDescriber,
        requested: CreatePartitionsRequestCreatePartitionsTopic,
        access: RequestAccess,
        record_count: int,
    ) -> list[MetadataRecord]:
        topic = image.topics.topic(requested.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        count = len(topic.partitions)
        if requested.count == count:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
        if requested.count < count:
            message = (
                f"The topic {requested.name} currently has {count} partition(s); "
                f"{requested.count} would not be an increase."
            )
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        additional = requested.count - count
        if requested.assignments is not None and len(requested.assignments) != additional:
            message = (
                f"Attempted to add {additional} additional partition(s), but only {len(requested.assignments)} "
                "assignment(s) were specified."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        access.apply_partition_change_quota(additional)
        check_record_count(record_count + additional)
        factor = _replication_factor(topic)
        if requested.assignments is None:
            placed = self._placer.place(additional, factor, cluster.usable_brokers)
            assignments = _placed_assignments(cluster, placed, factor)
        else:
            assignments = []
            for index, assignment in enumerate(requested.assignments):
                cluster.validate_manual_assignment(assignment.broker_ids, factor)
                assignments.append(_manual_assignment(cluster, assignment.broker_ids, count + index))
        return _partition_records(image, cluster, topic.id, count, assignments)

    def _new_topic_id(self, image: MetadataImage) -> UUID:
        topic_id = random_uuid(self._random)
        while topic_id in image.topics.by_id:
            topic_id = random_uuid(self._random)
        return topic_id

    def _list_configs(self, entries: tuple[ConfigEntry, ...]) -> tuple[CreateTopicsResponseCreatableTopicConfigs, ...]:
        """Return the configs as response items; the same tuple as last time if the configs are the same object."""
        if self._listed is None or self._listed[0] is not entries:
            listing = tuple(
                CreateTopicsResponseCreatableTopicConfigs(
                    name=entry.name,
                    value=None if entry.is_sensitive else entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in entries
            )
            self._listed = (entries, listing)
        return self._listed[1]


def _check_may_create(name: str, count: int, access: RequestAccess) -> None:
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if not access.may_create(name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _creation_error(name: str, error: KafkaError) -> CreateTopicsResponseCreatableTopicResult:
    return CreateTopicsResponseCreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=()
    )


def _manual_assignments(cluster: ClusterDescriber, topic: CreateTopicsRequestCreatableTopic) -> list[Assignment]:
    if topic.replication_factor != NO_VALUE:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if topic.num_partitions != NO_VALUE:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    found: dict[int, Assignment] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in found:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        cluster.validate_manual_assignment(assignment.broker_ids, factor)
        factor = len(assignment.broker_ids)
        found[index] = _manual_assignment(cluster, assignment.broker_ids, index)
    if any(index not in found for index in range(len(found))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [found[index] for index in range(len(found))]


def _manual_assignment(cluster: ClusterDescriber, replicas: Sequence[int], index: int) -> Assignment:
    isr = tuple(replica for replica in replicas if replica in cluster.active)
    if not isr:
        message = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return tuple(replicas), isr


def _placed_assignments(cluster: ClusterDescriber, placed: Sequence[tuple[int, ...]], factor: int) -> list[Assignment]:
    """Return the placed replicas with their ISR, the active brokers. Raises KafkaError if an ISR is empty."""
    active = cluster.active
    assignments: list[Assignment] = []
    for replicas in placed:
        isr = replicas if active.issuperset(replicas) else tuple(replica for replica in replicas if replica in active)
        if not isr:
            message = (
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
                "controlled shutdown."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        assignments.append((replicas, isr))
    return assignments


def _partition_records(
    image: MetadataImage,
    cluster: ClusterDescriber,
    topic_id: UUID,
    first_index: int,
    assignments: Sequence[Assignment],
) -> list[MetadataRecord]:
    has_directories = is_directory_assignment_supported(image.features.metadata_version or 0)
    directories: dict[tuple[int, ...], tuple[UUID, ...]] = {}
    records: list[MetadataRecord] = []
    for index, (replicas, isr) in enumerate(assignments, start=first_index):
        placed = directories.get(replicas)
        if placed is None:
            placed = tuple(map(cluster.default_dir, replicas)) if has_directories else ()
            directories[replicas] = placed
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=isr,
                removing_replicas=(),
                adding_replicas=(),
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=placed,
            )
        )
    return records


def _replication_factor(topic: TopicImage) -> int:
    """Return the number of replicas of the first partition, which new partitions get too."""
    first = topic.partitions.get(0) or next(iter(topic.partitions.values()), None)
    assert first is not None, f"topic {topic.name} has no partitions"
    return len(first.replicas)
