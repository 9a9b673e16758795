"""A real Chromium on a real product."""

import gc
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.product import Product, running_product

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=30_000)  # no measurement: Chromium, the product and other tests may share two cores


def chromium_program() -> str | None:
    """Return the path of the system's Chromium, None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield the system's Chromium. Without one, a test is skipped; in CI it fails.

    Not for the session: Playwright keeps an event loop running in this thread, in which no other test could run one.
    """
    program = chromium_program()
    if program is None:
        message = "Chromium is missing (apt install chromium)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=60_000)
        yield browser
        browser.close()
    gc.collect()  # warnings about what Playwright leaves open come here, where they are ignored


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Product]:
    """Yield one product for all tests of a module."""
    with running_product(tmp_path_factory.mktemp("product")) as running:
        yield running


@pytest.fixture(scope="module")
def admin_state(product: Product, chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with the cookies of the first admin, logged in by the one-time link."""
    path = tmp_path_factory.mktemp("state") / "admin.json"
    context = chromium.new_context()
    page = context.new_page()
    page.goto(product.login_link)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{product.url}/")
    context.storage_state(path=path)
    context.close()
    return path


class Watch:
    """Collects the complaints of the browser: script errors and violations of the content policy."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        context.on("console", lambda message: self._take(message.type, message.text))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def _take(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not re.search("status of (4|503)", text):
            self.complaints.append(text)


@pytest.fixture
def page(product: Product, chromium: Browser, admin_state: Path) -> Iterator[Page]:
    """Yield a page of the admin. By the end of the test the browser must not have complained."""
    context = chromium.new_context(
        storage_state=admin_state, base_url=product.url, viewport={"width": 1280, "height": 900}
    )
    watch = Watch(context)
    yield context.new_page()
    context.close()
    assert watch.complaints == []
