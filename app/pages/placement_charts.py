"""Charts of one placement report, drawn for 3 brokers and for 300: distances from the balanced range, not totals.

SVG with classes and without script and style, as `app.pages.charts`. A table beside every chart has the same numbers.
The words are in the language of the page that is being rendered: a template calls the functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup, escape

from app.pages.frame import number
from app.texts import gettext, joined, phrase

WIDTH: Final = 960
STRIP_HEIGHT: Final = 150
ROW_HEIGHT: Final = 18
MOVED_MAX: Final = 24
"""Most brokers of the chart before and after; those that change most are shown, and the page says so."""


def deviation(row: Mapping[str, Any]) -> int | None:
    """Return the replicas above (positive) or below the broker's balanced range, None without a range."""
    return None if row["band_low"] is None else row["excess"] - row["deficit"]


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence on the balance of the brokers."""
    banded = [row for row in rows if row["band_low"] is not None]
    if not banded:
        return phrase("No broker may take replicas now, so none has a balanced range.")
    within = sum(not deviation(row) for row in banded)
    most = max(banded, key=lambda row: row["excess"])
    least = max(banded, key=lambda row: row["deficit"])
    words = [
        phrase(
            "%(within)s of %(count)s eligible brokers hold a balanced number of replicas",
            within=number(within),
            count=number(len(banded)),
        )
    ]
    if most["excess"]:
        excess = number(most["excess"])
        words.append(phrase("broker %(id)s has %(excess)s too many", id=most["broker_id"], excess=excess))
    if least["deficit"]:
        deficit = number(least["deficit"])
        words.append(phrase("broker %(id)s %(deficit)s too few", id=least["broker_id"], deficit=deficit))
    return phrase("%(words)s.", words=joined("; ", words))


def deviation_chart(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return one bar per broker, sorted: replicas above its balanced range upwards, below it downwards.

    Brokers in their range have no bar. Brokers without a range (not eligible) that hold replicas are marked at the end.
    None if there is no bar and no mark.
    """
    banded = sorted(((deviation(row) or 0, row) for row in rows if row["band_low"] is not None), key=_by_deviation)
    others = [row for row in rows if row["band_low"] is None and row["replicas"]]
    if not others and not any(value for value, _ in banded):
        return None
    highest = max([1, *(abs(value) for value, _ in banded)])
    middle, scale = STRIP_HEIGHT / 2, (STRIP_HEIGHT / 2 - 16) / highest
    step = WIDTH / max(len(banded) + len(others), 1)
    width = min(max(step - 1, 1.0), 28.0)
    parts = [f'<line class="axis-line" x1="0" x2="{WIDTH}" y1="{middle:.0f}" y2="{middle:.0f}"/>']
    for index, (value, row) in enumerate(banded):
        height = abs(value) * scale
        top = middle - height if value > 0 else middle
        tone = "warn" if value > 0 else "plain"
        if value:
            title = gettext(
                "broker %(id)s: %(change)s replicas, has %(count)s",
                id=row["broker_id"],
                change=f"{value:+,}",
                count=f"{row['replicas']:,}",
            )
            parts.append(_bar(index * step, top, width, max(height, 1.0), tone, title))
    for index, row in enumerate(others, len(banded)):
        title = gettext(
            "broker %(id)s: %(state)s, holds %(count)s",
            id=row["broker_id"],
            state=row["state"],
            count=f"{row['replicas']:,}",
        )
        parts.append(_bar(index * step, middle - 5, width, 10, "bad", title))
    above = gettext("+%(count)s above the range", count=f"{highest:,}")
    below = gettext("-%(count)s below", count=f"{highest:,}")
    parts.append(f'<text class="note" x="0" y="12">{above}</text>')
    parts.append(f'<text class="note" x="0" y="{STRIP_HEIGHT - 4}">{below}</text>')
    label = gettext("Replicas of each broker above or below its balanced range")
    return _svg(STRIP_HEIGHT, label, parts)


def _by_deviation(item: tuple[int, Mapping[str, Any]]) -> tuple[int, int]:
    return -item[0], item[1]["broker_id"]


def moved_chart(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return replicas per broker before and after the plan, joined by a line; None if no broker's number changes."""
    changed = [row for row in rows if row["before"]["replicas"] != row["after"]["replicas"]]
    shown = sorted(changed, key=lambda row: -abs(row["after"]["replicas"] - row["before"]["replicas"]))[:MOVED_MAX]
    if not shown:
        return None
    values: list[int] = [row[when]["replicas"] for row in shown for when in ("before", "after")]
    low, high = min(values), max(values)
    span, left, right = max(high - low, 1), 120, 70

    def place(value: int) -> float:
        return left + (value - low) / span * (WIDTH - left - right)

    parts = []
    for index, row in enumerate(sorted(shown, key=lambda row: -row["before"]["replicas"])):
        y = index * ROW_HEIGHT + 22
        before, after = row["before"]["replicas"], row["after"]["replicas"]
        broker = gettext("broker %(id)s", id=row["broker_id"])
        name = f'<text class="note" x="0" y="{y + 4}">{broker}</text>'
        parts.append(f'<a href="/brokers/{row["broker_id"]}">{name}</a>')
        parts.append(f'<line class="joint" x1="{place(before):.1f}" x2="{place(after):.1f}" y1="{y}" y2="{y}"/>')
        parts.append(_dot(place(before), y, "warn", gettext("before: %(count)s", count=f"{before:,}")))
        parts.append(_dot(place(after), y, "plain", gettext("after: %(count)s", count=f"{after:,}")))
        end = max(place(before), place(after)) + 10
        parts.append(f'<text class="note" x="{end:.1f}" y="{y + 4}">{before:,} → {after:,}</text>')
    label = gettext("Replicas per broker before and after the plan")
    return _svg(len(shown) * ROW_HEIGHT + 24, label, parts, role="group")


def sparkline(values: Sequence[float]) -> Markup:
    """Return a small line of a number over the last runs, oldest first, from its lowest to its highest value."""
    low, high = min(values), max(values)
    span = (high - low) or 1
    step = 100 / max(len(values) - 1, 1)
    points = " ".join(f"{index * step:.1f},{22 - (value - low) / span * 20:.1f}" for index, value in enumerate(values))
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
        f'<polyline points="{points}"/></svg>'
    )


def heat(part: int, whole: int) -> int:
    """Return the shade of a cell from 0 (none) to 5 (a fifth or more), on a scale of powers of ten."""
    if not part or not whole:
        return 0
    share = part / whole
    return 1 + sum(share >= bound for bound in (0.001, 0.01, 0.05, 0.2))


def _bar(x: float, y: float, width: float, height: float, tone: str, title: str) -> str:
    return (
        f'<rect class="tone-{tone}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _dot(x: float, y: float, tone: str, title: str) -> str:
    return f'<circle class="tone-{tone}" cx="{x:.1f}" cy="{y}" r="4.5"><title>{escape(title)}</title></circle>'


def _svg(height: int, label: str, parts: Sequence[str], role: str = "img") -> Markup:
    """Return the chart; one with links in it is no `img` but a `group`, so that they can be reached."""
    return Markup(  # noqa: S704 - numbers, and titles that are escaped
        f'<svg viewBox="0 0 {WIDTH} {height}" role="{role}" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
