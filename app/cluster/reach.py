"""Which controllers answer this process, over one open connection to each, asked every second.

No page waits for it. A controller that is killed resets its connection, so its loss is known within milliseconds; one
that is paused or cut off does not answer the next request in time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from app.tasks import cancel_tasks
from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.clients.quorum_fetch import fetch_partition, leader_probe
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import FetchResponse
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed

log = logging.getLogger(__name__)

PROBE_MS: Final = 1_000
TIMEOUT_MS: Final = 2_000
Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether the controller at an address answers.

    `since_ms` is the time of day since when it does or does not; `cause` is the reason why not, "" when it answers.
    `leader_epoch` is the newest epoch that it reported, -1 before the first.
    """

    host: str
    port: int
    answers: bool
    since_ms: int
    cause: str = ""
    leader_epoch: int = -1


async def probe(connection: KafkaConnection) -> int:
    """Return the epoch that a controller reports, -1 when its response has none.

    Raises ConnectionError and KafkaError, including LOGIN_FAILED.
    """
    answer = cast("FetchResponse", await connection.request(leader_probe(None), TIMEOUT_MS))
    partition = fetch_partition(answer)
    return -1 if partition is None else partition.current_leader.leader_epoch


class Reachability:
    """Monitors a set of addresses, on the event loop that calls `follow`."""

    def __init__(
        self,
        on_change: Callable[[], None],
        security: ClientSecurity = PLAINTEXT_CLIENT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._on_change = on_change
        self._security = security
        self._clock = clock
        self._found: dict[Address, Reach] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}

    @property
    def found(self) -> Mapping[Address, Reach]:
        """The known state of each address. Addresses that were not asked yet are missing."""
        return self._found

    def follow(self, addresses: Iterable[Address]) -> None:
        """Monitor these addresses and no others."""
        wanted = set(addresses)
        for address in self._tasks.keys() - wanted:
            self._tasks.pop(address).cancel()
            self._found.pop(address, None)
        for address in wanted - self._tasks.keys():
            self._tasks[address] = asyncio.create_task(self._watch(*address), name=f"reach-{address[0]}:{address[1]}")

    async def stop(self) -> None:
        """End all tasks."""
        tasks, self._tasks = list(self._tasks.values()), {}
        await cancel_tasks(*tasks)

    async def _watch(self, host: str, port: int) -> None:
        while True:
            try:
                connection = await KafkaConnection.open(host, port, "conclave-reach", TIMEOUT_MS, self._security)
            except (ConnectionError, KafkaError) as cause:
                self._note(host, port, cause)
                await asyncio.sleep(PROBE_MS / 1000)
                continue
            try:
                await self._ask(connection, host, port)
            except (ConnectionError, KafkaError) as cause:
                self._note(host, port, cause)
            finally:
                connection.close()

    async def _ask(self, connection: KafkaConnection, host: str, port: int) -> None:
        """Send requests over one connection until it closes."""
        while connection.is_open:
            epoch = await probe(connection)
            before = self._found.get((host, port))
            now_ms = int(self._clock() * 1000)
            since_ms = before.since_ms if before is not None and before.answers else now_ms
            if before is not None and not before.answers:
                log.info("controller_reach", extra={"host": host, "port": port, "answers": True})
            self._put(Reach(host=host, port=port, answers=True, since_ms=since_ms, leader_epoch=epoch))
            await connection.wait_closed(PROBE_MS)
        raise ConnectionResetError(f"{host}:{port} closed the connection")

    def _note(self, host: str, port: int, cause: Exception) -> None:
        """Note that a controller does not answer. A Kafka error is an answer; a failed login is not."""
        before = self._found.get((host, port))
        now_ms = int(self._clock() * 1000)
        answers = isinstance(cause, KafkaError) and not isinstance(cause, LoginFailed)
        if before is None or before.answers != answers:
            extra = {"host": host, "port": port, "answers": answers, "cause": str(cause)}
            log.log(logging.INFO if answers else logging.WARNING, "controller_reach", extra=extra)
            self._put(Reach(host=host, port=port, answers=answers, since_ms=now_ms, cause=str(cause)))
        elif before.cause != str(cause):
            self._put(replace(before, cause=str(cause)))

    def _put(self, reach: Reach) -> None:
        before = self._found.get((reach.host, reach.port))
        self._found[reach.host, reach.port] = reach
        if before != reach:
            self._on_change()
