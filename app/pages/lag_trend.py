"""The lag of a group over the last minutes, as a line and in words."""

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from app.cluster.lag_history import LagTrend
from app.pages.frame import duration, number
from app.pages.placement_charts import sparkline
from app.texts import phrase

MINUS: Final = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class TrendView:
    """The lag over the last minutes: a line, and how it has changed, in words."""

    line: Markup | None
    text: str
    tone: str


def trend_view(trend: LagTrend) -> TrendView:
    """Return the lag over the last minutes; without two samples there is nothing to say."""
    change = trend.change
    if change is None:
        return TrendView(None, "", "")
    over = duration(int(trend.span.total_seconds() * 1000))
    by = f"{'+' if change > 0 else MINUS}{number(abs(change))}"
    text = (
        phrase("%(change)s in %(time)s", change=by, time=over)
        if change
        else phrase("unchanged for %(time)s", time=over)
    )
    return TrendView(sparkline([each.lag for each in trend.samples]), text, "warn" if change > 0 else "")
