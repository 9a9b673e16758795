"""The report's blocks that a page shows before the first run, computed from the metadata image in plain Python."""

from collections.abc import Iterator
from typing import Any

from app.reports.aggregates import Brokers
from app.reports.body import report_body
from app.reports.image_tables import broker_indexes, broker_table, offline_replicas, topic_table
from app.reports.plain import Ids, Placement, Topic, aggregate, shapes_of
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.trie_items import values_of


def image_brokers(image: MetadataImage) -> Brokers:
    """Return the brokers of an image, as its snapshot would have them."""
    topics = sorted(values_of(image.topics.by_id), key=lambda topic: topic.name)
    table = broker_table(image, broker_indexes(image, topics))
    return Brokers([dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)])


def image_topics(image: MetadataImage, brokers: Brokers) -> Iterator[Topic]:
    """Yield the topics of an image in order of name, with brokers as indexes."""
    index_of = {row["broker_id"]: row["broker_idx"] for row in brokers.rows}
    topics = sorted(values_of(image.topics.by_id), key=lambda topic: topic.name)
    table = topic_table(image, topics)
    known: dict[Ids, Ids] = {}
    offline_in: dict[tuple[Ids, int], Ids] = {}

    def indexes(ids: Ids) -> Ids:
        found = known.get(ids)
        if found is None:
            found = known[ids] = tuple(index_of[broker] for broker in ids if broker in index_of)
        return found

    for topic, min_isr, unclean in zip(topics, table["min_isr_config"], table["unclean"], strict=True):
        rows: list[tuple[int, Placement, int | None]] = []
        for number, each in topic.sorted_partitions():
            key = each.replicas, id(each.directories)  # the image keeps the directories alive
            offline = offline_in.get(key)
            if offline is None:
                away = offline_replicas(image.cluster.brokers, each.replicas, each.directories)
                offline = offline_in[key] = indexes(away)
            placement = Placement(
                indexes(each.replicas),
                indexes(each.isr),
                indexes(each.elr),
                indexes(each.adding_replicas),
                indexes(each.removing_replicas),
                offline,
                index_of.get(each.leader, -1),
            )
            rows.append((number, placement, None))
        yield Topic(topic.name, min_isr, unclean, rows)


def live_report(image: MetadataImage) -> dict[str, Any]:
    """Return the whole body for an image. Takes about 2 s per 100,000 partitions."""
    brokers = image_brokers(image)
    return report_body(
        brokers, aggregate(shapes_of(image_topics(image, brokers), elr=image.features.elr_enabled), brokers)
    )
