"""Parsers of the connection limits of single addresses and listeners.

Source: SocketServerConfigs and AbstractKafkaConfig.getMap, Kafka 4.3.1.
"""

import socket
from collections.abc import Mapping
from ipaddress import ip_address

from kraft_core.server.config.server_properties import ConfigError


def parse_overrides(text: str) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides, `host:limit,…` -> limit by address, for all addresses of a host name.

    Raises ConfigError for an invalid entry, and for a host without an address.
    """
    key = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, separator, limit = entry.rpartition(":")
        if not separator or not host or not limit.strip().isdecimal():
            raise ConfigError(
                f"Invalid value {entry} for configuration {key}: Each entry should be in the form host:limit"
            )
        found |= dict.fromkeys(_addresses(key, host.strip().strip("[]")), int(limit))
    return found


def _addresses(key: str, host: str) -> set[str]:
    try:
        return {str(ip_address(host))}
    except ValueError:
        pass
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ConfigError(
            f"Invalid value {host} for configuration {key}: the host has no address ({error.strerror})"
        ) from None


def by_listener(originals: Mapping[str, str], listener_names: tuple[str, ...], key: str) -> dict[str, int]:
    """Parse `listener.name.<name>.<key>` -> value by listener. Raises ConfigError for all but numbers of at least 0."""
    found: dict[str, int] = {}
    for name in listener_names:
        full_key = f"listener.name.{name.lower()}.{key}"
        text = originals.get(full_key)
        if text is None:
            continue
        if not text.strip().isdecimal():
            raise ConfigError(f"Invalid value {text} for configuration {full_key}: must be a number of at least 0")
        found[name] = int(text)
    return found
