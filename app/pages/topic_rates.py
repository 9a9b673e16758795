"""Records per second of topics on pages, with their age and the reason why one is unknown."""

from dataclasses import dataclass

from app.cluster.topic_rates import TopicRate
from app.pages.frame import UNKNOWN, duration, number
from app.pages.placement_charts import sparkline
from app.texts import phrase

WHOLE = 100


@dataclass(frozen=True, slots=True)
class RateView:
    """A rate in words: a dash with the reason in `why` while it is unknown. `line` is its sparkline, "" without one."""

    text: str
    why: str
    line: str = ""


def rate_view(rate: TopicRate) -> RateView:
    """Return a rate as pages show it."""
    line = sparkline([point.per_second for point in rate.points]) if len(rate.points) > 1 else ""
    if rate.per_second is not None and rate.since is not None and rate.asked_at is not None:
        span = duration(max(1, int((rate.asked_at - rate.since).total_seconds() * 1000)))
        at = rate.asked_at.strftime("%H:%M:%S UTC")
        return RateView(_text(rate.per_second), phrase("over %(span)s, until %(at)s", span=span, at=at), line)
    if rate.error is not None:
        return RateView(UNKNOWN, phrase("a leader has not answered: %(error)s", error=str(rate.error)), line)
    return RateView(UNKNOWN, phrase("known when the leaders of all partitions have answered twice"), line)


def _text(per_second: float) -> str:
    return number(round(per_second) if per_second >= WHOLE or per_second == 0 else round(per_second, 1))
