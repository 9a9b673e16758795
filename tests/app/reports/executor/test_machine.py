"""The rules of a plan's execution, on a simulated cluster."""

import datetime as dt
import random
from dataclasses import replace

import pytest

from app.cluster.partitions import Partition
from app.reports.executor.machine import BATCH_MAX, ROUNDS_MAX, decide
from app.reports.executor.plan import (
    CANCELLED,
    CANCELLING,
    DONE,
    FAILED,
    FINISH,
    IN_PROGRESS,
    LEFT,
    MOVED,
    MOVING,
    PAUSED,
    PENDING,
    PLAN_FAILED,
    RUNNING,
    SKIPPED,
    STALE,
    UNCHANGED,
    UNDONE,
    Alter,
    Cordon,
    Execution,
    Plan,
    PlanAgain,
    Reassign,
    Unregister,
)
from app.reports.executor.throttles import ALL, CORDONED, FOLLOWERS, LEADERS, RATES
from app.reports.proposals.formats import ANY_LOG_DIR
from kraft_core.configs.config_resource import BROKER, TOPIC
from tests.app.reports.clusters import broker, directory, image, partition
from tests.app.reports.executor.disks import PATHS, log_dirs
from tests.app.reports.executor.simulated import NOW, Driver, Simulated, rows_of

UNDO = "undo"


def cluster(partitions: int = 4) -> Simulated:
    """Four brokers; every partition of `orders` is on 1, 2 and 3."""
    brokers = [broker(each, None) for each in (1, 2, 3, 4)]
    return Simulated(image(brokers, {"orders": [partition("1 2 3")] * partitions}))


def driver(made: Simulated, proposed: dict[Partition, tuple[int, ...]], **settings: object) -> Driver:
    plan = Plan(id=1, **settings)  # type: ignore[arg-type]  # keyword arguments of the caller's choice
    return Driver(made, Execution(plan=plan, rows=rows_of(made.image, proposed)))


def state_of(made: Driver) -> dict[Partition, str]:
    return {key: row.state for key, row in made.stored.rows.items()}


def test_a_plan_moves_its_partitions_and_elects_the_new_preferred_leaders() -> None:
    made = driver(cluster(), {("orders", 0): (4, 2, 3), ("orders", 1): (2, 1, 3)})
    made.run()
    assert made.stored.plan.state == DONE
    assert set(state_of(made).values()) == {MOVED}
    moved = [made.cluster.partition("orders", index) for index in (0, 1)]
    assert [(each.replicas, each.leader) for each in moved] == [((4, 2, 3), 4), ((2, 1, 3), 2)]


def test_at_most_the_allowed_number_of_replicas_is_added_to_a_broker_at_once() -> None:
    made = driver(cluster(20), {("orders", index): (1, 2, 4) for index in range(20)}, moves_per_broker=3)
    made.run()
    assert (made.stored.plan.state, made.cluster.most_adding) == (DONE, 3)


def test_a_higher_concurrency_takes_effect_while_the_plan_runs() -> None:
    made = driver(cluster(20), {("orders", index): (1, 2, 4) for index in range(20)}, moves_per_broker=1)
    made.tick()
    assert len(made.cluster.moving()) == 1
    made.stored = replace(made.stored, plan=replace(made.stored.plan, moves_per_broker=7))
    made.tick()
    assert len(made.cluster.moving()) == 7


def test_a_request_has_at_most_one_batch_of_partitions() -> None:
    count = BATCH_MAX + 5
    made = driver(cluster(count), {("orders", index): (2, 1, 3) for index in range(count)})
    made.run()
    sizes = [len(step.wanted) for step in made.steps if isinstance(step, Reassign)]
    assert sizes == [BATCH_MAX, 5]


def test_stale_partitions_are_skipped_and_those_already_placed_are_unchanged() -> None:
    simulated = cluster(5)
    made = driver(simulated, {("orders", index): (4, 2, 3) for index in range(5)})
    simulated.put("orders", 0, replicas=(4, 2, 3))
    simulated.put("orders", 1, replicas=(2, 3))
    simulated.put("orders", 2, adding_replicas=(4,), replicas=(1, 2, 3, 4))
    made.stored = replace(
        made.stored,
        rows={
            key: replace(row, topic_id="AAAAAAAAAAAAAAAAAAAAAQ") if key[1] == 3 else row
            for key, row in made.stored.rows.items()
        },
    )
    made.run()
    states = state_of(made)
    assert [states["orders", index] for index in range(5)] == [UNCHANGED, STALE, STALE, STALE, MOVED]
    assert made.stored.rows["orders", 1].error == "The replicas are 2, 3 now, not those that the plan was made for."
    assert made.stored.plan.state == DONE


def test_a_partition_that_the_controller_refuses_fails_the_plan_with_its_message() -> None:
    simulated = cluster(2)
    simulated.refused["orders", 0] = "No."
    made = driver(simulated, {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)})
    made.run()
    assert state_of(made) == {("orders", 0): FAILED, ("orders", 1): MOVED}
    assert (made.stored.plan.state, made.stored.rows["orders", 0].error) == (PLAN_FAILED, "No.")


def test_a_partition_waits_for_a_target_that_is_down_or_cordoned() -> None:
    simulated = cluster(2)
    simulated.put_broker(4, fenced=True)
    made = driver(simulated, {("orders", 0): (4, 2, 3), ("orders", 1): (2, 1, 3)})
    for _ in range(5):
        made.tick()
    assert state_of(made) == {("orders", 0): PENDING, ("orders", 1): MOVED}
    assert made.stored.plan.waits_for == "Broker 4 is down. (1 partition waiting)"
    simulated.put_broker(4, fenced=False, cordoned_directories=(directory(4),))
    made.tick()
    assert made.stored.plan.waits_for == "Broker 4 is cordoned. (1 partition waiting)"
    simulated.put_broker(4, cordoned_directories=())
    made.run()
    assert made.stored.plan.state == DONE
    assert made.stored.plan.waits_for is None


def test_a_reassignment_cancelled_by_another_caller_fails_its_partition() -> None:
    made = driver(cluster(1), {("orders", 0): (4, 2, 3)})
    made.tick()
    made.tick()
    assert state_of(made) == {("orders", 0): MOVING}
    made.cluster.carry_out(Reassign({("orders", 0): None}))
    made.tick()
    assert made.stored.rows["orders", 0].error == "The reassignment was cancelled outside of this plan."


def test_an_image_without_the_newest_change_of_the_plan_decides_nothing() -> None:
    made = driver(cluster(1), {("orders", 0): (4, 2, 3)}, offset=10_000)
    decision = decide(made.stored, made.cluster.image, NOW)
    assert (decision.step, decision.rows, decision.plan) == (None, {}, made.stored.plan)


def test_a_stuck_partition_keeps_the_time_of_its_last_progress() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)})
    made.tick()
    made.tick()
    begun = made.stored.rows["orders", 0].changed_at
    later = decide(made.stored, simulated.image, NOW + dt.timedelta(hours=1))
    assert (begun, later.rows) == (NOW, {}), "a broker that does not answer is no progress"
    later = decide(made.stored, simulated.image, NOW + dt.timedelta(hours=1), answers=simulated.answers())
    assert later.rows == {}, "as many bytes as before"


def test_more_bytes_are_progress_and_fewer_are_not() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)})
    for _ in range(2):
        made.tick()
    key = ("orders", 0)
    assert made.stored.rows[key].copied_bytes == 100
    for hours, size, progress in ((1, 150, 1), (2, 150, 1), (3, 40, 1), (4, 60, 4), (5, 60, 4)):
        now = NOW + dt.timedelta(hours=hours)
        told = {4: log_dirs({"/a": [(*key, size)], "/b": []})}
        made.stored = made.stored.after(decide(made.stored, simulated.image, now, answers=told))
        row = made.stored.rows[key]
        assert (row.copied_bytes, row.changed_at) == (size, NOW + dt.timedelta(hours=progress))


# throttles


def test_throttles_are_set_as_the_tool_sets_them_and_cleared_at_the_end() -> None:
    made = driver(cluster(2), {("orders", 0): (4, 2, 3), ("orders", 1): (1, 2, 4)}, throttle=1_000_000)
    made.tick()
    configs = made.cluster.config
    assert {configs(BROKER, str(each), name) for each in (1, 2, 3, 4) for name in RATES} == {"1000000"}
    assert configs(TOPIC, "orders", LEADERS) == "0:1,0:2,0:3,1:1,1:2,1:3"
    assert configs(TOPIC, "orders", FOLLOWERS) == "0:4,1:4"
    assert made.cluster.moving() == []
    made.run()
    assert made.stored.plan.state == DONE
    assert all(not values for values in made.cluster.image.configs.by_resource.values())


def test_an_operators_own_throttle_is_extended_and_then_restored() -> None:
    simulated = cluster(1)
    simulated.put_config(TOPIC, "orders", FOLLOWERS, "7:7")
    simulated.put_config(BROKER, "1", RATES[0], "5")
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, throttle=1_000)
    made.tick()
    assert simulated.config(TOPIC, "orders", FOLLOWERS) == "0:4,7:7"
    made.run()
    assert simulated.config(TOPIC, "orders", FOLLOWERS) == "7:7"
    assert (simulated.config(BROKER, "1", RATES[0]), simulated.config(BROKER, "1", RATES[1])) == ("5", None)


def test_a_throttle_changed_by_another_caller_is_left_as_it_is() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, throttle=1_000)
    made.tick()
    simulated.put_config(BROKER, "2", RATES[0], "77")
    made.run()
    assert simulated.config(BROKER, "2", RATES[0]) == "77"
    assert made.stored.settings[BROKER, "2", RATES[0]].state == LEFT


def test_the_throttle_changes_and_ends_while_the_plan_runs() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, throttle=1_000)
    made.tick()
    made.stored = replace(made.stored, plan=replace(made.stored.plan, throttle=2_000))
    made.tick("result")
    assert simulated.config(BROKER, "1", RATES[0]) == "2000"
    made.tick()
    made.stored = replace(made.stored, plan=replace(made.stored.plan, throttle=None))
    made.tick()
    made.tick()
    assert simulated.config(BROKER, "1", RATES[0]) is None
    made.stored = replace(made.stored, plan=replace(made.stored.plan, throttle=3_000))
    made.tick()
    assert simulated.config(BROKER, "1", RATES[0]) == "3000"
    made.run()
    assert simulated.config(BROKER, "1", RATES[0]) is None


def test_a_list_too_long_for_a_config_throttles_all_replicas_of_the_topic() -> None:
    made = driver(cluster(4_000), {("orders", index): (1, 2, 4) for index in range(4_000)}, throttle=1_000)
    made.tick()
    assert made.cluster.config(TOPIC, "orders", LEADERS) == ALL


def test_a_plan_that_copies_nothing_sets_no_throttle() -> None:
    made = driver(cluster(1), {("orders", 0): (2, 1, 3)}, throttle=1_000)
    made.run()
    assert not any(isinstance(step, Alter) for step in made.steps)


# pause and cancel


def test_a_plan_pauses_when_a_partition_outside_it_goes_under_min_isr() -> None:
    made = driver(cluster(3), {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)}, moves_per_broker=1)
    made.tick(under_min=[("logs", 1)])
    made.tick(under_min=[("logs", 1), ("orders", 0)])
    assert made.stored.plan.state == RUNNING  # known at the start, or of the plan itself
    made.tick(under_min=[("logs", 1), ("logs", 2)])
    assert made.stored.plan.state == PAUSED
    assert made.stored.plan.reasons == ("Paused: logs-2 went under min ISR, outside of this plan.",)
    for _ in range(5):
        made.cluster.advance()
        made.tick()
    assert state_of(made) == {("orders", 0): MOVED, ("orders", 1): PENDING}


def test_a_plan_may_ignore_partitions_under_min_isr() -> None:
    made = driver(cluster(1), {("orders", 0): (4, 2, 3)}, pause_on_under_min=False)
    made.tick()
    made.tick(under_min=[("logs", 2)])
    assert made.stored.plan.state == RUNNING


@pytest.mark.parametrize("how", [UNDO, FINISH])
def test_a_cancelled_plan_undoes_or_finishes_what_it_began(how: str) -> None:
    simulated = cluster(2)
    made = driver(simulated, {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)}, moves_per_broker=1, throttle=1_000)
    for _ in range(3):
        made.tick()
    assert simulated.moving() == [("orders", 0)]
    made.stored = replace(made.stored, plan=replace(made.stored.plan, state=CANCELLING, cancel_begun=how))
    made.run()
    assert made.stored.plan.state == CANCELLED
    assert state_of(made) == {("orders", 0): UNDONE if how == UNDO else MOVED, ("orders", 1): SKIPPED}
    assert simulated.partition("orders", 0).replicas == ((1, 2, 3) if how == UNDO else (4, 2, 3))
    assert all(not values for values in simulated.image.configs.by_resource.values())


# drain


def test_a_drain_cordons_before_it_moves_and_stays_cordoned_when_done() -> None:
    simulated = cluster(2)
    made = driver(simulated, {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)}, drain=(1,))
    made.run()
    assert isinstance(made.steps[0], Cordon)
    assert made.stored.plan.state == DONE
    assert simulated.config(BROKER, "1", CORDONED) == "*"


def test_a_cancelled_drain_uncordons() -> None:
    simulated = cluster(2)
    made = driver(simulated, {("orders", 0): (4, 2, 3), ("orders", 1): (4, 2, 3)}, drain=(1,))
    made.tick()
    made.tick()
    made.stored = replace(made.stored, plan=replace(made.stored.plan, state=CANCELLING, cancel_begun=UNDO))
    made.run()
    assert (made.stored.plan.state, simulated.config(BROKER, "1", CORDONED)) == (CANCELLED, None)


def test_nothing_moves_until_the_broker_has_confirmed_its_cordon() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, drain=(1,))
    made.tick()
    simulated.put_broker(1, cordoned_directories=())
    made.tick()
    assert simulated.moving() == []
    assert made.stored.plan.waits_for == "Broker 1 has not confirmed its cordon yet."


def test_replicas_that_landed_on_a_drained_broker_are_planned_again() -> None:
    simulated = cluster(2)
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, drain=(1,))
    for _ in range(6):
        made.tick()
        simulated.advance()
    assert isinstance(made.steps[-1], PlanAgain)
    assert made.stored.plan.state == RUNNING
    made.stored = replace(
        made.stored, rows={**made.stored.rows, **rows_of(simulated.image, {("orders", 1): (2, 3, 4)})}
    )
    made.run()
    assert made.stored.plan.state == DONE


def test_a_drain_that_does_not_come_to_an_end_fails_with_what_is_left() -> None:
    made = driver(cluster(2), {("orders", 0): (4, 2, 3)}, drain=(1,), rounds=ROUNDS_MAX)
    made.run()
    assert (made.stored.plan.state, made.stored.plan.reasons) == (PLAN_FAILED, ("Broker 1 still holds 1 replica.",))
    assert made.cluster.config(BROKER, "1", CORDONED) is None


def test_a_drained_broker_is_unregistered_once_it_is_down() -> None:
    simulated = cluster(1)
    made = driver(simulated, {("orders", 0): (4, 2, 3)}, drain=(1,), unregister=True)
    for _ in range(10):
        made.tick()
        simulated.advance()
    assert (made.stored.plan.state, made.stored.plan.ending) == (RUNNING, DONE)
    assert made.stored.plan.waits_for == "Broker 1 is empty. It is unregistered once it has been stopped."
    simulated.put_broker(1, fenced=True)
    made.run()
    assert (made.stored.plan.state, 1 in simulated.image.cluster.brokers) == (DONE, False)
    assert isinstance(made.steps[-1], Unregister)


# any end of the process, at any instruction


def random_case(seed: int) -> tuple[Driver, random.Random]:
    rng = random.Random(seed)
    brokers = [broker(each, None) for each in range(1, rng.randint(5, 8))]
    ids = [each.id for each in brokers]
    factor = rng.randint(1, 3)
    topics = {
        name: [partition(" ".join(map(str, rng.sample(ids, factor)))) for _ in range(rng.randint(1, 8))]
        for name in ("a", "b")
    }
    simulated = Simulated(image(brokers, topics))
    if rng.random() < 0.5:
        simulated.put_config(BROKER, "1", RATES[0], "5")
        simulated.put_config(TOPIC, "a", LEADERS, "0:9")
    keys = [(name, index) for name, rows in topics.items() for index in range(len(rows)) if rng.random() < 0.8]
    proposed = {key: tuple(rng.sample(ids, rng.randint(1, 4))) for key in keys}
    log_dirs = {}
    for key in keys:
        if rng.random() < 0.4:
            proposed[key] = rng.choice([proposed[key], simulated.partition(*key).replicas])
            log_dirs[key] = tuple(rng.choice([ANY_LOG_DIR, *PATHS]) for _ in proposed[key])
    settings: dict[str, object] = {
        "throttle": rng.choice([None, 1_000]),
        "moves_per_broker": rng.randint(1, 4),
    }
    if not keys:
        return random_case(seed + 10_000)
    plan = Plan(id=1, **settings)  # type: ignore[arg-type]  # keyword arguments of this function's choice
    return Driver(simulated, Execution(plan=plan, rows=rows_of(simulated.image, proposed, log_dirs))), rng


@pytest.mark.parametrize("seed", range(60))
def test_a_process_that_ends_at_any_instruction_leaves_the_plan_to_the_same_end(seed: int) -> None:
    smooth, _ = random_case(seed)
    smooth.run()
    made, rng = random_case(seed)
    configs = made.cluster.image.configs
    made.run(rng, crashes=0.6)
    assert (
        (made.stored.plan.state, state_of(made))
        == (smooth.stored.plan.state, state_of(smooth))
        == (
            DONE,
            state_of(made),
        )
    )
    for key, row in made.stored.rows.items():
        now = made.cluster.partition(*key)
        assert (now.replicas, now.is_reassigning) == (row.proposed, False)
        places = {broker: made.cluster.disks.places.get((broker, *key), PATHS[0]) for broker in row.wanted_dirs}
        assert places == row.wanted_dirs
    assert made.cluster.disks.futures == {}
    assert made.cluster.most_adding <= made.stored.plan.moves_per_broker
    assert same_configs(made.cluster, configs.by_resource)


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_cancelled_at_any_time_through_any_crash_is_cleaned_up(seed: int) -> None:
    made, rng = random_case(seed)
    configs = made.cluster.image.configs
    how = rng.choice([UNDO, FINISH])
    for _ in range(rng.randint(0, 12)):
        if not made.is_done:
            made.tick(rng.choice(["store", "step", "result", None, None]))
            made.cluster.advance(lambda _: rng.random() < 0.5)
    if made.is_done:
        return
    made.stored = replace(made.stored, plan=replace(made.stored.plan, state=CANCELLING, cancel_begun=how))
    made.run(rng, crashes=0.6)
    assert made.stored.plan.state in {CANCELLED, DONE}
    assert made.cluster.moving() == []
    assert made.cluster.disks.futures == {}
    assert same_configs(made.cluster, configs.by_resource)
    for key, row in made.stored.rows.items():
        assert row.state not in {*IN_PROGRESS, PENDING}
        wanted = row.proposed if row.state in {MOVED, UNCHANGED} or row.error else row.original
        assert made.cluster.partition(*key).replicas == wanted


def same_configs(simulated: Simulated, before: object) -> bool:
    now = {key: values for key, values in simulated.image.configs.by_resource.items() if values}
    return now == dict(before)  # type: ignore[call-overload]  # a persistent map
