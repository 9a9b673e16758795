"""Random histories of partitions: fencing, ISR changes, reassignments and elections.

Each request is tried first on a controller in memory, which knows the leaders and epochs that the next one needs. Left
out are departures from Apache's controller (docs/architecture.md): brokers that shut down, a new target for a moving
partition, replicas that come online without a leader, and reassignments with eligible leader replicas. Topics are not
deleted: Apache's controller fails when a broker loses a directory that had a replica of a deleted topic.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    BrokerHeartbeatRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
)
from kraft_core.protocol.wire import Message
from tests.controller.active_controller import CLUSTER, ActiveController
from tests.interop.answers.controller_requests.brokers import heartbeat, registration
from tests.interop.answers.controller_requests.case import (
    BROKER,
    SET,
    TIMEOUT_MS,
    TOPIC,
    Case,
    Known,
    directory_of,
    fixed,
)
from tests.interop.answers.controller_requests.configs import incremental
from tests.interop.answers.controller_requests.partitions import listing, reassignment
from tests.interop.answers.controller_requests.topics import creation, more, topic

BROKERS = (201, 202, 203, 204, 205)
ELR = "eligible.leader.replicas.version"


class History:
    """One history, as a growing list of requests. `with_elr`: eligible leader replicas instead of reassignments."""

    def __init__(self, seed: int, *, with_elr: bool) -> None:
        self.cases: list[Case] = []
        self._random = Random(seed)
        self._prefix = f"{'elr' if with_elr else 'move'}-{seed}"
        self._with_elr = with_elr
        self._model = ActiveController(session_timeout_ms=2**40, auto_leader_rebalance_enable=False)
        self._known = Known(CLUSTER)
        self._created = 0
        level = UpdateFeaturesRequestFeatureUpdateKey(
            feature=ELR, max_version_level=int(with_elr), upgrade_type=1 if with_elr else 2
        )
        self._add("ELR", lambda _: UpdateFeaturesRequest(feature_updates=(level,)), 2)
        for broker_id in BROKERS:
            dirs = (directory_of(broker_id), directory_of(broker_id, 1))
            self._add("register", lambda known, b=broker_id, d=dirs: registration(b, known.cluster_id, log_dirs=d), 4)
            self._beat(broker_id)
        self._create()

    def go_on(self, steps: int) -> None:
        """Add random requests."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (2, self._create),
            (6, lambda: self._beat(self._random.choice(BROKERS))),
            (5, lambda: self._beat(self._random.choice(BROKERS), fence=True)),
            (12, self._alter_isr),
            (4, self._elect),
            (2, self._configure),
            (2, self._grow),
            (3, self._assign),
            (1, self._lose_directory),
        ]
        if not self._with_elr:
            actions.append((8, self._reassign))
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            self._random.choices(actions, weights)[0][1]()

    def _add(self, name: str, build: Callable[[Known], Message], version: int) -> None:
        """Add a request and apply it."""
        answer: Any = self._model.ask(build(self._known), version)
        if hasattr(answer, "broker_epoch") and not answer.error_code:
            self._known.broker_epochs[BROKERS[len(self._known.broker_epochs)]] = answer.broker_epoch
        self._known.topic_ids = dict(self._model.tip.topics.by_name.items())
        self.cases.append(Case(f"{len(self.cases)} {name}", build, version))

    def _topics(self) -> list[str]:
        return sorted(self._model.tip.topics.by_name)

    def _partition(self) -> tuple[str, int, Any] | None:
        names = self._topics()
        if not names:
            return None
        name = self._random.choice(names)
        found = self._model.tip.topics.topic(name)
        assert found is not None
        index = self._random.choice(sorted(found.partitions))
        return name, index, found.partitions[index]

    def _replicas(self, count: int) -> tuple[int, ...]:
        return tuple(self._random.sample(BROKERS, count))

    def _create(self) -> None:
        factor, self._created = self._random.choice((1, 2, 3, 3)), self._created + 1
        name = f"{self._prefix}-{self._created}"
        assignments = [self._replicas(factor) for _ in range(self._random.randint(1, 3))]
        self._add(f"create {assignments}", lambda _: creation(topic(name, *assignments)), 7)

    def _grow(self) -> None:
        chosen = self._partition()
        if chosen is not None:
            name, _, partition = chosen
            found = self._model.tip.topics.topic(name)
            assert found is not None
            count = len(found.partitions)
            replicas = self._replicas(len(partition.replicas))
            factors = {len(each.replicas) for each in found.partitions.values()}
            if count < 6 and len(factors) == 1:  # else Apache may choose any of them
                self._add(f"grow {name} {replicas}", lambda _: more(name, count + 1, replicas), 3)

    def _beat(self, broker_id: int, *, fence: bool = False) -> None:
        words = f"heartbeat {broker_id}, fence {fence}"
        self._add(words, lambda known: heartbeat(broker_id, known.epoch(broker_id), fence=fence), 1)

    def _lose_directory(self) -> None:
        broker_id = self._random.choice(BROKERS)
        if self._model.tip.cluster.brokers[broker_id].fenced:
            return

        def build(known: Known) -> Message:
            return BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=known.epoch(broker_id),
                current_metadata_offset=2**60,
                offline_log_dirs=(directory_of(broker_id, 1),),
            )

        self._add(f"{broker_id} loses a directory", build, 1)

    def _assign(self) -> None:
        chosen = self._partition()
        if chosen is None:
            return
        name, index, partition = chosen
        if partition.leader < 0:
            return
        broker_id = self._random.choice((*partition.replicas, self._random.choice(BROKERS)))
        directory = directory_of(broker_id, self._random.choice((0, 0, 1, 1, 7)))

        def build(known: Known) -> Message:
            data = AssignReplicasToDirsRequestTopicData(
                topic_id=known.topic(name),
                partitions=(AssignReplicasToDirsRequestPartitionData(partition_index=index),),
            )
            return AssignReplicasToDirsRequest(
                broker_id=broker_id,
                broker_epoch=known.epoch(broker_id),
                directories=(AssignReplicasToDirsRequestDirectoryData(id=directory, topics=(data,)),),
            )

        self._add(f"assign {name}-{index} of {broker_id} to {directory}", build, 0)

    def _alter_isr(self) -> None:
        chosen = self._partition()
        if chosen is None:
            return
        name, index, partition = chosen
        leader = partition.leader if partition.leader >= 0 else self._random.choice(partition.replicas)
        others = [each for each in partition.replicas if each != leader]
        isr = [leader, *self._random.sample(others, self._random.randint(0, len(others)))]
        late = self._random.choice((0, 0, 0, 0, 0, 1))
        version = self._random.choice((2, 3, 3, 3))
        leader_epoch, partition_epoch = partition.leader_epoch, partition.partition_epoch - late

        def build(known: Known) -> Message:
            data = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=leader_epoch,
                new_isr=tuple(isr) if version == 2 else (),
                new_isr_with_epochs=tuple(
                    AlterPartitionRequestBrokerState(broker_id=each, broker_epoch=known.epoch(each))
                    for each in (isr if version > 2 else ())
                ),
                leader_recovery_state=0,
                partition_epoch=partition_epoch,
            )
            topics = (AlterPartitionRequestTopicData(topic_id=known.topic(name), partitions=(data,)),)
            return AlterPartitionRequest(broker_id=leader, broker_epoch=known.epoch(leader), topics=topics)

        self._add(f"ISR of {name}-{index} is {isr}", build, version)

    def _elect(self) -> None:
        chosen = self._partition()
        if chosen is None:
            return
        name, index, _ = chosen
        kind = self._random.choice((0, 0, 1)) if self._with_elr else 0
        wanted = ElectLeadersRequestTopicPartitions(topic=name, partitions=(index,))
        request = ElectLeadersRequest(election_type=kind, topic_partitions=(wanted,), timeout_ms=TIMEOUT_MS)
        self._add(f"elect {kind} in {name}-{index}", lambda _: request, 2)

    def _configure(self) -> None:
        names = self._topics()
        value = str(self._random.randint(1, 3))
        if self._with_elr and self._random.random() < 0.2:
            request = incremental(BROKER, "", ("min.insync.replicas", SET, value))
        elif names and self._with_elr and self._random.random() < 0.4:
            allowed = self._random.choice(("true", "false"))
            request = incremental(TOPIC, self._random.choice(names), ("unclean.leader.election.enable", SET, allowed))
        elif names:
            request = incremental(TOPIC, self._random.choice(names), ("min.insync.replicas", SET, value))
        else:
            return
        self._add("configure", lambda _: request, 1)

    def _reassign(self) -> None:
        chosen = self._partition()
        if chosen is None:
            return
        name, index, partition = chosen
        target: tuple[int, ...] | None = self._replicas(self._random.randint(1, 4))
        if partition.is_reassigning:
            if self._random.random() < 0.7:
                return
            target = None
        self._add(f"move {name}-{index} to {target}", lambda _: reassignment(name, (index, target)), 1)
        self.cases.append(fixed("list", listing(), 0))


def history(seed: int, steps: int = 300, *, with_elr: bool) -> list[Case]:
    """Return a random history of so many requests. Equal seeds give equal histories."""
    made = History(seed, with_elr=with_elr)
    made.go_on(steps)
    return made.cases
