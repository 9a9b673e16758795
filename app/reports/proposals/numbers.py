"""The numbers of a layout before and after a proposal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, combinations, compress
from operator import eq, ne

from app.reports.proposals.layout import Indexes, Layout
from app.reports.proposals.proposal import BrokerNumbers, Numbers
from app.reports.proposals.replicas import bytes_of_replicas
from app.reports.proposals.rules import RackRule, Rules
from app.reports.proposals.state import State

MAX_COMPARED = 8
"""Up to this replication factor, comparing all pairs of replicas by column is the fastest."""


def crowded_partitions(target: list[Indexes], rules: Rules, among: Iterable[int] | None = None) -> dict[int, int]:
    """Return the partitions (all, or `among`) that break the rack rule, with the replicas that must change rack."""
    rule = rules.racks
    if not rule.racks:
        return {}
    at = range(len(target)) if among is None else sorted(among)
    found = {}
    for partition in _suspects(target, at, rule):
        moves = rule.overflow(target[partition], len(target[partition]))
        if moves:
            found[partition] = moves
    return found


def _suspects(target: list[Indexes], among: Sequence[int], rule: RackRule) -> list[int]:
    """Return the partitions of `among` that have two replicas in one rack or without a rack, without a loop in Python.

    All comparisons are made on columns: the racks of all first replicas, of all second replicas, and so on.
    """
    found: list[int] = []
    widths = [len(target[partition]) for partition in among]
    for width in sorted(set(widths)):
        chosen = among if len(widths) == widths.count(width) else list(compress(among, map(width.__eq__, widths)))
        racks = list(map(rule.rack_of.__getitem__, chain.from_iterable([target[each] for each in chosen])))
        if width > rule.racks or width > MAX_COMPARED:
            found += chosen
            continue
        columns = [racks[position::width] for position in range(width)]
        for first, second in combinations(columns, 2):
            found += compress(chosen, map(eq, first, second))
    return sorted(set(found))


def numbers_of(
    layout: Layout,
    rules: Rules,
    target: list[Indexes],
    leader: Sequence[int],
    count: list[int],
    crowded: dict[int, int],
    sizes: list[int] | None,
) -> Numbers:
    """Return the numbers with these targets and leaders. `count` and `sizes`: replicas and bytes by broker.

    See `crowded_partitions`.
    """
    leaders = Counter(leader)
    firsts = [replicas[0] if replicas else -1 for replicas in target]
    preferred = Counter(firsts)
    rows = tuple(
        BrokerNumbers(
            broker.broker_id,
            broker.rack,
            count[index],
            leaders[index],
            preferred[index],
            rules.low[index] if rules.low[index] >= 0 else None,
            rules.high[index] if rules.high[index] >= 0 else None,
            sizes[index] if sizes is not None else None,
        )
        for index, broker in enumerate(layout.brokers)
    )
    away = sum(count[index] for index, broker in enumerate(layout.brokers) if not broker.active)
    lost = sum(
        layout.brokers[each].active and each in target[partition]
        for partition, brokers in layout.lost.items()
        for each in brokers
    )
    return Numbers(
        rows,
        replicas=sum(count),
        excess=sum(max(0, row.replicas - row.high) for row in rows if row.high is not None),
        deficit=sum(max(0, row.low - row.replicas) for row in rows if row.low is not None),
        rack_violated=len(crowded),
        rack_moves=sum(crowded.values()),
        offline_replicas=away + lost,
        max_leaders=max((leaders[index] for index in range(len(layout.brokers))), default=0),
        non_preferred=sum(map(ne, firsts, leader)),
    )


def bytes_per_broker(layout: Layout, target: list[Indexes]) -> list[int] | None:
    """Return the known bytes of each broker, None where no size is known."""
    if layout.sizes is None:
        return None
    return bytes_of_replicas(target, [size or 0 for size in layout.sizes], len(layout.brokers))


def bytes_after(state: State, before: list[int]) -> list[int]:
    """Return the known bytes of each broker after the moves so far."""
    found = list(before)
    for partition in state.changed:
        size = state.size(partition)
        for broker in state.before[partition]:
            found[broker] -= size
        for broker in state.target[partition]:
            found[broker] += size
    return found
