"""Lower bounds: no plan with the same result copies fewer replicas or changes fewer leaders.

A copied replica adds one to one broker and, unless it raises the replication factor, takes one from another. So three
numbers are each a bound, and their maximum is the best of them (not their sum, since one move can serve all three):

1. replicas that the partitions need elsewhere: forced ones, and those above the even spread over racks
2. replicas that leave a broker: those above the bands, and of 1. those that no broker above its band can give
3. replicas that the brokers below their bands lack

What the plan leaves unsolved is subtracted from each.
"""

from collections import Counter

from app.reports.proposals.layout import Indexes
from app.reports.proposals.leaders import LeaderPlan
from app.reports.proposals.options import BALANCE, EXPAND, REPAIR, REPLICATION_FACTOR
from app.reports.proposals.state import State


def move_bound(state: State, forced: dict[int, Indexes], crowded: dict[int, int]) -> int:
    """Return a lower bound on the replicas copied by any plan with the result of `state`."""
    goals, rules = state.options.goals, state.rules
    must = {partition: brokers for partition, brokers in forced.items() if rules.movable[partition]}
    needs = _needs(state, must, crowded)
    bounds = [sum(needs.values())]
    count, start, low, high = state.count, state.start_count, rules.low, rules.high
    if BALANCE in goals:
        excess = {each: start[each] - high[each] for each in rules.sharers if start[each] > high[each]}
        lost = sum(more - max(0, count[each] - high[each]) for each, more in excess.items())
        if REPLICATION_FACTOR not in goals:
            lost += sum(
                max(0, need - sum(broker in excess for broker in _may_leave(state, each, must.get(each, ()))))
                for each, need in needs.items()
            )
        bounds.append(lost + sum(count) - sum(start))
    if goals & {BALANCE, EXPAND}:
        fill = rules.takers if rules.new is None else rules.new
        bounds.append(sum(max(0, low[each] - start[each]) - max(0, low[each] - count[each]) for each in fill))
    return max(0, *bounds)


def _may_leave(state: State, partition: int, forced: Indexes) -> set[int]:
    """Return the replicas of which the needed moves of a partition can be: forced ones, and those that share a rack."""
    rack_of = state.rules.racks.rack_of
    replicas = state.before[partition]
    racks = [rack_of[broker] for broker in replicas]
    return {*forced, *(broker for broker in replicas if racks.count(rack_of[broker]) > 1)}


def _needs(state: State, must: dict[int, Indexes], crowded: dict[int, int]) -> dict[int, int]:
    """Return how many replicas each partition needs on other brokers, less those that it still needs."""
    options, movable, rule = state.options, state.rules.movable, state.rules.racks
    wanted = options.replication_factor if REPLICATION_FACTOR in options.goals else None
    even = REPAIR in options.goals
    concerned = set(must)
    if even:
        concerned.update(partition for partition in crowded if movable[partition])
    if wanted is not None:
        concerned.update(
            partition
            for partition, replicas in enumerate(state.before)
            if len(replicas) != wanted and movable[partition]
        )

    def missing(partition: int, replicas: Indexes) -> int:
        rf = len(replicas) if wanted is None else wanted
        kept = [broker for broker in replicas if broker not in must.get(partition, ())]
        return max(0, rf - len(kept) + (rule.overflow(kept, rf) if even else 0))

    return {each: missing(each, state.before[each]) - missing(each, state.target[each]) for each in concerned}


def leader_bound(state: State, plan: LeaderPlan) -> int:
    """Return a lower bound on the leader changes of any distribution over the targets within the plan's limit."""
    start = state.layout.leader
    gone = Counter(start[each] for each in state.changed if start[each] not in state.target[each])
    led = Counter(start)
    del led[-1]
    return sum(gone.values()) + sum(max(0, count - gone[each] - plan.limit) for each, count in led.items())
