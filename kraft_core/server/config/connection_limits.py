"""The settings of connections that are more than a number: addresses with limits of their own, listeners with theirs.

Source: SocketServerConfigs and AbstractKafkaConfig.getMap, Kafka 4.3.1.
"""

import socket
from collections.abc import Mapping
from ipaddress import ip_address

from kraft_core.server.config.server_properties import ConfigError


def parse_overrides(text: str) -> dict[str, int]:
    """Read max.connections.per.ip.overrides, `host:limit,…` -> limit by address; a host name counts for its addresses.

    Raises ConfigError for an entry that is no such pair, and for a host without an address.
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
    """Read `listener.name.<name>.<key>` -> value by listener. Raises ConfigError for what is no number from 0 on."""
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
