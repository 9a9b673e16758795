"""Records in the browser: a record is produced, read, expanded, and seen in the live tail."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.test_open_pages import create
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def produce(page: Page, topic: str, key: str, value: str) -> None:
    """Produce a record by the form."""
    page.goto(f"/topics/{topic}/produce")
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_label("Value", exact=True).fill(value)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("table.what")).to_contain_text(key)
    page.locator("form").get_by_role("button", name=re.compile("^Produce")).click()
    expect(page.get_by_role("status").first).to_contain_text(re.compile(r"offset \d+"))


def test_a_record_is_produced_and_read(page: Page, product: Product) -> None:
    create(product, "browsed", 2)
    page.goto("/topics/browsed/messages")
    expect(page.locator("#no-rows")).to_be_visible()
    assert violations(page) == []
    produce(page, "browsed", "first", '{"name": "<b>one</b>"}')
    page.goto("/topics/browsed/messages")
    row = page.locator("#rows > tr").first
    expect(row).to_contain_text("first")
    expect(row).to_contain_text("<b>one</b>")
    assert page.locator("#rows b").count() == 0
    assert violations(page) == []
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    look = "each => ((style) => [style.color, style.maxHeight])(getComputedStyle(each))"
    assert page.locator("body").evaluate(look)[0] == "rgb(24, 32, 44)", "print is dark on white in every theme"
    assert page.locator("#rows pre").first.evaluate(look)[1] == "none", "a value is printed whole"
    expect(page.locator("#rows pre").last).to_be_visible()
    expect(page.get_by_role("button", name="Live tail")).to_be_hidden()
    page.goto("/topics/browsed/configs?q=retention.ms")
    expect(page.locator('table[data-table="configs"]')).to_be_visible()
    expect(page.get_by_role("button", name="Preview changes")).to_be_hidden()
    page.emulate_media(media="screen")
    page.goto("/changes?name=browsed")
    page.locator(".feed details summary").last.click()
    line = page.locator(".feed details li").last
    assert line.evaluate("each => each.getBoundingClientRect().height") < 40, "a folded line has the whole width"
    page.goto("/topics/browsed/produce")
    assert violations(page) == []


def test_the_live_tail_shows_new_records_until_it_is_paused(page: Page, product: Product) -> None:
    create(product, "tailed")
    page.goto("/topics/tailed/messages")
    page.get_by_role("button", name="Live tail").click()
    expect(page.locator("#tail-state")).to_have_text(re.compile("0 new records"))
    with page.context.expect_page() as other:
        page.evaluate("window.open('/topics/tailed/produce')")
    produce(other.value, "tailed", "seen", "at once")
    expect(page.locator("#rows > tr").first).to_contain_text("at once")
    expect(page.locator("#tail-state")).to_have_text(re.compile("^1 new record"))
    page.locator("#tail-button").click()
    expect(page.locator("#tail-button")).to_have_text("Resume")
    produce(other.value, "tailed", "later", "while paused")
    page.wait_for_timeout(1_500)  # longer than the tail takes
    expect(page.locator("#rows")).not_to_contain_text("while paused")
    page.locator("#tail-button").click()
    expect(page.locator("#rows > tr").first).to_contain_text("while paused")
    page.context.set_extra_http_headers({"Accept-Language": "zh"})
    page.reload()
    page.get_by_role("button", name="实时跟踪").click()
    expect(page.locator("#tail-state")).to_have_text(re.compile("0 条新消息"))
