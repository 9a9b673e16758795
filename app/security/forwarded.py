"""The origin of a request behind proxies, whose headers count only if their addresses are trusted."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HOPS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """The address from which a request came, and the scheme that the browser used."""

    address: str
    scheme: str


def origin_of(peer: str, scheme: str, headers: Headers, trusted: Sequence[Network]) -> Origin:
    """Return the origin of a request.

    X-Forwarded-For is read from its end, which the nearest proxy wrote. An entry counts as long as the address after it
    is trusted, so a client cannot forge its address by sending the header itself.
    """
    if not trusted or not _is_trusted(peer, trusted):
        return Origin(peer, scheme)
    address = peer
    for text in reversed(_entries(headers, "x-forwarded-for")[-HOPS_MAX:]):
        named = _address(text)
        if named is None:
            break
        address = named
        if not _is_trusted(address, trusted):
            break
    protocols = _entries(headers, "x-forwarded-proto")
    protocol = protocols[-1].lower() if protocols else ""
    return Origin(address, protocol if protocol in {"http", "https"} else scheme)


def network_of(address: str) -> str:
    """Return the key of an address for limits: itself, or the /64 of an IPv6 address, which one subscriber owns."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((known, 64), strict=False))


def _entries(headers: Headers, name: str) -> list[str]:
    return [part.strip() for value in headers.getlist(name) for part in value.split(",") if part.strip()]


def _address(text: str) -> str | None:
    """Return an address without the port that some proxies add, None for any other text."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return any(known in network for network in trusted)
