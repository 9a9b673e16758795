"""Keeps the state of the quorum current: asks the leader every second, and the voters whether they answer.

Pages show `now`, which never waits. `version` changes whenever `now` changes in more than elapsed time: another leader,
epoch or voter, or a voter that stopped answering or fell behind. `on_change` is called then.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from app.cluster.latest_snapshot import LatestSnapshot, SnapshotWatch
from app.cluster.quorum import Quorum, Replica, describe_quorum, quorum_of, unmeasured, with_reach
from app.cluster.reach import Address, Reachability
from app.tasks import cancel_tasks
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.protocol.errors import KafkaError
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 1.0
TIMEOUT_MS: Final = 2_000
RETRY_SECONDS: Final = 0.02
NO_LEADER: Final = "no leader is known"


class QuorumWatch:
    """The current state of the quorum. `start` it on the event loop, and `stop` it before the loop ends."""

    def __init__(
        self,
        client: ControllerClient,
        observer: MetadataObserver,
        bootstrap: list[Address],
        security: ClientSecurity = PLAINTEXT_CLIENT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._observer = observer
        self._bootstrap = bootstrap
        self._clock = clock
        self._snapshots = SnapshotWatch(client)
        self._reach = Reachability(self._compose, security, clock)
        self._described: Quorum | None = None  # the leader's last response, of any epoch
        self._error = NO_LEADER  # the reason why there is no newer response
        self._asked_at = float("-inf")  # when the request was sent that was answered last
        self._asking = asyncio.Lock()
        self._voters_read = observer.voters
        self._listener = ""  # name of the listener over which the leader was reached
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._identity: Any = None
        self.version = 0
        self.on_change: Callable[[], None] = lambda: None
        self.now = self._composed()

    # lifecycle

    def start(self) -> None:
        """Start to ask."""
        self._observer.subscribe_leadership(self._on_standing)
        self._compose()
        self._task = asyncio.create_task(self._run(), name="quorum-watch")

    async def stop(self) -> None:
        """End all tasks."""
        await cancel_tasks(self._task)
        await self._reach.stop()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._observer.confirmed_leader is not None:
                await self._ask_unless_lost()
            else:
                self._compose()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self._wake.wait()

    async def _ask_unless_lost(self) -> None:
        """Ask the leader, and stop waiting when the leader is lost."""
        asking = asyncio.create_task(self._ask(TIMEOUT_MS))
        waking = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait({asking, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, waking):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    def _on_standing(self) -> None:
        """Note that the observer lost or found a leader, or learnt of another epoch."""
        self._compose()
        self._wake.set()

    # requests

    async def get(self, timeout_ms: int = TIMEOUT_MS) -> Quorum:
        """Return the quorum as the leader describes it now, after waiting for a leader if there is none.

        After `timeout_ms`, return the known state with `is_live` False. For changes; pages show `now`.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        asked = False
        while (remaining_ms := int((deadline - time.monotonic()) * 1000)) > 0 and not (asked and self.now.is_live):
            if self._observer.confirmed_leader is not None:
                await self._ask(remaining_ms)
                asked = True
            if not self.now.is_live:
                await asyncio.sleep(RETRY_SECONDS)
        return self.now

    def follow_voters(self) -> None:
        """Ask at once when another voter set was read in the log."""
        if self._observer.voters is not self._voters_read:
            self._voters_read = self._observer.voters
            self._wake.set()

    async def high_watermark(self, timeout_ms: int) -> int:
        """Ask the leader for its high watermark. Every change acknowledged before lies below it.

        Raises KafkaError or ConnectionError.
        """
        return (await describe_quorum(self._client, timeout_ms)).topics[0].partitions[0].high_watermark

    async def _ask(self, timeout_ms: int) -> None:
        """Ask the leader. Concurrent callers share the response to the later request."""
        wanted_at = time.monotonic()
        async with self._asking:
            if self._asked_at >= wanted_at:
                return
            began = time.monotonic()
            try:
                answer = await describe_quorum(self._client, timeout_ms)
                asked_at_ms = int(self._clock() * 1000)
                snapshot = await self._snapshot(answer.topics[0].partitions[0].leader_epoch, timeout_ms)
            except (ConnectionError, KafkaError) as cause:
                self._error = str(cause)
            else:
                self._error = ""
                self._described = quorum_of(
                    answer, asked_at_ms=asked_at_ms, kraft_version=self._kraft_version(), snapshot=snapshot
                )
            self._asked_at = began
            self._compose()

    async def _snapshot(self, leader_epoch: int, timeout_ms: int) -> LatestSnapshot | None:
        try:
            return await self._snapshots.get(leader_epoch, timeout_ms)
        except (ConnectionError, KafkaError):  # a leader that has just ended; the rest of its response is valid
            return None

    # composing the state

    def _compose(self) -> None:
        """Update `now` from all that is known, and call `on_change` when it has changed."""
        self.now = self._composed()
        if self._task is not None:
            addresses = [voter.address for voter in self.now.voters if voter.address is not None]
            self._reach.follow(addresses or self._bootstrap)
        identity = _identity(self.now)
        if identity != self._identity:
            self._identity = identity
            self.version += 1
            self.on_change()

    def _composed(self) -> Quorum:
        """Return the quorum: the confirmed leader's description, else the voters of the log or of older descriptions.

        Only a description by the confirmed leader in the confirmed epoch counts as current.
        """
        leader, epoch, described = self._observer.confirmed_leader, self._observer.epoch, self._described
        if leader is not None and described is not None and not self._error:
            is_current = (described.leader_id, described.leader_epoch) == (leader.node_id, epoch)
        else:
            is_current = False
        voters: tuple[Replica, ...]
        if is_current and described is not None:
            found = described
        else:
            found = Quorum(
                leader_id=None if leader is None else leader.node_id,
                leader_epoch=epoch,
                high_watermark=self._observer.high_watermark,
                kraft_version=self._kraft_version(),
                voters=self._voters_without_a_leader(None if leader is None else leader.node_id),
                observers=(),
                committed_voters=None,
                log_start_offset=-1,
                snapshot=None,
                is_live=False,
                error=self._error or NO_LEADER,
                asked_at_ms=int(self._clock() * 1000),
            )
        if leader is not None:
            self._listener = next(
                (
                    name
                    for voter in found.voters
                    for name, host, port in voter.endpoints
                    if (host, port) == (leader.host, leader.port)
                ),
                self._listener,
            )
        voters = tuple(self._located(voter) for voter in found.voters)
        reached = self._reach.found
        return with_reach(
            replace(
                found,
                voters=voters,
                committed_voters=self._committed_voters(),
                log_start_offset=self._observer.log_start_offset,
                asked=() if voters else tuple(reached[each] for each in self._bootstrap if each in reached),
            ),
            reached,
        )

    def _voters_without_a_leader(self, leader_id: int | None) -> tuple[Replica, ...]:
        """Return the voters of the log, or with static voters those described last, without offsets and times."""
        set_in_log = self._observer.voters
        if set_in_log is not None:
            known = [
                (each.voter_id, each.voter_directory_id, tuple((at.name, at.host, at.port) for at in each.endpoints))
                for each in set_in_log.voters
            ]
        else:
            before = self._described.voters if self._described is not None else ()
            known = [(each.id, each.directory_id, each.endpoints) for each in before]
        return tuple(
            unmeasured(*each, is_leader=each[0] == leader_id) for each in sorted(known, key=lambda one: one[0])
        )

    def _located(self, voter: Replica) -> Replica:
        """Return the voter with its address: the endpoint of the leader's listener, else its first endpoint."""
        endpoints = voter.endpoints
        if not endpoints:
            controller = self._observer.image.cluster.controllers.get(voter.id)
            listeners = () if controller is None else controller.listeners
            endpoints = tuple((at.name, at.host, at.port) for at in listeners)
        address = next(((host, port) for name, host, port in endpoints if name == self._listener), None)
        if address is None and endpoints:
            address = endpoints[0][1:]
        return replace(voter, endpoints=endpoints, address=address)

    def _committed_voters(self) -> tuple[tuple[int, uuid.UUID], ...] | None:
        voters = self._observer.voters
        return None if voters is None else tuple((each.voter_id, each.voter_directory_id) for each in voters.voters)

    def _kraft_version(self) -> int:
        """Return 1 when the log has a voter set (docs/protocol.md, "Voter changes"), 0 with static voters."""
        return 1 if self._observer.voters is not None else 0


def _identity(quorum: Quorum) -> tuple[object, ...]:
    """Return what distinguishes two states of the quorum, apart from elapsed time."""
    return (
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.standing,
        quorum.kraft_version,
        quorum.is_live,
        quorum.committed_voters,
        quorum.snapshot,
        tuple(
            (
                each.id,
                each.directory_id,
                each.endpoints,
                each.is_caught_up,
                each.is_silent,
                each.reach and each.reach.answers,
            )
            for each in quorum.voters
        ),
        tuple((each.id, each.directory_id, each.is_caught_up) for each in quorum.observers),
        tuple((each.host, each.port, each.answers) for each in quorum.asked),
    )
