"""The frame of every page: search, shortcuts, theme, pause, and the drawer of a phone."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.test_open_pages import create, opened
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_search_goes_to_a_topic_with_the_keyboard_alone(page: Page, product: Product) -> None:
    create(product, "orders-of-frame")
    create(product, "not-orders-of-frame")
    opened(page, "/")
    page.keyboard.press("Control+k")
    page.keyboard.type("orders-of-fr")
    options = page.get_by_role("option")
    expect(options).to_have_text([re.compile("^\\s*orders-of-frame\\s*topic"), re.compile("not-orders-of-frame")])
    assert violations(page) == []
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("orders-of-frame")


def test_search_finds_pages_and_brokers_and_says_when_there_is_nothing(page: Page) -> None:
    opened(page, "/")
    page.get_by_role("link", name="Search or go to").click()
    expect(page.get_by_role("option", name="Dashboard")).to_be_visible()
    page.keyboard.type("broker 1")
    expect(page.get_by_role("option")).to_have_text([re.compile("Broker 1")])
    page.get_by_role("combobox").fill("<b>none</b>")
    expect(page.get_by_role("listbox")).to_contain_text("Nothing matches “<b>none</b>”.")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()


def test_letters_go_to_pages_and_a_slash_to_the_search(page: Page) -> None:
    opened(page, "/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Topics")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_have_text("Topics")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("gb?")
    expect(page.get_by_role("searchbox")).to_have_value("gb?")


def test_the_theme_is_chosen_and_kept(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    opened(page, "/topics?q=kept")
    color, theme = "getComputedStyle(document.body).backgroundColor", page.locator("html")
    light = page.evaluate(color)
    page.get_by_role("button", name="System").click()
    expect(theme).to_have_attribute("data-theme", "dark")
    page.goto("/brokers")
    dark = page.evaluate(color)
    assert dark != light
    page.emulate_media(color_scheme="dark")
    page.goto("/topics?q=kept")
    page.get_by_role("button", name="Dark").click()
    expect(theme).to_have_attribute("data-theme", "light")
    expect(page).to_have_url(re.compile(r"/topics\?q=kept$"))
    expect(page.get_by_role("button", name="Light")).to_be_visible()
    assert page.evaluate(color) == light
    page.get_by_role("button", name="Light").click()
    expect(page.get_by_role("button", name="System")).to_be_visible()
    assert page.evaluate(color) == dark


def test_the_theme_changed_on_the_answer_to_a_form_leads_back_to_a_page(page: Page, product: Product) -> None:
    create(product, "themed")
    opened(page, "/topics/themed")
    page.get_by_role("button", name="Add partitions…").click()
    page.get_by_label("New number of partitions").fill("2")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("table.what")).to_be_visible()
    page.get_by_role("button", name="System").click()
    expect(page.locator("h1")).to_have_text("Topics")


def test_the_language_is_chosen_and_kept(page: Page) -> None:
    opened(page, "/")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.locator("h1")).to_have_text("仪表板")
    expect(page.get_by_role("navigation", name="主导航")).to_contain_text("主题")
    expect(page.locator("#live [data-age]")).to_have_text(re.compile(r"^[0-9.]+ 秒前$"))
    assert violations(page) == []
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="键盘快捷键")).to_contain_text("主题")
    page.keyboard.press("Escape")
    page.goto("/search?q=主题")
    expect(page.locator("#found a").first).to_have_attribute("href", "/topics")
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.locator("h1")).to_have_text("Search")


def test_a_paused_page_stays_as_it_is_until_it_goes_on(page: Page, product: Product) -> None:
    opened(page, "/topics?q=paused-")
    button = page.get_by_role("button", name="Pause updates")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    before = page.locator("#live [data-offset]").inner_text()
    create(product, "paused-one")
    expect(page.locator("#live [data-offset]")).not_to_have_text(before)
    page.wait_for_timeout(600)  # longer than a refresh takes
    expect(page.locator("#topics tbody tr")).to_have_count(0)
    button.click()
    expect(page.locator("#topics tbody tr")).to_have_count(1)


def test_the_navigation_of_a_phone_is_a_drawer(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, "/")
    navigation = page.get_by_role("navigation", name="Main")
    expect(navigation).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(navigation).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(navigation).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    navigation.get_by_role("link", name="Brokers").click()
    expect(page.locator("h1")).to_have_text("Brokers")
