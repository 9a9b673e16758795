"""ConnectionQuotas with a simulated clock."""

import logging
import math
from dataclasses import dataclass, field

import pytest

from kraft_core.server.config.connection_limits import parse_overrides
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.server.network.connection_quotas import NO_FILES_PAUSE_S, Admission, ConnectionLimits, ConnectionQuotas
from kraft_core.server.network.file_limit import FileSlots

A, B = "10.0.0.1", "10.0.0.2"
ADMITTED, EXCHANGED, REFUSED, NO_FILES = Admission


@dataclass
class Idle:
    """An idle connection."""

    listener: "Listener"
    has_asked: bool = True
    last_activity: float = 0.0

    def close(self, cause: str) -> None:
        self.listener.idle.remove(self)


@dataclass
class Listener:
    """A listener with idle connections, the least recently used first."""

    listener_name: str
    max_connections: int = 4096
    idle: list[Idle] = field(default_factory=list)
    resumed: int = 0

    def resume_accepting(self) -> None:
        self.resumed += 1

    def least_recently_used(self) -> Idle | None:
        return next(iter(self.idle), None)


@dataclass
class World:
    """Quotas over a listener for clients and a protected one."""

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    slots: FileSlots = field(default_factory=lambda: FileSlots(1_000, 1_100))
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.quotas = ConnectionQuotas(
            self.limits, protected=frozenset({"CONTROLLER"}), clock_s=lambda: self.now_s, slots=self.slots
        )
        self.clients, self.controller = Listener("PLAINTEXT"), Listener("CONTROLLER")
        self.quotas.add_listener(self.clients)
        self.quotas.add_listener(self.controller)

    def connect(self, name: str = "PLAINTEXT", address: str = A, descriptor: int = 10) -> Admission | float:
        """Accept a connection and return the admission, or the seconds until the listener may accept."""
        wait_s = self.quotas.wait_s(name)
        return wait_s if wait_s > 0 else self.quotas.admit(name, address, descriptor)


def test_the_limit_of_one_address_does_not_affect_others() -> None:
    world = World(ConnectionLimits(max_connections_per_ip=2, per_ip_overrides={B: 1}))
    assert [world.connect() for _ in range(3)] == [ADMITTED, ADMITTED, REFUSED]
    assert [world.connect(address=B) for _ in range(2)] == [ADMITTED, REFUSED]
    world.quotas.release("PLAINTEXT", A)
    assert world.connect() is ADMITTED


def test_a_full_listener_waits_until_a_connection_ends() -> None:
    world = World(ConnectionLimits(listener_max_connections={"PLAINTEXT": 1}))
    assert [world.connect() for _ in range(2)] == [ADMITTED, math.inf]
    world.quotas.release("PLAINTEXT", A)
    assert world.clients.resumed == 1
    assert world.connect() is ADMITTED


def test_a_protected_listener_of_a_full_node_accepts_in_exchange_for_an_idle_connection() -> None:
    world = World(ConnectionLimits(max_connections=2))
    world.clients.idle = [Idle(world.clients, has_asked=asked) for asked in (False, True)]
    world.controller.idle = [Idle(world.controller, last_activity=-1.0)]
    assert [world.connect() for _ in range(3)] == [ADMITTED, ADMITTED, math.inf]
    assert world.connect("CONTROLLER") is EXCHANGED
    assert [idle.has_asked for idle in world.clients.idle] == [True], "a connection without any request is closed first"
    assert world.connect("CONTROLLER") is EXCHANGED
    assert not world.clients.idle, "then one of the listener with the most connections"
    assert world.controller.idle


def test_a_full_protected_listener_closes_one_of_its_idle_connections() -> None:
    world = World(ConnectionLimits(listener_max_connections={"CONTROLLER": 1}))
    world.controller.idle = [Idle(world.controller)]
    assert [world.connect("CONTROLLER") for _ in range(3)] == [ADMITTED, EXCHANGED, REFUSED]


def test_connections_are_accepted_at_the_rate_and_protected_listeners_are_not_slowed_by_others() -> None:
    world = World(ConnectionLimits(max_creation_rate=10))
    assert world.connect() is ADMITTED
    assert world.connect() == pytest.approx(0.1)
    assert world.connect("CONTROLLER") is ADMITTED
    world.now_s += 0.1
    assert world.connect() is ADMITTED


def test_each_listener_has_its_rate_and_a_rate_of_0_accepts_no_connection() -> None:
    world = World(ConnectionLimits(listener_max_creation_rate={"CONTROLLER": 2, "PLAINTEXT": 0}))
    assert world.connect("CONTROLLER") is ADMITTED
    assert world.connect("CONTROLLER") == pytest.approx(0.5)
    world.connect()
    assert world.connect() == NO_FILES_PAUSE_S


def test_clients_leave_descriptors_to_protected_listeners_and_those_to_files() -> None:
    world = World(slots=FileSlots.of(256))
    assert world.slots == FileSlots(208, 224)
    assert world.connect(descriptor=207) is ADMITTED
    assert world.connect(descriptor=208) is NO_FILES
    assert world.connect("CONTROLLER", descriptor=208) is ADMITTED
    world.clients.idle = [Idle(world.clients)]
    assert world.connect("CONTROLLER", descriptor=224) is EXCHANGED
    assert not world.clients.idle


def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World(ConnectionLimits(max_connections_per_ip=0))
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            world.connect()
        world.now_s += 60
        world.connect()
    assert [record.times for record in caplog.records] == [1, 100]


def test_changed_limits_apply_at_once() -> None:
    world = World(ConnectionLimits(max_connections=1))
    assert [world.connect() for _ in range(2)] == [ADMITTED, math.inf]
    world.quotas.update(ConnectionLimits(max_connections=2))
    assert world.clients.resumed == 1
    assert world.connect() is ADMITTED


def test_overrides_may_name_addresses_and_hosts() -> None:
    assert parse_overrides("127.0.0.1:5, [::1]:6") == {"127.0.0.1": 5, "::1": 6}
    assert parse_overrides("localhost:7")["127.0.0.1"] == 7
    for wrong in ("10.0.0.1", "10.0.0.1:x", ":4", "no.such.host.invalid:4"):
        with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
            parse_overrides(wrong)


NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "log.dirs": "data",
}


def test_settings_of_a_listener_override_those_of_the_node() -> None:
    limits = KafkaConfig(
        NODE
        | {
            "max.connections": "100",
            "max.connection.creation.rate": "9",
            "listener.name.plaintext.max.connections": "50",
            "listener.name.controller.max.connection.creation.rate": "3",
        }
    ).connection_limits
    assert (limits.max_connections, limits.max_creation_rate) == (100, 9)
    assert limits.listener_max_connections == {"PLAINTEXT": 50}
    assert limits.listener_max_creation_rate == {"CONTROLLER": 3}
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.max\.connections"):
        KafkaConfig(NODE | {"listener.name.plaintext.max.connections": "-1"})
