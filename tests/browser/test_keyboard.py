"""The keyboard alone: every control is reached with a visible focus, drawers open and close, a change is made."""

import re
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_open_pages import create, opened
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

PAGES: Final = (
    "/",
    "/topics",
    "/topics/by-keyboard",
    "/topics/by-keyboard/configs?q=retention.ms",
    "/brokers",
    "/brokers/1",
    "/groups",
    "/transactions",
    "/quorum",
    "/changes",
    "/reports",
    "/plans",
    "/features",
    "/rights",
    "/rights/scram",
    "/access",
    "/audit",
)

PRESSES_MAX: Final = 400
CONTROLS: Final = """() => {
  const all = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const controls = [...document.querySelectorAll(all)].filter((each) => each.checkVisibility() && !each.disabled);
  controls.forEach((each, index) => { each.dataset.nth = index; });
  return controls.length;
}"""
FOCUSED: Final = """() => {
  const at = document.activeElement;
  const style = getComputedStyle(at);
  const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return [at.dataset.nth ?? "", isSeen ? "" : at.outerHTML.slice(0, 200)];
}"""


@pytest.fixture
def topic(product: Product) -> str:
    if product.call("GET", f"{product.cluster_path}/topics/by-keyboard")[0] == 404:
        create(product, "by-keyboard")
    return "by-keyboard"


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control with this name has the focus."""
    for _ in range(PRESSES_MAX):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || "
            "[...(document.activeElement.labels || [])].map((each) => each.innerText).join(' ')).trim()"
        )
        if at == name:
            return
    raise AssertionError(f"no Tab leads to {name!r} on {page.url}")


def test_tab_reaches_every_control_and_its_focus_is_seen(page: Page, topic: str) -> None:
    for path in PAGES:
        opened(page, path)
        page.get_by_role("button", name="Pause updates").click()  # a refresh would take the marks away
        page.evaluate("document.activeElement.blur()")
        count = page.evaluate(CONTROLS)
        reached, unseen = set(), set()
        for _ in range(PRESSES_MAX):
            page.keyboard.press("Tab")
            nth, html = page.evaluate(FOCUSED)
            if nth in reached and len(reached) >= count:
                break
            if nth:
                reached.add(nth)
                unseen.add(html)
        missing = [str(each) for each in range(count) if str(each) not in reached]
        left_out = [page.locator(f"[data-nth='{each}']").evaluate("(each) => each.outerHTML") for each in missing]
        assert (path, left_out, unseen - {""}) == (path, [], set())


def test_a_drawer_opens_closes_with_escape_and_gives_the_focus_back(page: Page, topic: str) -> None:
    for path, button, field in (
        (f"/topics/{topic}", "Add partitions…", re.compile("^New number of partitions")),
        ("/topics", "Columns…", "Min ISR"),
        ("/rights", "Add ACL…", "Principal"),
        ("/rights/scram", "Set a password…", "Iterations"),
        ("/rights/quotas", "Set a quota…", "client-id"),
        ("/access", "Add user…", "User name"),
        ("/access/tokens", "Create token…", "Token name"),
    ):
        opened(page, path)
        tab_to(page, button)
        page.keyboard.press("Enter")
        found = page.get_by_label(field, exact=True)
        expect(found).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("Escape")
        expect(found).to_be_hidden()
        expect(page.get_by_role("button", name=button)).to_be_focused()


def test_a_change_is_made_with_the_keyboard_alone(page: Page, product: Product, topic: str) -> None:
    opened(page, f"/topics/{topic}")
    tab_to(page, "Add partitions…")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(page.locator("table.what")).to_contain_text("Partitions")
    tab_to(page, "Add partitions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("has 3 partitions")
    opened(page, "/topics?q=by-keyboard")
    tab_to(page, f"Select {topic}")
    page.keyboard.press("Space")
    tab_to(page, "Add partitions…")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Add partitions")
    tab_to(page, "New number of partitions of each topic")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    expect(page.locator("table.what")).to_contain_text(topic)
    tab_to(page, "Add partitions to 1 topic")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("1 topic: 1 done, 0 failed")
    assert product.call("GET", f"{product.cluster_path}/topics/{topic}")[1]["partitions_count"] == 5
