"""Every page passes every rule of axe-core, in both themes, on a desktop and on a phone."""

import re

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.axe import dark_violations, violations
from tests.browser.test_pages import ADMIN_PAGES, PAGES
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

TOPIC = "accessible"
FURTHER = (
    f"/topics/{TOPIC}?page=2",
    f"/topics/{TOPIC}/configs",
    f"/topics/{TOPIC}/changes",
    f"/topics/{TOPIC}/delete",
    "/brokers/1/replicas?page=2",
    "/search?q=accessible",
    "/topics?problem=offline&q=none",
    "/changes?q=nothing-like-this",
    "/no/such/page",
    f"/topics/{TOPIC}-never",
)
OF_HUNDREDS_OF_ROWS = {path: f"{path}?q=log.retention" for path in ("/broker-configs", "/brokers/1/configs")}
OF_HUNDREDS_OF_ROWS[f"/topics/{TOPIC}/configs"] = f"/topics/{TOPIC}/configs?q=retention"
"""Pages of hundreds of similar rows, which take axe seconds, are filtered."""


@pytest.fixture(scope="module")
def filled(product: Product) -> Product:
    """Return the product with something on each page: partitions, a config, and their changes in feed and audit."""
    for method, path, body in (
        ("POST", "topics", {"topic_name": TOPIC, "partitions_count": 101}),
        ("PUT", f"topics/{TOPIC}/configs/retention.ms", {"value": "5000"}),
    ):
        status, answer = product.call(method, f"{product.cluster_path}/{path}", body)
        assert status < 300, answer
    return product


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_breaks_a_rule(page: Page, filled: Product, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    found = {}
    for path in (*PAGES, *ADMIN_PAGES, *FURTHER):
        page.goto(OF_HUNDREDS_OF_ROWS.get(path, path))
        found[path] = violations(page) + (dark_violations(page) if width == 1280 else [])
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize("width", [1280, 390])
def test_no_preview_and_no_error_breaks_a_rule(page: Page, filled: Product, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/create-topic")
    page.get_by_label("Name").fill("not/a/name")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_role("alert").wait_for()
    assert violations(page) == []
    page.goto(f"/topics/{TOPIC}")
    page.get_by_role("button", name="Add partitions…").click()
    assert violations(page) == []
    page.get_by_label(re.compile("^New number of partitions")).fill("110")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Add partitions").wait_for()
    assert violations(page) == []
    page.goto("/quorum")
    page.get_by_role("link", name="Remove… node 1").click()
    page.get_by_role("alert").wait_for()
    assert violations(page) == []
    page.goto("/access")
    page.get_by_label("User name").fill(f"axe{width}")
    page.get_by_role("button", name="Add user").click()
    page.locator(".notice pre").wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_for_visitors_breaks_a_rule(chromium: Browser, product: Product, width: int) -> None:
    context = chromium.new_context(base_url=product.url, viewport={"width": width, "height": 900})
    page = context.new_page()
    for path in ("/login", "/login/link?token=made-up", "/no/such/page"):
        page.goto(path)
        assert violations(page) + dark_violations(page) == [], path
    context.close()
