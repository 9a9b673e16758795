"""Violations that axe-core finds on a page: WCAG 2.0 to 2.2, levels A and AA, and its best practices."""

from importlib.resources import files
from typing import Any, Final

from playwright.sync_api import Page

SCRIPT: Final = (files("axe_playwright_python") / "axe.min.js").read_text()
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

RUN: Final = """async (rules) => {
  const found = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
  const line = (each, node) => `${each.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`;
  return found.violations.flatMap((each) => each.nodes.map((node) => line(each, node)));
}"""


def violations(page: Page) -> list[str]:
    """Return one line per violating element: the rule, the element and the correction."""
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(SCRIPT)
    found: Any = page.evaluate(RUN, {"type": "tag", "values": RULES})
    return list(found)


def dark_violations(page: Page) -> list[str]:
    """Return violations of the colours of the dark theme."""
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(SCRIPT)
    page.emulate_media(color_scheme="dark")
    found: Any = page.evaluate(RUN, {"type": "rule", "values": ["color-contrast", "link-in-text-block"]})
    page.emulate_media(color_scheme="light")
    return list(found)
