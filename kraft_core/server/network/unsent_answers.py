"""UnsentAnswers: limits the unsent answers of a listener, in all and for each client address.

A connection is not read while it has unsent answers (`write_high_water_bytes`). Since an address may have many
connections, its sum is limited too:

1. A Fetch is answered with as many bytes as `max_unsent_bytes_per_address` leaves; they count once records are read.
2. Above twice that limit, no connection of the address is read.
3. Then connections whose peer has read nothing for STALLED_S are closed, the largest first, until the sum is within the
   limit and the others are read again. A busy consumer reads nothing either, so below 2. no connection is closed.

`max_unsent_bytes` limits the sum of all addresses. Apache Kafka needs none of this: it reads no further request of a
connection before it has sent the answer to the last one.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

STALLED_S: Final = 0.4
_WATCHES: Final = 4
"""Checks of a connection within STALLED_S."""
_ROOM_LEAST_BYTES: Final = 65_536
UNSENT: Final = "too many answers that the client does not read"


class AnsweredConnection(Protocol):
    """The interface of a connection that UnsentAnswers uses."""

    client_host: str
    unsent_bytes: int
    stalled_watches: int

    def count_unsent(self) -> bool:
        """Count the unsent answers; return whether the peer has read any bytes since the last count."""

    def close(self, cause: str) -> None:
        """Close at once."""

    def read_on(self) -> None:
        """Handle the frames that had to wait for a limit."""


class UnsentAnswers:
    """The unsent answers of one listener. `connections` is the live collection of its connections."""

    def __init__(self, connections: Iterable[AnsweredConnection], max_bytes: int, max_bytes_per_address: int) -> None:
        self.total_bytes = 0
        self._connections = connections
        self._max_bytes = max_bytes
        self._address_max_bytes = max_bytes_per_address
        self._by_address: Counter[str] = Counter()
        self._watched: set[str] = set()
        self._watch: asyncio.TimerHandle | None = None

    def count(self, address: str, change: int) -> None:
        """Add a change, in bytes, of the unsent answers of a connection of this address."""
        self.total_bytes += change
        self._by_address[address] += change
        if self._by_address[address] <= 0:
            del self._by_address[address]
        elif self._is_full(address):
            self._watched.add(address)
            if self._watch is None:
                self._schedule()

    def blocks(self, connection: AnsweredConnection) -> bool:
        """Return whether the connection must not be read because of its address's unsent answers."""
        return self._is_full(connection.client_host)

    def room(self, address: str) -> int:
        """Return how many bytes an answer to this address may have, if its size can be chosen; 0 for no content."""
        unsent = self._by_address[address]
        return 0 if self._is_full(address) else max(_ROOM_LEAST_BYTES, self._address_max_bytes - unsent)

    def shed(self) -> None:
        """Recount, and close the connection with the most unsent answers if the limit of all is exceeded."""
        for connection in self._connections:
            connection.count_unsent()
        if self.total_bytes > self._max_bytes:
            max(self._connections, key=lambda connection: connection.unsent_bytes).close(UNSENT)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _schedule(self) -> None:
        self._watch = asyncio.get_running_loop().call_later(STALLED_S / _WATCHES, self._check)

    def _check(self) -> None:
        """Close stalled connections of full addresses; resume reading the others if there is room."""
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
