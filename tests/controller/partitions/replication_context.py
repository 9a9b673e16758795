"""The controller's managers over an image that replays their records: the verbs of the replication tests."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.controller.access.request_access import EVERYTHING, RequestAccess
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.partitions.alter_partition import alter_partition
from kraft_core.controller.partitions.alter_partition_reassignments import PartitionReassignments
from kraft_core.controller.partitions.leader_election import LeaderElection
from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
from kraft_core.controller.partitions.topic_creation import TopicCreation
from kraft_core.controller.partitions.topic_deletion import delete_topics
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from kraft_core.protocol import messages as m
from kraft_core.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from tests.controller.partitions.partition_invariants import check_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraft_core.controller.controller_result import ControllerResult
    from kraft_core.protocol.metadata_records import MetadataRecord

T = TypeVar("T")

LATEST = 30
ELR = "eligible.leader.replicas.version"


def directory_of(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(1 << 64) + 1000 * broker_id + number)


class ReplicationContext:
    """Brokers, topics and the managers under test. `elr` enables eligible leader replicas."""

    def __init__(
        self,
        brokers: Iterable[int] = (0, 1, 2),
        *,
        elr: bool = False,
        metadata_version: int = LATEST,
        seed: int = 0,
        min_insync_replicas: int | None = None,
        **settings: Any,
    ) -> None:
        self.config = ControllerConfig(node_id=3000, cluster_id="test", **settings)
        self.random = Random(seed)
        self.configs = ConfigurationControlManager(self.config)
        heartbeats = BrokerHeartbeatManager(self.config.session_timeout_ms)
        self.manager = ReplicationControlManager(self.configs, heartbeats)
        self.topics = TopicCreation(self.config, self.configs, self.manager, self.random)
        self.elections = LeaderElection(self.manager, self.config.leader_balance_max_elections)
        self.reassignments = PartitionReassignments(self.manager)
        self.image = MetadataImage.EMPTY
        self._offset = -1
        self.apply([FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)])
        if elr:
            self.apply([FeatureLevelRecord(name=ELR, feature_level=1)])
        if min_insync_replicas is not None:
            self.set_config(BROKER, "", "min.insync.replicas", str(min_insync_replicas))
        for broker_id in brokers:
            self.register(broker_id)
            self.unfence(broker_id)

    # -- the log

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Replay the records one by one and check the partition invariants after each."""
        for record in records:
            self._offset += 1
            before = self.image
            self.image = replay_all(before, [record], self._offset, 1)
            check_step(before, record, self.image)

    def commit(self, result: ControllerResult[T]) -> T:
        self.apply(result.records)
        return result.response

    # -- brokers

    def register(self, broker_id: int, *, rack: str | None = None, directories: Sequence[UUID] | None = None) -> None:
        dirs = (directory_of(broker_id),) if directories is None else tuple(directories)
        self.apply(
            [
                RegisterBrokerRecord(
                    broker_id=broker_id,
                    broker_epoch=self._offset + 1,
                    incarnation_id=UUID(int=self._offset + 500),
                    rack=rack,
                    fenced=True,
                    log_dirs=dirs,
                )
            ]
        )

    def fence(self, broker_id: int) -> Sequence[MetadataRecord]:
        records = self.manager.handle_broker_fenced(self.image, broker_id)
        self.apply(records)
        return records

    def unfence(self, broker_id: int) -> Sequence[MetadataRecord]:
        records = self.manager.handle_broker_unfenced(self.image, broker_id)
        self.apply(records)
        return records

    def shut_down(self, broker_id: int) -> Sequence[MetadataRecord]:
        records = self.manager.handle_broker_in_controlled_shutdown(self.image, broker_id)
        self.apply(records)
        return records

    def restart(self, broker_id: int, *, is_clean: bool) -> Sequence[MetadataRecord]:
        """Register another incarnation, which is fenced."""
        records = self.manager.handle_broker_shutdown(self.image, broker_id, is_clean=is_clean)
        self.apply(records)
        self.register(broker_id)
        return records

    def cordon(self, broker_id: int, directories: Sequence[UUID]) -> None:
        self.apply(self.manager.handle_directories_cordoned(self.image, broker_id, directories))

    def lose_directories(self, broker_id: int, *directories: UUID) -> Sequence[MetadataRecord]:
        records = self.manager.handle_directories_offline(self.image, broker_id, directories)
        self.apply(records)
        return records

    def epoch(self, broker_id: int) -> int:
        return self.image.cluster.brokers[broker_id].epoch

    # -- configs

    def set_config(self, kind: int, name: str, key: str, value: str | None) -> None:
        self.apply([ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)])

    # -- topics

    def create(self, name: str, partitions: int = -1, factor: int = -1, **extra: Any) -> Any:
        """Send CreateTopics for one topic; return its result."""
        validate_only = extra.pop("validate_only", False)
        topic = m.CreateTopicsRequestCreatableTopic(
            name=name, num_partitions=partitions, replication_factor=factor, **extra
        )
        request = m.CreateTopicsRequest(topics=(topic,), validate_only=validate_only)
        return self.commit(self.topics.create_topics(self.image, request)).topics[0]

    def delete_topics(
        self, request: m.DeleteTopicsRequest, version: int, access: RequestAccess = EVERYTHING
    ) -> ControllerResult[m.DeleteTopicsResponse]:
        return delete_topics(self.image, request, version, self.config, self.random, access)

    def are_leaders_imbalanced(self) -> bool:
        """Report whether a partition is led by another replica than its preferred one."""
        return any(found.imbalanced for found in self.manager.scan.findings(self.image))

    def are_some_partitions_leaderless(self) -> bool:
        return any(found.leaderless for found in self.manager.scan.findings(self.image))

    def create_assigned(self, name: str, *replicas: Sequence[int], configs: dict[str, str] | None = None) -> UUID:
        """Create a topic with the given replicas of each partition; return its id."""
        assignments = tuple(
            m.CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=tuple(ids))
            for index, ids in enumerate(replicas)
        )
        listed = tuple(
            m.CreateTopicsRequestCreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        )
        result = self.create(name, assignments=assignments, configs=listed)
        assert result.error_code == 0, result
        return UUID(int=result.topic_id.int)

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        topic = self.image.topics.topic(name)
        assert topic is not None
        return topic.partitions[index]

    def alter_partition(
        self,
        name: str,
        isr: Sequence[int],
        *,
        index: int = 0,
        sender: int | None = None,
        version: int = 3,
        epochs: dict[int, int] | None = None,
        **changes: Any,
    ) -> Any:
        """Send AlterPartition as the leader; return the partition's result."""
        topic = self.image.topics.topic(name)
        topic_id = changes.pop("topic_id", topic.id if topic is not None else UUID(int=77))
        partition = topic.partitions.get(index) if topic is not None else None
        sender = sender if sender is not None else (partition.leader if partition is not None else 0)
        known = {broker.id: broker.epoch for broker in self.image.cluster.brokers.values()} | (epochs or {})
        data = {
            "partition_index": index,
            "leader_epoch": partition.leader_epoch if partition is not None else 0,
            "partition_epoch": partition.partition_epoch if partition is not None else 0,
        } | changes
        if version < 3:
            data["new_isr"] = tuple(isr)
        else:
            data["new_isr_with_epochs"] = tuple(
                m.AlterPartitionRequestBrokerState(broker_id=each, broker_epoch=known.get(each, 5)) for each in isr
            )
        request = m.AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.epoch(sender),
            topics=(
                m.AlterPartitionRequestTopicData(
                    topic_id=topic_id, partitions=(m.AlterPartitionRequestPartitionData(**data),)
                ),
            ),
        )
        return self.commit(alter_partition(self.manager, self.image, request, version)).topics[0].partitions[0]

    def reassign(self, name: str, replicas: Sequence[int] | None, *, index: int = 0, allow_factor: bool = True) -> Any:
        """Send AlterPartitionReassignments for one partition; return its result."""
        request = m.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=allow_factor,
            topics=(
                m.AlterPartitionReassignmentsRequestReassignableTopic(
                    name=name,
                    partitions=(
                        m.AlterPartitionReassignmentsRequestReassignablePartition(
                            partition_index=index, replicas=None if replicas is None else tuple(replicas)
                        ),
                    ),
                ),
            ),
        )
        response = self.commit(self.reassignments.alter(self.image, request))
        return response.responses[0].partitions[0]

    def elect(self, election: int, wanted: dict[str, Sequence[int]] | None) -> dict[tuple[str, int], int]:
        """Send ElectLeaders; return the error code by partition."""
        topics = (
            None
            if wanted is None
            else tuple(
                m.ElectLeadersRequestTopicPartitions(topic=name, partitions=tuple(indexes))
                for name, indexes in wanted.items()
            )
        )
        request = m.ElectLeadersRequest(election_type=election, topic_partitions=topics)
        response = self.commit(self.elections.elect_leaders(self.image, request))
        return {
            (topic.topic, result.partition_id): result.error_code
            for topic in response.replica_election_results
            for result in topic.partition_result
        }

    def set_unclean(self, name: str, enabled: str = "true") -> None:
        self.set_config(TOPIC, name, "unclean.leader.election.enable", enabled)

    def registration_changes(self, records: Iterable[MetadataRecord]) -> list[BrokerRegistrationChangeRecord]:
        return [record for record in records if isinstance(record, BrokerRegistrationChangeRecord)]
