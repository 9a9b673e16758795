"""A second cluster as an administrator adds, opens and removes it in the browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.live import combined_node
from tests.browser.axe import dark_violations, violations
from tests.browser.test_open_pages import opened
from tests.interop.kafka import wait_until
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_second_cluster_is_added_used_and_removed(page: Page, product: Product, tmp_path: Path) -> None:
    with combined_node(tmp_path / "second") as second:
        opened(page, "/clusters")
        assert violations(page) == []
        fill(page, "127.0.0.1:1")
        expect(page.get_by_role("alert")).to_contain_text("No controller answers")
        assert violations(page) == []
        path = "/v3/cluster-connections/second?validate_only=true"
        body = {"name": "Second", "bootstrap_controllers": [second.bootstrap]}
        wait_until(lambda: product.call("PUT", path, body)[0] == 200, 60, "the second cluster answers", 0.2)
        fill(page, second.bootstrap)
        expect(page.get_by_text(f"Its controllers belong to cluster {second.cluster_id}.")).to_be_visible()
        page.get_by_role("button", name="Save cluster").click()
        expect(page.get_by_role("status").first).to_contain_text("Cluster Second saved.")

        page.get_by_text("1 other cluster").click()
        assert violations(page) == []
        assert dark_violations(page) == []
        page.locator(".others").get_by_role("link", name="Second").click()
        expect(page).to_have_url(f"{product.url}/c/second/")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        expect(page.locator(".side .cluster")).to_contain_text(second.cluster_id)
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page).to_have_url(f"{product.url}/c/second/topics")
        page.get_by_role("link", name="Create topic").click()
        page.get_by_label("Name").fill("only-there")
        page.get_by_role("button", name="Create topic").click()
        expect(page).to_have_url(f"{product.url}/c/second/topics/only-there")
        page.keyboard.press("Control+k")
        page.keyboard.type("only-th")
        expect(page.get_by_role("option")).to_contain_text(["only-there"])
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{product.url}/c/second/topics/only-there")
        assert product.call("GET", f"{product.cluster_path}/topics/only-there")[0] == 404

        page.goto("/c/second/clusters/second/change")
        assert violations(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/clusters")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        page.get_by_role("row", name=re.compile("Second")).get_by_role("button", name="Remove").click()
        page.get_by_label("Type second to confirm").fill("second")
        page.get_by_role("button", name="Remove cluster").click()
        expect(page.get_by_role("status").first).to_contain_text("Cluster Second removed.")
        page.goto("/c/second/")
        expect(page.locator("main")).to_contain_text("There is no page at this address.")


def fill(page: Page, controllers: str) -> None:
    """Fill the form, which a refusal shows again, and preview."""
    if not page.get_by_label("Key").is_visible():
        page.get_by_role("button", name="Add cluster…").click()
    page.get_by_label("Key").fill("second")
    page.get_by_label("Name", exact=True).fill("Second")
    page.get_by_label("Controllers").fill(controllers)
    page.get_by_label("Colour").select_option("green")
    page.get_by_role("button", name="Test and preview").click()
