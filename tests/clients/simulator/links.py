"""The virtual network between client processes and brokers: connections that carry bytes in order, until a fault."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraft_core.protocol.connection import Connection
from tests.clients.simulator.disorder import Disorder
from tests.simulator.world import World

if TYPE_CHECKING:
    from tests.clients.simulator.sim_broker import SimBroker
    from tests.clients.simulator.sim_process import SimProcess


class Link:
    """One connection. `is_up` ends with the first fault; each direction delivers in the order of writing."""

    __slots__ = (
        "arrives_us",
        "broker",
        "closed_by_client",
        "frames",
        "id",
        "incarnation",
        "is_busy",
        "is_up",
        "process",
        "queue",
        "was_seen_down",
    )

    def __init__(self, process: "SimProcess", connection_id: int, broker: "SimBroker") -> None:
        self.process = process
        self.id = connection_id
        self.broker = broker
        self.incarnation = broker.incarnation
        self.is_up = True
        self.closed_by_client = False
        self.frames = Connection()
        self.queue: deque[bytes] = deque()
        self.is_busy = False
        self.was_seen_down = False  # by the broker, which handles one more request then
        self.arrives_us = [0, 0]  # to the broker, to the client


class Links:
    """All connections, by process and connection id."""

    def __init__(self, world: World, disorder: Disorder) -> None:
        self.world = world
        self.disorder = disorder
        self.by_address: dict[tuple[str, int], SimBroker] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self.opened = self.broken = 0

    def _delay_us(self) -> int:
        random = self.world.random
        if self.world.chance(self.disorder.spike):
            return random.randint(5_000, 800_000)
        return random.randint(100, 1_000)

    # The client's side

    def connect(self, process: "SimProcess", connection_id: int, host: str, port: int) -> None:
        """Open a connection, or refuse it, or leave it unanswered."""
        broker = self.by_address.get((host, port))
        chance, after = self.world.chance, self.world.after
        if chance(self.disorder.hang):
            return
        if broker is None or not broker.is_up or chance(self.disorder.refuse):
            after(self._delay_us(), process.disconnected, connection_id, "connection refused")
            return
        link = Link(process, connection_id, broker)
        self._links[process.id, connection_id] = link
        self.opened += 1
        self._deliver(link, 1, process.connected, connection_id)

    def write(self, process: "SimProcess", connection_id: int, data: bytes) -> None:
        """Carry a client's bytes to the broker."""
        link = self._links.get((process.id, connection_id))
        if link is None or not link.is_up:
            return
        chance, random = self.world.chance, self.world.random
        if chance(self.disorder.stall):
            link.is_up = False
            return
        if chance(self.disorder.cut_request):
            self._deliver(link, 0, link.broker.receive, link, data[: random.randrange(len(data))])
            self.reset(link)
            return
        for piece in self._pieces(data):
            self._deliver(link, 0, link.broker.receive, link, piece)

    def close(self, process: "SimProcess", connection_id: int) -> None:
        """Close a connection from the client's side. What is on its way may still arrive."""
        link = self._links.pop((process.id, connection_id), None)
        if link is not None:
            link.closed_by_client = True
            link.is_up = False
            if self.world.chance(self.disorder.ghost):
                self.world.after(self._delay_us(), process.disconnected, connection_id, "a late end")

    # The broker's side

    def answer(self, link: Link, data: bytes) -> None:
        """Carry a broker's bytes to the client."""
        chance, process = self.world.chance, link.process
        if not link.is_up:
            if link.closed_by_client and chance(self.disorder.ghost):
                self.world.after(self._delay_us(), process.received, link.id, data)
            return
        if chance(self.disorder.stall):
            link.is_up = False
        elif chance(self.disorder.lose_answer):
            self.reset(link)
        elif chance(self.disorder.cut_answer):
            self._deliver(link, 1, process.received, link.id, data[: self.world.random.randrange(1, len(data))])
            self.reset(link)
        else:
            for piece in self._pieces(data):
                self._deliver(link, 1, process.received, link.id, piece)

    def reset(self, link: Link) -> None:
        """End a connection; the client hears of it unless it closed it before."""
        if link.is_up:
            link.is_up = False
            self.broken += 1
            self._deliver(link, 1, self._ended, link)

    def _ended(self, link: Link) -> None:
        if self._links.pop((link.process.id, link.id), None) is not None:
            link.process.disconnected(link.id, "connection reset")

    def reset_all(self, is_meant: Callable[[Link], bool], *, silent: float = 0.0) -> None:
        """End many connections; some of them stall instead."""
        for link in list(self._links.values()):
            if is_meant(link):
                if self.world.chance(silent):
                    link.is_up = False
                else:
                    self.reset(link)

    # Delivery

    def _pieces(self, data: bytes) -> list[bytes]:
        if len(data) > 1 and self.world.chance(self.disorder.split):
            at = self.world.random.randrange(1, len(data))
            return [data[:at], data[at:]]
        return [data]

    def _deliver(self, link: Link, direction: int, act: Callable[..., None], *args: Any) -> None:
        arrives = link.arrives_us
        arrives[direction] = max(arrives[direction], self.world.now_us + self._delay_us())
        self.world.after(arrives[direction] - self.world.now_us, act, *args)
