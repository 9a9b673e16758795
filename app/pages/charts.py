"""Charts of the report pages: SVG without scripts and styles; the page's stylesheet colours it.

A table beside every chart has the same numbers.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from xml.etree import ElementTree as ET

import pygal
from markupsafe import Markup
from pygal.style import Style

from app.texts import phrase, shown

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "PluginImportFixer"]
"""pygal leaves an import hook in the style of Python 2, which makes every later import warn."""

Tone = Literal["plain", "other", "warn", "bad"]
"""Meaning of a series, which the stylesheet colours. Amber: to be mended, writes rejected. Red: cannot be used."""

UNSTYLED: Final = ("tooltip", "text-overlay", "plot tooltip-overlay")
"""Groups that only the script of pygal uses."""


def _chart(kind: type, **options: Any) -> Any:
    """Return a pygal chart of the pages' size, without script, stylesheet and web fonts."""
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
        no_data_text=shown(phrase("No data")),
        **options,
    )


def _highest(chart: Any) -> int:
    """Return the highest bar or point; stacked bars are added."""
    columns = list(zip(*[[value or 0 for value in values] for values, *_ in chart.raw_series], strict=True))
    reduce = sum if isinstance(chart, pygal.StackedBar) else max
    return max((reduce(column) for column in columns), default=0)


def _ticks(highest: int) -> list[int]:
    """Return at most seven whole marks from 0 to at least `highest`, in steps of 1, 2 or 5 times a power of ten."""
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


def margins_chart(histogram: Sequence[Mapping[str, int]]) -> Markup:
    """Return partitions by the in-sync replicas they can lose; those that reject writes now are a series apart."""
    chart = _chart(pygal.StackedBar, include_x_axis=True, x_title=shown(phrase("in-sync replicas above min ISR")))
    chart.x_labels = [str(row["margin"]) for row in histogram]
    chart.add(
        shown(phrase("writes rejected now")), [row["partitions"] if row["margin"] < 0 else 0 for row in histogram]
    )
    chart.add(shown(phrase("partitions")), [row["partitions"] if row["margin"] >= 0 else 0 for row in histogram])
    return _svg(chart, shown(phrase("Partitions by margin")), ("warn", "plain"))


def trend_chart(history: Sequence[Mapping[str, Any]]) -> Markup:
    """Return moves to balance over the last runs."""
    chart = _chart(pygal.Line, include_x_axis=True, dots_size=2)
    chart.x_labels = [f"#{entry['id']}" for entry in history]
    chart.add(shown(phrase("moves to balance")), [entry["moves_from_balanced"] for entry in history])
    chart.add(shown(phrase("under-replicated")), [entry["under_replicated"] for entry in history])
    return _svg(chart, shown(phrase("Moves to balance over the last runs")), ("plain", "other"))
