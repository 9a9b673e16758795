"""The virtual network: delays, drops, duplicates, cut links, refused and reset connections, orphaned responses."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.messages import AddRaftVoterResponse, RemoveRaftVoterResponse
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.events import FailureReason, PeerDisconnected, RequestFailed, ResponseReceived
from tests.simulator.world import World

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode


class Sender(Protocol):
    """A client of a node: another node, a broker or an administrator."""

    id: int
    incarnation: int

    def deliver(self, incarnation: int, event: Any) -> None:
        """Receive a response, or its failure, if this incarnation sent the request."""


VERSIONS: dict[int, int] = {
    ApiKey.FETCH: 18,
    ApiKey.VOTE: 2,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH_SNAPSHOT: 1,
    ApiKey.UPDATE_RAFT_VOTER: 0,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.API_VERSIONS: 4,
}


Key = tuple[int, int, int]
"""A request: its sender's id and incarnation, and the correlation id."""

BY_HAND = -1
"""The incarnation in the origin of an operator's request."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a request."""

    node: Sender
    incarnation: int
    correlation: int
    version: int


class Network:
    """The links between nodes. All faults are off until the scenario enables them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_address: dict[tuple[str, int], SimNode] = {}
        self.cut: set[tuple[int, int]] = set()  # directed links
        self.drop = 0.0
        self.duplicate = 0.0
        self.spike = 0.0
        self.encodes = False
        self.voter_changes = self.auto_joins = 0
        self._open: dict[Key, tuple[Sender, SimNode]] = {}

    def _delay_us(self) -> int:
        random = self.world.random
        if self.world.chance(self.spike):
            return random.randint(10_000, 1_500_000)
        return random.randint(50, 1_000)

    def _passes(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.cut and not self.world.chance(self.drop)

    def reaches(self, sender: int, receiver: int) -> bool:
        """Report whether a message passes from one to the other now."""
        return self._passes(sender, receiver)

    def send(self, sender: Sender, effect: SendRequest) -> None:
        """Send a request; without a response it fails after its timeout."""
        world = self.world
        receiver = self.by_address[effect.destination.host, effect.destination.port]
        key = (sender.id, sender.incarnation, effect.correlation)
        self._open[key] = sender, receiver
        timed_out = RequestFailed(effect.correlation, FailureReason.TIMED_OUT)
        world.after(effect.timeout_ms * 1000, self._close, key, sender, timed_out)
        if not self._passes(sender.id, receiver.id):
            return
        if receiver.node is None:
            self._break(key, sender, receiver)
            return
        version = VERSIONS.get(effect.message.API_KEY, effect.message.VERSIONS[1])
        message = self._through_the_wire(effect.message, version)
        origin = Origin(sender, sender.incarnation, effect.correlation, version)
        world.after(self._delay_us(), receiver.receive, message, version, origin)
        if world.chance(self.duplicate):
            world.after(self._delay_us() * 3, receiver.receive, message, version, origin)

    def respond(self, sender: "SimNode", origin: Origin, message: Message) -> None:
        """Send a response back."""
        if isinstance(message, AddRaftVoterResponse | RemoveRaftVoterResponse) and message.error_code == 0:
            self.voter_changes += 1
            self.auto_joins += isinstance(message, AddRaftVoterResponse) and origin.incarnation != BY_HAND
        if not self._passes(sender.id, origin.node.id):
            return
        key = (origin.node.id, origin.incarnation, origin.correlation)
        event = ResponseReceived(origin.correlation, self._through_the_wire(message, origin.version))
        self.world.after(self._delay_us(), self._close, key, origin.node, event)

    def _through_the_wire(self, message: Message, version: int) -> Message:
        return decode(type(message), version, encode(message, version)) if self.encodes else message

    def _close(self, key: Key, sender: Sender, event: ResponseReceived | RequestFailed) -> None:
        if self._open.pop(key, None) is not None:
            sender.deliver(key[1], event)

    def _break(self, key: Key, sender: Sender, receiver: "SimNode") -> None:
        """Refuse or reset the connection of this request."""
        delay_us = self._delay_us()
        self.world.after(delay_us, self._close, key, sender, RequestFailed(key[2], FailureReason.DISCONNECTED))
        self.world.after(delay_us, sender.deliver, key[1], PeerDisconnected(receiver.id))

    def on_down(self, node: "SimNode") -> None:
        """Reset the connections to a process that ended; a few clients do not notice."""
        for key, (sender, receiver) in list(self._open.items()):
            if receiver is node and self._passes(node.id, sender.id) and self.world.random.random() < 0.9:
                self._break(key, sender, node)
        self.forget(node)

    def forget(self, sender: Sender) -> None:
        """Drop the pending requests of a sender."""
        for key in [key for key in self._open if key[0] == sender.id]:
            del self._open[key]

    def heal(self, links: set[tuple[int, int]]) -> None:
        """Restore these links."""
        self.cut -= links

    def reset(self, first: int, second: int) -> None:
        """Reset the connections between two nodes."""
        for key, (sender, receiver) in list(self._open.items()):
            if {key[0], receiver.id} == {first, second}:
                self._break(key, sender, receiver)
