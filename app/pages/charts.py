"""Charts of the report page: SVG without script and without style of its own; the page's stylesheet colours it.

Every chart has a table with the same numbers beside it, so none of them is needed to read a report.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from xml.etree import ElementTree as ET

import pygal
from markupsafe import Markup
from pygal.style import Style

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "PluginImportFixer"]
"""pygal leaves an import hook of Python 2's kind behind, which makes every later import warn."""

BARS_MAX: Final = 60
"""A chart with more bars than this cannot be read; the fullest are shown and the page says so."""

VERDICTS_SHOWN: Final = ("under_min", "unclean", "offline", "lost")

Tone = Literal["plain", "other", "warn", "unclean", "bad", "lost"]
"""What a series means: the stylesheet gives each tone its colour. Amber: writes refused. Red: no leader, or no copy left."""
VERDICT_TONES: Final[dict[str, Tone]] = {"under_min": "warn", "unclean": "unclean", "offline": "bad", "lost": "lost"}

UNSTYLED: Final = ("tooltip", "text-overlay", "plot tooltip-overlay")
"""Groups that only pygal's own script uses."""


def _chart(kind: type, **options: Any) -> Any:
    """A pygal chart of our size, without its script, its style sheet and its web fonts."""
    return kind(
        js=(),
        css=(),
        style=Style(font_family="inherit", label_font_size=11, major_label_font_size=11, legend_font_size=12),
        show_legend=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=4,
        width=960,
        height=300,
        margin=8,
        margin_bottom=34,
        print_values=False,
        value_formatter=lambda value: f"{value:,.0f}",
        disable_xml_declaration=True,
        pretty_print=False,
        no_data_text="Nothing to show",
        **options,
    )


def _highest(chart: Any) -> int:
    """The highest bar or point; stacked bars add up."""
    columns = list(zip(*[[value or 0 for value in values] for values, *_ in chart.raw_series], strict=True))
    reduce = sum if isinstance(chart, pygal.StackedBar) else max
    return max((reduce(column) for column in columns), default=0)


def _ticks(highest: int) -> list[int]:
    """Whole-number marks from 0 to at least `highest`, seven at most: steps of 1, 2 or 5 times a power of ten."""
    step = next(factor * 10**power for power in range(20) for factor in (1, 2, 5) if factor * 10**power * 6 >= highest)
    return [step * mark for mark in range(-(-highest // step) + 1)] if highest else [0, 1]


def _svg(chart: Any, label: str, tones: Sequence[Tone]) -> Markup:
    """Return the chart as inline SVG with a label for screen readers, without pygal's script, style and random ids.

    `tones` has the meaning of each series: pygal numbers series by a class `color-N`, which becomes `tone-…`.
    """
    assert len(tones) == len(chart.raw_series), "one tone for each series"
    chart.y_labels = _ticks(_highest(chart))
    root = chart.render_tree()
    for parent in list(root.iter()):
        for child in list(parent):
            name = str(child.tag).rsplit("}", 1)[-1]
            if name in {"defs", "script", "style"} or child.get("class") in UNSTYLED or not isinstance(child.tag, str):
                parent.remove(child)
        for attribute in ("id", "style"):
            parent.attrib.pop(attribute, None)
        if "color-" in parent.get("class", ""):
            words = parent.get("class", "").split()
            parent.set("class", " ".join(_toned(word, tones) for word in words))
    for child in [child for child in root if str(child.tag).endswith("title")]:
        root.remove(child)  # the program's name
    root.set("role", "img")
    root.set("aria-label", label)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - serialised XML: all text is escaped


def _toned(word: str, tones: Sequence[Tone]) -> str:
    return f"tone-{tones[int(word.removeprefix('color-'))]}" if word.startswith("color-") else word


def brokers_chart(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Replicas and leaders per broker, grouped by rack; the fullest BARS_MAX brokers if there are more."""
    shown = sorted(rows, key=lambda row: -row["replicas"])[:BARS_MAX]
    shown = sorted(shown, key=lambda row: (row["rack"] or "", row["broker_id"]))
    chart = _chart(pygal.Bar, x_title="broker (rack)", include_x_axis=True)
    chart.x_labels = [f"{row['broker_id']} ({row['rack']})" if row["rack"] else str(row["broker_id"]) for row in shown]
    chart.add("replicas", [row["replicas"] for row in shown])
    chart.add("leaders", [row["leaders"] for row in shown])
    return _svg(chart, "Replicas and leaders per broker", ("plain", "other"))


def racks_chart(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Replicas per rack beside the share that can be reached."""
    chart = _chart(pygal.Bar, include_x_axis=True)
    chart.x_labels = [row["rack"] for row in rows]
    chart.add("replicas", [row["replicas"] for row in rows])
    chart.add("achievable share", [row["share_high"] for row in rows])
    return _svg(chart, "Replicas per rack and the achievable share", ("plain", "other"))


def losses_chart(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Partitions by verdict when each of these domains is lost; those that stay well are left out."""
    chart = _chart(pygal.StackedBar, include_x_axis=True)
    chart.x_labels = [str(row["domain"]) for row in rows]
    for verdict in VERDICTS_SHOWN:
        chart.add(verdict.replace("_", " "), [row["verdicts"][verdict] for row in rows])
    return _svg(chart, "Partitions in trouble when a rack is lost", [VERDICT_TONES[each] for each in VERDICTS_SHOWN])


def margins_chart(histogram: Sequence[Mapping[str, int]]) -> Markup:
    """How many partitions can lose how many in-sync replicas before writes stop; those that refuse writes now apart."""
    chart = _chart(pygal.StackedBar, include_x_axis=True, x_title="in-sync replicas above the minimum")
    chart.x_labels = [str(row["margin"]) for row in histogram]
    chart.add("writes refused now", [row["partitions"] if row["margin"] < 0 else 0 for row in histogram])
    chart.add("partitions", [row["partitions"] if row["margin"] >= 0 else 0 for row in histogram])
    return _svg(chart, "Partitions by margin", ("warn", "plain"))


def trend_chart(history: Sequence[Mapping[str, Any]]) -> Markup:
    """Moves from balanced over the last runs."""
    chart = _chart(pygal.Line, include_x_axis=True, dots_size=2)
    chart.x_labels = [f"#{entry['id']}" for entry in history]
    chart.add("moves from balanced", [entry["moves_from_balanced"] for entry in history])
    chart.add("under-replicated", [entry["under_replicated"] for entry in history])
    return _svg(chart, "Moves from balanced over the last runs", ("plain", "other"))
