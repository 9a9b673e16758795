"""The administrators of the virtual cluster, and checks of their acknowledged changes: durable and atomic.

Requests go over the virtual network to the presumed active controller. Numbers are those of
docs/invariants.md.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.protocol import messages as m
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_version import FEATURES, METADATA_VERSION
from kraft_core.protocol.wire import Message
from tests.simulator.invariant import check
from tests.simulator.metadata_model import ELR, UNCLEAN, MetadataModel
from tests.simulator.network import Network
from tests.simulator.sim_broker import SimBroker
from tests.simulator.sim_client import SimClient
from tests.simulator.sim_node import SimNode
from tests.simulator.world import World

ADMIN_ID = 99
TOPICS = 12
PREFERRED, UNCLEAN_ELECTION = 0, 1
SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
NEWEST = 30
MIN_ISR = "min.insync.replicas"
MEMORY = "retention.ms"
"""A config with unique values, so that a response shows which write it reflects."""

OPERATIONS = {
    "create_topics": 6,
    "delete_topics": 3,
    "create_partitions": 2,
    "alter_configs": 4,
    "reassign": 4,
    "cancel_reassignments": 2,
    "elect": 3,
    "read": 6,
    "producer_ids": 3,
    "acls": 1,
    "quotas": 1,
    "scram": 1,
    "features": 1,
    "register_controllers": 1,
    "unregister_broker": 1,
}
"""Relative frequency of each operation."""


class AdminLoad(SimClient):
    """An administrator that does not wait for responses."""

    def __init__(
        self, world: World, network: Network, nodes: list[SimNode], model: MetadataModel, brokers: list[SimBroker]
    ) -> None:
        super().__init__(world, network, nodes, ADMIN_ID)
        self.random = world.random
        self.model, self.brokers = model, brokers
        self.acknowledged = self.refused = 0
        self.is_on = True
        self._number = 0
        self._highest = -1  # acknowledged offset
        self._acknowledged_by: dict[tuple[int, int], int] = {}  # (node, incarnation) -> offset
        self._wanted: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self._unwanted: set[str | UUID] = set()
        model.on_topic, model.on_removal = self._on_topic, self._on_removal
        for broker in brokers:
            broker.on_block = self._on_block
            broker.committed_end = lambda: self._highest

    def act(self, mean_us: int) -> None:
        """Run an operation, and another after some time."""
        if self.is_on:
            name = self.random.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
            operation: Callable[[], None] = getattr(self, name)
            operation()
        self.later(self.random.randint(1, 2 * mean_us), self.act, mean_us)

    # --- acknowledgements -------------------------------------------------------------------------------------------

    def _request(self, message: Message, on_answer: Callable[[SimNode, int, Any], None]) -> None:
        """Send a request; `on_answer` gets the node, the highest offset acknowledged before it, and the response."""
        before = self._highest
        self.ask(message, lambda node, answer: on_answer(node, before, answer), lambda: None)

    def _promised(self, node: SimNode, before: int, offset: int | None, what: object) -> None:
        """Check 13 and 15: an acknowledged change is committed, after all changes acknowledged before its request."""
        check(offset is not None, "acknowledged, but nowhere in the log", node, what)
        assert offset is not None
        check(offset <= self.model.offset, "acknowledged before it was committed", node, what, offset)
        check(offset > before, "acknowledged out of real-time order", node, what, offset, before)
        self.acknowledged += 1
        self._highest = max(self._highest, offset)
        key = (node.id, node.incarnation)
        self._acknowledged_by[key] = max(self._acknowledged_by.get(key, -1), offset)

    def _is_refused(self, node: SimNode, code: int, expected: set[ErrorCode]) -> bool:
        """Report whether a response is an error; unexpected errors fail."""
        if code == ErrorCode.NONE:
            return False
        self.refused += 1
        known = self.is_refused(node, code) or code in expected or code == ErrorCode.REQUEST_TIMED_OUT
        check(known, "an unexpected error", node, ErrorCode(code).name)
        return True

    def _on_topic(self, name: str, topic_id: UUID) -> None:
        """Check 14: a new topic matches its request completely."""
        count = len(self.model.indexes[topic_id])
        values = self.model.configs.get((TOPIC, name), {})
        wanted_topics = self._wanted.get(name, ())
        whole = any(count >= wanted and set(configs) <= set(values) for wanted, configs in wanted_topics)
        check(whole, "an unrequested topic, or half of one", name, count, values, wanted_topics)

    def _on_removal(self, name: str, topic_id: UUID) -> None:
        check(name in self._unwanted or topic_id in self._unwanted, "deleted a topic unasked", name, topic_id)

    def _on_block(self, node: SimNode, before: int, answer: m.AllocateProducerIdsResponse) -> None:
        """Check 29: each block is allocated once, in real-time order."""
        first = answer.producer_id_start
        offset = self.model.blocks.pop(first, None)  # a second response with this block finds nothing
        self._promised(node, before, offset, first)

    # --- topics -----------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        return f"topic{self.random.randrange(TOPICS)}"

    def _next_number(self) -> str:
        self._number += 1
        return str(1_000_000 + self._number)

    def _some_brokers(self) -> tuple[int, ...]:
        ids = [broker.id for broker in self.brokers]
        return tuple(self.random.sample(ids, self.random.randint(1, len(ids))))

    def create_topics(self) -> None:
        """Create one or two topics, with or without manual assignment."""
        topics = []
        for name in {self._name(): None for _ in range(self.random.choice([1, 1, 2]))}:
            configs = {MEMORY: self._next_number()}
            if self.random.random() < 0.3:
                configs[UNCLEAN] = self.random.choice(["true", "false"])
            if self.random.random() < 0.3:
                configs[MIN_ISR] = self.random.choice(["1", "2"])
            count = self.random.randint(1, 4)
            assignments: tuple[m.CreateTopicsRequestCreatableReplicaAssignment, ...] = ()
            if self.random.random() < 0.5:
                factor = len(self._some_brokers())
                ids = [broker.id for broker in self.brokers]
                assignments = tuple(
                    m.CreateTopicsRequestCreatableReplicaAssignment(
                        partition_index=index, broker_ids=tuple(self.random.sample(ids, factor))
                    )
                    for index in range(count)
                )
            self._wanted.setdefault(name, []).append((count, configs))
            topics.append(
                m.CreateTopicsRequestCreatableTopic(
                    name=name,
                    num_partitions=-1 if assignments else count,
                    replication_factor=-1 if assignments else self.random.randint(1, min(3, len(self.brokers))),
                    assignments=assignments,
                    configs=tuple(
                        m.CreateTopicsRequestCreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ),
                )
            )
        self._request(m.CreateTopicsRequest(topics=tuple(topics)), self._on_created)

    def _on_created(self, node: SimNode, before: int, answer: m.CreateTopicsResponse) -> None:
        for each in answer.topics:
            if self._is_refused(
                node,
                each.error_code,
                {
                    ErrorCode.TOPIC_ALREADY_EXISTS,
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                },
            ):
                if each.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    self._check_existed(node, each.name, -1)
                continue
            life = self.model.topics.get(each.topic_id)
            check(life is None or life.name == each.name, "an id of another topic", node, each)
            self._promised(node, before, None if life is None else life.created, each)

    def delete_topics(self) -> None:
        """Delete topics by name or by id."""
        name = self._name()
        topic_id = self.model.by_name.get(name)
        if topic_id is not None and self.random.random() < 0.5:
            state = m.DeleteTopicsRequestDeleteTopicState(name=None, topic_id=topic_id)
            self._unwanted.add(topic_id)
        else:
            state = m.DeleteTopicsRequestDeleteTopicState(name=name)
            self._unwanted.add(name)
        self._request(m.DeleteTopicsRequest(topics=(state,)), self._on_deleted)

    def _on_deleted(self, node: SimNode, before: int, answer: m.DeleteTopicsResponse) -> None:
        for each in answer.responses:
            unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
            if self._is_refused(node, each.error_code, unknown):
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and each.name is not None:
                    self._check_missed(node, each.name, -1)
                continue
            life = self.model.topics.get(each.topic_id)
            check(life is not None, "an unknown topic was deleted", node, each)
            assert life is not None
            self._promised(node, before, life.deleted, each)

    def create_partitions(self) -> None:
        """Add one or two partitions."""
        name = self._name()
        topic_id = self.model.by_name.get(name)
        if topic_id is None:
            return
        count = len(self.model.indexes[topic_id]) + self.random.randint(1, 2)
        topic = m.CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=None)

        def on_answer(node: SimNode, _: int, answer: m.CreatePartitionsResponse) -> None:
            for each in answer.results:
                expected = {
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.INVALID_PARTITIONS,
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                }
                if not self._is_refused(node, each.error_code, expected) and topic_id in self.model.indexes:
                    has = len(self.model.indexes[topic_id])
                    check(has >= count, "acknowledged partitions are missing", node, name, has, count)

        self._request(m.CreatePartitionsRequest(topics=(topic,)), on_answer)

    # --- configs --------------------------------------------------------------------------------------------------

    def alter_configs(self) -> None:
        """Alter a config of a topic, or the default of all brokers."""
        name = self._name()
        if self.random.random() < 0.2:
            kind, resource = self.random.choice([(TOPIC, name), (BROKER, "")])
            self._alter_config(kind, resource, MIN_ISR, self.random.choice(["1", "2", "3"]), is_unique=False)
        elif self.random.random() < 0.3:
            self._alter_config(BROKER, "", UNCLEAN, self.random.choice(["true", "false"]), is_unique=False)
        elif self.random.random() < 0.5:
            self._alter_config(TOPIC, name, UNCLEAN, self.random.choice(["true", "false", None]), is_unique=False)
        else:
            self._alter_config(TOPIC, name, MEMORY, self._next_number(), is_unique=True)

    def _alter_config(self, kind: int, name: str, key: str, value: str | None, *, is_unique: bool) -> None:
        resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(
                m.IncrementalAlterConfigsRequestAlterableConfig(
                    name=key, config_operation=DELETE if value is None else SET, value=value
                ),
            ),
        )

        def on_answer(node: SimNode, before: int, answer: m.IncrementalAlterConfigsResponse) -> None:
            code = answer.responses[0].error_code
            if not self._is_refused(node, code, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}) and is_unique:
                self._promised(node, before, self.model.set_at.get((kind, name, key, value or "")), (name, key, value))

        self._request(m.IncrementalAlterConfigsRequest(resources=(resource,)), on_answer)

    def read(self) -> None:
        """Check 16: describe the configs of a topic on any controller."""
        name = self._name()
        node = self.random.choice(self.nodes)
        resource = m.DescribeConfigsRequestDescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=(MEMORY,)
        )
        low = self._acknowledged_by.get((node.id, node.incarnation), -1)

        def on_answer(node: SimNode, answer: m.DescribeConfigsResponse) -> None:
            result = answer.results[0]
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._check_missed(node, name, low)
                return
            if self._is_refused(node, result.error_code, set()):
                return
            self._check_existed(node, name, low)
            value = result.configs[0].value
            written = self.model.set_at.get((TOPIC, name, MEMORY, value or ""))
            check(written is not None, "read what is not committed", node, name, value)
            assert written is not None
            newer = [
                offset
                for (_, topic, key, _), offset in self.model.set_at.items()
                if (topic, key) == (name, MEMORY) and written < offset <= low
            ]
            check(not newer, "read what was older than an acknowledgement", node, name, value, written, newer)

        self.ask(m.DescribeConfigsRequest(resources=(resource,)), on_answer, lambda: None, node=node)

    def _check_existed(self, node: SimNode, name: str, low: int) -> None:
        lives = [life for life in self.model.topics.values() if life.name == name]
        existed = any(life.created <= self.model.offset and life.deleted > low for life in lives)
        check(existed, "a missing topic was reported", node, name, low, lives)

    def _check_missed(self, node: SimNode, name: str, low: int) -> None:
        lives = [life for life in self.model.topics.values() if life.name == name]
        there = any(life.created <= low and life.deleted > self.model.offset for life in lives)
        check(not there, "an existing topic was reported missing", node, name, low, lives)

    # --- partitions -------------------------------------------------------------------------------------------------

    def _some_partition(self) -> tuple[str, int] | None:
        if not self.model.partitions:
            return None
        topic_id, index = self.random.choice(sorted(self.model.partitions))
        return self.model.topics[topic_id].name, index

    def _reassign(self, found: tuple[str, int], replicas: tuple[int, ...] | None) -> None:
        partition = m.AlterPartitionReassignmentsRequestReassignablePartition(
            partition_index=found[1], replicas=replicas
        )
        topic = m.AlterPartitionReassignmentsRequestReassignableTopic(name=found[0], partitions=(partition,))

        def on_answer(node: SimNode, _: int, answer: m.AlterPartitionReassignmentsResponse) -> None:
            codes = [answer.error_code, *(each.error_code for it in answer.responses for each in it.partitions)]
            for code in codes:
                expected = {
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                }
                self._is_refused(node, code, expected)

        self._request(m.AlterPartitionReassignmentsRequest(topics=(topic,)), on_answer)

    def reassign(self) -> None:
        """Reassign a partition to other brokers."""
        found = self._some_partition()
        if found is not None:
            self._reassign(found, self._some_brokers())

    def cancel_reassignments(self) -> None:
        """Cancel the reassignments in progress."""
        moving = sorted(key for key, it in self.model.partitions.items() if it.adding_replicas or it.removing_replicas)
        if moving:
            topic_id, index = self.random.choice(moving)
            self._reassign((self.model.topics[topic_id].name, index), None)

    def elect(self) -> None:
        """Elect leaders, usually preferred ones, of one partition or of all."""
        found = self._some_partition()
        if found is None:
            return
        if self.random.random() < 0.3:
            self.elect_unclean(*found)
            return
        one = m.ElectLeadersRequestTopicPartitions(topic=found[0], partitions=(found[1],))
        wanted = None if self.random.random() < 0.3 else (one,)
        self._request(m.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted), self._ignore)

    def elect_unclean(self, topic: str, index: int) -> None:
        """Elect any live replica."""
        self.model.asked_unclean.add((topic, index))
        one = m.ElectLeadersRequestTopicPartitions(topic=topic, partitions=(index,))
        self._request(m.ElectLeadersRequest(election_type=UNCLEAN_ELECTION, topic_partitions=(one,)), self._ignore)

    def producer_ids(self) -> None:
        """Allocate a block to a broker."""
        self.random.choice(self.brokers).allocate_producer_ids()

    # --- the rest -----------------------------------------------------------------------------------------------------

    def acls(self) -> None:
        """Create an ACL, or delete all of a user."""
        user = f"User:{self.random.randrange(4)}"
        if self.random.random() < 0.7:
            creation = m.CreateAclsRequestAclCreation(
                resource_type=ResourceType.TOPIC,
                resource_name=self._name(),
                resource_pattern_type=PatternType.LITERAL,
                principal=user,
                host="*",
                operation=AclOperation.READ,
                permission_type=AclPermissionType.ALLOW,
            )
            self._request(m.CreateAclsRequest(creations=(creation,)), self._ignore)
            return
        match = m.DeleteAclsRequestDeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=user,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        self._request(m.DeleteAclsRequest(filters=(match,)), self._ignore)

    def quotas(self) -> None:
        """Set a quota of a user, or remove it."""
        entity = m.AlterClientQuotasRequestEntityData(entity_type="user", entity_name=str(self.random.randrange(4)))
        change = m.AlterClientQuotasRequestOpData(
            key="producer_byte_rate", value=float(self.random.randint(1, 9)), remove=self.random.random() < 0.3
        )
        entry = m.AlterClientQuotasRequestEntryData(entity=(entity,), ops=(change,))
        self._request(m.AlterClientQuotasRequest(entries=(entry,)), self._ignore)

    def scram(self) -> None:
        """Set the SCRAM credential of a user, or delete it."""
        name = f"user{self.random.randrange(4)}"
        if self.random.random() < 0.3:
            deletion = m.AlterUserScramCredentialsRequestScramCredentialDeletion(name=name, mechanism=1)
            self._request(m.AlterUserScramCredentialsRequest(deletions=(deletion,)), self._ignore)
            return
        upsertion = m.AlterUserScramCredentialsRequestScramCredentialUpsertion(
            name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=self.random.randbytes(32)
        )
        self._request(m.AlterUserScramCredentialsRequest(upsertions=(upsertion,)), self._ignore)

    def features(self) -> None:
        """Enable or disable eligible leader replicas, or upgrade metadata.version."""
        name, level = self.random.choice([(ELR, 0), (ELR, 1), (ELR, 1), (METADATA_VERSION, NEWEST)])
        update = m.UpdateFeaturesRequestFeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=UPGRADE if level else SAFE_DOWNGRADE
        )
        self._request(m.UpdateFeaturesRequest(feature_updates=(update,)), self._ignore)

    def register_controllers(self) -> None:
        """Register the controllers, as each does itself."""
        for node in self.nodes:
            request = m.ControllerRegistrationRequest(
                controller_id=node.id,
                incarnation_id=UUID(int=1 << 100 | node.id),
                listeners=(
                    m.ControllerRegistrationRequestListener(name="CONTROLLER", host=f"host{node.id}", port=9093),
                ),
                features=tuple(
                    m.ControllerRegistrationRequestFeature(
                        name=name, min_supported_version=feature.minimum, max_supported_version=feature.maximum
                    )
                    for name, feature in sorted(FEATURES.items())
                ),
            )
            self._request(request, self._ignore)

    def unregister_broker(self) -> None:
        """Unregister a broker that is down."""
        down = [broker for broker in self.brokers if not broker.is_up]
        if down:
            self._request(m.UnregisterBrokerRequest(broker_id=self.random.choice(down).id), self._ignore)

    def _ignore(self, node: SimNode, _: int, answer: Any) -> None:
        self.is_refused(node, getattr(answer, "error_code", ErrorCode.NONE))
