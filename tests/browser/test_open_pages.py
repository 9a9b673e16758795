"""Open pages during changes of the cluster: they are shown at once, without disturbing the reader."""

import re
import statistics
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from benchmarks.open_page import milliseconds_until_shown
from tests.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def create(product: Product, name: str, partitions: int = 1) -> str:
    """Create a topic and return its id."""
    status, body = product.call(
        "POST", f"{product.cluster_path}/topics", {"topic_name": name, "partitions_count": partitions}
    )
    assert status == 201, body
    return str(body["topic_id"])


def delete(product: Product, name: str) -> None:
    assert product.call("DELETE", f"{product.cluster_path}/topics/{name}")[0] == 204


def opened(page: Page, path: str) -> Page:
    page.goto(path)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate("window.loadedOnce = true")
    return page


def test_a_change_is_shown_on_the_open_page_at_once(page: Page, product: Product) -> None:
    opened(page, "/topics?q=at-once")
    took = milliseconds_until_shown(product, page, "#topics", [f"at-once-{number}" for number in range(9)])
    assert statistics.median(took) <= 1_000, took  # 200 ms is the aim, on a machine that does nothing else
    assert page.evaluate("window.loadedOnce") is True


@pytest.mark.parametrize("path", ["", "/configs", "/delete"])
def test_the_page_of_a_topic_says_that_it_was_deleted(page: Page, product: Product, path: str) -> None:
    create(product, "goes-away")
    opened(page, f"/topics/goes-away{path}")
    delete(product, "goes-away")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"Topic goes-away was deleted at offset \d+ \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)\.")
    )
    expect(page.locator("#body table, #body form")).to_have_count(0)
    assert page.evaluate("window.loadedOnce") is True
    page.reload()
    expect(page.locator("main")).to_contain_text(re.compile(r"Topic 'goes-away' was deleted at offset \d+"))


def test_a_topic_that_is_created_again_is_another_topic(page: Page, product: Product) -> None:
    first = create(product, "again")
    opened(page, "/topics/again")
    expect(page.locator("#topic")).to_contain_text(first)
    delete(product, "again")
    second = create(product, "again", 2)
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text(f"A new topic with the same name has the id {second}")
    notice.get_by_role("link", name="Open the new topic").click()
    expect(page.locator("#topic")).to_contain_text(second)


def test_typing_into_the_filter_continues_while_the_list_changes(page: Page, product: Product) -> None:
    opened(page, "/topics")
    box = page.get_by_role("searchbox")
    box.press_sequentially("typed-")
    box.evaluate("(each) => each.setSelectionRange(2, 4)")
    create(product, "typed-one")
    expect(page.locator("#topics tbody tr")).to_have_text([re.compile("typed-one")])
    create(product, "typed-two")
    expect(page.locator("#topics tbody tr")).to_have_count(2)
    expect(box).to_be_focused()
    expect(box).to_have_value("typed-")
    assert box.evaluate("(each) => [each.selectionStart, each.selectionEnd]") == [2, 4]


def test_a_search_answered_before_a_change_shows_the_change_too(page: Page, product: Product) -> None:
    opened(page, "/topics")
    offset = page.locator("#live [data-offset]")

    def late(route: Route) -> None:
        answer = route.fetch()
        before = offset.text_content()
        create(product, "answered-late")
        expect(offset).not_to_have_text(before or "")
        route.fulfill(response=answer)

    page.route("**/fragments/topics?q=answered*", late, times=1)
    page.get_by_role("searchbox").fill("answered-")
    expect(page.locator("#topics tbody tr")).to_have_text([re.compile("answered-late")], timeout=10_000)


def test_selected_text_stays_selected_while_rows_come_and_go_around_it(page: Page, product: Product) -> None:
    for name in ("select-b", "select-d"):
        create(product, name)
    opened(page, "/topics?q=select-")
    page.get_by_role("link", name="select-d").evaluate("""(each) => {
        const range = document.createRange();
        range.setStart(each.firstChild, 2);
        range.setEnd(each.firstChild, 8);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
    }""")
    create(product, "select-a")
    create(product, "select-c")
    delete(product, "select-b")
    expect(page.locator("#topics tbody tr")).to_have_text([re.compile(f"select-{each}") for each in "acd"])
    assert page.evaluate("getSelection().toString()") == "lect-d"


def test_a_focused_link_and_the_scrolling_of_a_table_stay(page: Page, product: Product) -> None:
    create(product, "focus-b")
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, "/topics?q=focus-")
    link = page.get_by_role("link", name="focus-b")
    link.focus()
    table = page.locator("#topics .scroll")
    table.evaluate("(each) => { each.scrollLeft = 60; }")
    create(product, "focus-a")
    expect(page.locator("#topics tbody tr")).to_have_count(2)
    expect(link).to_be_focused()
    assert table.evaluate("(each) => each.scrollLeft") == 60


SELECT = """(each) => {
    getSelection().selectAllChildren(each.querySelector("div, td"));
    return getSelection().toString();
}"""


def test_new_changes_come_to_the_open_feed_without_disturbing_the_reader(page: Page, product: Product) -> None:
    create(product, "feed-a")
    opened(page, "/changes?q=feed-")
    old = page.locator("main .feed > li").filter(has_text="feed-a").first
    selected = old.evaluate(SELECT)
    old.locator("a.at").focus()
    create(product, "feed-b")
    new = page.locator("#new-changes > ol > li")
    expect(new).to_have_text([re.compile("feed-b")])
    expect(old.locator("a.at")).to_be_focused()
    assert selected
    assert page.evaluate("getSelection().toString()") == selected
    pause = page.get_by_role("button", name="Pause updates")
    pause.click()
    before = page.locator("#live [data-offset]").text_content()
    create(product, "feed-c")
    expect(page.locator("#live [data-offset]")).not_to_have_text(before or "")
    expect(new).to_have_count(1)
    pause.click()
    expect(new).to_have_text([re.compile("feed-c"), re.compile("feed-b")])
    page.reload()
    expect(page.locator("main .feed > li").filter(has_text="feed-c")).to_have_count(1)
    assert page.evaluate("window.loadedOnce") is None
    for still in ("/changes?before=5", "/changes?at_offset=5"):
        page.goto(still)
        expect(page.locator("main [data-live]")).to_have_count(0)


def test_an_empty_feed_begins_with_the_first_change_that_matches(page: Page, product: Product) -> None:
    opened(page, "/changes?q=first-match")
    expect(page.locator(".empty")).to_be_visible()
    create(product, "first-match")
    expect(page.locator("#new-changes > ol > li").first).to_contain_text("first-match")
    expect(page.locator(".empty")).to_be_hidden()


def test_new_events_come_to_the_open_audit_without_disturbing_the_reader(page: Page, product: Product) -> None:
    create(product, "audited-a")
    opened(page, "/audit?resource=topic/audited-")
    rows = page.locator("#audit tbody tr")
    old = rows.filter(has_text="audited-a")
    expect(old).to_have_count(1)
    selected = old.evaluate(SELECT)
    create(product, "audited-b")
    expect(rows).to_have_text([re.compile("audited-b"), re.compile("audited-a")])
    assert selected
    assert page.evaluate("getSelection().toString()") == selected
    pause = page.get_by_role("button", name="Pause updates")
    pause.click()
    before = page.locator("#live [data-offset]").text_content()
    create(product, "audited-c")
    expect(page.locator("#live [data-offset]")).not_to_have_text(before or "")
    expect(rows).to_have_count(2)
    pause.press("Enter")
    expect(rows).to_have_count(3)
    expect(pause).to_be_focused()
    page.goto("/audit?before=1")
    expect(page.locator("main [data-live]")).to_have_count(0)


def test_the_stream_of_events_refuses_a_subject_it_does_not_know(page: Page) -> None:
    page.goto("/")
    for subject in ("cluster/1", "broker/x", "topic/short/name", "voter/1/short", "broker/-1", "x" * 401):
        assert page.request.get(f"/events?subject={quote(subject)}").status in {400, 422}, subject


def test_a_page_of_a_logged_out_user_says_so(page: Page, product: Product) -> None:
    opened(page, "/reports")
    page.context.clear_cookies()
    page.evaluate("""() => {
        window.dispatchEvent(new PageTransitionEvent("pagehide"));
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    expect(page.get_by_role("alert")).to_contain_text("You are logged out.")
    expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    page.wait_for_timeout(2_000)  # longer than the page takes to call a connection lost
    expect(page.get_by_role("alert")).to_contain_text("You are logged out.")


def test_a_page_that_cannot_be_updated_says_so_until_it_can(page: Page, product: Product) -> None:
    opened(page, "/topics?q=renewed-")
    page.route("**/fragments/topics*", lambda route: route.fulfill(status=503))
    create(product, "renewed-late")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"This page cannot be updated \(HTTP 503\) since \d{4}-")
    )
    page.unroute_all()
    expect(page.locator("#topics tbody tr")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(0)
