"""What a plan does to the balance, worked by hand."""

from typing import Any

from app.reports.executor.effect import copy_seconds, effect_of
from app.reports.executor.plan import Row
from app.reports.proposals.layout import layout_from_image
from kraft_core.protocol.uuids import uuid_to_text
from tests.app.reports.clusters import broker, image, partition

BROKERS = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b", fenced=True)]
TOPICS = {
    "t": [partition("1 2"), partition("3 1", leader=1), partition("2 3")],
    "u": [partition("1")],
}
SHOWN = image(BROKERS, TOPICS, {"t": {"min.insync.replicas": "2"}})
SIZES = {(topic.id, number): 100 * (number + 1) for topic in SHOWN.topics.by_id.values() for number in range(3)}
SHOWN_LAYOUT = layout_from_image(SHOWN, SIZES)


def row(topic: str, number: int, *proposed: int, size: int | None = 100) -> Row:
    found = SHOWN.topics.topic(topic)
    assert found is not None
    now = found.partitions[number].replicas
    return Row(
        topic=topic,
        topic_id=uuid_to_text(found.id),
        partition=number,
        original=now,
        proposed=proposed,
        size_bytes=size,
    )


def by_broker(effect: dict[str, Any], what: str) -> dict[int, tuple[int, int]]:
    return {each["broker_id"]: (each["before"][what], each["after"][what]) for each in effect["brokers"]}


def test_replicas_leaders_and_bytes_of_the_brokers_before_and_after() -> None:
    effect = effect_of(SHOWN_LAYOUT, [row("t", 0, 3, 1), row("t", 1, 1, 3, size=200)])
    assert by_broker(effect, "replicas") == {1: (3, 3), 2: (2, 1), 3: (2, 3), 4: (0, 0)}
    assert by_broker(effect, "leaders") == {1: (3, 2), 2: (1, 1), 3: (0, 1), 4: (0, 0)}
    assert by_broker(effect, "size_bytes") == {1: (400, 400), 2: (400, 300), 3: (500, 600), 4: (0, 0)}
    assert (effect["copies"], effect["bytes"], effect["partitions"], effect["reordered"]) == (1, 100, 2, 1)
    copying = {each["broker_id"]: (each["in_bytes"], each["out_bytes"]) for each in effect["brokers"]}
    assert copying == {1: (0, 100), 2: (0, 0), 3: (100, 0), 4: (0, 0)}
    assert copy_seconds(effect, 50) == 2


def test_the_rack_rule_and_the_margins_before_and_after() -> None:
    effect = effect_of(SHOWN_LAYOUT, [row("t", 0, 3, 1), row("t", 2, 2, 4), row("u", 0, 1, 3)])
    assert effect["rack_violated"] == [1, 0]  # t-0 had both replicas in rack a
    assert effect["at_min"] == [4, 2]  # t-2 has one live replica of two then, u-0 one more than it needs
    assert effect["under_min"] == [0, 1]
    assert effect["non_preferred"] == [1, 1]


def test_what_is_unknown_is_not_counted_as_nothing() -> None:
    effect = effect_of(layout_from_image(SHOWN), [row("t", 0, 1, 3, size=None)])
    assert (effect["bytes"], effect["unsized"], effect["copies"]) == (None, 1, 1)
    gone = Row(
        topic="gone", topic_id=uuid_to_text(SHOWN.topics.topic("t").id), partition=5, original=(1,), proposed=(2,)
    )  # type: ignore[union-attr]  # it is there
    assert effect_of(SHOWN_LAYOUT, [gone])["partitions"] == 0
