"""Nodes of a virtual cluster that speak Kafka's protocol to a sans-IO client: no socket, no clock.

`VirtualNetwork` performs a NetworkClient's effects. A node answers by its `handlers`, at once; tests take answers away,
delay them, and cut connections.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Close, Connect, Write
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.framing import decode_request_body, decode_request_header, encode_response
from kraft_core.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseMetadataResponseBroker,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from kraft_core.protocol.wire import Message

Handler = Callable[[Message], Message | None]
"""Answers a request; None for no answer."""


@dataclass
class VirtualNode:
    """A broker with an address. `versions` are the ranges it advertises; `seen` the requests it got."""

    id: int
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: {3: (0, 13), 18: (0, 4)})
    handlers: dict[int, Handler] = field(default_factory=dict)
    is_up: bool = True
    seen: list[Message] = field(default_factory=list)
    features: tuple[int, dict[str, int]] = (-1, {})  # epoch, and finalized levels by name

    @property
    def address(self) -> tuple[str, int]:
        return f"broker-{self.id}", 9092


@dataclass
class _Wire:
    node: VirtualNode
    frames: Connection = field(default_factory=Connection)


class VirtualNetwork:
    """The nodes, and the clients' connections to them."""

    def __init__(self, *nodes: VirtualNode) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.by_address = {node.address: node for node in nodes}
        self.wires: dict[int, _Wire] = {}
        self.connects: list[tuple[str, int]] = []

    def run(self, client: NetworkClient, now_ms: float, turns: int = 20) -> None:
        """Perform effects and deliver answers until nothing happens."""
        for _ in range(turns):
            client.poll(now_ms)
            effects = client.take_effects()
            if not effects:
                return
            for effect in effects:
                match effect:
                    case Connect(connection_id, host, port):
                        self.connects.append((host, port))
                        node = self.by_address.get((host, port))
                        if node is None or not node.is_up:
                            client.disconnected(connection_id, "connection refused", now_ms)
                        else:
                            self.wires[connection_id] = _Wire(node)
                            client.connected(connection_id, now_ms)
                    case Write(connection_id, data):
                        if connection_id in self.wires:
                            self._take(client, connection_id, data, now_ms)
                    case Close(connection_id):
                        self.wires.pop(connection_id, None)

    def cut(self, client: NetworkClient, node_id: int, now_ms: float) -> None:
        """End all connections to a node."""
        for connection_id, wire in list(self.wires.items()):
            if wire.node.id == node_id:
                del self.wires[connection_id]
                client.disconnected(connection_id, "connection reset", now_ms)

    def _take(self, client: NetworkClient, connection_id: int, data: bytes, now_ms: float) -> None:
        wire = self.wires[connection_id]
        wire.frames.receive_data(data)
        while (frame := wire.frames.next_frame()) is not None:
            header, body = decode_request_header(frame)
            request = decode_request_body(header, frame, body)
            wire.node.seen.append(request)
            answer = self._answer(wire.node, request)
            if answer is not None:
                sent = encode_response(answer, (header.api_key, header.api_version), header.correlation_id)
                client.received(connection_id, sent, now_ms)

    def _answer(self, node: VirtualNode, request: Message) -> Message | None:
        if request.API_KEY == ApiKey.API_VERSIONS:
            keys = tuple(
                ApiVersionsResponseApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in sorted(node.versions.items())
            )
            epoch, levels = node.features
            features = tuple(
                ApiVersionsResponseFinalizedFeatureKey(name=name, max_version_level=level)
                for name, level in levels.items()
            )
            return ApiVersionsResponse(api_keys=keys, finalized_features_epoch=epoch, finalized_features=features)
        return node.handlers[request.API_KEY](request)


def metadata(
    nodes: list[VirtualNode], topics: dict[str, dict[int, tuple[int, int]]] | None = None, **extra: object
) -> Handler:
    """Answer Metadata with these nodes and topics: name -> partition -> (leader, leader epoch)."""
    known = topics or {}

    def answer(request: Message) -> MetadataResponse:
        assert isinstance(request, MetadataRequest)
        wanted = known if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            cluster_id="a-cluster",
            brokers=tuple(
                MetadataResponseMetadataResponseBroker(node_id=node.id, host=node.address[0], port=node.address[1])
                for node in nodes
            ),
            topics=tuple(
                MetadataResponseMetadataResponseTopic(
                    name=name,
                    error_code=0 if name in known else 3,
                    partitions=tuple(
                        MetadataResponseMetadataResponsePartition(
                            partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=(leader,)
                        )
                        for index, (leader, epoch) in known.get(name, {}).items()
                    ),
                )
                for name in wanted
            ),
            **extra,
        )

    return answer
