"""What a report advises: layouts worked by hand, above all those where the obvious advice would be wrong."""

import re
from collections import Counter
from itertools import combinations

import pytest

from app.reports import rack_advice
from app.reports.live import live_report
from app.texts import recognised, shown, speaking
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from tests.app.reports.clusters import broker, directory, image, partition, random_image

TWO = {"": {"min.insync.replicas": "2"}}
THREE = {"": {"min.insync.replicas": "3"}}
SPREAD = "Spread their replicas over more racks."
ONLY_RACK = "Rack a is the only rack: its loss stops the whole cluster. Add a second rack."


def advice(
    racks: str, partitions: list[PartitionRegistration], configs: dict[str, dict[str, str]] | None = None
) -> list[str]:
    """Return the advice for brokers 1, 2, 3, … in these racks (-: none) and one topic."""
    brokers = [broker(number, None if rack == "-" else rack) for number, rack in enumerate(racks.split(), 1)]
    sentences: list[str] = live_report(image(brokers, {"t": partitions}, configs))["advice"]
    return sentences


def about_racks(
    racks: str, partitions: list[PartitionRegistration], configs: dict[str, dict[str, str]] | None = None
) -> list[str]:
    return [sentence for sentence in advice(racks, partitions, configs) if sentence.startswith(("Losing", "Rack "))]


@pytest.mark.parametrize(
    ("case", "racks", "placed", "configs", "expected"),
    [
        ("one rack each, a loss leaves two of three", "a b c", ["1 2 3"], TWO, []),
        (
            "the rule holds, and every replica is needed for a write",
            "a b c",
            ["1 2 3", "2 3 1"],
            THREE,
            [
                f"Losing rack {rack} stops writes to 2 partitions."
                " Raise their replication factor or lower their min.insync.replicas."
                for rack in "abc"
            ],
        ),
        (
            "RF 2, min ISR 2, more racks than replicas: one sentence for each rack in use",
            "a b c",
            ["1 2"],
            TWO,
            [
                f"Losing rack {rack} stops writes to 1 partition."
                " Raise its replication factor or lower its min.insync.replicas."
                for rack in "ab"
            ],
        ),
        (
            "three replicas over two racks are even, and the loss of the rack with two leaves one",
            "a a b",
            ["1 2 3"],
            TWO,
            [
                (
                    "Losing rack a stops writes to 1 partition."
                    " Add a rack, raise its replication factor, or lower its min.insync.replicas."
                )
            ],
        ),
        (
            "all three in one of two racks: spreading keeps the leader, writes need more",
            "a a a b",
            ["1 2 3"],
            TWO,
            [
                (
                    "Losing rack a takes 1 partition down and stops writes to 1. Spread its replicas over more racks."
                    " Also: Add a rack, raise its replication factor, or lower its min.insync.replicas."
                )
            ],
        ),
        (
            "two of three in one of three racks: spreading is enough",
            "a a b c",
            ["1 2 3", "2 1 4"],
            TWO,
            [f"Losing rack a stops writes to 2 partitions. {SPREAD}"],
        ),
        (
            "one replica",
            "a b",
            ["1", "1"],
            None,
            [
                "Losing rack a takes 2 partitions down and stops writes to 2. Raise their replication factor above 1.",
            ],
        ),
        (
            "one replica: min.insync.replicas above it counts as one",
            "a b",
            ["1"],
            TWO,
            ["Losing rack a takes 1 partition down and stops writes to 1. Raise its replication factor above 1."],
        ),
        (
            "different partitions, different remedies",
            "a a b c",
            ["1 2", "1", "1 2 3"],
            TWO,
            [
                (
                    "Losing rack a takes 2 partitions down and stops writes to 3."
                    " Spread the replicas of 2 over more racks."
                    " Also: Raise the replication factor of 1 or lower min.insync.replicas."
                    " Also: Raise the replication factor of the 1 with one replica."
                )
            ],
        ),
        ("one rack", "a a", ["1 2"], None, [ONLY_RACK]),
        ("one rack known, and a broker that may be elsewhere", "a a -", ["1 3"], None, []),
        (
            "a broker without a rack can take a replica",
            "a a -",
            ["1 2"],
            None,
            ["Losing rack a takes 1 partition down and stops writes to 1. Spread its replicas over more racks."],
        ),
        ("no racks", "- -", ["1", "1 2"], TWO, []),
    ],
)
def test_the_loss_of_a_rack_gets_the_remedy_that_helps(
    case: str, racks: str, placed: list[str], configs: dict[str, dict[str, str]] | None, expected: list[str]
) -> None:
    assert about_racks(racks, [partition(replicas) for replicas in placed], configs) == expected, case


def test_a_good_placement_with_replicas_out_of_sync_is_not_to_be_changed() -> None:
    assert about_racks("a b c", [partition("1 2 3", isr="1"), partition("2 3 1")]) == [
        "Losing rack a takes 1 partition down and stops writes to 1. Get its out-of-sync replicas in sync again."
    ]


def test_a_partition_that_refuses_writes_already_can_still_go_down() -> None:
    """One of two is in sync and two are required: the loss of rack a stops no write, and takes the leader."""
    assert about_racks("a b", [partition("1 2", isr="1")], TWO)[0] == (
        "Losing rack a takes 1 partition down. Get its out-of-sync replicas in sync again."
    )


def test_no_sentence_is_about_nothing() -> None:
    for seed in range(300):
        for sentence in live_report(random_image(seed))["advice"]:
            assert not re.search(r"\b(takes|to|of|leads?|holds?) 0\b|\b0 (partition|replica)", sentence), seed


def test_only_brokers_with_a_rack_make_a_single_failure_domain() -> None:
    for racks, single in (("a a", True), ("a -", False), ("a b", False), ("- -", False)):
        brokers = [broker(number, None if rack == "-" else rack) for number, rack in enumerate(racks.split(), 1)]
        assert live_report(image(brokers, {}))["verdict"]["single_failure_domain"] is single


def test_replicas_that_no_other_broker_can_take_are_not_to_be_moved() -> None:
    """Three replicas on three brokers, one of them dead: only a new broker could take its replica."""

    def first(shown: MetadataImage) -> str:
        return str(live_report(shown)["advice"][0])

    live, fenced = [broker(1, None), broker(2, None)], broker(3, None, fenced=True)
    topics = {"t": [partition("1 2 3", isr="1 2")]}
    held = "holds 1 replica."
    assert first(image([*live, fenced], topics)) == (
        f"Broker 3 is fenced and {held} Start it: no other broker can take its replicas until more are added."
    )
    assert first(image(live, topics)) == (
        f"Broker 3 is unregistered and {held} No other broker can take its replicas until more are added."
    )
    assert first(image([*live, fenced, broker(4, None)], topics)) == (
        f"Broker 3 is fenced and {held} Start it, or move its replicas to other brokers."
    )
    broken = broker(3, None, directories=(directory(3, 5),))
    assert first(image([*live, broken], topics)) == (
        "Broker 3 has 1 replica in offline log directories."
        " Repair the disks: no other broker can take the replicas until more are added."
    )
    assert first(image([*live, broken, broker(4, None)], topics)) == (
        "Broker 3 has 1 replica in offline log directories. Repair the disks, or move the replicas."
    )


def test_a_full_broker_is_told_where_there_is_room() -> None:
    """Ten replicas on four brokers are balanced as 2 or 3 each, so that brokers with 2 are in their band."""
    four = [partition("1")] * 4
    rest = [partition(str(number)) for number in (2, 2, 3, 3, 4, 4)]
    assert (
        "Broker 1 holds 1 replica more than balanced. Move them to brokers with fewer, which stay in their band."
        in advice("- - - -", four + rest)
    )
    assert "Broker 1 holds 1 replica more than balanced. Move them to brokers below their band." in advice(
        "- -", [partition("1")] * 3 + [partition("2")]
    )


def test_each_small_rack_is_compared_with_the_one_that_has_room() -> None:
    """Three racks for three replicas each: two racks have one broker, so neither has more than "elsewhere"."""
    grow = [
        sentence
        for sentence in advice("a a b c", [partition("1 3 4"), partition("2 3 4")])
        if "Add brokers" in sentence
    ]
    assert grow == [
        f"Add brokers in rack {rack}: the rack rule puts 2 replicas on its 1 broker, more for each than in rack a."
        for rack in "bc"
    ]


def test_the_advice_names_racks_and_brokers() -> None:
    brokers = [broker(1, "a"), broker(2, "b"), broker(3, "b", fenced=True), broker(4, None)]
    topics = {"t": [partition("1", leader=1), partition("2 3", isr="2"), partition("9 2", isr="2")]}
    assert live_report(image(brokers, topics))["advice"] == [
        "Broker 9 is unregistered and holds 1 replica. Move its replicas to other brokers.",
        "Broker 3 is fenced and holds 1 replica. Start it, or move its replicas to other brokers.",
        (
            "Losing rack b takes 2 partitions down and stops writes to 2. Spread the replicas of 1 over more racks."
            " Also: Get the out-of-sync replicas of 1 in sync again."
        ),
        "Losing rack a takes 1 partition down and stops writes to 1. Raise its replication factor above 1.",
        "Broker 4 has no rack, so its partitions cannot be judged. Set its broker.rack.",
    ]


def test_a_small_rack_is_advised_to_grow() -> None:
    """Two replicas of each of six partitions over racks of three and one brokers: the one broker holds six of them."""
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "a"), broker(4, "b")]
    topics = {"t": [partition(f"{1 + number % 3} 4") for number in range(6)]}
    advice = live_report(image(brokers, topics))["advice"]
    assert (
        "Add brokers in rack b: the rack rule puts 6 replicas on its 1 broker, more for each than in rack a." in advice
    )


@pytest.mark.parametrize("count", range(1, len(rack_advice.ORDER) + 1))
def test_stored_advice_with_any_remedies_is_chinese_throughout(count: int) -> None:
    for names in combinations(rack_advice.ORDER, count):
        for harmed in (1, 7):
            remedies = Counter({name: harmed if name == names[0] else 1 for name in names})
            said = rack_advice._loss("east 1", harmed, 5, rack_advice._advice(remedies, harmed))
            with speaking("zh"):
                stored = shown(recognised(str(said)))
                assert stored == shown(said)
            assert not re.search(r"[A-Za-z]+ [a-z]+ [a-z]+", stored), stored
