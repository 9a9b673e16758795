"""ConnectionQuotas: limits on the connections of an address, of a listener and of the node, and on their rate.

All listeners of a process share one object. At a limit, an ordinary listener stops accepting, so that connections wait
in the system's backlog. Controller listeners are protected, and so is the inter-broker listener if clients have
another: they accept also on a full node, and the least recently used idle connection of the listener with the most
connections is closed instead. A connection above the limit of its address is closed at once.

Open files (`file_limit`) are handled alike: ordinary connections leave descriptors free for logs and administrators.

Source: ConnectionQuotas in SocketServer, Kafka 4.3.1, which protects only the inter-broker listener and closes only
connections of other listeners. Protected listeners have a separate count by address, as Kafka's controllers do.
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
"""Pause in accepting after descriptors ran short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Kafka's settings, named in the comments; the mappings are by listener name or address."""

    max_connections: int = UNLIMITED  # max.connections
    max_connections_per_ip: int = UNLIMITED  # max.connections.per.ip
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)  # max.connections.per.ip.overrides
    max_creation_rate: int = UNLIMITED  # max.connection.creation.rate, a second
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)  # listener.name.….max.connections
    listener_max_creation_rate: Mapping[str, int] = field(default_factory=dict)  # …max.connection.creation.rate


class Admission(Enum):
    """Decision on an accepted connection."""

    ADMITTED = "admitted"
    EXCHANGED = "admitted, and another connection is closed for it"
    REFUSED = "refused: above a limit"
    NO_FILES = "refused: descriptors run short"


class IdleConnection(Protocol):
    """A connection without a request in flight. Those without any request yet go first, then the longest idle."""

    has_asked: bool
    last_activity: float

    def close(self, cause: str) -> None:
        """Close the connection."""


class QuotaListener(Protocol):
    """The interface of a listener that the quotas use."""

    @property
    def listener_name(self) -> str:
        """Name of the listener."""
        ...

    @property
    def max_connections(self) -> int:
        """Upper bound of connections, regardless of the settings."""
        ...

    def resume_accepting(self) -> None:
        """Accept connections again, since there may be room."""

    def least_recently_used(self) -> IdleConnection | None:
        """Return the idle connection to close first; None if none is idle."""
        ...


class _Rate:
    """A token bucket: `limit` tokens per second, at most those of one second."""

    def __init__(self, now_s: float) -> None:
        self._tokens = 1.0
        self._at_s = now_s

    def wait_s(self, limit: int, now_s: float) -> float:
        """Return the seconds until the next token; 0 if there is one."""
        if limit >= UNLIMITED:
            return 0.0
        self._tokens = min(max(1.0, float(limit)), self._tokens + (now_s - self._at_s) * limit)
        self._at_s = now_s
        if self._tokens >= 1.0:
            return 0.0
        return (1.0 - self._tokens) / limit if limit > 0 else NO_FILES_PAUSE_S

    def take(self) -> None:
        """Consume a token."""
        self._tokens -= 1.0


class ConnectionQuotas:
    """Counts the connections of all listeners. `protected` has the names of protected listeners."""

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
        self._by_address: Counter[tuple[bool, str]] = Counter()  # (is protected, address)
        self._total = 0
        self._most_for_files = UNLIMITED  # connections when descriptors ran short, until a tenth of them has ended
        self._rate = _Rate(clock_s())
        self._listener_rates: dict[str, _Rate] = {}
        self._refused: Counter[str] = Counter()
        self._warned_s: dict[str, float] = {}

    def add_listener(self, listener: QuotaListener) -> None:
        """Start to count a listener's connections."""
        self._listeners[listener.listener_name] = listener
        self._listener_rates[listener.listener_name] = _Rate(self._clock_s())

    def remove_listener(self, listener: QuotaListener) -> None:
        """Remove a stopped listener."""
        if self._listeners.get(listener.listener_name) is listener:
            del self._listeners[listener.listener_name]

    def update(self, limits: ConnectionLimits) -> None:
        """Change the limits; open connections above them stay."""
        self._limits = limits
        self._resume()

    # -- before a connection is accepted

    def wait_s(self, name: str) -> float:
        """Return how long a listener must not accept: 0 if it may, infinity until a connection ends."""
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
        """Close an idle connection: one without any request yet, else one of the listener with the most connections.

        Return False if none is idle.
        """
        found = [
            (idle.has_asked, -self._by_listener[listener.listener_name], idle.last_activity, idle)
            for listener in listeners
            if (idle := listener.least_recently_used()) is not None
        ]
        if found:
            min(found, key=lambda entry: entry[:3])[3].close("closed to make room for another connection")
        return bool(found)

    # -- when it is accepted

    def admit(self, name: str, address: str, descriptor: int) -> Admission:
        """Decide on an accepted connection, and count it if it is admitted."""
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
        """Uncount a connection that has ended."""
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
        """Record that descriptors run short."""
        self._refuse("open files run short", name)

    def _resume(self) -> None:
        for listener in self._listeners.values():
            listener.resume_accepting()

    def _refuse(self, cause: str, name: str, address: str = "") -> None:
        """Log a warning at most once a minute for each cause, with the number of refusals since the last."""
        self._refused[cause] += 1
        now_s = self._clock_s()
        if now_s - self._warned_s.get(cause, -WARNING_INTERVAL_S) >= WARNING_INTERVAL_S:
            self._warned_s[cause] = now_s
            extra = {"listener": name, "cause": cause, "times": self._refused.pop(cause)}
            log.warning("connections_refused", extra=extra | ({"client_host": address} if address else {}))
