"""Answers of one listener that wait to be sent, counted by the address of their clients.

A connection is not read while its own answers wait (`write_high_water_bytes`). An address may have many connections, so its sum is
bounded too:

1. A fetch answers with as much as there is room for within `max_unsent_bytes_per_address`, from the moment on that its records are read.
2. Above twice as much, no connection of the address is read.
3. Then those whose peer has taken nothing for STALLED_S are closed, the largest first, so that the others are read again. A consumer
   that is busy with its records takes nothing either, so below that sum nobody is closed.

`max_unsent_bytes` bounds the sum of all addresses.

Source: our own; Apache Kafka reads no further request of a connection before it has sent the answer to the last one.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

STALLED_S: Final = 1.0
_WATCHES: Final = 4
"""Looks at a connection within STALLED_S."""
_ROOM_LEAST_BYTES: Final = 65_536
UNSENT: Final = "too many answers that the client does not read"


class AnsweredConnection(Protocol):
    """A connection with answers."""

    client_host: str
    unsent_bytes: int
    stalled_watches: int

    def count_unsent(self) -> bool:
        """Count the unsent answers; return whether the peer has taken some since the last count."""

    def close(self, cause: str) -> None:
        """Close at once."""

    def read_on(self) -> None:
        """Take what waited for room."""


class UnsentAnswers:
    """The sums of one listener. `connections` are all of its connections, now and later."""

    def __init__(self, connections: Iterable[AnsweredConnection], max_bytes: int, max_bytes_per_address: int) -> None:
        self.total_bytes = 0
        self._connections = connections
        self._max_bytes = max_bytes
        self._address_max_bytes = max_bytes_per_address
        self._by_address: Counter[str] = Counter()
        self._watched: set[str] = set()
        self._watch: asyncio.TimerHandle | None = None

    def count(self, address: str, change: int) -> None:
        """Count a change of the unsent answers of an address' connection."""
        self.total_bytes += change
        self._by_address[address] += change
        if self._by_address[address] <= 0:
            del self._by_address[address]
        elif self._is_full(address):
            self._watched.add(address)
            if self._watch is None:
                self._schedule()

    def blocks(self, connection: AnsweredConnection) -> bool:
        """Whether the connection may not be read for the sake of what its address has unsent."""
        return self._is_full(connection.client_host)

    def room(self, address: str) -> int:
        """Return how many bytes an answer to this address may have, if its size can be chosen; 0 when it should have no content."""
        unsent = self._by_address[address]
        return 0 if self._is_full(address) else max(_ROOM_LEAST_BYTES, self._address_max_bytes - unsent)

    def shed(self) -> None:
        """Count again, and close the connection with most unsent answers if all together are still too many."""
        for connection in self._connections:
            connection.count_unsent()
        if self.total_bytes > self._max_bytes:
            max(self._connections, key=lambda connection: connection.unsent_bytes).close(UNSENT)

    def stop(self) -> None:
        """End the watch."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _schedule(self) -> None:
        self._watch = asyncio.get_running_loop().call_later(STALLED_S / _WATCHES, self._look)

    def _look(self) -> None:
        """Close connections of full addresses whose peers take nothing; read the others on when there is room."""
        self._watch = None
        concerned = [connection for connection in self._connections if connection.client_host in self._watched]
        for connection in concerned:
            has_moved = connection.count_unsent()
            connection.stalled_watches = (
                0 if has_moved or not connection.unsent_bytes else connection.stalled_watches + 1
            )
        stalled = [connection for connection in concerned if connection.stalled_watches >= _WATCHES]
        for connection in sorted(stalled, key=lambda connection: -connection.unsent_bytes):
            if self._by_address[connection.client_host] > self._address_max_bytes:
                connection.close(UNSENT)
        self._watched = {address for address in self._watched if self._is_full(address)}
        for connection in concerned:
            connection.read_on()
        if self._watched and self._watch is None:
            self._schedule()

    def _is_full(self, address: str) -> bool:
        return self._by_address[address] > 2 * self._address_max_bytes
