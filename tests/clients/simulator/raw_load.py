"""A client that is a NetworkClient alone: sends requests of a few kinds to random nodes, and counts what comes back."""

from random import Random
from typing import TYPE_CHECKING, Any

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig, NodeRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message
from tests.clients.simulator.produce_apis import ALL
from tests.clients.simulator.sim_cluster import SimCluster
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.clients.simulator.scenario import Scenario

SLACK_MS = 1.0


class RawCore:
    """The core of the client, with its checks. `random` is the client's own."""

    def __init__(self, cluster: SimCluster, random: Random, process_id: int) -> None:
        self.random = random
        self.cluster = cluster
        self.metadata_config = MetadataConfig(
            metadata_max_age_ms=random.choice([700, 5_000, 300_000]),
            rebootstrap_trigger_ms=random.choice([1_500, 300_000]),
        )
        self.config = NetworkConfig(
            client_id=f"raw-{process_id}",
            request_timeout_ms=random.choice([400, 1_500, 30_000]),
            socket_connection_setup_timeout_ms=random.choice([300, 1_000]),
            socket_connection_setup_timeout_max_ms=2_000,
            connections_max_idle_ms=random.choice([300, 5_000, 540_000]),
            max_in_flight_requests_per_connection=random.choice([1, 2, 5]),
        )
        addresses = [broker.address for broker in cluster.brokers.values()]
        bootstrap = random.sample(addresses, random.randint(1, len(addresses)))
        self.metadata = ClientMetadata(bootstrap, self.metadata_config, random)
        self.metadata.want(cluster.topic_ids)
        self.network = NetworkClient(self.metadata, random, self.config)
        self.sent: list[NodeRequest] = []
        self.waiting: list[NodeRequest] = []
        self.completed = self.answered = 0
        self.acknowledged: list[tuple[TopicPartition, bytes]] = []
        self.is_asking = True
        self._count = 0
        self._next_ms = 0.0
        self.id = process_id

    # ClientCore

    def step(self, now_ms: float) -> None:
        for request in self.network.take_completed():
            self._take(request, now_ms)
        self._check_limits(now_ms)
        if self.is_asking and now_ms >= self._next_ms:
            self._next_ms = now_ms + self.random.choice([5, 20, 150])
            self._ask(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        return max(self._next_ms, now_ms) if self.is_asking else None

    # Requests

    def _ask(self, now_ms: float) -> None:
        nodes = list(self.network.metadata.all_nodes())
        logs = sorted(self.cluster.logs)
        kind = self.random.choice(["find", "metadata", "produce", "produce", "least"])
        if kind == "least":
            node = self.network.least_loaded_node(now_ms)
        elif kind == "produce":
            partition = self.random.choice(logs)
            node = self.metadata.leader_of(partition)
        else:
            node = self.random.choice(nodes)
        if node is None or not self.network.is_ready(node.id, now_ms):
            return
        context: object = None
        message: Message = FindCoordinatorRequest(key="g", coordinator_keys=("g",))
        if kind == "metadata":
            message = MetadataRequest(topics=None)
        elif kind == "produce":
            message, context = self._produce(partition)
        timeout_ms = self.random.choice([None, None, 50, 700])
        low = 4 if isinstance(message, FindCoordinatorRequest) else 0
        high = 12 if isinstance(message, ProduceRequest) and message.topic_data[0].topic_id == ZERO_UUID else None
        request = NodeRequest(node.id, message, context, timeout_ms=timeout_ms, min_version=low, max_version=high)
        self.sent.append(request)
        self.waiting.append(request)
        self.network.send(request, now_ms)

    def _produce(self, partition: TopicPartition) -> tuple[ProduceRequest, object]:
        self._count += 1
        value = f"{self.id}-{self._count}".encode()
        acks = self.random.choice([ALL, ALL, 1])
        batch = encode_batch(0, -1, self.cluster.now_ms, [value] * self.random.randint(1, 3))
        data = ProduceRequestTopicProduceData(
            name=partition.topic,
            topic_id=self.metadata.topic_id(partition.topic),
            partition_data=(ProduceRequestPartitionProduceData(index=partition.partition, records=batch),),
        )
        return ProduceRequest(acks=acks, timeout_ms=300, topic_data=(data,)), (partition, value, acks)

    # Checks

    def _take(self, request: NodeRequest, now_ms: float) -> None:
        check(request in self.waiting, "a request is completed twice, or was never sent", request.message)
        self.waiting.remove(request)
        self.completed += 1
        check((request.answer is None) != (request.error is None), "an answer and an error, or none of both", request)
        check(now_ms <= request.deadline_ms + SLACK_MS, "a request outlives its time", now_ms, request.deadline_ms)
        self.answered += request.answer is not None
        if isinstance(request.answer, ProduceResponse):
            (topic,) = request.answer.responses
            (partition,) = topic.partition_responses
            context: Any = request.context
            where, value, acks = context
            if partition.error_code == ErrorCode.NONE and acks == ALL:
                self.acknowledged.append((where, value))

    def _check_limits(self, now_ms: float) -> None:
        network = self.network
        check(network.in_flight() >= len(self.waiting), "a request is lost", network.in_flight(), len(self.waiting))
        most = self.config.max_in_flight_requests_per_connection
        for node in self.cluster.brokers:
            check(network.in_flight(node) <= most, "too many requests in flight", node, network.in_flight(node))
        late = [request for request in self.waiting if now_ms > request.deadline_ms + SLACK_MS]
        check(not late, "a request outlives its time", now_ms, late)

    def knows_the_leaders(self) -> bool:
        """Return whether the metadata is right. It is in the end: an update may first wait for a stalled connection."""
        found = ((self.metadata.leader_of(partition), log.leader) for partition, log in self.cluster.logs.items())
        return all(leader is not None and leader.id == truth for leader, truth in found)

    def finish(self) -> None:
        """Check the end: nothing waits, acknowledged batches are in the log."""
        check(not self.waiting, "a request never completes", self.waiting)
        check(self.completed == len(self.sent), "completed and sent differ", self.completed, len(self.sent))
        written = {
            (partition, record.value)
            for partition, log in self.cluster.logs.items()
            for batch in log.committed_batches()
            for record in batch.records()
        }
        missing = [each for each in self.acknowledged if each not in written]
        check(not missing, "an acknowledged record is missing", missing)


class RawStory:
    """One or two of these clients."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.cores: list[RawCore] = []
        self.ends_us = 0

    def start(self) -> None:
        for number in range(self.scenario.random.choice([1, 1, 2])):
            core = RawCore(self.scenario.cluster, self.scenario.client_random(), number)
            self.cores.append(core)
            self.scenario.new_process(core)

    def stop(self) -> None:
        """Ask for another second, so that metadata that no request shows to be wrong is asked for too."""
        world = self.scenario.world
        self.ends_us = world.now_us + SECOND_US
        world.after(SECOND_US, self._end)

    def _end(self) -> None:
        for core, process in zip(self.cores, self.scenario.processes, strict=True):
            core.is_asking = False
            core.metadata.request_update()
            process.wake()

    def is_done(self) -> bool:
        is_over = self.scenario.world.now_us > self.ends_us
        return is_over and all(not core.waiting and core.knows_the_leaders() for core in self.cores)

    def finish(self) -> None:
        for core in self.cores:
            core.finish()
        self.scenario.report.counts.update(
            raw_sent=sum(len(core.sent) for core in self.cores),
            raw_answered=sum(core.answered for core in self.cores),
            raw_acknowledged=sum(len(core.acknowledged) for core in self.cores),
        )
