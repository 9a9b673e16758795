"""NetworkClient without sockets: connections, back-off, time-outs, metadata, rebootstrap."""

from itertools import pairwise
from random import Random
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, Node, TopicPartition
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import (
    Connect,
    Disconnected,
    NetworkConfig,
    NodeRequest,
    NodeTimedOut,
    Write,
)
from kraft_core.protocol.errors import ErrorCode, UnsupportedVersion
from kraft_core.protocol.framing import encode_response
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataResponse,
    SaslHandshakeResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

FIND = 10


class World:
    """A client of three virtual brokers; the first is its bootstrap address."""

    def __init__(self, topics: dict[str, dict[int, tuple[int, int]]] | None = None, **config: int) -> None:
        self.nodes = [VirtualNode(number) for number in (1, 2, 3)]
        for node in self.nodes:
            node.versions[FIND] = (0, 3)
            node.handlers[3] = metadata(self.nodes, topics)
            node.handlers[FIND] = lambda _request: FindCoordinatorResponse()
        self.network = VirtualNetwork(*self.nodes)
        random = Random(1)
        self.metadata = ClientMetadata([self.nodes[0].address], MetadataConfig(), random)
        self.client = NetworkClient(self.metadata, random, NetworkConfig("test", **config))
        self.now_ms = 1_000.0

    def run(self, ms: float = 0) -> None:
        self.now_ms += ms
        self.network.run(self.client, self.now_ms)

    def ready(self, node_id: int) -> bool:
        found = self.client.is_ready(node_id, self.now_ms)
        self.run()
        return found or self.client.is_ready(node_id, self.now_ms)

    def send(self, node_id: int, **more: int) -> NodeRequest:
        assert self.ready(node_id)
        request = NodeRequest(node_id, FindCoordinatorRequest(key="g"), **more)
        self.client.send(request, self.now_ms)
        return request


@pytest.fixture
def world() -> World:
    made = World({"t": {0: (1, 5), 1: (2, 7)}})
    made.metadata.want(["t"])
    made.run()
    return made


def test_metadata_comes_from_the_bootstrap_address_and_names_the_brokers(world: World) -> None:
    assert world.network.connects == [("broker-1", 9092)]
    assert sorted(world.metadata.nodes) == [1, 2, 3]
    assert world.metadata.leader_of(TopicPartition("t", 1)) == Node(2, "broker-2", 9092)
    assert world.metadata.cluster_id == "a-cluster"


def test_a_request_is_answered_by_its_node(world: World) -> None:
    request = world.send(2)
    world.run()
    assert world.client.take_completed() == [request]
    assert isinstance(request.answer, FindCoordinatorResponse)
    assert isinstance(world.nodes[1].seen[-1], FindCoordinatorRequest)


def test_no_more_requests_than_allowed_are_in_flight_on_a_connection() -> None:
    world = World(max_in_flight_requests_per_connection=2)
    world.run()
    world.nodes[1].handlers[FIND] = lambda _request: None
    world.send(2)
    assert world.client.is_ready(2, world.now_ms)
    world.send(2)
    assert not world.client.is_ready(2, world.now_ms)
    assert world.client.in_flight(2) == 2


def test_a_request_without_an_answer_ends_the_connection_and_fails_all_its_requests(world: World) -> None:
    world.nodes[1].handlers[FIND] = lambda _request: None
    late = world.send(2)
    world.run(29_000)
    assert world.client.take_completed() == []
    later = world.send(2)
    world.run(1_000)
    assert world.client.take_completed() == [late, later]
    assert isinstance(late.error, NodeTimedOut)
    limit = "within 30000 ms (request.timeout.ms)"
    assert late.error.message == f"broker-2:9092: no answer to FindCoordinatorRequest {limit}"
    assert isinstance(later.error, Disconnected)
    assert later.error.retriable


def test_a_node_that_refuses_connections_is_tried_again_after_times_that_double(world: World) -> None:
    world.nodes[1].is_up = False
    tries = []
    while len(tries) < 7:
        before = len(world.network.connects)
        world.client.is_ready(2, world.now_ms)
        world.run()
        if ("broker-2", 9092) in world.network.connects[before:]:
            tries.append(world.now_ms)
        world.now_ms += 1
    gaps = [after - before for before, after in pairwise(tries)]
    for gap, expected in zip(gaps, (50, 100, 200, 400, 800, 1_000), strict=True):
        assert 0.79 * expected <= gap <= 1.21 * expected + 1


def test_requests_of_a_connection_that_is_cut_fail_as_retriable_and_metadata_is_asked_for(world: World) -> None:
    world.nodes[1].handlers[FIND] = lambda _request: None
    request = world.send(2)
    changes = world.metadata.changes
    world.network.cut(world.client, 2, world.now_ms)
    assert world.client.take_completed() == [request]
    assert isinstance(request.error, Disconnected)
    world.run(1_000)
    assert world.metadata.changes > changes


def test_a_version_that_the_node_lacks_fails_the_request_alone(world: World) -> None:
    assert world.ready(2)
    request = NodeRequest(2, DescribeClusterRequest())
    world.client.send(request, world.now_ms)
    assert isinstance(request.error, UnsupportedVersion)
    assert world.client.is_ready(2, world.now_ms)


def test_a_request_that_fails_at_once_is_due_at_once(world: World) -> None:
    """The owner may have sent it in its last turn, and has no other event to take it at."""
    assert world.ready(2)
    world.client.send(NodeRequest(2, DescribeClusterRequest()), world.now_ms)
    assert world.client.next_deadline_ms(world.now_ms) == world.now_ms
    world.client.take_completed()
    due = world.client.next_deadline_ms(world.now_ms)
    assert due is not None
    assert due > world.now_ms


def test_an_idle_connection_is_closed_at_its_deadline_whatever_the_rounding() -> None:
    """2331.169 - 2031.169 is less than 300, so a client that compared differences would have been due without end."""
    world = World(connections_max_idle_ms=300)
    world.now_ms = 2031.169
    world.run()
    assert world.client.next_deadline_ms(world.now_ms) == 2331.169
    world.now_ms = 2331.169
    world.run()
    assert not world.client.versions_of(-1)


def test_a_throttled_node_is_not_asked_before_its_time(world: World) -> None:
    world.nodes[1].handlers[FIND] = lambda _request: FindCoordinatorResponse(throttle_time_ms=300)
    world.send(2)
    world.run()
    assert not world.client.is_ready(2, world.now_ms)
    world.run(299)
    assert not world.client.is_ready(2, world.now_ms)
    world.run(1)
    assert world.client.is_ready(2, world.now_ms)


def test_metadata_is_asked_for_again_when_it_is_old(world: World) -> None:
    world.run(299_000)
    before = world.metadata.changes
    world.run(1_000)
    assert world.metadata.changes == before + 1


def test_no_deadline_lies_in_the_past_when_nothing_can_be_done(world: World) -> None:
    for node in world.nodes:
        node.is_up = False
        world.network.cut(world.client, node.id, world.now_ms)
    for _ in range(50):
        world.run()
        due = world.client.next_deadline_ms(world.now_ms)
        assert due is not None
        assert due > world.now_ms
        world.now_ms = due


def test_an_older_leader_epoch_of_the_same_topic_is_not_taken(world: World) -> None:
    for node in world.nodes:
        node.handlers[3] = metadata(world.nodes, {"t": {0: (3, 4), 1: (3, 8)}})
    world.metadata.request_update()
    world.run(1_000)
    assert world.metadata.leader_of(TopicPartition("t", 0)) == Node(1, "broker-1", 9092)
    assert world.metadata.leader_of(TopicPartition("t", 1)) == Node(3, "broker-3", 9092)


def test_a_newer_leader_in_an_answer_counts_at_once(world: World) -> None:
    assert world.metadata.update_leaders({TopicPartition("t", 0): (3, 6), TopicPartition("t", 1): (3, 7)}) == [
        TopicPartition("t", 0)
    ]
    assert world.metadata.leader_of(TopicPartition("t", 0)) == Node(3, "broker-3", 9092)
    assert world.metadata.leader_of(TopicPartition("t", 1)) == Node(2, "broker-2", 9092)
    assert world.metadata.update_leaders({TopicPartition("t", 0): (9, 9)}, [Node(9, "new", 1)]) == [
        TopicPartition("t", 0)
    ]
    assert world.metadata.leader_of(TopicPartition("t", 0)) == Node(9, "new", 1)


def test_an_unknown_topic_is_asked_for_again(world: World) -> None:
    world.metadata.want(["later"])
    world.run()
    assert world.metadata.topics["later"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for node in world.nodes:
        node.handlers[3] = metadata(world.nodes, {"t": {0: (1, 5)}, "later": {0: (2, 1)}})
    world.run(500)
    assert world.metadata.leader_of(TopicPartition("later", 0)) == Node(2, "broker-2", 9092)


def test_the_client_returns_to_its_bootstrap_servers_when_no_broker_can_be_reached(world: World) -> None:
    """KIP-899: the brokers have moved to addresses that only the bootstrap server knows."""
    for node in world.nodes:
        node.is_up = False
        world.network.cut(world.client, node.id, world.now_ms)
    moved = VirtualNode(11)
    moved.handlers[3] = metadata([moved])
    world.network.by_address[world.nodes[0].address] = moved
    world.network.by_address[moved.address] = moved
    for _ in range(30):
        world.run(500)
    assert list(world.metadata.nodes) == [11]


def test_the_client_returns_to_its_bootstrap_servers_when_a_broker_asks_for_it(world: World) -> None:
    """KIP-1102."""
    refused = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    for node in world.nodes:
        node.handlers[3] = lambda _request: refused
    world.ready(2)
    world.metadata.request_update()
    world.run(1_000)
    assert not world.metadata.nodes
    assert [wire.node.id for wire in world.network.wires.values()] == [1]


def test_a_closed_client_fails_its_requests_and_connects_no_more(world: World) -> None:
    world.nodes[1].handlers[FIND] = lambda _request: None
    request = world.send(2)
    world.client.close(world.now_ms)
    assert isinstance(request.error, Disconnected)
    world.client.is_ready(3, world.now_ms)
    assert not [effect for effect in world.client.take_effects() if isinstance(effect, Connect)]


def test_a_refused_login_is_an_error_of_the_metadata() -> None:
    node = VirtualNode(1, versions={3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2)})
    node.handlers[17] = lambda _request: SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256",))
    network = VirtualNetwork(node)
    random = Random(1)
    security = ClientSecurity(mechanism="PLAIN", username="alice", password="secret")
    client = NetworkClient(ClientMetadata([node.address], MetadataConfig(), random), random, security=security)
    network.run(client, 0)
    assert isinstance(client.failure_of(-1), LoginFailed)
    client.poll(1_000)
    with pytest.raises(LoginFailed, match=r"broker-1:9092: .*SCRAM-SHA-256"):
        client.metadata.raise_fatal_error()
    client.metadata.raise_fatal_error()


def test_the_failure_of_a_node_is_known_until_it_is_connected(world: World) -> None:
    world.nodes[2].is_up = False
    assert not world.ready(3)
    failure = world.client.failure_of(3)
    assert failure is not None
    assert failure.message == "broker-3:9092: connection refused"
    world.nodes[2].is_up = True
    world.run(1_000)
    assert world.ready(3)
    assert world.client.failure_of(3) is None


def test_back_off_doubles_up_to_its_limit_with_jitter() -> None:
    backoff = ExponentialBackoff(100, 1_000, Random(1))
    for failures, term in enumerate((100, 200, 400, 800, 1_000, 1_000)):
        assert 0.8 * term <= backoff.after(failures) <= min(1_000, 1.2 * term)


def test_finalized_features_are_those_of_the_newest_epoch_that_a_node_named(world: World) -> None:
    for node_id, features in {1: (7, {"transaction.version": 2}), 2: (6, {"transaction.version": 1})}.items():
        world.nodes[node_id - 1].features = features
        world.network.cut(world.client, node_id, world.now_ms)
        world.run(1_000)
        assert world.ready(node_id)
    assert world.client.finalized_features_epoch == 7
    assert world.client.finalized_features == {"transaction.version": 2}


def test_topics_are_asked_for_by_id_in_requests_without_names(world: World) -> None:
    """A broker ignores names beside ids. Once known, a topic is asked for by its name."""
    topic_id, unknown = UUID(int=7), UUID(int=9)
    asked = []

    def answer(request: Message) -> Message:
        asked.append([topic.name or topic.topic_id for topic in request.topics])
        known = metadata(world.nodes, {"a": {0: (1, 1)}, "b": {0: (2, 1)}})(
            replace(request, topics=[replace(topic, name=topic.name or "b") for topic in request.topics])
        )
        assert isinstance(known, MetadataResponse)
        topics = tuple(
            replace(topic, topic_id=topic_id if topic.name == "b" else UUID(int=8)) for topic in known.topics
        )
        return replace(known, topics=() if unknown in asked[-1] else topics)

    for node in world.nodes:
        node.handlers[3] = answer
    world.metadata.want_only(["a"])
    world.metadata.want_ids([topic_id])
    for _ in range(5):
        world.run(1_000)
    assert asked == [[topic_id], ["a", "b"]]
    assert world.metadata.names_by_id == {topic_id: "b", UUID(int=8): "a"}
    world.metadata.want_ids([topic_id, unknown])
    for _ in range(3):
        world.run(1_000)
    assert asked[2:] == [[unknown], ["a", "b"], [unknown]]
    world.metadata.want_ids([])
    for _ in range(2):
        world.run(1_000)
    assert asked[-1] == ["a"]
    assert world.metadata.names_by_id == {UUID(int=8): "a"}


def test_an_answer_is_taken_from_the_buffer_of_its_connection_when_its_last_part_is_there(world: World) -> None:
    request = world.send(1)
    (effect,) = world.client.take_effects()
    assert isinstance(effect, Write)
    answer = encode_response(FindCoordinatorResponse(), (FIND, request.version), request.correlation_id)
    has_event = []
    for part in (answer[:3], answer[3:-1], answer[-1:]):
        room = world.client.get_buffer(effect.connection_id)
        assert room is not None
        room[: len(part)] = part
        has_event.append(world.client.buffer_updated(effect.connection_id, len(part), world.now_ms))
    assert has_event == [False, False, True]
    assert world.client.take_completed() == [request]
    assert isinstance(request.answer, FindCoordinatorResponse)
    world.client.disconnect(1, world.now_ms)
    assert world.client.get_buffer(effect.connection_id) is None
