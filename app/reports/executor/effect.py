"""What the rows of a plan do to the cluster: the numbers before and after, and what each broker copies."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.reports.executor.plan import Row
from app.reports.proposals.layout import Indexes, Layout
from app.reports.proposals.rules import RackRule, rack_rule


def effect_of(layout: Layout, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the numbers of a plan on this layout, as JSON.

    brokers: per broker `replicas`, `leaders`, `preferred` and `size_bytes` before and after, and what it reads (`out`)
    and writes (`in`) of copies, in replicas and in bytes. rack_violated, under_min, at_min, non_preferred: partitions
    before and after, once all copies are in sync. `copies`: replicas to copy, `bytes` of known size (None: no size is
    known), `unsized` of unknown size. `reordered`: partitions of which only the order of replicas changes.

    Partitions that are gone or have changed since the rows were made count as the rows say.
    """
    index = {layout.key(partition): partition for partition in range(len(layout))}
    before = layout.targets()
    after, leaders, changed = list(before), list(layout.leader), []
    copies = _Copies(len(layout.brokers))
    for row in rows:
        at = index.get(row.key)
        if at is None or any(each not in layout.index_of for each in row.proposed):
            continue
        after[at] = tuple(layout.index_of[each] for each in row.proposed)
        leaders[at] = _leader_after(layout, row, after[at], layout.leader[at])
        copies.take(layout, row, layout.leader[at])
        changed.append(at)
    rule = rack_rule(layout, frozenset(), max(map(len, (*before, *after)), default=0))
    return {
        "brokers": _brokers(layout, (before, list(layout.leader)), (after, leaders), copies),
        "racks": rule.racks,
        "partitions": len(changed),
        "reordered": sum(set(before[at]) == set(after[at]) for at in changed),
        "copies": copies.replicas,
        "bytes": copies.bytes if layout.sizes is not None else None,
        "unsized": copies.unsized,
        "rack_violated": _violated(rule, before, after, changed),
        "non_preferred": [_non_preferred(before, layout.leader), _non_preferred(after, leaders)],
        "leader_changes": sum(then != now for then, now in zip(layout.leader, leaders, strict=True)),
        **_margins(layout, before, after, set(changed)),
    }


class _Copies:
    """What the brokers copy, by broker index."""

    def __init__(self, brokers: int) -> None:
        self.read, self.written = [0] * brokers, [0] * brokers
        self.read_bytes, self.written_bytes = [0] * brokers, [0] * brokers
        self.replicas = self.bytes = self.unsized = 0

    def take(self, layout: Layout, row: Row, leader: int) -> None:
        """Count the copies of a row, which are read from its leader."""
        size = row.size_bytes
        for broker in row.copies:
            at = layout.index_of[broker]
            source = at if broker in row.original else leader
            self.replicas += 1
            self.unsized += size is None
            self.bytes += size or 0
            self.written[at] += 1
            self.written_bytes[at] += size or 0
            if source >= 0:
                self.read[source] += 1
                self.read_bytes[source] += size or 0


def _leader_after(layout: Layout, row: Row, replicas: Indexes, now: int) -> int:
    """Return the leader once the plan is done: the executor elects where the first replica has changed."""
    active = [each for each in replicas if layout.brokers[each].active]
    if now < 0 or not active:
        return now
    wanted = replicas[0] if row.proposed[0] != row.original[0] or now not in replicas else now
    return wanted if wanted in active else active[0]


def _brokers(
    layout: Layout,
    before: tuple[list[Indexes], list[int]],
    after: tuple[list[Indexes], list[int]],
    copies: _Copies,
) -> list[dict[str, Any]]:
    then, now = _held(layout, *before), _held(layout, *after)
    return [
        {
            "broker_id": broker.broker_id,
            "rack": broker.rack,
            "state": broker.state,
            "before": then[at],
            "after": now[at],
            "in": copies.written[at],
            "out": copies.read[at],
            "in_bytes": copies.written_bytes[at],
            "out_bytes": copies.read_bytes[at],
        }
        for at, broker in enumerate(layout.brokers)
    ]


def _held(layout: Layout, targets: list[Indexes], leaders: list[int]) -> list[Mapping[str, int | None]]:
    replicas = Counter(each for target in targets for each in target)
    preferred = Counter(target[0] for target in targets if target)
    led = Counter(leaders)
    sizes: Counter[int] = Counter()
    for target, size in zip(targets, layout.sizes or (), strict=False):
        if size:
            sizes.update(dict.fromkeys(target, size))
    return [
        {
            "replicas": replicas[at],
            "leaders": led[at],
            "preferred": preferred[at],
            "size_bytes": sizes[at] if layout.sizes is not None else None,
        }
        for at in range(len(layout.brokers))
    ]


def _violated(rule: RackRule, before: list[Indexes], after: list[Indexes], changed: Iterable[int]) -> list[int]:
    """Return how many partitions break the rack rule before and after."""
    then = sum(rule.overflow(target, len(target)) > 0 for target in before) if rule.racks else 0
    now = then
    for at in changed:
        now -= rule.overflow(before[at], len(before[at])) > 0
        now += rule.overflow(after[at], len(after[at])) > 0
    return [then, now]


def _non_preferred(targets: Sequence[Indexes], leaders: Sequence[int]) -> int:
    return sum(not target or target[0] != leader for target, leader in zip(targets, leaders, strict=True))


def _margins(layout: Layout, before: list[Indexes], after: list[Indexes], changed: set[int]) -> dict[str, list[int]]:
    """Return the partitions under and at min ISR before and after."""
    under, at_min = [0, 0], [0, 0]
    for at, topic in enumerate(layout.topic_of):
        wanted = layout.topics[topic].min_isr or 1
        in_sync = len(layout.isr[at])
        later = sum(layout.brokers[each].active for each in after[at]) if at in changed else in_sync
        for place, (target, count) in enumerate(((before[at], in_sync), (after[at], later))):
            least = min(wanted, len(target))
            is_offline = layout.leader[at] < 0
            under[place] += is_offline or count < least
            at_min[place] += not is_offline and count == least
    return {"under_min": under, "at_min": at_min}


def copy_seconds(effect: Mapping[str, Any], throttle: int) -> float:
    """Return how long the copies take at `throttle` bytes/s per broker and direction: as long as the busiest broker.

    Only bytes of known size count.
    """
    return max((max(each["in_bytes"], each["out_bytes"]) for each in effect["brokers"]), default=0) / throttle
