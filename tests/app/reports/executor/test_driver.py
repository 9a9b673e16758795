"""The driver of plans: one process executes a plan, whatever happens to the others."""

import asyncio
import datetime as dt
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.cluster.log_dirs import LogDirs
from app.cluster.partitions import Partition
from app.db.base import utc_now
from app.db.database import Database
from app.reports.executor import driver, lease, plan_events, plan_store
from app.reports.executor.cluster_steps import StepResult
from app.reports.executor.driver import DrainRefusedError, PlanExecutor, Replan
from app.reports.executor.lease import LEASE_SECONDS, LeaseLostError
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import MOVED, Reassign, Row, Step
from app.reports.executor.plan_store import NewPlan, PlanStateError
from app.reports.executor.proposing import proposed_again
from app.reports.executor.story import sentence
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID, broker, image, partition
from tests.app.reports.executor.simulated import Simulated, rows_of


@dataclass
class SimulatedSteps:
    """The simulated cluster as the driver sees it. `before` runs before each step is carried out."""

    cluster: Simulated
    cluster_id: str | None = CLUSTER_ID
    failures: list[Exception] = field(default_factory=list)
    carried_out: list[Step] = field(default_factory=list)
    caught_up: int = 0
    margins: dict[Partition, int] = field(default_factory=dict)

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    async def catch_up(self) -> None:
        self.caught_up += 1

    def under_min(self) -> frozenset[Partition]:
        return frozenset()

    def margin(self, row: Row) -> int:
        return self.margins.get(row.key, 1)

    async def log_dirs(self, brokers: Iterable[int], fresh_seconds: float) -> dict[int, LogDirs]:
        told = self.cluster.answers()
        return {each: told[each] for each in brokers if each in told}

    async def carry_out(self, step: Step) -> StepResult:
        if self.failures:
            raise self.failures.pop(0)
        self.carried_out.append(step)
        partitions, resources = self.cluster.carry_out(step)
        return StepResult(offset=self.image.offset, partitions=partitions, resources=resources)


async def no_replan(*_: object) -> dict[Partition, Row]:
    raise DrainRefusedError("No broker is left.")


async def no_record(*_: object) -> None:
    """Record nothing."""


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def cluster(partitions: int = 3) -> Simulated:
    brokers = [broker(each, None) for each in (1, 2, 3, 4)]
    return Simulated(image(brokers, {"orders": [partition("1 2 3")] * partitions}))


def started(sqlite: Database, made: Simulated, proposed: dict[Partition, tuple[int, ...]], **more: Any) -> int:
    """Create, approve and start a plan."""
    rows = list(rows_of(made.image, proposed).values())
    new = NewPlan(cluster_id=CLUSTER_ID, origin="pasted", rows=rows, options={}, **more)
    plan_id = sqlite.write_now(plan_store.create, new, "ann").id
    sqlite.write_now(plan_store.approve, CLUSTER_ID, plan_id, "bob")
    sqlite.write_now(plan_store.start, CLUSTER_ID, plan_id, "ann")
    return plan_id


def stored(sqlite: Database, plan_id: int) -> PlanRecord:
    found = sqlite.write_now(plan_store.get, CLUSTER_ID, plan_id)
    assert found is not None
    return found


def executor(
    sqlite: Database, steps: SimulatedSteps, clock: Clock | None = None, replan: Replan = no_replan
) -> PlanExecutor:
    return PlanExecutor(sqlite, steps, replan, no_record, clock or Clock())


async def run(made: PlanExecutor, steps: SimulatedSteps, sqlite: Database, plan_id: int) -> PlanRecord:
    for _ in range(200):
        await made.tick()
        steps.cluster.advance()
        if (found := stored(sqlite, plan_id)).finished_at is not None:
            return found
    raise AssertionError(stored(sqlite, plan_id).waits_for)


MOVES: dict[Partition, tuple[int, ...]] = {("orders", index): (4, 2, 3) for index in range(3)}


def test_a_started_plan_is_executed_and_its_result_stored(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES, throttle=1_000, moves_per_broker=2)
    done = asyncio.run(run(executor(sqlite, steps), steps, sqlite, plan_id))
    assert (done.state, done.owner, done.lease_until) == ("done", None, None)
    assert done.result is not None
    assert (done.result["partitions"], done.result["replicas_added"]) == ({"moved": 3}, 3)
    assert done.result["configs"] == {"cleared": 10}
    assert {row.state for row in sqlite.write_now(plan_store.all_rows, plan_id)} == {MOVED}
    assert steps.cluster.most_adding == 2


def story(sqlite: Database, plan_id: int) -> list[str]:
    """Return the history of a plan, oldest first."""
    found, count = sqlite.write_now(plan_events.events, stored(sqlite, plan_id), 100)
    assert count == len(found)
    return [f"{each.actor or 'executor'}: {sentence(each.kind, each.detail)}" for each in reversed(found)]


def test_the_history_tells_who_did_what_and_what_happened(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES, throttle=1_048_576)
    made = executor(sqlite, steps)
    values = {"throttle": 2_097_152, "moves_per_broker": 5}
    sqlite.write_now(plan_store.change, CLUSTER_ID, plan_id, values, "cid")
    asyncio.run(run(made, steps, sqlite, plan_id))
    told = story(sqlite, plan_id)
    assert told[:4] == [
        "ann: Saved as a draft with 3 partitions, with replicas that were typed or pasted.",
        "bob: Approved.",
        "ann: Started.",
        "cid: Changed: throttle in bytes/s per broker from 1,048,576 to 2,097,152.",
    ]
    assert told[4] == "executor: Throttles set: 2 MiB/s on brokers 1, 2, 3, 4, for 1 topic."
    moved = "3 partitions (orders-0, orders-1, orders-2)"
    assert told[5] == f"executor: {moved} began to move. {moved} moved."
    assert "executor: Throttles cleared: 10 configs as before." in told
    assert told[-1].startswith("executor: Done: 3 of 3 partitions verified in place, 3 replicas added in ")


def test_a_partition_that_stands_still_is_told_once(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES, moves_per_broker=1)
    made = executor(sqlite, steps)
    now = driver.utc_now

    async def scenario() -> None:
        await made.tick()
        await made.tick()
        monkeypatch.setattr(driver, "utc_now", lambda: now() + dt.timedelta(minutes=11))
        for _ in range(3):
            await made.tick()

    asyncio.run(scenario())
    assert sum("without progress for 10 min" in line for line in story(sqlite, plan_id)) == 1


def test_a_draft_is_not_executed(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    new = NewPlan(cluster_id=CLUSTER_ID, origin="pasted", rows=[], options={})
    sqlite.write_now(plan_store.create, new, "ann")
    assert asyncio.run(executor(sqlite, steps).tick()) is False
    assert steps.carried_out == []


def test_partitions_with_the_smallest_margin_begin_first(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster(), margins={("orders", 2): 0})
    started(sqlite, steps.cluster, MOVES, moves_per_broker=1)
    asyncio.run(executor(sqlite, steps).tick())
    assert steps.carried_out == [Reassign({("orders", 2): (4, 2, 3)})]


def test_two_processes_never_execute_the_same_plan(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES)

    async def scenario() -> None:
        first, second = executor(sqlite, steps), executor(sqlite, steps)
        await first.tick()
        assert await second.tick() is False
        assert len(steps.carried_out) == 1
        await first.stop()
        await second.tick()
        assert stored(sqlite, plan_id).fence == 2

    asyncio.run(scenario())


def expire(sqlite: Database, plan_id: int) -> None:
    """Let the lease end, as time would."""

    def past(session: Any) -> None:
        session.get(PlanRecord, plan_id).lease_until = utc_now() - dt.timedelta(seconds=1)

    sqlite.write_now(past)


def test_an_owner_that_was_paused_stores_nothing_and_does_nothing_after_another_took_over(sqlite: Database) -> None:
    steps, others = SimulatedSteps(cluster()), SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES, moves_per_broker=1)

    async def scenario() -> None:
        first, second = executor(sqlite, steps), executor(sqlite, others)
        await first.tick()
        expire(sqlite, plan_id)
        await second.tick()
        with pytest.raises(LeaseLostError):
            await first.tick()
        assert len(steps.carried_out) == 1

    asyncio.run(scenario())


def test_an_owner_that_is_paused_between_the_intent_and_the_step_does_not_carry_it_out(sqlite: Database) -> None:
    clock = Clock()
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES)
    made = executor(sqlite, steps, clock)
    save = plan_store.save

    def slow(*arguments: Any) -> bool:
        saved = save(*arguments)
        clock.now += LEASE_SECONDS  # SIGSTOP here, and SIGCONT after the lease
        return saved

    async def scenario() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan_store, "save", slow)
            await made.tick()
        assert steps.carried_out == []
        before = steps.caught_up
        await made.tick()
        assert (len(steps.carried_out), steps.caught_up) == (1, before + 1)

    asyncio.run(scenario())
    assert stored(sqlite, plan_id).state == "running"


def test_a_new_owner_reads_what_its_predecessor_has_changed_before_it_decides(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    started(sqlite, steps.cluster, MOVES)
    asyncio.run(executor(sqlite, steps).tick())
    assert steps.caught_up == 1


def test_a_step_that_fails_is_repeated_and_the_plan_says_why_it_waits(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster(), failures=[ConnectionError("No controller."), TimeoutError()])
    plan_id = started(sqlite, steps.cluster, MOVES)

    async def scenario() -> None:
        made = executor(sqlite, steps)
        assert await made.tick() is False
        assert stored(sqlite, plan_id).waits_for == "No controller."
        await made.tick()
        assert stored(sqlite, plan_id).waits_for == "The controller did not answer in time."
        done = await run(made, steps, sqlite, plan_id)
        assert (done.state, done.waits_for) == ("done", None)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(8))
def test_processes_that_are_killed_one_after_the_other_come_to_the_same_end(sqlite: Database, seed: int) -> None:
    rng = random.Random(seed)
    simulated = cluster(6)
    simulated.put_config(BROKER, "1", "leader.replication.throttled.rate", "7")
    proposed = {("orders", index): (4, 2, 3) for index in range(6)}
    plan_id = started(sqlite, simulated, proposed, throttle=1_000, moves_per_broker=2)

    class KilledError(BaseException):
        """The end of the process."""

    class Dying(SimulatedSteps):
        async def carry_out(self, step: Step) -> StepResult:
            if rng.random() < 0.4:
                raise KilledError
            result = await super().carry_out(step)
            if rng.random() < 0.4:
                raise KilledError
            return result

    async def scenario() -> None:
        made = executor(sqlite, Dying(simulated))
        for _ in range(400):
            try:
                await made.tick()
            except KilledError:
                expire(sqlite, plan_id)
                made = executor(sqlite, Dying(simulated))
            simulated.advance(lambda _: rng.random() < 0.5)
            if stored(sqlite, plan_id).finished_at is not None:
                return

    asyncio.run(scenario())
    assert stored(sqlite, plan_id).state == "done"
    assert simulated.config(BROKER, "1", "leader.replication.throttled.rate") == "7"
    assert simulated.most_adding <= 2


def test_a_change_by_a_caller_is_never_overwritten(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster())
    plan_id = started(sqlite, steps.cluster, MOVES)
    save = plan_store.save

    def raced(session: Any, *decided: Any) -> bool:
        plan_store.pause(session, CLUSTER_ID, plan_id, "ann")
        return save(session, *decided)

    async def scenario() -> None:
        made = executor(sqlite, steps)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan_store, "save", raced)
            await made.tick()
        assert (stored(sqlite, plan_id).state, steps.carried_out) == ("paused", [])

    asyncio.run(scenario())


def test_a_drain_without_a_place_for_its_replicas_fails_with_the_reason(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster(2))
    plan_id = started(sqlite, steps.cluster, {("orders", 0): (4, 2, 3)}, drain=(1,))
    done = asyncio.run(run(executor(sqlite, steps), steps, sqlite, plan_id))
    assert (done.state, done.reasons) == ("failed", ["No broker is left."])


def test_a_drain_moves_what_has_come_since_until_the_broker_is_empty(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster(3))
    plan_id = started(sqlite, steps.cluster, {("orders", 0): (4, 2, 3)}, drain=(1,))
    done = asyncio.run(run(executor(sqlite, steps, replan=proposed_again), steps, sqlite, plan_id))
    assert (done.state, done.rounds, done.waits_for) == ("done", 1, None)
    assert 1 not in {each for index in range(3) for each in steps.cluster.partition("orders", index).replicas}
    assert len(sqlite.write_now(plan_store.all_rows, plan_id)) == 3


def test_a_drain_waits_for_a_reassignment_of_another_caller(sqlite: Database) -> None:
    steps = SimulatedSteps(cluster(1))
    steps.cluster.put("orders", 0, replicas=(1, 2, 4, 3), adding_replicas=(4,), removing_replicas=(3,))
    plan_id = started(sqlite, steps.cluster, {}, drain=(1,))

    async def scenario() -> None:
        made = executor(sqlite, steps, replan=proposed_again)
        for _ in range(5):
            await made.tick()
        assert (stored(sqlite, plan_id).waits_for, stored(sqlite, plan_id).rounds) == (
            "Broker 1 still holds 1 replica.",
            0,
        )
        done = await run(made, steps, sqlite, plan_id)
        assert done.state == "done"

    asyncio.run(scenario())


def test_states_allow_only_their_own_changes(sqlite: Database) -> None:
    made = cluster()
    first = started(sqlite, made, {("orders", 0): (4, 2, 3)})
    new = NewPlan(cluster_id=CLUSTER_ID, origin="pasted", rows=[], options={})
    second = sqlite.write_now(plan_store.create, new, "ann").id
    with pytest.raises(PlanStateError, match=r"Plan 2 is draft\. Only a plan that is approved can be started"):
        sqlite.write_now(lambda session: _end_and_start(session, first, second))
    sqlite.write_now(plan_store.approve, CLUSTER_ID, second, "ann")
    with pytest.raises(PlanStateError, match="Plan 1 is being executed"):
        sqlite.write_now(plan_store.start, CLUSTER_ID, second, "ann")
    with pytest.raises(PlanStateError):
        sqlite.write_now(plan_store.approve, CLUSTER_ID, first, "ann")
    with pytest.raises(LookupError):
        sqlite.write_now(plan_store.pause, "another cluster", first, "ann")
    assert sqlite.write_now(plan_store.cancel, CLUSTER_ID, second, "ann", "undo").state == "cancelled"
    assert sqlite.write_now(plan_store.cancel, CLUSTER_ID, first, "ann", "undo").state == "cancelling"


def _end_and_start(session: Any, first: int, second: int) -> None:
    session.get(PlanRecord, first).state = "done"
    plan_store.start(session, CLUSTER_ID, second, "ann")


def test_an_expired_lease_is_claimed_and_a_valid_one_is_not(sqlite: Database) -> None:
    plan_id = started(sqlite, cluster(), MOVES)
    assert sqlite.write_now(lease.claim, CLUSTER_ID, "a") is not None
    assert sqlite.write_now(lease.claim, CLUSTER_ID, "b") is None
    assert sqlite.write_now(lease.claim, "another", "b") is None
    expire(sqlite, plan_id)
    claimed = sqlite.write_now(lease.claim, CLUSTER_ID, "b")
    assert claimed is not None
    assert claimed.fence == 2
    sqlite.write_now(lease.release, plan_id, 1)
    assert stored(sqlite, plan_id).owner == "b"
