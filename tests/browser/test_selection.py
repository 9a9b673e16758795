"""Selected rows in the browser: ranges, what survives refreshes, searches and pages; the same without JavaScript."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import dark_violations, violations
from tests.browser.test_open_pages import create, opened
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_selection_survives_refreshes_searches_and_pages_and_is_deleted(page: Page, product: Product) -> None:
    for number in range(52):
        create(product, f"picked-{number:02}")
    opened(page, "/topics?q=picked-")
    bar = page.locator("form[data-selection]")
    expect(bar.get_by_role("button", name="Delete…")).to_be_disabled()
    page.get_by_role("checkbox", name="Select picked-01", exact=True).click()
    page.get_by_role("checkbox", name="Select picked-04", exact=True).click(modifiers=["Shift"])
    expect(bar).to_contain_text("4 topics selected")
    page.get_by_role("checkbox", name="Select picked-03", exact=True).click()
    create(product, "picked-00-new")
    expect(page.locator("#topics")).to_contain_text("picked-00-new")
    expect(page.get_by_role("checkbox", name="Select picked-02", exact=True)).to_be_checked()
    expect(page.get_by_role("checkbox", name="Select picked-03", exact=True)).not_to_be_checked()
    expect(bar.locator("[data-matching]")).to_have_text("53")
    page.get_by_role("link", name="Next →").click()
    expect(bar).to_contain_text("3 topics selected, 3 of them not on this page")
    page.get_by_label("all shown").check()
    expect(bar).to_contain_text("6 topics selected")
    assert violations(page) + dark_violations(page) == []
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_contain_text("0 topics selected")
    page.get_by_role("searchbox").fill("picked-1")
    expect(page.locator("#topics tbody tr")).to_have_count(10)
    expect(bar.locator("[data-matching]")).to_have_text("10")
    page.get_by_role("checkbox", name="Select picked-11", exact=True).check()
    page.get_by_role("searchbox").fill("picked-2")
    expect(page.locator("#topics")).to_contain_text("picked-29")
    page.get_by_role("checkbox", name="Select picked-22", exact=True).check()
    expect(bar).to_contain_text("2 topics selected, 1 of them not on this page")
    bar.get_by_role("button", name="Delete…").click()
    expect(page.locator("table.what tbody tr")).to_have_text([re.compile("picked-11"), re.compile("picked-22")])
    assert violations(page) == []
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("form[data-selection]")).to_contain_text("2 topics selected")
    bar.get_by_role("button", name="Delete…").click()
    assert product.call("DELETE", f"{product.cluster_path}/topics/picked-22")[0] == 204
    page.get_by_label(re.compile("to confirm$")).fill("2 topics")
    page.get_by_role("button", name="Delete 2 topics").click()
    expect(page.get_by_role("alert")).to_have_text("2 topics: 1 done, 1 failed")
    expect(page.locator("tbody tr")).to_have_text(
        [re.compile(r"picked-22\s*failed\s*.*UNKNOWN_TOPIC"), re.compile(r"picked-11\s*done\s*Deleted at offset \d+")]
    )
    assert violations(page) == []
    page.get_by_role("link", name="Back").click()
    expect(bar).to_contain_text("0 topics selected")
    bar.get_by_label(re.compile("that match$")).check()
    bar.get_by_role("button", name="Elect leaders…").click()
    expect(page.get_by_role("alert")).to_contain_text("None of the selected topics can be changed.")


def test_rows_are_selected_and_columns_chosen_without_javascript(
    chromium: Browser, product: Product, admin_state: Path
) -> None:
    for name in ("plain-1", "plain-2", "plain-3"):
        create(product, name)
    context = chromium.new_context(storage_state=admin_state, base_url=product.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/topics?q=plain-")
    page.get_by_role("button", name="Columns…").click()
    for label in ("Size", "Overrides", "Last change"):
        page.get_by_label(label, exact=True).uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page.locator("thead th")).to_have_text(
        ["Select", re.compile("Topic"), "Partitions", "Replication factor", "Min ISR", "Health", "Cleanup policy"]
    )
    page.get_by_role("checkbox", name="Select plain-1", exact=True).check()
    page.get_by_role("checkbox", name="Select plain-3", exact=True).check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_label(re.compile("to confirm$")).fill("2 topics")
    page.get_by_role("button", name="Delete 2 topics").click()
    expect(page.get_by_role("status")).to_have_text("2 topics: 2 done, 0 failed")
    page.get_by_role("link", name="Back").click()
    expect(page.locator("tbody tr")).to_have_text([re.compile("plain-2")])
    context.close()
