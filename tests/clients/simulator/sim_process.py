"""A client process: drives a client core as ClientRunner does, in virtual time, and counts its turns."""

from collections.abc import Callable
from math import ceil

from kraft_core.clients.client_runner import ClientCore
from kraft_core.clients.network_requests import Close, Connect, Write
from tests.clients.simulator.links import Links
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US, START_MS, World

PERIOD_US = SECOND_US // 10
IDLE_TURNS_MAX = 100
"""Upper bound of the turns in a tenth of a virtual second that no event caused. A client that spins takes far more."""


class SimProcess:
    """One client. `wall_jump_ms` moves its wall clock, never its monotonic one."""

    def __init__(self, world: World, links: Links, process_id: int, core: ClientCore) -> None:
        self.world, self.links, self.id, self.core = world, links, process_id, core
        self.wall_jump_ms = 0
        self.is_running = True
        self.turns = 0
        self.after_turn: Callable[[], None] = lambda: None
        self._timer = 0  # the number of the newest one; older ones are void
        self._is_woken = False
        self._period = self._idle_turns = 0

    @property
    def now_ms(self) -> float:
        """The monotonic clock."""
        return self.world.now_us / 1000

    @property
    def wall_ms(self) -> int:
        """The wall clock, ms since 1970."""
        return START_MS + self.world.now_us // 1000 + self.wall_jump_ms

    def wake(self) -> None:
        """Let the core take a turn: something was asked of it."""
        if not self._is_woken and self.is_running:
            self._is_woken = True
            self.world.after(0, self._turn)

    def kill(self) -> None:
        """End the process without a word; its connections are reset."""
        self.is_running = False
        self.links.reset_all(lambda link: link.process is self)

    # Events

    def connected(self, connection_id: int) -> None:
        if self.is_running:
            self.core.network.connected(connection_id, self.now_ms)
            self._perform()
            self.wake()

    def received(self, connection_id: int, data: bytes) -> None:
        if self.is_running:
            self.core.network.received(connection_id, data, self.now_ms)
            self.wake()

    def disconnected(self, connection_id: int, cause: str) -> None:
        if self.is_running:
            self.core.network.disconnected(connection_id, cause, self.now_ms)
            self.wake()

    # Turns

    def _on_timer(self, number: int) -> None:
        if number != self._timer or not self.is_running:
            return
        period = self.world.now_us // PERIOD_US
        if period != self._period:
            self._period, self._idle_turns = period, 0
        self._idle_turns += 1
        check(self._idle_turns <= IDLE_TURNS_MAX, "a client spins", self.id, self.now_ms)
        self._turn()

    def _turn(self) -> None:
        self._is_woken = False
        if not self.is_running:
            return
        self.turns += 1
        now_ms = self.now_ms
        self.core.network.poll(now_ms)
        self.core.step(now_ms)
        self._perform()
        self.after_turn()
        if not self._is_woken:
            self._set_timer(now_ms)

    def _set_timer(self, now_ms: float) -> None:
        times = (self.core.network.next_deadline_ms(now_ms), self.core.next_deadline_ms(now_ms))
        due = min((time for time in times if time is not None), default=None)
        self._timer += 1
        if due is not None:
            self.world.after(ceil((due - now_ms) * 1000), self._on_timer, self._timer)

    def _perform(self) -> None:
        for effect in self.core.network.take_effects():
            match effect:
                case Connect(connection_id, host, port):
                    self.links.connect(self, connection_id, host, port)
                case Write(connection_id, data):
                    self.links.write(self, connection_id, data)
                case Close(connection_id):
                    self.links.close(self, connection_id)
