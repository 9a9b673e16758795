"""Every page passes every rule of axe-core, in both themes, on a desktop and on a phone."""

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.reports import store
from app.reports.body import REPORT_VERSION
from tests.app.groups import commit
from tests.app.live import CombinedNode
from tests.app.pages.test_report_page import BODY, HEADER
from tests.browser.axe import dark_violations, violations
from tests.browser.routes import ADDRESSES, ELSEWHERE, GROUP, TOPIC, page_routes
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

FURTHER = (
    "/topics?problem=offline&q=none",
    "/changes?q=nothing-like-this",
    "/no/such/page",
    f"/topics/{TOPIC}-never",
    "/reports/{run_id}",
)
"""Pages in another state, and those of a report."""


def test_every_page_of_the_application_has_an_address_here() -> None:
    """A new page is added to ADDRESSES and so is visited by the tests below."""
    assert page_routes() == ADDRESSES.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def filled(product: Product) -> dict[str, str]:
    """Fill each page of the product, and return what the addresses need to name."""
    cluster = product.cluster_path
    many = [{"topic_name": TOPIC, "partition_id": index} for index in range(1_001)]
    plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1]}]}
    answers = [
        product.call(method, f"{cluster}/{path}", body)
        for method, path, body in (
            ("POST", "topics", {"topic_name": TOPIC, "partitions_count": 101}),
            ("PUT", f"topics/{TOPIC}/configs/retention.ms", {"value": "5000000"}),
            ("POST", f"topics/{TOPIC}/records", {"partition_id": 0, "value": {"type": "JSON", "data": {"n": 1}}}),
            ("POST", "topics", {"topic_name": "accessible-gone"}),
            ("DELETE", "topics/accessible-gone", None),
            ("PUT", "scram-users/accessible/credentials/SCRAM-SHA-256", {"password": "a password of this test"}),
            ("PUT", "report-schedules/nightly", {"cron": "0 3 * * *"}),
            ("POST", "leaders:elect", {"partitions": many}),
            ("POST", "plans", {"reassignment": plan}),
        )
    ]
    assert [(status, body) for status, body in answers if status >= 300] == []
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright keeps an event loop running in this thread
        node = SimpleNamespace(broker=f"127.0.0.1:{product.kafka_port}")
        elsewhere.submit(commit, cast("CombinedNode", node), GROUP, TOPIC, {0: 0}).result()
    voters = product.call("GET", f"{cluster}/quorum")[1]["voters"]
    return {
        "directory_id": voters[0]["directory_id"],
        "election_id": answers[-2][1]["election_id"],
        "plan_id": str(answers[-1][1]["plan_id"]),
        "run_id": str(add_run(product)),
    }


def add_run(product: Product) -> int:
    """Add a finished report to the product's database."""
    engine = create_engine(f"sqlite:///{product.folder / 'data' / 'web' / 'conclave.db'}")
    result = {"body": BODY, "header": HEADER, "report_version": REPORT_VERSION, "trends": None}
    done = {"state": "succeeded", "finished_at": utc_now(), "result": result, "image_offset": 1000, "image_epoch": 7}
    with Session(engine) as session:
        run_id = store.create_run(session, "tester")
        store.update_run(session, run_id, lease_until=None, **done)
        session.commit()
    engine.dispose()
    return run_id


def addresses(page: Page, named: dict[str, str]) -> list[str]:
    """Return the addresses to visit; offsets are those of links on pages."""
    page.goto("/topics/accessible-gone")
    gone = re.search(r"deleted_at=(\d+)", page.content())
    assert gone is not None, page.content()
    values = {**named, "deleted_at": gone[1], "changed_at": gone[1]}
    return [path.format(**values) for path in (*ADDRESSES.values(), *FURTHER)]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_breaks_a_rule(page: Page, filled: dict[str, str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    found = {}
    for path in addresses(page, filled):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200 or "never" in path or "such" in path, (path, answer.status)
        found[path] = violations(page) + dark_violations(page)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} is {wide} px wide"
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize("width", [1280, 390])
def test_no_preview_and_no_error_breaks_a_rule(page: Page, filled: dict[str, str], width: int) -> None:
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
    page.get_by_role("button", name="Add user…").click()
    page.get_by_label("User name").fill(f"axe{width}")
    page.get_by_role("button", name="Add user", exact=True).click()
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
