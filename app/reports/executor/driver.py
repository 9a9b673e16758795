"""Executes the cluster's active plan while this web process holds its lease."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cluster.log_dirs import FRESH_SECONDS, LogDirs
from app.cluster.partitions import Partition
from app.db.base import utc_now
from app.db.database import Database
from app.reports.executor import plan_events, plan_store
from app.reports.executor.cluster_steps import StepResult
from app.reports.executor.lease import LEASE_SECONDS, MARGIN_SECONDS, LeaseLostError, claim, release
from app.reports.executor.machine import asked_brokers, carried_out, decide, failing, planned_again
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import ACTIVE_STATES, FINAL_STATES, Decision, Execution, PlanAgain, Row, Step
from app.reports.executor.story import Event, happened, stuck_event, stuck_rows
from app.tasks import cancel_tasks
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import KafkaError

log = structlog.get_logger(__name__)

TICK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 2.0
PLACED_SECONDS: Final = 2.0
"""How often brokers are asked whether replicas have arrived in a log directory; only they know."""


class Steps(Protocol):
    """The cluster as the executor uses it; see ClusterSteps."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, None until the image has been read."""

    @property
    def image(self) -> MetadataImage:
        """The newest image."""

    async def catch_up(self) -> None:
        """Wait until the image contains every change acknowledged so far."""

    def under_min(self) -> frozenset[Partition]:
        """Return the partitions under min ISR."""

    def margin(self, row: Row) -> int:
        """Return how many replicas the partition can lose before it refuses writes."""

    async def log_dirs(self, brokers: Iterable[int], fresh_seconds: float) -> Mapping[int, LogDirs]:
        """Return what brokers have told of their log directories, without waiting for those asked again."""

    async def carry_out(self, step: Step) -> StepResult:
        """Carry out a step. Raises KafkaError or ConnectionError when its effect is unknown or nothing was done."""


class DrainRefusedError(Exception):
    """No new places can be proposed for the replicas of a drained broker."""


Replan = Callable[[MetadataImage, PlanAgain, Mapping[int, LogDirs]], Awaitable[Mapping[Partition, Row]]]
"""Returns rows for all replicas that brokers and log directories still hold. Raises DrainRefusedError."""
Record = Callable[[PlanRecord, Step, StepResult | None, str | None], Awaitable[None]]
"""Writes the audit event of a step, with the result or the error."""


@dataclass(slots=True)
class _Held:
    """The plan whose lease this process holds. `must_catch_up`: a change may have been made that is not in the image.

    `until`: the end of the lease less the margin, on the monotonic clock. `stuck`: partitions that are known to be.
    """

    record: PlanRecord
    fence: int
    version: int
    execution: Execution
    until: float
    must_catch_up: bool = True
    trouble: str | None = None
    stuck: frozenset[Partition] = frozenset()


class PlanExecutor:
    """Executes plans from `start` to `stop`. Every web process has one; the lease chooses who works."""

    def __init__(
        self,
        database: Database,
        steps: Steps,
        replan: Replan,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._steps = steps
        self._replan = replan
        self._record = record
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._held: _Held | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Start to look for an active plan."""
        self._task = asyncio.create_task(self._run(), name="plan-executor")

    async def stop(self) -> None:
        """Stop, and let another process continue at once."""
        await cancel_tasks(self._task)
        if self._held is not None:
            with contextlib.suppress(SQLAlchemyError):
                await self._database.write(release, self._held.execution.plan.id, self._held.fence)

    def wake(self) -> None:
        """Look at the plan now, since a caller has changed it."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = RETRY_SECONDS
            try:
                pause = 0 if await self.tick() else TICK_SECONDS
            except LeaseLostError as lost:
                log.warning("plan_lease_lost", cause=str(lost))
                self._held = None
            except SQLAlchemyError:
                self._held = None  # the database's outage log has it
            except Exception:  # a wrong decision on one plan must not end the executor, which nothing starts again
                log.exception("plan_tick_failed")
                self._held = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def tick(self) -> bool:
        """Decide once, and carry out at most one step. Returns whether there may be more to do at once.

        Raises LeaseLostError, and SQLAlchemyError while the database cannot be used.
        """
        held = self._held = self._held or await self._claim()
        if held is None:
            return False
        before = self._clock()
        plan, held.version = await self._database.write(plan_store.renewed, held.execution.plan.id, held.fence)
        held.until = before + LEASE_SECONDS - MARGIN_SECONDS
        held.execution = replace(held.execution, plan=plan)
        if held.must_catch_up:
            await self._catch_up(held)
        if held.must_catch_up:
            return False
        decision = await self._decide(held)
        if not await self._save(held, decision, self._newly_stuck(held)):
            return True
        if decision.plan.state in FINAL_STATES:
            log.info("plan_ended", plan_id=plan.id, state=decision.plan.state)
            self._held = None
            return True
        return decision.step is not None and await self._carry_out(held, decision.step)

    async def _claim(self) -> _Held | None:
        cluster_id = self._steps.cluster_id
        if cluster_id is None or not await self._database.read(_has_active, cluster_id):
            return None
        before = self._clock()

        def claimed(session: Session) -> _Held | None:
            record = claim(session, cluster_id, self._owner)
            if record is None:
                return None
            until = before + LEASE_SECONDS - MARGIN_SECONDS
            if record.fence > 1:
                plan_events.add(session, record.id, "continued")
            return _Held(record, record.fence, record.version, plan_store.load(session, record), until)

        held = await self._database.write(claimed)
        if held is not None:
            rows = held.execution.rows
            worst_first = sorted(rows.items(), key=lambda item: (self._steps.margin(item[1]), item[1].size_bytes or 0))
            held.execution = replace(held.execution, rows=dict(worst_first))
            held.stuck = stuck_rows(rows, held.execution.plan.stuck_minutes, utc_now())
            log.info("plan_claimed", plan_id=held.execution.plan.id, fence=held.fence)
        return held

    async def _catch_up(self, held: _Held) -> None:
        """Read all that the controller has acknowledged: the process before this one may have changed something."""
        try:
            await self._steps.catch_up()
            held.must_catch_up = False
        except (ConnectionError, KafkaError) as error:
            await self._note(held, str(error))

    async def _decide(self, held: _Held) -> Decision:
        under_min = self._steps.under_min()
        answers = await self._answers(held)
        decision = await asyncio.to_thread(decide, held.execution, self._steps.image, utc_now(), under_min, answers)
        if held.trouble is not None and decision.plan.waits_for is None and decision.plan.state not in FINAL_STATES:
            decision = replace(decision, plan=replace(decision.plan, waits_for=held.trouble))
        return decision

    async def _answers(self, held: _Held) -> Mapping[int, LogDirs]:
        brokers, is_between = asked_brokers(held.execution)
        return await self._steps.log_dirs(brokers, PLACED_SECONDS if is_between else FRESH_SECONDS)

    def _newly_stuck(self, held: _Held) -> list[Event]:
        """Return the event of partitions that have become stuck since the last look."""
        minutes = held.execution.plan.stuck_minutes
        stuck = stuck_rows(held.execution.rows, minutes, utc_now())
        new, held.stuck = stuck - held.stuck, stuck
        return [stuck_event(new, minutes)] if new else []

    async def _save(self, held: _Held, decision: Decision, seen: Sequence[Event] = ()) -> bool:
        """Store a decision, with what it makes happen and what was `seen`.

        Returns False when a caller has changed the plan: then it must be decided again.
        """
        events = [*seen, *happened(held.execution, decision)]
        if decision.plan == held.execution.plan and not decision.rows and not decision.settings and not events:
            return True
        before = self._clock()
        if not await self._database.write(plan_store.save, held.fence, held.version, decision, events):
            return False
        held.until = before + LEASE_SECONDS - MARGIN_SECONDS
        held.execution = held.execution.after(decision)
        return True

    async def _carry_out(self, held: _Held, step: Step) -> bool:
        """Carry out a step within the lease, and store its result. Returns False when it could not be."""
        left = held.until - self._clock()
        if left <= 0:
            held.must_catch_up = True
            return True
        if isinstance(step, PlanAgain):
            return await self._plan_again(held, step)
        try:
            async with asyncio.timeout(left):
                result = await self._steps.carry_out(step)
        except (ConnectionError, KafkaError, TimeoutError) as error:
            held.must_catch_up = True
            text = str(error) or "The controller did not answer in time."
            await self._record(held.record, step, None, text)
            await self._note(held, text)
            return False
        held.trouble = None
        await self._record(held.record, step, result, None)
        done = carried_out(held.execution, step, result.partitions, result.resources)
        plan = replace(done.plan, offset=max(done.plan.offset, -1 if result.offset is None else result.offset))
        await self._save(held, replace(done, plan=plan))
        return True

    async def _plan_again(self, held: _Held, step: PlanAgain) -> bool:
        plan = held.execution.plan
        try:
            answers = await self._steps.log_dirs(self._steps.image.cluster.brokers, FRESH_SECONDS)
            rows = await self._replan(self._steps.image, step, answers)
        except DrainRefusedError as refused:
            return await self._save(held, Decision(plan=failing(plan, str(refused)), rows={}, settings={}))
        await self._save(held, planned_again(held.execution, rows))
        return bool(rows)

    async def _note(self, held: _Held, text: str) -> None:
        """Show why nothing happens now."""
        if held.trouble != text:
            held.trouble = text
            log.warning("plan_waits", plan_id=held.execution.plan.id, cause=text)
        plan = replace(held.execution.plan, waits_for=text)
        await self._save(held, Decision(plan=plan, rows={}, settings={}))


def _has_active(session: Session, cluster_id: str) -> bool:
    query = select(PlanRecord.id).where(PlanRecord.cluster_id == cluster_id, PlanRecord.state.in_(ACTIVE_STATES))
    return session.scalar(query.limit(1)) is not None
