"""CoordinatorLookup without sockets: versions, back-off, lost coordinators, errors that no retry heals."""

from random import Random

import pytest

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, Node
from kraft_core.clients.coordinator_lookup import (
    CoordinatorLookup,
    CoordinatorType,
    find_coordinator,
    found_coordinators,
)
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NetworkConfig, NodeRequest
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from kraft_core.protocol.wire import Message
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

FIND = 10


class World:
    """A lookup of the group 'g' among two virtual brokers; `coordinator` is the id they answer, `error` the code."""

    def __init__(self, version_max: int = 6, key_type: CoordinatorType = CoordinatorType.GROUP, **config: bool) -> None:
        self.nodes = [VirtualNode(number) for number in (1, 2)]
        self.coordinator = 2
        self.error = 0
        for node in self.nodes:
            node.versions[FIND] = (0, version_max)
            node.handlers[3] = metadata(self.nodes)
            node.handlers[FIND] = self.answer
        self.network = VirtualNetwork(*self.nodes)
        random = Random(1)
        known = ClientMetadata([self.nodes[0].address], MetadataConfig(), random)
        self.client = NetworkClient(known, random, NetworkConfig("test"))
        backoff = ExponentialBackoff(100, 1_000, random)
        self.lookup = CoordinatorLookup(self.client, key_type, "g", backoff, **config)
        self.now_ms = 1_000.0

    def answer(self, request: Message) -> FindCoordinatorResponse:
        assert isinstance(request, FindCoordinatorRequest)
        found = {"node_id": self.coordinator, "host": f"broker-{self.coordinator}", "port": 9092}
        found |= {"error_code": self.error, "error_message": None}
        batch = tuple(FindCoordinatorResponseCoordinator(key=key, **found) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=batch) if batch else FindCoordinatorResponse(**found)

    def run(self, ms: float = 0, turns: int = 8) -> Node | None:
        """Advance the time; return the coordinator if it is ready."""
        self.now_ms += ms
        for _ in range(turns):
            node = self.lookup.ready_node(self.now_ms)
            if node is not None:
                return node
            self.network.run(self.client, self.now_ms)
            for request in self.client.take_completed():
                assert callable(request.context)
                request.context(request, self.now_ms)
        return None

    def asked(self) -> list[FindCoordinatorRequest]:
        return [each for node in self.nodes for each in node.seen if isinstance(each, FindCoordinatorRequest)]


@pytest.mark.parametrize("version_max", [1, 3, 4, 6])
def test_the_coordinator_is_found_in_every_form_of_the_request(version_max: int) -> None:
    world = World(version_max, CoordinatorType.TRANSACTION)
    assert world.run() == Node(2, "broker-2", 9092)
    asked = world.asked()[0]
    assert (asked.key, asked.coordinator_keys) == (("g", ()) if version_max < 4 else ("", ("g",)))
    assert asked.key_type == CoordinatorType.TRANSACTION


def test_a_node_too_old_for_transactions_is_an_error() -> None:
    world = World(0, CoordinatorType.TRANSACTION)
    with pytest.raises(KafkaError) as failed:
        world.run()
    assert failed.value.code != ErrorCode.NONE


def test_a_coordinator_with_its_own_connection_has_an_id_of_its_own() -> None:
    world = World(has_own_connection=True)
    assert world.run() == Node(2**31 - 3, "broker-2", 9092)
    world.client.is_ready(2, world.now_ms)
    world.network.run(world.client, world.now_ms)
    assert world.network.connects.count(("broker-2", 9092)) == 2


def test_a_retriable_error_is_retried_with_growing_back_off() -> None:
    world = World()
    world.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(100):
        assert world.run(10) is None
    assert 3 <= len(world.asked()) <= 6
    due = world.lookup.next_deadline_ms(world.now_ms)
    assert due is not None
    assert world.now_ms < due <= world.now_ms + 1_000
    world.error = 0
    assert world.run(due - world.now_ms) is not None
    assert world.lookup.next_deadline_ms(world.now_ms) is None


def test_a_fatal_error_is_raised_once_names_the_key_and_allows_another_attempt() -> None:
    world = World()
    world.error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="No coordinator for the group 'g': Not authorized") as failed:
        world.run()
    assert failed.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.error = 0
    assert world.run() is None
    assert world.run(200) is not None


def test_a_coordinator_that_moved_is_found_again_after_the_back_off() -> None:
    world = World()
    assert world.run() is not None
    world.coordinator = 1
    world.lookup.mark_unknown(world.now_ms)
    assert world.lookup.coordinator(world.now_ms) is None
    assert world.run() is None
    found = world.run(200)
    assert found is not None
    assert found.id == 1


def test_marking_the_coordinator_unknown_fails_its_requests_on_its_own_connection() -> None:
    world = World(has_own_connection=True)
    node = world.run()
    assert node is not None
    world.nodes[1].handlers[FIND] = lambda _request: None
    request = NodeRequest(node.id, FindCoordinatorRequest(key="x"), max_version=3)
    world.client.send(request, world.now_ms)
    world.lookup.mark_unknown(world.now_ms)
    assert isinstance(request.error, Disconnected)


def test_a_coordinator_whose_connection_breaks_is_unknown() -> None:
    world = World()
    assert world.run() is not None
    world.nodes[1].is_up = False
    world.network.cut(world.client, 2, world.now_ms)
    assert world.lookup.next_deadline_ms(world.now_ms) == world.now_ms
    assert world.lookup.coordinator(world.now_ms) is None
    world.coordinator = 1
    assert world.run(200) is not None


def test_several_keys_are_found_with_one_request() -> None:
    world = World()
    assert world.run() is not None
    request = find_coordinator(world.client, 2, CoordinatorType.GROUP, ["a", "b"])
    world.client.send(request, world.now_ms)
    world.network.run(world.client, world.now_ms)
    expected = Node(2, "broker-2", 9092)
    assert found_coordinators(request) == {"a": expected, "b": expected}


def test_a_key_that_the_answer_leaves_out_is_an_error() -> None:
    request = NodeRequest(1, FindCoordinatorRequest(coordinator_keys=("a",)))
    request.answer = FindCoordinatorResponse()
    error = found_coordinators(request)["a"]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
