"""AbstractKafkaConfig: typed access to the settings of server.properties and to values derived from them.

Source: AbstractKafkaConfig, KRaftConfigs, QuorumConfig and SocketServerConfigs, Kafka 4.3.1.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from kraft_core.configs.config_def import Value
from kraft_core.server.config.connection_limits import by_listener, parse_overrides
from kraft_core.server.config.listeners import (
    NON_ROUTABLE_HOST,
    Listener,
    Voter,
    parse_bootstrap_servers,
    parse_listeners,
    parse_security_protocol_map,
    parse_voters,
)
from kraft_core.server.config.settings import Settings
from kraft_core.server.network.connection_quotas import ConnectionLimits

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


class AbstractKafkaConfig(Settings):
    """The settings of one node; immutable. `originals` holds the texts of the file with variables replaced.

    Each value is valid for its key; `KafkaConfig` also validates the settings against each other. Properties that parse
    a text raise ConfigError when they are first read.
    """

    def __init__(self, originals: Mapping[str, str], values: Mapping[str, Value]) -> None:
        self.originals = originals
        self.values = values

    # Roles

    @cached_property
    def process_roles(self) -> frozenset[str]:
        """The roles of this node: "broker", "controller" or both."""
        return frozenset(self._list("process.roles"))

    @property
    def is_controller(self) -> bool:
        """Whether this node has the controller role."""
        return "controller" in self.process_roles

    @property
    def is_broker(self) -> bool:
        """Whether this node has the broker role."""
        return "broker" in self.process_roles

    # Folders

    @cached_property
    def log_dirs(self) -> tuple[Path, ...]:
        """`log.dirs`, else `log.dir`."""
        entries = self._list("log.dirs") if self.values["log.dirs"] is not None else self._list("log.dir")
        return tuple(Path(entry) for entry in entries if entry)

    @cached_property
    def metadata_log_dir(self) -> Path:
        """`metadata.log.dir`, else the first of `log_dirs`: the parent of __cluster_metadata-0."""
        given = self.values["metadata.log.dir"]
        return Path(str(given)) if given else self.log_dirs[0]

    # Listeners

    @cached_property
    def listener_security_protocol_map(self) -> dict[str, str]:
        """Security protocol by listener name, both in upper case."""
        key = "listener.security.protocol.map"
        uses_secure = any(
            entry.upper().startswith(("SSL:", "SASL_PLAINTEXT:", "SASL_SSL:")) for entry in self._list("listeners")
        )
        is_default = key not in self.originals and not uses_secure
        return parse_security_protocol_map(str(self.values[key]), self.controller_listener_names, is_default=is_default)

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners of this node, in the file's order."""
        return parse_listeners(
            "listeners", self._list("listeners"), self.listener_security_protocol_map, require_distinct_ports=True
        )

    @cached_property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """Listeners that serve the quorum; none for a broker-only node."""
        return tuple(each for each in self.listeners if each.name in self._controller_names)

    @cached_property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """Listeners that serve clients and brokers."""
        return tuple(each for each in self.listeners if each.name not in self._controller_names)

    @cached_property
    def advertised_broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients get to know; an empty host means this machine's name."""
        advertised = self._advertised if self.values["advertised.listeners"] is not None else self.listeners
        return tuple(each for each in advertised if each.name not in self._controller_names)

    @cached_property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners that other nodes get to know, in the order of controller.listener.names.

        Without an advertised entry it is the listener; a wildcard host of the first one is replaced by the host of this
        node's entry in controller.quorum.voters, else by "" (this machine's name).
        """
        found: list[Listener] = []
        for index, name in enumerate(self._controller_names):
            given = next((each for each in self._advertised if each.name == name), None)
            bound = next((each for each in self.controller_listeners if each.name == name), None)
            if given is not None:
                found.append(given)
            elif bound is not None:
                found.append(self._advertise(bound, is_first=index == 0))
        return tuple(found)

    def _advertise(self, bound: Listener, *, is_first: bool) -> Listener:
        if bound.host not in ("", NON_ROUTABLE_HOST):
            return bound
        voter = next((each for each in self.controller_quorum_voters if each.id == self.node_id), None)
        if is_first and voter is not None:
            return Listener(bound.name, bound.security_protocol, voter.host, voter.port)
        return Listener(bound.name, bound.security_protocol, "", bound.port)

    @cached_property
    def _advertised(self) -> tuple[Listener, ...]:
        key = "advertised.listeners"
        entries = self._list(key) if self.values[key] is not None else ()
        return parse_listeners(key, entries, self.listener_security_protocol_map, require_distinct_ports=False)

    @cached_property
    def _controller_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.controller_listener_names)

    @cached_property
    def inter_broker_listener_name(self) -> str:
        """`inter.broker.listener.name`, else the name of security.inter.broker.protocol."""
        given = self.values["inter.broker.listener.name"]
        return str(given or self.values["security.inter.broker.protocol"]).upper()

    @cached_property
    def connection_limits(self) -> ConnectionLimits:
        """The limits on connections. Raises ConfigError."""
        names = tuple(listener.name for listener in self.listeners)
        return ConnectionLimits(
            max_connections=self.max_connections,
            max_connections_per_ip=self.max_connections_per_ip,
            per_ip_overrides=parse_overrides(self.max_connections_per_ip_overrides),
            max_creation_rate=self.max_connection_creation_rate,
            listener_max_connections=by_listener(self.originals, names, "max.connections"),
            listener_max_creation_rate=by_listener(self.originals, names, "max.connection.creation.rate"),
        )

    # Quorum

    @cached_property
    def controller_quorum_voters(self) -> tuple[Voter, ...]:
        """The static voters (kraft.version 0); empty for a dynamic quorum."""
        return parse_voters(self._list("controller.quorum.voters"))

    @cached_property
    def controller_quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each entry of the setting."""
        key = "controller.quorum.bootstrap.servers"
        return parse_bootstrap_servers(key, self._list(key))

    @property
    def quorum_addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of controllers to ask for the leader: the bootstrap servers, else the static voters."""
        voters = tuple((voter.host, voter.port) for voter in self.controller_quorum_voters)
        return self.controller_quorum_bootstrap_servers or voters

    # Times that Kafka accepts in several units

    @property
    def log_retention_ms(self) -> int:
        """Retention of records on a broker; -1: unlimited."""
        values = self.values
        if values["log.retention.ms"] is not None:
            retention_ms = _integer(values["log.retention.ms"])
        elif values["log.retention.minutes"] is not None:
            retention_ms = _integer(values["log.retention.minutes"]) * _MINUTE_MS
        else:
            retention_ms = _integer(values["log.retention.hours"]) * _HOUR_MS
        return retention_ms if retention_ms >= 0 else -1

    @property
    def log_roll_ms(self) -> int:
        """Age at which a broker rolls a log segment."""
        given = self.values["log.roll.ms"]
        return _integer(given) if given is not None else _integer(self.values["log.roll.hours"]) * _HOUR_MS

    @property
    def metadata_segment_bytes(self) -> int:
        """Size at which the metadata log rolls; the internal key for tests overrides the public one."""
        return self.internal_metadata_log_segment_bytes or self.metadata_log_segment_bytes

    def _list(self, key: str) -> tuple[str, ...]:
        value = self.values[key]
        assert isinstance(value, tuple), key
        return value


def _integer(value: Value) -> int:
    assert isinstance(value, int)
    return value
