"""Measured figures of each side with their budgets, as a table and as JSON."""

import datetime as dt
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.sides import OURS, WITH_LINGER, Side


@dataclass(slots=True)
class Figure:
    """One quantity. `values` has the results of all rounds by side; `budget` is the goal of ours, the first side."""

    name: str
    unit: str
    budget: float | None = None
    more_is_better: bool = False
    sides: tuple[Side, ...] = WITH_LINGER
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, side: Side, *values: float) -> None:
        """Add results of one side."""
        self.values.setdefault(side.name, []).extend(values)

    def of(self, side: Side) -> float | None:
        """Return the median over the rounds, None if the side was not measured."""
        found = self.values.get(side.name)
        return statistics.median(found) if found else None

    def ratio(self, side: Side) -> float | None:
        """Return how many times better ours is than `side`; below 1, ours is worse."""
        ours, theirs = self.of(OURS), self.of(side)
        if not ours or not theirs:
            return None
        return ours / theirs if self.more_is_better else theirs / ours

    @property
    def meets_budget(self) -> bool | None:
        """Report whether ours is within its budget; None without one."""
        ours = self.of(OURS)
        if ours is None or self.budget is None:
            return None
        return ours >= self.budget if self.more_is_better else ours <= self.budget


def shown(value: float | None) -> str:
    """Return a value with three significant figures, a dash for None."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{shown(value)}x"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as Markdown: medians over the rounds, and how many times better ours is.

    Figures that compare other sides are in another table.
    """
    compared = dict.fromkeys(figure.sides for figure in figures)
    return "\n\n".join(_table([figure for figure in figures if figure.sides == sides], sides[1:]) for sides in compared)


def _table(figures: Sequence[Figure], others: Sequence[Side]) -> str:
    names = (side.name for side in others)
    rows: list[tuple[str, ...]] = [("what", "unit", OURS.name, *names, "ours is better by", "budget", "met")]
    for figure in figures:
        ratios = [_ratio(figure.ratio(side)) for side in others if figure.of(side) is not None]
        sign = ">=" if figure.more_is_better else "<="
        budget = "-" if figure.budget is None else f"{sign} {shown(figure.budget)}"
        met = {None: "-", True: "yes", False: "no"}[figure.meets_budget]
        medians = [shown(figure.of(side)) for side in (OURS, *others)]
        rows.append((figure.name, figure.unit, *medians, " / ".join(ratios) or "-", budget, met))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


@dataclass(frozen=True, slots=True)
class Condition:
    """Load of the machine around one benchmark: one-minute load averages, which include the benchmark itself."""

    name: str
    load_before: float
    load_after: float
    seconds: float

    def __str__(self) -> str:
        """Return the condition in one line."""
        return f"{self.name}: {self.seconds:.0f} s, load {self.load_before:.1f} before, {self.load_after:.1f} after"


def write_json(
    path: Path, figures: Sequence[Figure], conditions: Sequence[Condition], jvm_options: Sequence[str]
) -> None:
    """Write all results with medians and ratios, and a description of the machine."""
    machine: Mapping[str, object] = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "jvm_options": list(jvm_options),
    }
    body = {
        "finished": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "conditions": [asdict(condition) for condition in conditions],
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "budget": figure.budget,
                "more_is_better": figure.more_is_better,
                "values": figure.values,
                "medians": {side: statistics.median(values) for side, values in figure.values.items()},
                "ratios": {side.name: figure.ratio(side) for side in figure.sides[1:]},
                "meets_budget": figure.meets_budget,
            }
            for figure in figures
        ],
    }
    path.write_text(json.dumps(body, indent=1) + "\n")
