"""An Admin on a virtual network and a virtual clock: its operations run to their end at once."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from kraft_core.clients.admin.admin_call import AdminCall, K, Results, V
from kraft_core.clients.admin.admin_core import AdminCore
from kraft_core.clients.admin.all_calls import AllCalls
from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseDescribeClusterBroker,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

T = TypeVar("T")
TICK_MS = 25


class VirtualAdmin(AllCalls):
    """Three brokers, the first of them the bootstrap address and the controller."""

    def __init__(
        self,
        topics: dict[str, dict[int, tuple[int, int]]] | None = None,
        security: ClientSecurity = PLAINTEXT_CLIENT,
        timeout_ms: int = 10_000,
    ) -> None:
        self.nodes = {number: VirtualNode(number) for number in (1, 2, 3)}
        self.topics = topics or {}
        self.leaders: dict[TopicPartition, int] = {}  # what brokers think, for handlers
        self.set_controller(1)
        self.network = VirtualNetwork(*self.nodes.values())
        random = Random(1)
        known = ClientMetadata([self.nodes[1].address], MetadataConfig(allow_auto_topic_creation=False), random)
        client = NetworkClient(known, random, NetworkConfig("test"), security)
        self.core = AdminCore(client, random, timeout_ms)
        self.now_ms = 1_000.0
        self.on_tick: Callable[[], None] = lambda: None

    def set_controller(self, node_id: int) -> None:
        for node in self.nodes.values():
            node.handlers[3] = metadata(list(self.nodes.values()), self.topics, controller_id=node_id)

    def serve(
        self,
        message_class: type[Message],
        answer: Callable[[int, Any], Message | None],
        versions: tuple[int, int] | None = None,
    ) -> None:
        """Let all brokers answer requests of a class; `answer` gets the broker's id and the request."""
        for number, node in self.nodes.items():
            node.versions[message_class.API_KEY] = versions or message_class.VERSIONS
            node.handlers[message_class.API_KEY] = lambda request, number=number: answer(number, request)

    def serve_cluster(self) -> None:
        """Let all brokers describe the cluster."""
        brokers = tuple(
            DescribeClusterResponseDescribeClusterBroker(broker_id=number, host=node.address[0], port=node.address[1])
            for number, node in self.nodes.items()
        )
        self.serve(DescribeClusterRequest, lambda _, __: DescribeClusterResponse(brokers=brokers))

    def seen(self, message_class: type[T]) -> dict[int, list[T]]:
        """The requests of a class, by broker, of those that have seen any."""
        found = {
            number: [each for each in node.seen if isinstance(each, message_class)]
            for number, node in self.nodes.items()
        }
        return {number: requests for number, requests in found.items() if requests}

    def step(self) -> None:
        for _ in range(20):
            self.network.run(self.core.network, self.now_ms)
            self.core.step(self.now_ms)

    async def run(self, call: AdminCall[K, V]) -> Results[K, V]:
        done: list[Results[K, V]] = []
        self.core.start(call, done.append, self.now_ms)
        self.step()
        while not done:
            assert self.core.next_deadline_ms(self.now_ms) is not None
            self.now_ms += TICK_MS
            self.on_tick()
            self.step()
        return done[0]

    def do(self, operation: Coroutine[None, None, T]) -> T:
        """Return the outcome of an operation, which advances the virtual clock as far as it needs."""
        try:
            operation.send(None)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        raise AssertionError("the operation waits for something else than the virtual network")
