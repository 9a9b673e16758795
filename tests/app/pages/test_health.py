"""The health sentence of the dashboard with its reasons, and folded changes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.cluster.history import EXCERPT_LINES, PARTITION_LINE, Change
from app.cluster.samples import Sample, rates
from app.cluster.topic_table import TopicTable
from app.pages.feed import feed_entries
from app.pages.health import Health, health
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import MetadataRecord
from tests.app.cluster.test_voter_changes import quorum
from tests.app.pages.test_views import change_that_creates
from tests.app.reports.clusters import broker, image, partition
from tests.image.records import record_streams

NOW_MS = 10_000_000


def judged(
    now: MetadataImage, before: MetadataImage | None = None, voters: int = 3, behind: tuple[int, ...] = ()
) -> Health:
    """Return the health of an image that came out of another four minutes ago."""
    table = TopicTable()
    table.refresh(now)
    change = Change(
        first_offset=1,
        offset=1,
        epoch=1,
        timestamp_ms=NOW_MS - 240_000,
        records=(),
        before=before or now,
        after=now,
    )
    return health(quorum(voters, behind), now, table.totals(), [change], NOW_MS)


def test_a_healthy_cluster_says_how_many_controllers_may_fail() -> None:
    whole = image([broker(1, None)], {"a": [partition("1")]})
    assert judged(whole) == Health("good", "Healthy: survives 1 more controller failure.", [])
    assert judged(whole, voters=5).sentence == "Healthy: survives 2 more controller failures."
    assert judged(whole, voters=1).sentence == "Healthy: one controller, without which nothing can be changed."
    late = judged(whole, behind=(2,))
    assert (late.tone, late.sentence) == ("warn", "Working, with less safety: survives no further controller failure.")
    assert late.reasons[0].text == "Voter 2 is not caught up with the leader."


def test_a_fenced_broker_is_named_with_its_time_and_the_leaders_it_costs() -> None:
    topics = {"a": [partition("2 1", isr="1"), partition("1 2", isr="1"), partition("2 1", isr="1")]}
    before = image([broker(1, None), broker(2, None)], topics)
    found = judged(image([broker(1, None), broker(2, None, fenced=True)], topics), before)
    assert found.tone == "bad"
    assert found.sentence == "Working, but something is missing; survives 1 more controller failure."
    assert [(each.tone, each.text, each.href) for each in found.reasons] == [
        ("bad", "Broker 2 fenced for 4 min: costs 2 leaders", "/brokers/2"),
        ("warn", "3 partitions under-replicated, still writable", "/topics?problem=under-replicated"),
    ]


def test_of_many_fenced_brokers_three_are_named() -> None:
    found = judged(image([broker(number, None, fenced=True) for number in range(1, 8)], {}))
    assert [each.text for each in found.reasons] == [
        "Broker 1 fenced",
        "Broker 2 fenced",
        "Broker 3 fenced",
        "4 more brokers fenced",
    ]


def test_partitions_that_cannot_be_used_come_first() -> None:
    topics = {"a": [partition("1 2", isr="1", leader=-1), partition("1 2", isr="1")]}
    found = judged(image([broker(1, None), broker(2, None)], topics, {"a": {"min.insync.replicas": "2"}}))
    assert found.sentence == "1 partition can be neither read nor written."
    assert [each.text for each in found.reasons] == [
        "1 partition offline: no leader",
        "1 partition under min.insync.replicas: acks=all is refused",
    ]


def test_a_quorum_without_a_leader_changes_nothing() -> None:
    whole = image([broker(1, None)], {})
    table = TopicTable()
    table.refresh(whole)
    found = health(replace(quorum(), leader_id=None), whole, table.totals(), [], NOW_MS)
    assert (found.tone, found.sentence) == (
        "bad",
        "Nothing can be changed: the quorum has no leader that a majority follows.",
    )


def test_the_partitions_of_a_change_are_folded_under_their_number() -> None:
    many = EXCERPT_LINES + 2
    found = feed_entries([change_that_creates(9, many), change_that_creates(8, 1)], 5)
    assert [(each.offset, each.text, each.summary, each.left_out) for each in found] == [
        (9, "topic orders: created", f"{many + 1} more", many + 2 - EXCERPT_LINES),
        (8, "topic orders: created", "2 more", 0),
    ]
    about_partitions = feed_entries([change_that_creates(9, 5)], 5, lambda line: ": p" in line)
    assert about_partitions[0].summary == "4 more partitions"
    assert feed_entries([change_that_creates(9, 5)] * 3, 2)[1:] != []
    assert feed_entries([change_that_creates(9, 5)], 5, lambda _: False) == []


@given(record_streams(), st.integers(0, 120))
def test_the_excerpt_of_a_change_is_the_beginning_of_its_lines(stream: list[MetadataRecord], start: int) -> None:
    before = replay_all(MetadataImage.EMPTY, stream[:start], start, 1)
    records, end = tuple(enumerate(stream[start:], start)), len(stream)
    change = Change(
        first_offset=start,
        offset=end,
        epoch=1,
        timestamp_ms=0,
        records=records,
        before=before,
        after=replay_all(before, stream[start:], end, 1),
    )
    lines, found = change.headlines_first, change.excerpt
    assert (found.lines, found.total) == (lines[:EXCERPT_LINES], len(lines))
    assert found.headlines == sum(PARTITION_LINE.match(line) is None for line in lines)


def test_the_rate_of_changes_is_counted_by_the_minute() -> None:
    samples = [Sample(at, watermark, 0, 0, 0, 0) for at, watermark in ((0.0, 10), (10.0, 15), (10.0, 16), (20.0, 6))]
    assert rates(samples) == [30.0, 0.0]
