"""The wizard of moves and the elections in Chromium: with the keyboard, on a phone, without a script."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import violations
from tests.interop import conclave
from tests.interop.kafka import wait_until
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


async def _brokers(product: Product, are_there: threading.Event, end: threading.Event) -> None:
    """Register brokers 2 and 3, and keep them unfenced until the end."""
    client = conclave.controller_client(f"127.0.0.1:{product.controller_port}")
    brokers = [conclave.RawBroker(each, product.cluster_path.rpartition("/")[2], client) for each in (2, 3)]
    for each in brokers:
        await each.register()
    alive = [asyncio.create_task(each.keep_alive(0.5)) for each in brokers]
    are_there.set()
    await asyncio.to_thread(end.wait)
    for task in alive:
        task.cancel()
    await asyncio.gather(*alive, return_exceptions=True)
    client.close()


@pytest.fixture(scope="module")
def spread(product: Product) -> Iterator[Product]:
    """Yield the product with brokers 2 and 3, which only register, and topics of brokers 1 and 2."""
    are_there, end = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright keeps an event loop running in this thread
        running = elsewhere.submit(asyncio.run, _brokers(product, are_there, end))
        try:
            assert are_there.wait(60), running
            yield with_topics(product)
        finally:
            end.set()
        running.result()


def with_topics(product: Product) -> Product:
    path = f"{product.cluster_path}/brokers/3"
    wait_until(lambda: product.call("GET", path)[0] == 200, 60, "the web process has read of broker 3")
    for topic, partitions in (("orders-eu", 60), ("orders-us", 2), ("elected", 2)):
        assignments = {str(index): [1, 2] for index in range(partitions)}
        body = {"topic_name": topic, "replicas_assignments": assignments}
        assert product.call("POST", f"{product.cluster_path}/topics", body)[0] == 201
    return product


@pytest.mark.parametrize("width", [1440, 390])
def test_moves_are_chosen_with_the_keyboard_alone(spread: Product, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/moves/new")
    page.get_by_label(re.compile("^Move partitions")).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Topics, names or patterns")).to_be_focused()
    page.keyboard.type("orders-*")
    page.keyboard.press("Enter")
    expect(page.locator("#partitions")).to_contain_text("62 partitions match.")
    page.get_by_label("orders-eu-0").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Next →").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#partitions")).to_contain_text("1 ticked")
    page.get_by_label("orders-us-1").focus()
    page.keyboard.press("Space")
    assert violations(page) == []
    page.get_by_role("button", name="Continue").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Move partitions: 2 ticked partitions.")
    for broker in (1, 3):
        page.get_by_label(f"Broker {broker}", exact=True).focus()
        page.keyboard.press("Space")
    assert violations(page) == []
    page.get_by_role("button", name="Review").focus()
    page.keyboard.press("Enter")
    expect(page.locator('[data-table="moves"] tbody tr')).to_have_text(
        [re.compile(r"orders-eu-0\s*1, 2\s*1, 3"), re.compile(r"orders-us-1\s*1, 2\s*1, 3")]
    )
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Throttle per broker").focus()
    page.keyboard.type("50")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Throttle per broker")).to_have_value("50")
    bookmark = page.url
    assert "throttle=50" in bookmark
    page.go_back()
    page.goto(bookmark)
    page.get_by_role("button", name="Save as a draft…").click()
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#plan")).to_contain_text("Saved as a draft with 2 partitions, as the planner proposed.")
    expect(page.locator("#plan")).to_contain_text("50.0 MiB/s per broker")
    assert violations(page) == []


def test_moves_are_chosen_without_a_script(spread: Product, chromium: Browser, admin_state: Path) -> None:
    context = chromium.new_context(storage_state=admin_state, base_url=spread.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/topics/orders-us")
    page.get_by_role("link", name="Move…").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="type the replicas of each partition").click()
    replicas = page.get_by_label(re.compile("^Plan"))
    expect(replicas).to_have_value("orders-us 0 1,2\norders-us 1 1,2")
    replicas.fill("orders-us 0 2,1")
    page.get_by_role("button", name="Review").click()
    expect(page.locator("main")).to_contain_text("1 partition only reordered")
    page.get_by_role("button", name="Save as a draft…").click()
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#plan h2").first).to_contain_text("Plan")
    context.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_of_elections_fits_and_breaks_no_rule(spread: Product, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    data = [{"topic_name": "elected", "partition_id": 0, "replica_ids": [2, 1]}]
    assert spread.call("POST", f"{spread.cluster_path}/reassignments", {"data": data})[0] in {200, 207}
    page.goto("/elections?topics=elected")
    expect(page.locator("#partitions tbody tr")).to_have_count(1)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
