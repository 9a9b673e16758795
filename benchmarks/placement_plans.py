"""Plans for the image of the report benchmark: the default one, a drain of two brokers, six new brokers, even bytes.

Each figure has the time of the plan alone; reading the layout from the image is a figure of its own. The notes that are
printed give moves and lower bound. The last figures are those of a plan as the web process makes it, in a forked
process: the time, and the longest that the event loop of the web process stands still meanwhile.
"""

import asyncio
import time
from dataclasses import replace
from random import Random

from app.reports.executor.proposing import proposed
from app.reports.proposals.layout import Layout, LayoutBroker, layout_from_image
from app.reports.proposals.options import BYTES, DEFAULT_GOALS, DRAIN, Options
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import UNEVEN_BYTES, Proposal
from benchmarks.figures import Figure
from benchmarks.sides import OURS
from kraft_core.image.metadata_image import MetadataImage

BUDGET_S = 5
TICK_S = 0.005
NEW_BROKERS = 6
DRAINED = frozenset({5, 77})


def _with_new_brokers(layout: Layout) -> Layout:
    first = len(layout.brokers)
    new = [LayoutBroker(first + each, f"rack-{each}", "ACTIVE", eligible=True) for each in range(NEW_BROKERS)]
    return replace(layout, brokers=(*layout.brokers, *new))


def _with_sizes(layout: Layout) -> Layout:
    """Return the layout with seeded sizes: a few topics have most of the bytes, and their partitions differ."""
    random = Random(1)
    usual = [random.lognormvariate(20, 2) for _ in layout.topics]
    return replace(layout, sizes=[int(usual[topic] * random.lognormvariate(0, 0.5)) for topic in layout.topic_of])


def placement_plans(image: MetadataImage, partitions: int) -> list[Figure]:
    """Measure plans for `image`. Raises AssertionError if one leaves a broker out of its band or breaks the racks."""
    name = f"plan, {partitions:,} partitions"
    reading = Figure(f"{name}: layout from the image", "s")
    began = time.perf_counter()
    layout = layout_from_image(image)
    reading.add(OURS, time.perf_counter() - began)
    figures, sized = [reading], _with_sizes(layout)
    for what, each, options in (
        ("repair, balance, leaders", layout, Options()),
        ("the same, no tolerance", layout, Options(tolerance_percent=0)),
        (
            f"drain {len(DRAINED)} brokers",
            layout,
            Options(goals=DEFAULT_GOALS | {DRAIN}, drain_brokers=DRAINED, tolerance_percent=0),
        ),
        (f"fill {NEW_BROKERS} new brokers", _with_new_brokers(layout), Options(tolerance_percent=0)),
        ("repair, balance, bytes, leaders", sized, Options(goals=DEFAULT_GOALS | {BYTES})),
        ("bytes alone, no tolerance", sized, Options(goals=frozenset({BYTES}), tolerance_percent=0)),
    ):
        began = time.perf_counter()
        plan = propose(each, options)
        took = time.perf_counter() - began
        assert not plan.refused, plan.refused
        _check(plan, options)
        figure = Figure(f"{name}: {what} ({plan.moves:,} moves, bound {plan.bound:,})", "s", BUDGET_S)
        figure.add(OURS, took)
        figures.append(figure)
    took, pause_ms = asyncio.run(_forked(image))
    whole = Figure(f"{name}: made for the web process, forked", "s")
    whole.add(OURS, took)
    pause = Figure(f"{name}: longest pause of the web process meanwhile", "ms")
    pause.add(OURS, pause_ms)
    return [*figures, whole, pause]


def _check(plan: Proposal, options: Options) -> None:
    assert plan.after is not None
    assert not [each for each in plan.unsolved if each.reason == UNEVEN_BYTES]
    if options.goals >= DEFAULT_GOALS:
        assert (plan.after.excess, plan.after.deficit, plan.after.rack_moves) == (0, 0, 0)
        assert plan.leader_optimum is not None
        assert plan.after.max_leaders <= plan.leader_optimum * (100 + options.tolerance_percent) // 100


async def _forked(image: MetadataImage) -> tuple[float, float]:
    """Return the seconds of a forked proposal, and the longest pause of this event loop in ms."""
    pauses = [0.0]

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            pauses.append(time.perf_counter() - before - TICK_S)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(10 * TICK_S)
    began = time.perf_counter()
    await proposed(image, Options(), {})
    took = time.perf_counter() - began
    ticking.cancel()
    return took, 1_000 * max(pauses)
