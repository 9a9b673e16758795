"""Addresses as people write them: `host:port`, with an IPv6 address in brackets."""

import re
from typing import Final

_HOST_PORT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")


def parse_host_port(text: str) -> tuple[str, int]:
    """Split `host:port`; the brackets of an IPv6 address are removed. Raises ValueError that names the text."""
    found = _HOST_PORT.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def bracketed(host: str) -> str:
    """Return a host as addresses and URLs have it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def host_port(host: str, port: int) -> str:
    """Return `host:port`, the reverse of `parse_host_port`."""
    return f"{bracketed(host)}:{port}"
