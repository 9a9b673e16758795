"""Random histories of a small cluster: the partition invariants hold after each step.

Every record is checked as it is replayed (partition_invariants). After each step the whole image is checked: every
leader may lead, and no partition lacks a leader that it could have. Topics named "clean…" never allow unclean
elections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from kraft_core.protocol.metadata_records import TopicRecord
from tests.controller.partitions.replication_context import ReplicationContext, directory_of
from tests.controller.partitions.test_replication_brokers import assign

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from kraft_core.image.topics_image import PartitionRegistration
    from kraft_core.protocol.metadata_records import MetadataRecord

BROKERS = range(5)
NAMES = ("clean-1", "clean_2", "dirty.1", "dirty2")
PREFERRED, UNCLEAN = 0, 1

some_broker = st.sampled_from(BROKERS)
some_name = st.sampled_from(NAMES)
some_index = st.integers(0, 3)
some_replicas = st.lists(some_broker, min_size=1, max_size=4, unique=True)


class ClusterLife(RuleBasedStateMachine):
    elr = False

    @initialize(seed=st.integers(0, 2**16), min_isr=st.integers(1, 3))
    def begin(self, seed: int, min_isr: int) -> None:
        self.context = ReplicationContext(brokers=(), elr=self.elr, seed=seed, min_insync_replicas=min_isr)
        self.seen: set[UUID] = set()
        for broker_id in BROKERS:
            self.register(broker_id)
            self.context.unfence(broker_id)

    def register(self, broker_id: int) -> None:
        directories = (directory_of(broker_id, 1), directory_of(broker_id, 2))
        self.context.register(broker_id, rack=f"rack-{broker_id % 2}", directories=directories)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            if isinstance(record, TopicRecord):
                assert record.topic_id not in self.seen, "28: a topic id came back"
                self.seen.add(record.topic_id)
        self.context.apply(records)

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        topic = self.context.image.topics.topic(name)
        return None if topic is None else topic.partitions.get(index)

    def is_active(self, broker_id: int) -> bool:
        broker = self.context.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.active

    # -- topics

    @rule(name=some_name, partitions=st.integers(1, 4), factor=st.integers(1, 5))
    def create(self, name: str, partitions: int, factor: int) -> None:
        result = self.context.create(name, partitions, factor)
        if result.error_code == 0:
            assert result.topic_id not in self.seen, "28: a topic id came back"
            self.seen.add(result.topic_id)

    @rule(name=some_name)
    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=(DeleteTopicsRequestDeleteTopicState(name=name),))
        self.apply(self.context.delete_topics(request, 6).records)

    @rule(name=some_name, count=st.integers(1, 4))
    def grow(self, name: str, count: int) -> None:
        topic_change = CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=(topic_change,))
        self.apply(self.context.topics.create_partitions(self.context.image, request).records)

    # -- brokers

    @rule(broker_id=some_broker)
    def fence(self, broker_id: int) -> None:
        if not self.context.image.cluster.brokers[broker_id].fenced:
            self.context.fence(broker_id)

    @rule(broker_id=some_broker)
    def unfence(self, broker_id: int) -> None:
        broker = self.context.image.cluster.brokers[broker_id]
        if broker.fenced and not broker.in_controlled_shutdown:
            self.context.unfence(broker_id)

    @rule(broker_id=some_broker)
    def shut_down(self, broker_id: int) -> None:
        if self.is_active(broker_id):
            self.context.shut_down(broker_id)

    @rule(broker_id=some_broker, is_clean=st.booleans())
    def restart(self, broker_id: int, is_clean: bool) -> None:
        records = self.context.manager.handle_broker_shutdown(self.context.image, broker_id, is_clean=is_clean)
        self.apply(records)
        self.register(broker_id)

    @rule(broker_id=some_broker, number=st.sampled_from([1, 2]))
    def lose_directory(self, broker_id: int, number: int) -> None:
        if len(self.context.image.cluster.brokers[broker_id].directories) == 2:
            self.context.lose_directories(broker_id, directory_of(broker_id, number))

    @rule(name=some_name, index=some_index, broker_id=some_broker, number=st.sampled_from([1, 2]))
    def place_replica(self, name: str, index: int, broker_id: int, number: int) -> None:
        topic = self.context.image.topics.topic(name)
        if topic is not None:
            assign(self.context, broker_id, {directory_of(broker_id, number): [topic.id]}, index=index)

    # -- leaders

    @rule(name=some_name, index=some_index, isr=some_replicas)
    def alter_isr(self, name: str, index: int, isr: list[int]) -> None:
        partition = self.partition(name, index)
        if partition is not None and partition.leader != -1:
            self.context.alter_partition(name, [partition.leader, *isr], index=index)
            self.context.alter_partition(name, sorted({partition.leader, *isr}), index=index, sender=partition.leader)

    @rule(name=some_name, index=some_index)
    def catch_up(self, name: str, index: int) -> None:
        """Add every live replica to the ISR, as followers do."""
        partition = self.partition(name, index)
        if partition is not None and partition.leader != -1:
            alive = [replica for replica in partition.replicas if self.is_active(replica)]
            self.context.alter_partition(name, alive, index=index)

    @rule(name=some_name, index=some_index, wanted=st.none() | some_replicas)
    def reassign(self, name: str, index: int, wanted: list[int] | None) -> None:
        self.context.reassign(name, wanted, index=index)

    @rule()
    def elect_preferred(self) -> None:
        self.context.elect(PREFERRED, None)

    @rule(name=st.sampled_from(NAMES[2:]), index=some_index)
    def elect_unclean(self, name: str, index: int) -> None:
        self.context.elect(UNCLEAN, {name: [index]})

    @rule()
    def balance(self) -> None:
        self.context.commit(self.context.elections.maybe_balance_partition_leaders(self.context.image))

    @rule()
    def recover_uncleanly(self) -> None:
        self.context.commit(self.context.elections.maybe_elect_unclean_leaders(self.context.image))

    # -- configs

    @rule(name=st.sampled_from(NAMES[2:]), value=st.sampled_from(["true", "false"]))
    def allow_unclean(self, name: str, value: str) -> None:
        if name in self.context.image.topics.by_name:
            self.alter_config(TOPIC, name, "unclean.leader.election.enable", value)

    @rule(name=st.sampled_from(["", *NAMES]), value=st.integers(1, 4))
    def set_min_isr(self, name: str, value: int) -> None:
        if not name or name in self.context.image.topics.by_name:
            self.alter_config(TOPIC if name else BROKER, name, "min.insync.replicas", str(value))

    def alter_config(self, kind: int, name: str, key: str, value: str) -> None:
        operations: dict[str, tuple[int, str | None]] = {key: (0, value)}
        self.apply(self.context.configs.incremental_alter_resource(self.context.image, kind, name, operations))

    # -- invariants

    @invariant()
    @precondition(lambda self: hasattr(self, "context"))
    def leaders_may_lead_and_nobody_waits_in_vain(self) -> None:
        image = self.context.image
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                where = f"{topic.name}-{index}: {partition}"
                if partition.leader != -1:
                    assert self.may_lead(partition, partition.leader), f"24, 30: {where}"
                else:
                    eligible = partition.isr or partition.elr
                    assert not any(self.may_lead(partition, replica) for replica in eligible), f"waits in vain: {where}"
                if topic.name.startswith("clean") and not self.elr:
                    assert partition.leader_recovery_state == 0, f"26: {where}"
                if not self.elr:
                    assert partition.isr, f"the last member left: {where}"
                    assert partition.elr == partition.last_known_elr == (), where

    def may_lead(self, partition: PartitionRegistration, broker_id: int) -> bool:
        directory = partition.directory(broker_id)
        broker = self.context.image.cluster.brokers[broker_id]
        return broker.active and directory is not None and broker.has_online_dir(directory)


class ClusterLifeWithElr(ClusterLife):
    elr = True


@pytest.mark.parametrize("machine", [ClusterLife, ClusterLifeWithElr], ids=["without ELR", "with ELR"])
def test_invariants_23_to_28_hold_in_random_histories(machine: type[ClusterLife]) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]  # Hypothesis leaves it untyped
        machine,
        settings=settings(
            max_examples=120,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
