"""Elections of more partitions than one request has time for: held in the background, batch by batch.

The request that begins one is answered at once. Its address then shows the progress and the result of each partition,
to every reader and also after the session of the person who began it has ended. Each batch is audited as a change of
its own, so that the audit has everything that was done even if this process is killed. A batch that fails since the
leader has moved or cannot be reached is repeated: a partition that was elected already stays as it is.
"""

import asyncio
import datetime as dt
import secrets
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import structlog

from app.actions.audited import Audited, Caller
from app.actions.partitions import election_detail, failures_text, resource_of
from app.cluster.cluster import Cluster
from app.cluster.elections import batches
from app.cluster.partitions import Outcome, Partition
from app.security.service import Security
from app.tasks import cancel_tasks
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.protocol.errors import ErrorCode, KafkaError

log = structlog.get_logger(__name__)

KEPT: Final = 5
"""The most elections that are remembered."""
PATIENCE_SECONDS: Final = 60.0
"""For how long a batch is repeated while no controller answers."""
RETRY_SECONDS: Final = 0.5
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""Refusals that another attempt may not meet."""

ElectionState = Literal["running", "done", "stopped"]


class ElectionRunningError(Exception):
    """Another election is being held; see `running`."""

    def __init__(self, running: "LongElection") -> None:
        super().__init__(phrase("An election is being held already. Wait until it has ended."))
        self.running = running


@dataclass(slots=True, kw_only=True)
class LongElection:
    """An election and what has become of it so far.

    The first `done` of its sorted partitions have been answered; `failures` has those of them that were refused.
    `offset`: of the newest change. `waits_for`: why the present batch is repeated. `stopped_by`: why the rest was not
    elected. `leaders_before`: how many partitions each broker led when it began.
    """

    id: str
    election: ElectionType
    by: str
    partitions: Sequence[Partition]
    leaders_before: Mapping[int, int]
    begun_at: dt.datetime
    ended_at: dt.datetime | None = None
    done: int = 0
    failures: dict[Partition, KafkaError] = field(default_factory=dict)
    offset: int | None = None
    waits_for: str = ""
    stopped_by: str = ""

    @property
    def state(self) -> ElectionState:
        """Whether it is being held, has ended, or was stopped before its end."""
        if self.ended_at is None:
            return "running"
        return "stopped" if self.stopped_by else "done"

    @property
    def elected(self) -> int:
        """How many of its partitions have the leader that was asked for."""
        return self.done - len(self.failures)

    def outcome(self, key: Partition) -> tuple[str, KafkaError | None]:
        """Return the result of one of its partitions: `refused` with the error, `elected` or `pending`."""
        error = self.failures.get(key)
        if error is not None:
            return "refused", error
        return "elected" if bisect_left(self.partitions, key) < self.done else "pending", None

    def refused_first(self) -> list[Partition]:
        """Return its partitions, those that were refused before the others."""
        return [*self.failures, *(key for key in self.partitions if key not in self.failures)]

    def add(self, some: Sequence[Partition], done: Outcome) -> None:
        """Take the answer to the next batch."""
        refused = {key: each for key, each in done.failures.items() if each.code is not ErrorCode.ELECTION_NOT_NEEDED}
        self.failures |= refused
        self.done += len(some)
        self.offset = self.offset if done.offset is None else done.offset


class LongElections(Audited):
    """The elections of this process, at most one at a time."""

    def __init__(self, cluster: Cluster, security: Security) -> None:
        super().__init__(cluster, security)
        self._elections: dict[str, LongElection] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def newest(self) -> LongElection | None:
        """The last one that was begun, None before the first."""
        return next(reversed(self._elections.values()), None)

    def get(self, election_id: str) -> LongElection | None:
        """Return an election, None if this process does not know it."""
        return self._elections.get(election_id)

    def begin(self, caller: Caller, election: ElectionType, partitions: Sequence[Partition]) -> LongElection:
        """Begin to elect leaders. Raises ElectionRunningError, and DatabaseUnavailableError without an audit."""
        self._security.check_record()
        newest = self.newest
        if newest is not None and newest.state == "running":
            raise ElectionRunningError(newest)
        begun = LongElection(
            id=secrets.token_hex(8),
            election=election,
            by=caller.principal.audit_name,
            partitions=sorted(partitions),
            leaders_before=dict(self._cluster.topic_table.totals().leaders_of),
            begun_at=dt.datetime.now(dt.UTC),
        )
        self._elections[begun.id] = begun
        for old in list(self._elections)[:-KEPT]:
            del self._elections[old]
        self._task = asyncio.create_task(self._hold(caller, begun), name="election")
        return begun

    async def stop(self) -> None:
        """Stop the one that is being held, after its batch has been audited."""
        await cancel_tasks(self._task)

    async def _hold(self, caller: Caller, held: LongElection) -> None:
        try:
            for some in batches(held.partitions):
                await self._hold_batch(caller, held, some)
        except asyncio.CancelledError:
            held.stopped_by = phrase("The web process is stopping.")
            raise
        except Exception as error:  # nobody else would tell of it, and the next election must be able to begin
            held.stopped_by = sentence_of(error)
            log.exception("election_stopped", election=held.id, done=held.done)
        finally:
            held.waits_for = ""
            held.ended_at = dt.datetime.now(dt.UTC)

    async def _hold_batch(self, caller: Caller, held: LongElection, some: Sequence[Partition]) -> None:
        detail = election_detail(held.election, some) | {"election": held.id}
        async with self._audited(caller, "partitions.elect", resource_of(some), detail) as outcome:
            done = await self._elected(held, some)
            held.add(some, done)
            outcome.offset, outcome.error = done.offset, failures_text(done.failures)

    async def _elected(self, held: LongElection, some: Sequence[Partition]) -> Outcome:
        """Elect a batch. Raises KafkaError, and ConnectionError once no controller has answered for too long."""
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE_SECONDS
        while True:
            try:
                done = await self._cluster.admin.partitions.elect_leaders(held.election, some)
            except (ConnectionError, KafkaError) as error:
                is_passing = isinstance(error, ConnectionError) or error.code in _PASSING
                if not is_passing or clock() >= until:
                    raise
                held.waits_for = sentence_of(error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                held.waits_for = ""
                return done
