"""Free ports of the loopback address, reserved among the processes of a user."""

import fcntl
import os
import secrets
import socket
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

PORTS: Final = range(15_000, 32_000)
"""Below the range from which systems take the ports of outgoing connections."""


def free_ports(count: int) -> list[int]:
    """Return free ports of 127.0.0.1 that no other call returns while this process runs.

    An outgoing connection cannot take one before a slow process listens on it, since such ports come from a higher
    range. The ports stay reserved, because a killed node restarts on the same port.
    """
    file, taken = _reservations()
    ports: list[int] = []
    with ExitStack() as stack:
        while len(ports) < count:
            probe = stack.enter_context(socket.socket())
            port = PORTS.start + secrets.randbelow(len(PORTS))  # not `random`, which tests seed
            if port in taken:
                continue
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            taken.add(port)
            ports.append(port)
    return ports


@cache
def _reservations() -> tuple[int, set[int]]:
    """Return the file in which each process locks one byte per reserved port, and the ports of this process."""
    path = Path(tempfile.gettempdir()) / f"conclave-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), set()
