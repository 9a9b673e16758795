"""The list of topics: correct counts, consistent with the image, fast at 10,000 topics."""

from random import Random
from uuid import UUID

import pytest
from rpds import HashTrieMap

from app.cluster import topic_table
from app.cluster.history import History
from app.cluster.topic_table import TopicTable
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.protocol import metadata_records as r
from tests.app.cluster.test_topic_changes import Feed
from tests.app.reports.clusters import broker, image, partition, random_image
from tests.app.reports.oracle import Oracle
from tests.app.reports.test_report import three_racks


def table(shown: MetadataImage) -> TopicTable:
    made = TopicTable()
    made.refresh(shown)
    return made


def test_a_row_counts_what_a_broker_enforces() -> None:
    rows = {row.name: row for row in table(three_racks()).page().rows}
    assert (rows["orders"].partitions, rows["orders"].replication_factor, rows["orders"].min_isr) == (4, 3, 2)
    assert (rows["orders"].under_replicated, rows["orders"].under_min, rows["orders"].not_preferred) == (1, 0, 1)
    assert (rows["logs"].offline, rows["logs"].under_min, rows["logs"].configs_set) == (1, 1, 0)


def test_one_copy_with_min_isr_two_is_not_under_min() -> None:
    """min.insync.replicas is capped by the replication factor; else every topic of one replica would be an alarm."""
    shown = image([broker(1, None)], {"single": [partition("1")]}, {"single": {"min.insync.replicas": "2"}})
    assert table(shown).page().rows[0].under_min == 0


def test_totals_agree_with_brute_force_on_random_clusters() -> None:
    for seed in range(60):
        oracle = Oracle(random_image(seed))
        totals = table(oracle.image).totals()
        partitions = [(topic, each) for topic, _, each in oracle.partitions]
        assert totals.offline == sum(each.leader < 0 for _, each in partitions)
        under = sum(each.leader < 0 or len(each.isr) < oracle.min_isr(topic, each) for topic, each in partitions)
        assert totals.under_min == under
        for each in oracle.image.cluster.brokers.values():
            assert totals.replicas_of.get(each.id, 0) == sum(each.id in one.replicas for _, one in partitions)
            assert totals.leaders_of.get(each.id, 0) == sum(one.leader == each.id for _, one in partitions)


def test_updated_totals_equal_recounted_totals() -> None:
    followed = TopicTable()
    for seed in range(60):
        shown = random_image(seed)
        followed.refresh(shown)
        assert followed.totals() == table(shown).totals()


def random_change(dice: Random, ids: dict[str, UUID]) -> list[r.MetadataRecord]:
    """Create, delete, change or configure a topic, with names that return under other ids."""
    name = f"t{dice.randrange(60)}"
    topic_id = ids.pop(name, None)
    if topic_id is None or dice.random() < 0.2:
        records: list[r.MetadataRecord] = [] if topic_id is None else [r.RemoveTopicRecord(topic_id=topic_id)]
        ids[name] = made = UUID(int=dice.getrandbits(120))
        partition = r.PartitionRecord(topic_id=made, replicas=(1, 2), isr=(1, 2), leader=1)
        return [*records, r.TopicRecord(name=name, topic_id=made), partition]
    if dice.random() < 0.2:
        return [r.RemoveTopicRecord(topic_id=topic_id)]
    ids[name] = topic_id
    value = str(dice.randrange(1, 3))
    return dice.choice(
        [
            [r.PartitionChangeRecord(topic_id=topic_id, leader=dice.choice([-1, 1, 2]), isr=(2,))],
            [r.ConfigRecord(resource_type=TOPIC, resource_name=name, name="min.insync.replicas", value=value)],
            [r.ConfigRecord(resource_type=BROKER, resource_name="7", name="log.retention.ms", value=value)],
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_follow_the_changes_equal_rebuilt_rows(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice, feed, ids = Random(seed), Feed(10_000), dict[str, UUID]()
    followed = TopicTable()
    for _ in range(100):
        feed.add(*random_change(dice, ids))
    followed.refresh(feed.history.newest(1)[0].after, feed.history)
    monkeypatch.setattr(topic_table, "CHANGED_PART", 0)
    for _ in range(60):
        for _ in range(dice.randrange(1, 4)):
            feed.add(*random_change(dice, ids))
        shown = feed.history.newest(1)[0].after
        rebuilt = table(shown)
        with monkeypatch.context() as no_pass_over_all:
            no_pass_over_all.delattr(TopicTable, "_compare_all")
            followed.refresh(shown, feed.history)
        assert followed.page(page_size=100).rows == rebuilt.page(page_size=100).rows
        if dice.random() >= 0.3:
            assert followed.totals() == rebuilt.totals()


@pytest.mark.parametrize("kept", [3, 10_000])
def test_rows_are_rebuilt_where_the_history_has_a_gap_or_a_default_has_changed(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(topic_table, "CHANGED_PART", 0)
    feed, ids = Feed(kept), dict[str, UUID]()
    for seed in range(3):
        feed.add(*random_change(Random(seed), ids))
    first = feed.history.newest(1)[0].after
    for seed in range(20):
        feed.add(*random_change(Random(seed), ids))
    if kept > 3:
        feed.add(r.ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas", value="2"))
    shown = feed.history.newest(1)[0].after
    for history in (feed.history, History(3), None):
        followed = table(first)
        followed.refresh(shown, history)
        assert followed.page(page_size=100).rows == table(shown).page(page_size=100).rows


def test_a_change_of_one_topic_visits_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    before = three_racks()
    shown = table(before)
    partitions = shown.totals().partitions
    looked_into: list[str] = []

    class Watched(topic_table._Holdings):
        def __init__(self, topic: TopicImage) -> None:
            looked_into.append(topic.name)
            super().__init__(topic)

    monkeypatch.setattr(topic_table, "_Holdings", Watched)
    orders = before.topics.topic("orders")
    assert orders is not None
    shrunk = TopicImage("orders", orders.id, HashTrieMap({0: orders.partitions[0]}))
    topics = type(before.topics)(before.topics.by_id.insert(orders.id, shrunk), before.topics.by_name)
    shown.refresh(MetadataImage(topics=topics, configs=before.configs))
    assert shown.totals().partitions == partitions - len(orders.partitions) + 1
    assert looked_into == ["orders"]


def test_a_change_of_the_cluster_default_reaches_every_row() -> None:
    brokers, topics = [broker(1, None), broker(2, None)], {"t": [partition("1 2", isr="1")]}
    shown = table(image(brokers, topics))
    assert shown.page().rows[0].under_min == 0
    shown.refresh(image(brokers, topics, {"": {"min.insync.replicas": "2"}}))
    assert shown.page().rows[0].under_min == 1


def test_an_unchanged_topic_keeps_its_row() -> None:
    before = three_racks()
    shown = table(before)
    rows = {row.name: row for row in shown.page().rows}
    orders = before.topics.topic("orders")
    assert orders is not None
    kept = before.topics.by_id.remove(UUID(int=9000))  # logs
    shown.refresh(
        MetadataImage(topics=type(before.topics)(kept, before.topics.by_name.remove("logs")), configs=before.configs)
    )
    assert [row.name for row in shown.page().rows] == ["orders"]
    assert shown.page().rows[0] is rows["orders"]


def test_pages_search_sort_and_filter_on_the_server() -> None:
    shown = table(
        image([broker(1, None)], {f"topic-{number:03d}": [partition("1")] * (number % 5 + 1) for number in range(120)})
    )
    page = shown.page(page=3, page_size=50)
    assert ([page.rows[0].name, page.rows[-1].name], page.matching, page.pages) == (["topic-100", "topic-119"], 120, 3)
    assert shown.page(page=99, page_size=50).page == 3
    found = shown.page(search="TOPIC-01", sort="partitions", descending=True)
    assert (found.matching, found.rows[0].partitions, found.topics) == (10, 5, 120)
    assert shown.page(problem="offline").matching == 0
