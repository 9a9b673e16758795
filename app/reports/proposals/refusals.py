"""The reasons why no plan can be made at all, as sentences."""

from collections.abc import Iterator, Sequence
from itertools import compress

from app.reports.proposals.layout import Layout
from app.reports.proposals.options import DRAIN, LEADERS, MOVE, REPLICATION_FACTOR, Options
from app.reports.proposals.rules import Rules
from app.texts import phrase


def refusals(layout: Layout, options: Options, rules: Rules, unknown: Sequence[int]) -> Iterator[str]:
    """Return why the options cannot be met on this layout, in a fixed order; none if they can.

    `unknown`: the partitions without a known size, if the options need all sizes.
    """
    yield from _unknown_names(layout, options)
    if not layout.replicas:
        return
    if not rules.takers and options.goals != {LEADERS}:
        yield phrase(
            "No broker may take replicas: every broker is fenced, shutting down, cordoned, full, drained or excluded."
        )
        return
    if rules.new is not None and not rules.new:
        yield phrase(
            "There is no broker to expand to: every eligible broker has replicas, or those named may take none."
        )
    if options.goals & {DRAIN, REPLICATION_FACTOR, MOVE}:
        yield from _too_few(layout, options, rules)
    if unknown:
        yield _unknown_sizes(layout, unknown)


def _unknown_names(layout: Layout, options: Options) -> Iterator[str]:
    named = options.drain_brokers | options.expand_brokers | options.exclude_brokers | options.target_brokers
    named |= {broker for _, _, broker in options.drain_replicas}
    for broker in sorted(named - set(layout.index_of)):
        yield phrase("Broker %(id)s is not in the cluster.", id=broker)
    racks = {broker.rack for broker in layout.brokers}
    for rack in sorted(options.drain_racks - racks):
        yield phrase("No broker is in rack '%(rack)s'.", rack=rack)
    topics = {topic.name for topic in layout.topics}
    for topic in sorted((options.topics or frozenset()) - topics):
        yield phrase("Topic '%(name)s' does not exist.", name=topic)
    if options.partitions is not None:
        unknown = options.partitions - set(map(layout.key, range(len(layout))))
        for topic, number in sorted(unknown)[:5]:
            yield phrase("Partition %(name)s does not exist.", name=f"{topic}-{number}")


def _too_few(layout: Layout, options: Options, rules: Rules) -> Iterator[str]:
    """Refuse more replicas per partition than brokers that may hold one."""
    hosts = len(layout.brokers) - len(rules.leaving | rules.left)
    if options.replication_factor is not None:
        if options.replication_factor > hosts:
            yield phrase(
                "Replication factor %(factor)s is more than the %(count)s brokers left.",
                factor=options.replication_factor,
                count=hosts,
            )
        return
    most = max(map(len, compress(layout.replicas, rules.movable)), default=0)
    if most > hosts:
        movable = compress(range(len(layout)), rules.movable)
        widest = next(partition for partition in movable if len(layout.replicas[partition]) == most)
        topic, number = layout.key(widest)
        yield phrase(
            "Partition %(name)s has %(replicas)s replicas, and only %(count)s brokers would be left to hold them.",
            name=f"{topic}-{number}",
            replicas=len(layout.replicas[widest]),
            count=hosts,
        )


def _unknown_sizes(layout: Layout, unknown: Sequence[int]) -> str:
    """Refuse to balance bytes: one replica of unknown size may be larger than all others together."""
    topic, number = layout.key(unknown[0])
    return phrase(
        "Bytes cannot be balanced: the size of %(unknown)s of %(all)s partitions is unknown, such as %(name)s. "
        "All sizes are needed, since one that is unknown may outweigh the others. "
        "Try again when the brokers have answered DescribeLogDirs.",
        unknown=f"{len(unknown):,}",
        all=f"{len(layout):,}",
        name=f"{topic}-{number}",
    )
