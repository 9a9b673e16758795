"""Elections of more partitions than one request has time for: held in the background, batch by batch.

The request that begins one is answered at once. Its address then shows the progress and the result of each partition,
to every reader, at every web process of the database, and also after the session of the person who began it has ended.
The process that holds an election writes its progress to the database every second, with a lease: an election without a
valid lease has stopped with its process. Each batch is audited as a change of its own. A batch that fails since the
leader has moved or cannot be reached is repeated: a partition that was elected already stays as it is.
"""

import asyncio
import contextlib
import datetime as dt
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.actions import election_store
from app.actions.audited import Audited, Caller
from app.actions.election_store import LongElection
from app.actions.partitions import election_detail, failures_text, resource_of
from app.cluster.cluster import Cluster
from app.cluster.elections import batches
from app.cluster.partitions import Outcome, Partition
from app.db.base import utc_now
from app.db.database import Database
from app.security.service import Security
from app.tasks import cancel_tasks
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.protocol.errors import ErrorCode, KafkaError

log = structlog.get_logger(__name__)

PATIENCE_SECONDS: Final = 60.0
"""For how long a batch is repeated while no controller answers."""
RETRY_SECONDS: Final = 0.5
SAVE_SECONDS: Final = 1.0
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""Refusals that another attempt may not meet."""


class ElectionRunningError(Exception):
    """Another election is being held; see `running`."""

    def __init__(self, running: "LongElection") -> None:
        super().__init__(phrase("An election is being held already. Wait until it has ended."))
        self.running = running


class LongElections(Audited):
    """The elections of a cluster, at most one at a time over all web processes."""

    def __init__(self, cluster: Cluster, security: Security, database: Database) -> None:
        super().__init__(cluster, security)
        self._database = database
        self._held: LongElection | None = None  # the last one that this process has begun
        self._seen: dict[str, LongElection] = {}  # those of other processes, as they were when last read
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def newest(self) -> LongElection | None:
        """Return the last one that was begun, None before the first. Raises DatabaseUnavailableError."""
        newest = await self._database.read(election_store.newest_id)
        return None if newest is None else await self.get(newest)

    async def get(self, election_id: str) -> LongElection | None:
        """Return an election, None if it is not known. Raises DatabaseUnavailableError."""
        if self._held is not None and self._held.id == election_id:
            return self._held
        seen = self._seen.get(election_id)
        if seen is None or not seen.is_final:
            seen = await self._database.read(election_store.load, election_id, seen, utc_now())
            if seen is None:
                return None
            self._seen[election_id] = seen
            for old in list(self._seen)[: -election_store.KEPT]:
                del self._seen[old]
        return seen

    async def begin(self, caller: Caller, election: ElectionType, partitions: Sequence[Partition]) -> LongElection:
        """Begin to elect leaders. Raises ElectionRunningError, and DatabaseUnavailableError without an audit."""
        self._security.check_record()
        begun = LongElection(
            id=secrets.token_hex(8),
            election=election,
            by=caller.principal.audit_name,
            partitions=sorted(partitions),
            leaders_before=dict(self._cluster.topic_table.totals().leaders_of),
            begun_at=utc_now(),
        )
        running_id = await self._database.write(election_store.begin, begun)
        if running_id is not None:
            running = await self.get(running_id)
            raise ElectionRunningError(begun if running is None else running)
        self._held = begun
        self._task = asyncio.create_task(self._hold(caller, begun), name="election")
        return begun

    async def stop(self) -> None:
        """Stop the one that is being held, after its batch has been audited."""
        self._is_stopping = True
        await cancel_tasks(self._task)

    async def _hold(self, caller: Caller, held: LongElection) -> None:
        ended = asyncio.Event()
        saving = asyncio.create_task(self._save_until(held, ended), name="election-progress")
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
            ended.set()
            await saving

    async def _save_until(self, held: LongElection, ended: asyncio.Event) -> None:
        """Write the progress, at last the end. Only then is it known here too, so that all processes agree."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), SAVE_SECONDS)
            ended_at = utc_now() if ended.is_set() else None
            is_saved = await self._save(held, ended_at)
            if ended_at is not None:
                if is_saved or self._is_stopping:
                    held.ended_at = ended_at
                    return
                await asyncio.sleep(SAVE_SECONDS)

    async def _save(self, held: LongElection, ended_at: dt.datetime | None) -> bool:
        """Write the progress, and return whether it is stored. If it is not, the next time writes all of it."""
        refused, known = list(held.failures.items())[held.failures_saved :], len(held.failures)
        try:
            await self._database.write(election_store.save, replace(held, ended_at=ended_at), refused)
        except SQLAlchemyError as cause:
            log.info("election_progress_not_saved", election=held.id, cause=str(cause))
            return False
        held.failures_saved = known
        return True

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
