"""How many connections a node takes: of one address, on one listener and in all, and how quickly.

One object for all listeners of a process. An ordinary listener waits while there is no room: its connections stay in
the system's queue. The listeners that keep the cluster together are protected: those of the controllers, and the one
between brokers when clients have another. A connection to a protected listener is taken although the node is full,
and the least recently used idle connection of the listener that has the most is closed for it. A connection above
the limit of its address is closed at once.

The same order holds for open files (`file_limit`): ordinary connections leave slots free, so that logs can roll and
administrators get in.

Source: ConnectionQuotas in SocketServer, Kafka 4.3.1, which protects the listener between brokers only and closes
connections of other listeners only. Limits of addresses count protected listeners apart, as Kafka's controllers do.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from kraft_core.server.network.file_limit import FileSlots, file_limit

log = logging.getLogger(__name__)

UNLIMITED: Final = 2**31 - 1
WARNING_INTERVAL_S: Final = 60.0
NO_FILES_PAUSE_S: Final = 1.0
"""How long a listener accepts nothing after descriptors ran short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Kafka's settings in brackets; maps by listener name, by address."""

    max_connections: int = UNLIMITED  # max.connections
    max_connections_per_ip: int = UNLIMITED  # max.connections.per.ip
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)  # max.connections.per.ip.overrides
    max_creation_rate: int = UNLIMITED  # max.connection.creation.rate, a second
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)  # listener.name.….max.connections
    listener_max_creation_rate: Mapping[str, int] = field(default_factory=dict)  # …max.connection.creation.rate


class Admission(Enum):
    """What becomes of a connection that was accepted."""

    ADMITTED = "it is counted"
    EXCHANGED = "it is counted, and another connection closes for it"
    REFUSED = "it is above a limit"
    NO_FILES = "descriptors run short"


class QuotaListener(Protocol):
    """What the quotas need of a listener."""

    @property
    def listener_name(self) -> str:
        """Its name."""
        ...

    @property
    def max_connections(self) -> int:
        """The most it can hold whatever the settings say."""
        ...

    def resume_accepting(self) -> None:
        """Accept again: there may be room."""

    def least_recently_used(self) -> "IdleConnection | None":
        """Return the idle connection that may go first; None when none is idle."""
        ...


class IdleConnection(Protocol):
    """A connection without a request in flight. Those that never asked anything go first, then those silent longest."""

    has_asked: bool
    last_activity: float

    def close(self, cause: str) -> None:
        """End it."""


class _Rate:
    """Tokens that come at `limit` a second, at most a second's worth."""

    def __init__(self, now_s: float) -> None:
        self._tokens = 1.0
        self._at_s = now_s

    def wait_s(self, limit: int, now_s: float) -> float:
        """Return how long until there is a token; 0 for now."""
        if limit >= UNLIMITED:
            return 0.0
        self._tokens = min(max(1.0, float(limit)), self._tokens + (now_s - self._at_s) * limit)
        self._at_s = now_s
        if self._tokens >= 1.0:
            return 0.0
        return (1.0 - self._tokens) / limit if limit > 0 else NO_FILES_PAUSE_S

    def take(self) -> None:
        """Take a token."""
        self._tokens -= 1.0


class ConnectionQuotas:
    """Counts the connections of all listeners. `protected` are names of listeners."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        *,
        protected: frozenset[str] = frozenset(),
        clock_s: Callable[[], float] = time.monotonic,
        slots: FileSlots | None = None,
    ) -> None:
        self._limits = limits or ConnectionLimits()
        self._protected = protected
        self._clock_s = clock_s
        self._slots = slots or FileSlots.of(file_limit())
        self._listeners: dict[str, QuotaListener] = {}
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[tuple[bool, str]] = Counter()  # protected listeners apart
        self._total = 0
        self._most_for_files = (
            UNLIMITED  # connections there were when descriptors ran short, until a tenth of them is gone
        )
        self._rate = _Rate(clock_s())
        self._listener_rates: dict[str, _Rate] = {}
        self._refused: Counter[str] = Counter()
        self._warned_s: dict[str, float] = {}

    def add_listener(self, listener: QuotaListener) -> None:
        """Count a listener's connections from now on."""
        self._listeners[listener.listener_name] = listener
        self._listener_rates[listener.listener_name] = _Rate(self._clock_s())

    def remove_listener(self, listener: QuotaListener) -> None:
        """Forget a listener that stops."""
        if self._listeners.get(listener.listener_name) is listener:
            del self._listeners[listener.listener_name]

    def update(self, limits: ConnectionLimits) -> None:
        """Put other limits in force; connections above them stay."""
        self._limits = limits
        self._resume()

    # -- before a connection is accepted

    def wait_s(self, name: str) -> float:
        """Return how long a listener must not accept: 0 when it may, infinite until a connection ends."""
        limits, now_s = self._limits, self._clock_s()
        is_protected = name in self._protected
        wait_s = self._listener_rates[name].wait_s(limits.listener_max_creation_rate.get(name, UNLIMITED), now_s)
        if not is_protected:
            wait_s = max(wait_s, self._rate.wait_s(limits.max_creation_rate, now_s))
        if wait_s > 0:
            return wait_s
        if is_protected:
            return 0.0
        if self._by_listener[name] >= self._most(name):
            self._refuse(f"{self._most(name)} connections are the most for this listener", name)
            return math.inf
        if self._total >= limits.max_connections:
            self._refuse(f"max.connections is {limits.max_connections}", name)
            return math.inf
        return 0.0

    def _most(self, name: str) -> int:
        limits = self._limits
        configured = limits.listener_max_connections.get(name, limits.max_connections)
        return min(configured, self._listeners[name].max_connections)

    def _make_room(self, listeners: Iterable[QuotaListener]) -> bool:
        """Close an idle connection: one that never asked, else of the listener that has the most; False when none is idle."""
        found = [
            (idle.has_asked, -self._by_listener[listener.listener_name], idle.last_activity, idle)
            for listener in listeners
            if (idle := listener.least_recently_used()) is not None
        ]
        if found:
            min(found, key=lambda entry: entry[:3])[3].close("another connection needs its place")
        return bool(found)

    # -- when it is accepted

    def admit(self, name: str, address: str, descriptor: int) -> Admission:
        """Decide on an accepted connection, and count it in unless it is to be closed."""
        limits = self._limits
        is_protected = name in self._protected
        if descriptor >= self._slots.clients and not is_protected:
            self.out_of_files(name)
            return Admission.NO_FILES
        most = limits.per_ip_overrides.get(address, limits.max_connections_per_ip)
        place = (is_protected, address)
        if self._by_address[place] >= most:
            self._refuse(f"{most} connections are the most for one address", name, address)
            return Admission.REFUSED
        admission = Admission.ADMITTED
        if self._by_listener[name] >= self._most(name):
            self._refuse(f"{self._most(name)} connections are the most for this listener", name)
            if not self._make_room((self._listeners[name],)):
                return Admission.REFUSED
            admission = Admission.EXCHANGED
        elif descriptor >= self._slots.protected or self._total >= min(limits.max_connections, self._most_for_files):
            if descriptor >= self._slots.protected:
                self._most_for_files = self._total
            self._refuse("the node is full", name)
            self._make_room(self._listeners.values())
            admission = Admission.EXCHANGED
        self._by_address[place] += 1
        self._by_listener[name] += 1
        self._total += 1
        self._listener_rates[name].take()
        if not is_protected:
            self._rate.take()
        return admission

    def release(self, name: str, address: str) -> None:
        """Count a connection out that has ended."""
        self._by_listener[name] -= 1
        place = (name in self._protected, address)
        self._by_address[place] -= 1
        if not self._by_address[place]:
            del self._by_address[place]
        self._total -= 1
        if self._total < self._most_for_files * 0.9:
            self._most_for_files = UNLIMITED
        self._resume()

    def out_of_files(self, name: str) -> None:
        """Note that descriptors run short."""
        self._refuse("open files run short", name)

    def _resume(self) -> None:
        for listener in self._listeners.values():
            listener.resume_accepting()

    def _refuse(self, cause: str, name: str, address: str = "") -> None:
        """Warn at most once a minute for each cause, with the number of times since."""
        self._refused[cause] += 1
        now_s = self._clock_s()
        if now_s - self._warned_s.get(cause, -WARNING_INTERVAL_S) >= WARNING_INTERVAL_S:
            self._warned_s[cause] = now_s
            extra = {"listener": name, "cause": cause, "times": self._refused.pop(cause)}
            log.warning("connections_refused", extra=extra | ({"client_host": address} if address else {}))
