"""The history of a plan: which events a decision makes, and their sentences."""

import datetime as dt
from dataclasses import replace

import pytest

from app.reports.executor.plan import Decision, Execution, Plan, Row, Setting
from app.reports.executor.story import Event, added_up, happened, sentence, stuck_event, stuck_rows
from kraft_core.configs.config_resource import BROKER, TOPIC

NOW = dt.datetime(2026, 11, 23, 1, 0, tzinfo=dt.UTC)
PLAN = Plan(id=7, throttle=5_242_880)


def row(number: int, state: str = "pending", error: str | None = None, since: int = 0) -> Row:
    return Row(
        topic="t",
        topic_id="AAAAAAAAAAAAAAAAAAAAAA",
        partition=number,
        original=(1,),
        proposed=(2,),
        state=state,
        error=error,
        changed_at=NOW - dt.timedelta(minutes=since),
    )


def setting(kind: int, name: str, config: str, state: str) -> Setting:
    return Setting(resource_type=kind, resource_name=name, name=config, before=None, ours=("1",), state=state)


def execution(*rows: Row, plan: Plan = PLAN, settings: tuple[Setting, ...] = ()) -> Execution:
    return Execution(plan=plan, rows={each.key: each for each in rows}, settings={each.key: each for each in settings})


def decision(*rows: Row, plan: Plan = PLAN, settings: tuple[Setting, ...] = ()) -> Decision:
    return Decision(plan=plan, rows={each.key: each for each in rows}, settings={each.key: each for each in settings})


def told(before: Execution, made: Decision) -> list[str]:
    return [sentence(event.kind, event.detail) for event in happened(before, made)]


def test_partitions_that_begin_and_end_are_named_and_counted() -> None:
    before = execution(*(row(number) for number in range(9)))
    assert told(before, decision(*(row(number, "beginning") for number in range(7)))) == [
        "7 partitions (t-0, t-1, t-2, t-3, t-4 and 2 more) began to move."
    ]
    moving = execution(row(0, "moving"), row(1, "moving"), row(2))
    ended = decision(row(0, "moved"), row(1, "failed", "Broker 9 is not registered."), row(2, "unchanged"))
    assert told(moving, ended) == [
        (
            "1 partition (t-0) moved. 1 partition (t-2) was placed so already. "
            "1 partition (t-1: Broker 9 is not registered.) failed."
        )
    ]
    assert told(moving, decision(replace(row(0, "moving"), caught_up=1))) == []


def test_throttles_and_cordons_are_told_once_they_are_set_and_once_they_are_cleared() -> None:
    rates = tuple(setting(BROKER, str(each), "leader.replication.throttled.rate", "setting") for each in (2, 1))
    listed = setting(TOPIC, "t", "leader.replication.throttled.replicas", "setting")
    cordon = setting(BROKER, "3", "cordoned.log.dirs", "setting")
    before = execution(settings=(*rates, listed, cordon))
    done = tuple(replace(each, state="set") for each in (*rates, listed, cordon))
    assert told(before, decision(settings=done)) == [
        "Broker 3 cordoned: no new replica is placed there.",
        "Throttles set: 5 MiB/s on brokers 1, 2, for 1 topic.",
    ]
    after = (replace(done[0], state="cleared"), replace(done[1], state="left"), replace(done[3], state="cleared"))
    assert told(execution(settings=done), decision(settings=after)) == [
        "The cordon of broker 3 is as before.",
        "Throttles cleared: 1 config as before; 1 config left, since somebody else has changed them.",
    ]


def test_a_pause_a_failure_and_the_end_say_why() -> None:
    paused = replace(PLAN, state="paused", reasons=("Paused: u-1 went under min ISR, outside of this plan.",))
    assert told(execution(), decision(plan=paused)) == ["Paused: u-1 went under min ISR, outside of this plan."]
    failing = replace(PLAN, state="cancelling", cancel_begun="fail", reasons=("A throttle of 1 could not be set: no",))
    assert told(execution(), decision(plan=failing)) == [
        "The plan fails, and what moves returns. A throttle of 1 could not be set: no"
    ]
    (event,) = happened(execution(), decision(plan=replace(PLAN, state="done", ending="done")))
    result = {"partitions": {"moved": 2, "failed": 1}, "replicas_added": 4, "seconds": 7_300.0}
    assert sentence(event.kind, {**event.detail, "result": result}) == (
        "Done: 2 of 3 partitions verified in place, 4 replicas added in 2 h 1 min."
    )


def test_a_reason_to_wait_is_told_again_only_when_it_is_another() -> None:
    waits = replace(PLAN, waits_for="Broker 3 is down. (12 partitions waiting)")
    assert told(execution(), decision(plan=waits)) == ["Waits: Broker 3 is down. (12 partitions waiting)"]
    fewer = replace(PLAN, waits_for="Broker 3 is down. (1 partition waiting)")
    assert told(execution(plan=waits), decision(plan=fewer)) == []
    other = replace(PLAN, waits_for="Broker 4 is down. (1 partition waiting)")
    assert len(told(execution(plan=fewer), decision(plan=other))) == 1


def test_a_partition_without_progress_is_stuck() -> None:
    rows = execution(row(0, "moving", since=11), row(1, "moving", since=9), row(2, since=99)).rows
    assert stuck_rows(rows, 10, NOW) == {("t", 0)}
    event = stuck_event({("t", 0)}, 10)
    assert sentence(event.kind, event.detail) == "1 partition (t-0) without progress for 10 min."


def test_events_of_partitions_are_added_up() -> None:
    first = Event("rows", {"begun": {"count": 4, "names": ["a-0", "a-1", "a-2", "a-3"]}})
    second = {"begun": {"count": 3, "names": ["a-4", "a-5", "a-6"]}, "moved": {"count": 1, "names": ["a-0"]}}
    assert sentence("rows", added_up(first.detail, second)) == (
        "7 partitions (a-0, a-1, a-2, a-3, a-4 and 2 more) began to move. 1 partition (a-0) moved."
    )


@pytest.mark.parametrize(
    ("kind", "detail", "text"),
    [
        ("made", {"origin": "drain", "partitions": 1}, "Saved as a draft with 1 partition, to drain."),
        ("cancelled", {}, "Cancelled before it was started."),
        ("cancelled", {"begun": "finish"}, "Cancelled: partitions that move arrive, no further one begins."),
        ("changed", {"values": [["throttle", "none", "5"]]}, "Changed: throttle from none to 5."),
        ("resumed", {}, "Resumed."),
        ("planned", {"partitions": 2}, "Planned again: 2 partitions came to what is drained meanwhile."),
        ("elected", {"reasons": []}, "Preferred leaders elected where they changed."),
    ],
)
def test_what_people_do_is_told_in_a_sentence(kind: str, detail: dict[str, object], text: str) -> None:
    assert sentence(kind, detail) == text
