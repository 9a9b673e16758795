"""A client of the controllers: finds the active one, sends requests, and handles missing responses."""

from collections.abc import Callable
from typing import Any

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Destination, SendRequest
from kraft_core.raft.events import RequestFailed, ResponseReceived
from tests.simulator.invariant import check
from tests.simulator.network import Network
from tests.simulator.sim_node import SimNode
from tests.simulator.world import World

Answered = Callable[[SimNode, Any], None]

TIMEOUT_MS = 1_000


class SimClient:
    """A process with connections to all controllers; each start has a new `incarnation`."""

    def __init__(self, world: World, network: Network, nodes: list[SimNode], client_id: int) -> None:
        self.world, self.network, self.nodes = world, network, nodes
        self.id = client_id
        self.incarnation = 0
        self.is_paused = False
        self.target = world.random.randrange(len(nodes))
        self._correlation = 0
        self._waiting: dict[int, tuple[SimNode, Answered, Callable[[], None]]] = {}
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def ask(
        self, message: Message, on_answer: Answered, on_failure: Callable[[], None], *, node: SimNode | None = None
    ) -> None:
        """Send a request to the presumed active controller, or to `node`; one of the callbacks is called."""
        node = node or self.nodes[self.target]
        self._correlation += 1
        self._waiting[self._correlation] = (node, on_answer, on_failure)
        endpoint = node.config.raft.endpoints[0]
        destination = Destination(node.id, endpoint.host, endpoint.port)
        self.network.send(self, SendRequest(self._correlation, destination, message, TIMEOUT_MS))

    def deliver(self, incarnation: int, event: Any) -> None:
        """Receive a response, or None for a failure."""
        if incarnation != self.incarnation or not isinstance(event, ResponseReceived | RequestFailed):
            return
        if self.is_paused:
            self._held.append((self.deliver, (incarnation, event)))
            return
        node, on_answer, on_failure = self._waiting.pop(event.correlation)
        if isinstance(event, RequestFailed):
            self.look_elsewhere(node)
            on_failure()
        else:
            on_answer(node, event.message)

    def look_elsewhere(self, node: SimNode) -> None:
        """Try another node next: this one is not active, or does not respond."""
        if self.nodes[self.target] is node:
            self.target = (self.target + 1) % len(self.nodes)

    def is_refused(self, node: SimNode, code: int) -> bool:
        """Report whether the node is not active; then the next request goes to another node."""
        check(code != ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed", node)
        if code == ErrorCode.NOT_CONTROLLER:
            self.look_elsewhere(node)
            return True
        return False

    def later(self, delay_us: int, act: Callable[..., None], *args: Any) -> None:
        """Schedule a callback of this incarnation; it waits while the process is paused."""
        self.world.after(delay_us, self._act, self.incarnation, act, args)

    def _act(self, incarnation: int, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        if incarnation != self.incarnation:
            return
        if self.is_paused:
            self._held.append((act, args))
        else:
            act(*args)

    def resume(self) -> None:
        """SIGCONT: run the callbacks that are due."""
        if self.is_paused:
            self.is_paused = False
            held, self._held = self._held, []
            incarnation = self.incarnation
            for act, args in held:
                if incarnation == self.incarnation:
                    act(*args)

    def end(self) -> None:
        """End the process; its pending requests are dropped."""
        self.incarnation += 1
        self.is_paused = False
        self._waiting.clear()
        self._held.clear()
        self.network.forget(self)
