"""The fewest moves on a small cluster, by min-cost flow.

The placement is a flow from each partition over its racks to the brokers. A kept replica costs 0, a copied one 1, a
replica outside a band BAND, and one that breaks the rack rule or cannot leave its broker RULE, so that the cheapest
flow obeys the rules first, then balances, then moves least. All costs are convex, so a flow is optimal as soon as its
residual network has no cycle of negative cost (Klein, 1967): the plan starts as the greedy one, and each such cycle is
an exchange of replicas that makes it cheaper. The network is totally unimodular, so whole replicas suffice.
"""

from collections import Counter
from collections.abc import Iterator

from app.reports.proposals.layout import Indexes
from app.reports.proposals.options import BALANCE, EXPAND, REPAIR
from app.reports.proposals.state import State

MAX_PARTITIONS = 2_000
MAX_PLACES = 60_000
"""Upper bound on partitions times brokers, which decides the time of a search."""
MAX_CYCLES = 60
"""Upper bound on the exchanges; a plan that needs more stays a greedy one."""
BAND = 10**6
RULE = 10**12

Arc = tuple[int, int, int, int, int]
"""Start node, end node, cost, partition (-1: none), broker that it gains (>= 0) or loses (-1 - broker)."""


def reduce_moves(state: State, forced: dict[int, Indexes], crowded: dict[int, int]) -> bool:
    """Change the plan in `state` to one with the fewest moves. Return whether the result is proven to be that.

    False, with the plan unchanged or improved: the cluster is too large, the goals are no flow (a budget, only some
    brokers with racks, rack violations that are to stay), or disks are too full for the best exchange.
    """
    if not _is_flow(state, crowded):
        return False
    network = _Network(state, forced)
    for _ in range(MAX_CYCLES):
        cycle = network.negative_cycle()
        if cycle is None:
            return True
        if not network.exchange(cycle):
            return False
    return False


def _is_flow(state: State, crowded: dict[int, int]) -> bool:
    options, rules = state.options, state.rules
    partitions, brokers = len(state.before), len(state.count)
    if partitions > MAX_PARTITIONS or partitions * brokers > MAX_PLACES:
        return False
    if options.max_moves is not None or options.max_bytes is not None or not options.goals & {BALANCE, EXPAND}:
        return False
    if REPAIR not in options.goals and crowded:
        return False
    if not rules.racks.racks:
        return True
    placed = {broker for replicas in (*state.target, *state.before) for broker in replicas} | rules.takers
    return all(rules.racks.rack_of[broker] >= 0 for broker in placed)


class _Network:
    """The residual network of the plan.

    Nodes: the brokers, the hub that stands for all other replicas of a broker, and per movable partition one node and
    one for each rack. An arc into a broker adds a replica there, an arc out of it takes one away.
    """

    def __init__(self, state: State, forced: dict[int, Indexes]) -> None:
        self.state = state
        self.forced = forced
        rules = state.rules
        self.brokers = len(state.count)
        self.racks = max(1, rules.racks.racks)
        self.rack_of = [max(0, rack) for rack in rules.racks.rack_of]
        self.partitions = [each for each in range(len(state.before)) if rules.movable[each]]
        self.limits = {rf: self._limits(rf) for rf in {len(state.target[each]) for each in self.partitions}}
        self.nodes = self.brokers + 1 + len(self.partitions) * (self.racks + 1)
        fill = rules.takers if rules.new is None else rules.new
        self.gainers = [[each for each in sorted(fill) if self.rack_of[each] == rack] for rack in range(self.racks)]

    def _limits(self, rf: int) -> list[tuple[int, int]]:
        """Return the fewest and most replicas of a partition in each rack."""
        rule = self.state.rules.racks
        if not rule.racks:
            return [(0, rf)]
        sizes = Counter(rule.rack_of[each] for each in rule.counted)
        widths = [sizes[rack] for rack in range(rule.racks)]
        allowed = rule.allowed[rf]
        level = max((at for at in range(rf + 1) if sum(min(at, width) for width in widths) <= rf), default=0)
        spare = sum(allowed) - sum(min(level, width) for width in widths)
        return [(min(level, width), min(level + (spare > 0), width)) for width in widths]

    def _replica_cost(self, partition: int, broker: int) -> int:
        if broker not in self.state.before[partition]:
            return 1
        return RULE if broker in self.forced.get(partition, ()) else 0

    def _band_cost(self, broker: int, count: int) -> int:
        rules = self.state.rules
        low, high = rules.low[broker], rules.high[broker]
        if low < 0:
            return 0
        over = max(0, count - high) if rules.new is None else 0
        return BAND * (max(0, low - count) + over)

    def _arcs(self) -> Iterator[Arc]:
        hub = self.brokers
        for broker, count in enumerate(self.state.count):
            now = self._band_cost(broker, count)
            yield broker, hub, self._band_cost(broker, count + 1) - now, -1, 0
            if count:
                yield hub, broker, self._band_cost(broker, count - 1) - now, -1, 0
        node = hub + 1
        for partition in self.partitions:
            yield from self._partition_arcs(partition, node)
            node += self.racks + 1

    def _partition_arcs(self, partition: int, node: int) -> Iterator[Arc]:
        target, before = self.state.target[partition], self.state.before[partition]
        rule_racks, sharers = self.rack_of, self.state.rules.takers | self.state.rules.givers
        counts = [0] * self.racks
        for broker in target:
            counts[rule_racks[broker]] += 1
            if broker in sharers or broker in self.forced.get(partition, ()):
                rack_node = node + 1 + rule_racks[broker]
                yield broker, rack_node, -self._replica_cost(partition, broker), partition, -1 - broker
        for rack, (least, most) in enumerate(self.limits[len(target)]):
            count = counts[rack]
            yield node, node + 1 + rack, RULE * ((count >= most) - (count < least)), -1, 0
            if count:
                yield node + 1 + rack, node, RULE * ((count <= least) - (count > most)), -1, 0
            for broker in self.gainers[rack]:
                if broker not in target and self.state.fits(partition, broker):
                    cost = self._replica_cost(partition, broker)
                    yield node + 1 + rack, broker, cost, partition, broker
        for broker in before:
            rack = rule_racks[broker]
            if broker not in target and broker not in self.gainers[rack]:
                yield node + 1 + rack, broker, self._replica_cost(partition, broker), partition, broker

    def negative_cycle(self) -> list[Arc] | None:
        """Return the arcs of a cycle of negative cost, or None if there is none (Bellman and Ford)."""
        arcs = list(self._arcs())
        distance = [0] * self.nodes
        arrived: list[Arc | None] = [None] * self.nodes
        for _ in range(self.nodes + 1):
            changed = False
            for arc in arcs:
                through = distance[arc[0]] + arc[2]
                if through < distance[arc[1]]:
                    distance[arc[1]] = through
                    arrived[arc[1]] = arc
                    changed = True
            if not changed:
                return None
            cycle = self._cycle(arrived)
            if cycle is not None:
                return cycle
        return None

    def _cycle(self, arrived: list[Arc | None]) -> list[Arc] | None:
        """Return a cycle among the arcs by which the nodes were reached; it always has a negative cost."""
        seen = [0] * self.nodes
        for start in range(self.nodes):
            node = start
            while not seen[node] and (arc := arrived[node]) is not None:
                seen[node] = start + 1
                node = arc[0]
            if seen[node] == start + 1 and arrived[node] is not None:
                cycle: list[Arc] = []
                first = node
                while not cycle or node != first:
                    arc = arrived[node]
                    assert arc is not None
                    cycle.append(arc)
                    node = arc[0]
                return cycle
            seen[node] = seen[node] or start + 1
        return None

    def exchange(self, cycle: list[Arc]) -> bool:
        """Make the changes of a cycle. Return False, with the plan as it was, if a disk would be too full."""
        lost: dict[int, list[int]] = {}
        gained: dict[int, list[int]] = {}
        for _, _, _, partition, broker in cycle:
            if partition >= 0:
                (gained if broker >= 0 else lost).setdefault(partition, []).append(
                    broker if broker >= 0 else -1 - broker
                )
        undo = {partition: self.state.target[partition] for partition in lost}
        for partition, sources in lost.items():
            swap = dict(zip(sorted(sources), sorted(gained[partition]), strict=True))
            before = self.state.before[partition]
            assigned = tuple(swap.get(broker, broker) for broker in self.state.target[partition])
            self.state.put(partition, before if set(assigned) == set(before) else assigned)
        if self.state.overfull():
            for partition, assigned in undo.items():
                self.state.put(partition, assigned)
            return False
        return True
