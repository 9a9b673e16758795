"""The trends of the metadata lake as lines: in a report, and in short on the dashboard."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.pages.frame import number
from app.pages.placement_charts import sparkline
from app.reports.latest import LatestReport
from app.texts import phrase

Line = tuple[str, str, Markup]
"""A label, the first and the last value, and the line between them."""


@dataclass(frozen=True, slots=True)
class TrendSummary:
    """Model of _trends.html: the lines of a report's trends, and the end of their time span."""

    report_id: int
    until: dt.datetime
    lines: Sequence[Line]

    @classmethod
    def of(cls, report: LatestReport | None) -> "TrendSummary | None":
        """Return the lines of a report, None if it has none."""
        lines = trend_lines(report.trends) if report is not None and report.trends is not None else []
        if report is None or report.trends is None or not lines:
            return None
        return cls(report.id, dt.datetime.fromtimestamp(report.trends["to"] / 1000, dt.UTC), lines)


def trend_lines(found: Mapping[str, Any]) -> list[Line]:
    """Return a line for each number that is known of two days or more."""
    series = [
        (phrase("Topics"), [row["topics"] for row in found["growth"]]),
        (phrase("Partitions"), [row["partitions"] for row in found["growth"]]),
        (phrase("Leader changes per day"), [row["changes"] for row in found["leader_changes"]["days"]]),
        (phrase("ISR flaps per day"), [row["flaps"] for row in found["isr_flaps"]["days"]]),
        (phrase("Moves to balance"), [row["moves_from_balanced"] for row in found["balance"]]),
    ]
    return [
        (label, f"{number(values[0])} → {number(values[-1])}", sparkline(values))
        for label, values in series
        if len(values) > 1
    ]
