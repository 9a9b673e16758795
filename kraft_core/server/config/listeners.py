"""Parsers of the listeners, voters and bootstrap servers in server.properties.

Source: SocketServerConfigs, AbstractKafkaConfig.listenerListToEndPoints and QuorumConfig, Kafka 4.3.1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraft_core.protocol.host_port import host_port
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.server.config.server_properties import ConfigError

NON_ROUTABLE_HOST: Final = "0.0.0.0"  # noqa: S104  # compared with, never bound

_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)
_HOST_PORT: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z\d+-.]*://)?\[?([0-9a-zA-Z\-._%:]+)\]?:([0-9]+)", re.ASCII)
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Listener:
    """One endpoint. `host` "" means every interface for a listener, this machine's name when advertised."""

    name: str  # upper case, as Kafka normalises it
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return NAME://host:port, as in the file."""
        return f"{self.name}://{host_port(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of controller.quorum.voters."""

    id: int
    host: str
    port: int


def parse_security_protocol_map(entries: str, controller_names: Sequence[str], *, is_default: bool) -> dict[str, str]:
    """Parse listener.security.protocol.map -> {LISTENER: PROTOCOL}.

    A controller listener without an entry in the default map is PLAINTEXT (KIP-801).
    """
    key = "listener.security.protocol.map"
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in entries.split(","))):
        name, separator, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not separator or not name:
            raise ConfigError(
                f"Error creating broker listeners from '{entries}': {key} needs NAME:PROTOCOL, not '{entry}'"
            )
        if protocol not in SecurityProtocol.__members__:
            raise ConfigError(
                f"Invalid value {protocol} for configuration {key}: "
                f"must be one of {', '.join(SecurityProtocol.__members__)}"
            )
        if name in found:
            raise ConfigError(f"Invalid value {entries} for configuration {key}: listener '{name}' has two entries")
        found[name] = protocol
    if is_default:
        for name in controller_names:
            found.setdefault(name.upper(), SecurityProtocol.PLAINTEXT.name)
    return found


def parse_listeners(
    key: str, entries: Iterable[str], protocols: Mapping[str, str], *, require_distinct_ports: bool
) -> tuple[Listener, ...]:
    """Parse `listeners` or `advertised.listeners`.

    Raises ConfigError for an entry that is not NAME://host:port, a name without a security protocol, a duplicate name,
    and (with `require_distinct_ports`) a duplicate port unless one is IPv4 and the other IPv6.
    """
    found: list[Listener] = []
    for entry in filter(None, entries):
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match[3]) > _PORT_MAX or int(match[3]) < 0:
            raise ConfigError(f"Invalid value {entry} for configuration {key}: must be NAME://host:port")
        name = match[1].upper()
        if name not in protocols:
            raise ConfigError(
                f"Invalid value {entry} for configuration {key}: No security protocol defined for listener {name} "
                f"(add it to listener.security.protocol.map)"
            )
        if any(other.name == name for other in found):
            raise ConfigError(
                f"Invalid value {entry} for configuration {key}: Each listener must have a different name"
            )
        listener = Listener(name, protocols[name], match[2], int(match[3]))
        if require_distinct_ports and listener.port and any(_same_port(listener, other) for other in found):
            raise ConfigError(
                f"Invalid value {entry} for configuration {key}: Each listener must have a different port"
            )
        found.append(listener)
    return tuple(found)


def _same_port(one: Listener, other: Listener) -> bool:
    is_dual = bool(one.host and other.host) and (":" in one.host) != (":" in other.host)
    return one.port == other.port and not is_dual


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    """Parse controller.quorum.voters: id@host:port entries."""
    found: dict[int, Voter] = {}
    for entry in filter(None, entries):
        voter_id, separator, address = entry.partition("@")
        match = _HOST_PORT.fullmatch(address)
        if not separator or not voter_id.isdecimal() or match is None or int(match[2]) > _PORT_MAX:
            raise ConfigError(
                f"Invalid value {entry} for configuration controller.quorum.voters: "
                "Each entry should be in the form `{id}@{host}:{port}`."
            )
        if int(voter_id) in found:
            raise ConfigError(f"Invalid value {entry} for configuration controller.quorum.voters: voter id given twice")
        found[int(voter_id)] = Voter(int(voter_id), match[1], int(match[2]))
    return tuple(found.values())


def parse_bootstrap_servers(key: str, entries: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Parse host:port entries -> ((host, port), …), in their order."""
    found: list[tuple[str, int]] = []
    for entry in filter(None, entries):
        match = _HOST_PORT.fullmatch(entry)
        if match is None or int(match[2]) > _PORT_MAX:
            raise ConfigError(
                f'Invalid value {entry} for configuration {key}: Each entry should be in the form "{{host}}:{{port}}"'
            )
        found.append((match[1], int(match[2])))
    return tuple(found)
