"""The rules of a plan's execution for log directories, on a simulated cluster."""

from dataclasses import replace

from app.reports.executor.machine import decide
from app.reports.executor.plan import (
    CANCELLED,
    CANCELLING,
    DONE,
    MOVED,
    UNDONE,
    Alter,
    Cordon,
    Execution,
    Place,
    Plan,
    PlanAgain,
)
from app.reports.executor.throttles import CORDONED, LOG_DIR_RATE
from kraft_core.configs.config_resource import BROKER
from tests.app.reports.executor.simulated import NOW, Driver, rows_of
from tests.app.reports.executor.test_machine import UNDO, cluster, state_of


def test_a_drained_directory_is_cordoned_then_emptied_and_proven_empty() -> None:
    simulated = cluster(2)
    simulated.put_config(BROKER, "1", CORDONED, "/c")
    keys = [("orders", 0), ("orders", 1)]
    rows = rows_of(simulated.image, dict.fromkeys(keys, (1, 2, 3)), dict.fromkeys(keys, ("/b", "any", "any")))
    made = Driver(simulated, Execution(plan=Plan(id=1, drain_log_dirs=((1, "/a"),), throttle=900), rows=rows))
    made.run()
    assert isinstance(made.steps[0], Cordon)
    assert simulated.config(BROKER, "1", CORDONED) == "/c,/a"
    assert made.steps[1] == Alter({(BROKER, "1"): {LOG_DIR_RATE: "900"}})
    assert made.steps[2] == Place({1: {("orders", 0): "/b", ("orders", 1): "/b"}})
    assert made.stored.plan.state == DONE
    assert state_of(made) == {("orders", 0): MOVED, ("orders", 1): MOVED}
    assert simulated.config(BROKER, "1", LOG_DIR_RATE) is None


def test_replicas_that_are_left_in_a_drained_directory_are_planned_again() -> None:
    simulated = cluster(1)
    made = Driver(simulated, Execution(plan=Plan(id=1, drain_log_dirs=((1, "/a"),)), rows={}))
    for _ in range(3):
        made.tick()
    assert made.steps[-1] == PlanAgain((), ((1, "/a"),))
    assert made.stored.plan.waits_for == "/a of broker 1 still holds 1 replica."
    simulated.put_broker(1, fenced=True)
    made.tick()
    assert made.stored.plan.waits_for == "Broker 1 has not told what /a holds."


def test_a_cancelled_drain_of_a_directory_uncordons_it_and_leaves_its_replicas() -> None:
    simulated = cluster(1)
    rows = rows_of(simulated.image, {("orders", 0): (1, 2, 3)}, {("orders", 0): ("/b", "any", "any")})
    made = Driver(simulated, Execution(plan=Plan(id=1, drain_log_dirs=((1, "/a"),)), rows=rows))
    for _ in range(4):
        made.tick()
    assert simulated.disks.futures == {(1, "orders", 0): "/b"}
    made.stored = replace(made.stored, plan=replace(made.stored.plan, state=CANCELLING, cancel_begun=UNDO))
    made.tick()
    told = {1: simulated.disks.answer(1, [("orders", 0)], NOW)}
    assert decide(made.stored, simulated.image, NOW, answers=told).rows == {}, "the answer is older than the cancel"
    made.run()
    assert (made.stored.plan.state, state_of(made)) == (CANCELLED, {("orders", 0): UNDONE})
    assert simulated.disks.futures == {}
    assert simulated.config(BROKER, "1", CORDONED) is None


def test_a_replica_waits_for_a_directory_that_cannot_take_it() -> None:
    simulated = cluster(1)
    rows = rows_of(simulated.image, {("orders", 0): (1, 2, 3)}, {("orders", 0): ("/b", "any", "any")})
    made = Driver(simulated, Execution(plan=Plan(id=1), rows=rows))
    simulated.disks.cordoned[1] = ("/b",)
    made.tick()
    assert made.stored.plan.waits_for == "Log directory /b of broker 1 is cordoned. (1 partition waiting)"
    simulated.disks.cordoned.clear()
    made.run()
    assert state_of(made) == {("orders", 0): MOVED}
