"""Limits and counters of one listener."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketServerLimits:
    """Limits of one listener; the comments name Kafka's settings."""

    max_frame_bytes: int = 104_857_600  # socket.request.max.bytes
    max_connections: int = 4096  # max.connections
    connections_max_idle_ms: int = 600_000  # connections.max.idle.ms
    max_in_flight: int = 256  # unanswered requests of one connection
    max_buffered_bytes: int = 268_435_456  # incomplete frames of all connections together
    max_queued_bytes: int = 268_435_456  # unanswered requests of all connections together: queued.max.request.bytes
    max_unsent_bytes: int = 268_435_456  # unsent answers of all connections together
    max_unsent_bytes_per_address: int = 8_388_608  # unsent answers of the connections of one address
    write_high_water_bytes: int = 262_144  # unsent answers of one connection at which it is no longer read


class ListenerCounters:
    """Counters of a listener since its start, which never decrease. Source: Kafka's socket-server-metrics."""

    __slots__ = ("connections_closed", "connections_opened", "incoming_bytes", "outgoing_bytes", "requests")

    def __init__(self) -> None:
        self.connections_opened = 0
        self.connections_closed = 0
        self.incoming_bytes = 0
        self.outgoing_bytes = 0
        self.requests: dict[int, int] = {}  # by api key
