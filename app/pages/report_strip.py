"""The numbers at the top of a placement report, each with its change since another report and a link to its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.pages.frame import UNKNOWN, number
from app.texts import phrase


@dataclass(frozen=True, slots=True)
class StripItem:
    """One number of the verdict; `href` leads to what it counts."""

    label: str
    value: str
    tone: str
    why: str
    delta: str
    href: str = ""


def delta_text(value: int, before: int | None) -> str:
    """Return a change with its sign, "unchanged", or "" without a value before."""
    if before is None:
        return ""
    return phrase("unchanged") if value == before else f"{value - before:+,}".replace(",", "\u202f")


def strip(verdict: Mapping[str, Any], before: Mapping[str, Any] | None, rows: str = "") -> list[StripItem]:
    """Return the numbers of the verdict, with their change since the verdict `before`.

    `rows` is the address that lists a report's partitions.
    """

    def item(label: str, key: str, tone: str, href: str, why: str = "") -> StripItem:
        value = verdict[key]
        delta = delta_text(value, None if before is None else before[key])
        return StripItem(label, number(value), tone if value else "good", why, delta, href)

    share = 100 * verdict["moves_from_balanced"] / verdict["replicas"] if verdict["replicas"] else 0.0
    items = [
        item(phrase("Offline"), "offline", "bad", f"{rows}?what=offline"),
        item(
            phrase("Under min ISR"),
            "under_min",
            "bad",
            f"{rows}?what=under_min",
            phrase("kafka-topics: %(count)s", count=number(verdict["cli_under_min"])),
        ),
        item(phrase("At min ISR"), "at_min", "warn", f"{rows}?what=at_min", phrase("one more loss rejects writes")),
        item(phrase("Under-replicated"), "under_replicated", "warn", f"{rows}?what=under_replicated"),
        _rack_item(verdict, before, rows),
        item(
            phrase("Moves to balance"),
            "moves_from_balanced",
            "warn",
            "#brokers",
            phrase("%(share)s %% of %(count)s replicas", share=f"{share:.1f}", count=number(verdict["replicas"])),
        ),
        item(
            phrase("Non-preferred leaders"),
            "non_preferred",
            "warn",
            f"{rows}?what=non_preferred",
            phrase("%(count)s fixable by election", count=number(verdict["fixable_by_election"])),
        ),
    ]
    worst = verdict["worst_rack"]
    if worst is not None:
        tone = "bad" if worst["if_lost_down"] else "warn" if worst["if_lost_refused"] else "good"
        why = phrase(
            "%(refused)s would reject writes, %(down)s lose their leader",
            refused=number(worst["if_lost_refused"]),
            down=number(worst["if_lost_down"]),
        )
        href = f"?{urlencode({'rack': worst['rack']})}#what-if"
        items.append(StripItem(phrase("Worst rack loss"), worst["rack"], tone, why, "", href))
    return items


def _rack_item(verdict: Mapping[str, Any], before: Mapping[str, Any] | None, rows: str) -> StripItem:
    racks = verdict["rack_rule"]
    if racks is None:
        return StripItem(phrase("Rack rule"), UNKNOWN, "", phrase("no broker has a rack"), "", "#racks")
    earlier = None if before is None or before["rack_rule"] is None else before["rack_rule"]["violated"]
    return StripItem(
        phrase("Rack rule violations"),
        number(racks["violated"]),
        "bad" if racks["violated"] else "good",
        phrase("%(count)s unknown", count=number(racks["unknown"])),
        delta_text(racks["violated"], earlier),
        f"{rows}?what=rack_violated",
    )
