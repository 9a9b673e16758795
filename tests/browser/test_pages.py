"""Changes made in the browser, from the first page to the cluster."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import Watch
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

PAGES = (
    "/",
    "/quorum",
    "/quorum/epochs",
    "/brokers",
    "/brokers/1",
    "/brokers/1/configs",
    "/brokers/1/timeline",
    "/broker-configs",
    "/topics",
    "/create-topic",
    "/changes",
    "/flaps",
    "/flaps/elections",
    "/reports",
    "/plans",
    "/reassignments",
    "/elections",
    "/moves/new",
    "/moves/new?goal=drain&step=where",
    "/moves/new?topics=*",
    "/features",
    "/groups",
    "/transactions",
)
ADMIN_PAGES = (
    "/audit",
    "/access",
    "/access/tokens",
    "/account",
    "/rights",
    "/rights/scram",
    "/rights/quotas",
    "/rights/tokens",
)


def create(product: Product, name: str, partitions: int = 1) -> None:
    status, body = product.call(
        "POST", f"{product.cluster_path}/topics", {"topic_name": name, "partitions_count": partitions}
    )
    assert status == 201, body


def test_a_topic_is_created_in_the_browser(page: Page, product: Product) -> None:
    page.goto("/topics")
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_label("Partitions").fill("3")
    page.get_by_label(re.compile("^Configs")).fill("cleanup.policy=compact")
    page.get_by_role("button", name="Validate").click()
    expect(page.get_by_role("status")).to_contain_text(
        "3 partitions with replication factor 1. Nothing has changed yet."
    )
    assert product.call("GET", f"{product.cluster_path}/topics/orders")[0] == 404
    page.get_by_role("button", name="Create topic").click()
    page.wait_for_url("**/topics/orders")
    expect(page.get_by_role("status")).to_contain_text(
        re.compile(r"Topic orders created with 3 partitions at offset \d+")
    )
    expect(page.locator("#topic")).to_contain_text(re.compile(r"Config overrides\s*1"))
    _, topic = product.call("GET", f"{product.cluster_path}/topics/orders")
    assert (topic["partitions_count"], topic["replication_factor"]) == (3, 1)


def test_an_error_is_shown_beside_its_field_and_the_input_is_kept(page: Page) -> None:
    page.goto("/create-topic")
    page.get_by_label("Name").fill("not/a/name")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("INVALID_TOPIC")
    expect(page.get_by_label("Name")).to_have_value("not/a/name")
    page.get_by_label("Name").fill("fine")
    page.get_by_label("Partitions").fill("many")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_have_text("'many' is not a whole number from 1 to 2147483647.")


def test_the_dashboard_shows_changes_of_the_cluster_without_a_reload(page: Page, product: Product) -> None:
    page.goto("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate("window.loadedOnce = true")
    create(product, "seen-at-once")
    expect(page.locator("#dashboard")).to_contain_text("topic seen-at-once: created")
    assert page.evaluate("window.loadedOnce") is True


def test_the_badge_shows_the_newest_offset_and_its_age(page: Page) -> None:
    page.goto("/topics")
    before = page.locator("#live [data-offset]").inner_text()
    expect(page.locator("#live [data-offset]")).not_to_have_text(before)
    expect(page.locator("#live [data-age]")).to_have_text(re.compile(r"^\d\.\d s ago$"))


def test_search_narrows_the_list_and_the_address_can_be_shared(page: Page, product: Product) -> None:
    for name in ("find-me", "leave-me"):
        create(product, name)
    page.goto("/topics")
    page.get_by_role("searchbox").press_sequentially("FIND-")
    expect(page.locator("#topics tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"[?&]q=FIND-"))  # "FIN" finds as much
    page.reload()
    expect(page.locator("#topics tbody tr")).to_have_text([re.compile("find-me")])


def test_partitions_are_added_after_a_preview(page: Page, product: Product) -> None:
    create(product, "grows")
    page.goto("/topics/grows")
    page.get_by_role("button", name="Add partitions…").click()
    page.get_by_label(re.compile("^New number of partitions")).fill("4")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("Validated by the controller. Nothing has changed yet.")
    assert product.call("GET", f"{product.cluster_path}/topics/grows")[1]["partitions_count"] == 1
    page.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_role("status")).to_contain_text("Topic grows has 4 partitions as of offset")
    assert product.call("GET", f"{product.cluster_path}/topics/grows")[1]["partitions_count"] == 4


def test_fewer_partitions_are_refused_with_the_error_of_the_controller(page: Page, product: Product) -> None:
    create(product, "shrinks-not", 3)
    page.goto("/topics/shrinks-not")
    page.get_by_role("button", name="Add partitions…").click()
    page.get_by_label(re.compile("^New number of partitions")).fill("2")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("INVALID_PARTITIONS")


def test_configs_are_set_and_reset_together_with_one_preview(page: Page, product: Product) -> None:
    create(product, "tuned")
    page.goto("/topics/tuned/configs?q=retention")
    page.get_by_label("New value of retention.ms", exact=True).fill("1 fortnight")
    page.get_by_label("New value of retention.bytes").fill("1.5 GiB")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.get_by_role("alert")).to_have_text(
        "retention.ms: '1 fortnight' has an unknown unit; allowed are ms, s, min, h, d."
    )
    expect(page.get_by_label("New value of retention.bytes")).to_have_value("1.5 GiB")
    page.get_by_label("New value of retention.ms", exact=True).fill("1 d")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator("table.what")).to_contain_text(
        re.compile(
            r"retention\.bytes\s*-1\s*1610612736 \(1536 MiB\)\s*retention\.ms\s*604800000 \(7 d\)\s*86400000 \(1 d\)"
        )
    )
    page.get_by_role("button", name="Set configs").click()
    expect(page.get_by_role("status")).to_contain_text(
        re.compile(r"2 configs were changed at offset \d+: retention\.bytes, retention\.ms\.")
    )
    expect(page.get_by_role("searchbox")).to_have_value("retention")
    path = f"{product.cluster_path}/topics/tuned/configs"
    assert product.call("GET", f"{path}/retention.ms")[1]["value"] == "86400000"
    page.get_by_label("Reset retention.ms", exact=True).check()
    page.get_by_label("New value of retention.bytes").fill("-1")
    page.get_by_role("button", name="Preview changes").click()
    page.get_by_role("button", name="Change configs").click()
    expect(page.get_by_role("status")).to_contain_text("2 configs were changed")
    assert product.call("GET", f"{path}/retention.ms")[1]["source"] == "DEFAULT_CONFIG"
    assert product.call("GET", f"{path}/retention.bytes")[1]["value"] == "-1"


def test_a_config_of_few_values_is_chosen(page: Page, product: Product) -> None:
    create(product, "chosen")
    page.goto("/topics/chosen/configs?q=compression.type")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.get_by_role("alert")).to_have_text("Nothing was changed: type a value or select a reset.")
    page.get_by_label("New value of compression.type").select_option("zstd")
    page.get_by_role("button", name="Preview changes").click()
    page.get_by_role("button", name="Set config").click()
    expect(page.get_by_role("status")).to_contain_text("compression.type was set to zstd at offset")
    expect(page.get_by_label("New value of compression.type")).to_have_value("zstd")


def test_a_topic_is_deleted_only_after_its_name_is_typed(page: Page, product: Product) -> None:
    create(product, "goes")
    page.goto("/topics/goes")
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label(re.compile("to confirm$")).fill("gose")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("alert")).to_have_text("'gose' is not 'goes'. Nothing has changed.")
    page.get_by_label(re.compile("to confirm$")).fill("goes")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("status")).to_contain_text("Topic goes deleted at offset")
    assert product.call("GET", f"{product.cluster_path}/topics/goes")[0] == 404
    page.goto("/audit?resource=topic/goes")
    expect(page.locator("tbody tr").first).to_contain_text("topic.delete")


def test_the_quorum_page_shows_the_leader_its_election_and_the_offsets_of_the_log(page: Page) -> None:
    page.goto("/quorum")
    facts = page.locator("#quorum dl.facts")
    expect(facts).to_contain_text(re.compile(r"Leader\s*node 1\s*since \d{4}-\d\d-\d\d"))
    expect(facts).to_contain_text(re.compile(r"High watermark\s*\d+\s*log from 0 to"))
    watermark = facts.get_by_text(re.compile("^log from 0 to")).inner_text()
    expect(facts.get_by_text(re.compile("^log from 0 to"))).not_to_have_text(watermark)
    page.get_by_role("link", name=re.compile("^All epochs")).click()
    expect(page.locator("h1")).to_have_text("Leaders")
    row = page.locator("tbody tr").last
    expect(row).to_contain_text("node 1")
    expect(row).to_contain_text("1 of 1")


def test_the_last_voter_cannot_be_removed_and_the_page_shows_the_unmet_precondition(page: Page) -> None:
    page.goto("/quorum")
    page.get_by_role("link", name="Remove… node 1").click()
    checks = page.locator("ul.checks li")
    expect(checks.filter(has_text="not met")).to_have_count(1)
    expect(checks.filter(has_text="not met")).to_contain_text("It is the last voter; a quorum needs at least one.")
    expect(checks.filter(has_text=re.compile("^met"))).not_to_have_count(0)
    expect(page.get_by_role("button", name="Remove voter 1")).to_have_count(0)
    expect(page.get_by_role("alert")).to_contain_text("Nothing has changed.")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for path in (*PAGES, *ADMIN_PAGES):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_every_field_and_button_has_a_name_and_every_page_a_heading(page: Page) -> None:
    """Names for screen readers; a placeholder does not count."""
    nameless = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')].filter(
        (each) => !(each.getAttribute('aria-label') || '').trim() && !(each.labels && each.labels.length)
            && !each.textContent.trim()).map((each) => each.outerHTML)"""
    for path in (*PAGES, *ADMIN_PAGES):
        page.goto(path)
        assert page.evaluate(nameless) == [], path
        assert page.locator("h1").count() == 1, path
        assert page.locator("nav[aria-label=Main] a[aria-current=page]").count() == (path != "/account"), path


def test_the_keyboard_reaches_past_the_navigation_and_through_a_form(page: Page) -> None:
    page.goto("/features")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#levels :focus")).to_have_count(1)
    for _ in range(40):
        if page.evaluate("document.activeElement.id") == "feature":
            break
        page.keyboard.press("Tab")
    expect(page.get_by_label("Feature", exact=True)).to_be_focused()
    page.keyboard.type("group")
    page.keyboard.press("Tab")
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("INVALID_UPDATE_VERSION")


def test_the_configs_of_a_broker_can_be_searched(page: Page) -> None:
    page.goto("/brokers/1/configs")
    page.get_by_role("searchbox").fill("cleaner.threads")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("main")).to_contain_text(re.compile(r"1 of \d+ configs"))
    page.get_by_label("only overrides").check()
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main")).to_contain_text("No configs match.")


def test_a_cluster_wide_config_is_set_and_reset_with_a_preview(page: Page, product: Product) -> None:
    page.goto("/brokers")
    page.get_by_role("link", name="Cluster-wide configs").click()
    expect(page.locator("tr[id='broker.id']")).to_have_count(0)
    page.goto("/broker-configs?q=cleaner.threads")
    page.get_by_label("New value of log.cleaner.threads").fill("3")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator("table.what")).to_contain_text(re.compile(r"log\.cleaner\.threads\s*1\s*3"))
    page.get_by_role("button", name="Set config").click()
    expect(page.get_by_role("status")).to_contain_text("log.cleaner.threads was set to 3 at offset")
    config = f"{product.cluster_path}/broker-configs/log.cleaner.threads"
    assert product.call("GET", config)[1]["value"] == "3"
    page.goto("/broker-configs?q=log.cleaner&only_set=yes")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Reset log.cleaner.threads").check()
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator("table.what")).to_contain_text(re.compile(r"log\.cleaner\.threads\s*3\s*1"))
    page.get_by_role("button", name="Reset config").click()
    expect(page.get_by_role("status")).to_contain_text("was reset at offset")
    assert product.call("GET", config)[0] == 404


def test_a_topic_is_created_without_javascript(chromium: Browser, product: Product, admin_state: Path) -> None:
    context = chromium.new_context(storage_state=admin_state, base_url=product.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/create-topic")
    page.get_by_label("Name").fill("plain-form")
    page.get_by_role("button", name="Create topic").click()
    page.wait_for_url("**/topics/plain-form")
    assert "plain-form" in page.locator("h1").inner_text()
    context.close()


def test_a_viewer_sees_no_buttons_and_is_refused_when_posting(chromium: Browser, product: Product, page: Page) -> None:
    page.goto("/access")
    page.get_by_role("button", name="Add user…").click()
    page.get_by_label("User name").fill("vera")
    page.get_by_role("button", name="Add user", exact=True).click()
    link = page.locator(".notice pre").inner_text()
    context = chromium.new_context(base_url=product.url)
    watch = Watch(context)
    visitor = context.new_page()
    visitor.goto(link)
    visitor.get_by_label("New password").fill("chosen-by-vera-herself")
    visitor.get_by_role("button", name="Log in").click()
    visitor.wait_for_url(f"{product.url}/")
    visitor.goto("/topics")
    expect(visitor.get_by_role("link", name="Create topic")).to_have_count(0)
    expect(visitor.get_by_role("link", name="Audit")).to_have_count(0)
    assert visitor.goto("/access").status == 403  # type: ignore[union-attr]  # a page always answers
    token = visitor.goto("/") and visitor.locator("input[name=csrf_token]").first.input_value()
    answer = context.request.post(
        "/topics", form={"name": "no", "csrf_token": token or ""}, headers={"Origin": product.url}
    )
    assert answer.status == 403
    assert watch.complaints == []
    context.close()


def test_a_change_from_another_site_is_refused(chromium: Browser, product: Product, admin_state: Path) -> None:
    context = chromium.new_context(storage_state=admin_state, base_url=product.url)
    page = context.new_page()
    page.goto("/")
    token = page.locator("input[name=csrf_token]").first.input_value()
    good = {"name": "from-elsewhere", "csrf_token": token}
    for headers, form in (({"Origin": "http://evil.test"}, good), ({"Origin": product.url}, {"name": "no-token"})):
        assert context.request.post("/topics", form=form, headers=headers).status == 403
    context.close()
    assert product.call("GET", f"{product.cluster_path}/topics/from-elsewhere")[0] == 404


def test_hostile_names_are_shown_as_text(page: Page) -> None:
    page.goto("/create-topic")
    page.get_by_label("Name").fill("<img src=x onerror=alert(1)>{{7*7}}")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("INVALID_TOPIC")
    assert page.locator("img").count() == 0
    page.goto("/topics?q=%3Cscript%3Ealert(1)%3C/script%3E")
    expect(page.get_by_role("searchbox")).to_have_value("<script>alert(1)</script>")
    assert page.locator("main script:not([src])").count() == 0


def test_an_unknown_page_says_so_and_links_to_the_dashboard(page: Page) -> None:
    answer = page.goto("/topics/never-made")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("main")).to_contain_text("There is no topic 'never-made' at offset")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.get_by_role("link", name="Go to the dashboard").click()
    expect(page.locator("h1")).to_have_text("Dashboard")
    page.goto("/no/such/page")
    expect(page.locator("main")).to_contain_text("There is no page at this address.")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_report_is_run_and_read_in_the_browser(page: Page, product: Product) -> None:
    create(product, "reported", 2)
    nightly = {"cron": "0 2 * * *", "enabled": False}  # it may be two at night
    assert product.call("PUT", f"{product.cluster_path}/report-schedules/nightly", nightly)[0] == 200
    page.goto("/reports")
    page.get_by_role("button", name="Run report").click()
    expect(page.locator("#runs progress")).to_be_visible()
    expect(page.locator("#runs progress")).to_have_count(0, timeout=240_000)
    page.locator("#runs").get_by_role("link", name=re.compile(r"^#\d+$")).first.click()
    expect(page.locator("main")).to_contain_text("Metadata offset")
    expect(page.locator("#brokers")).to_contain_text("1 of 1 eligible brokers hold a balanced number of replicas.")
    expect(page.locator("#margins svg")).to_be_visible()
    assert violations(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    report = json.loads(Path(download.value.path()).read_text())
    _, topics = product.call("GET", f"{product.cluster_path}/topics")
    assert report["body"]["verdict"]["partitions"] >= 2
    assert report["header"]["topics"] <= len(topics["data"])
    page.goto("/")
    expect(page.locator("#dashboard")).to_contain_text("Moves to balance")
