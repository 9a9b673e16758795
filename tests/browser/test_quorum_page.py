"""The quorum page in the browser, on three real voters and an observer: leader failures and voter changes."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.app.cluster.voter_quorum import JOINER, VoterQuorum, voter_quorum
from tests.browser.conftest import Watch

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VoterQuorum]:
    with voter_quorum(tmp_path_factory.mktemp("quorum-page")) as running:
        yield running


@pytest.fixture(scope="module")
def page(quorum: VoterQuorum, chromium: Browser) -> Iterator[Page]:
    """Yield a page of the admin. By the end the browser must not have complained."""
    context = chromium.new_context(base_url=quorum.web.url, viewport={"width": 1280, "height": 900})
    watch = Watch(context)
    opened = context.new_page()
    opened.goto(quorum.web.login_link)
    opened.get_by_role("button", name="Log in").click()
    opened.wait_for_url(f"{quorum.web.url}/")
    yield opened
    context.close()
    assert watch.complaints == []


def panel(page: Page, heading: str) -> Locator:
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=heading, exact=True))


def row_of(page: Page, heading: str, number: int) -> Locator:
    """Return the row of a node or an epoch by the number in its first cell."""
    first = page.locator("td:first-child").filter(has_text=re.compile(rf"^\s*{number}\s*$"))
    return panel(page, heading).locator("tbody tr").filter(has=first)


def test_an_open_page_shows_a_failed_leader_and_the_next_one(quorum: VoterQuorum, page: Page) -> None:
    page.goto("/quorum")
    page.evaluate("window.loadedOnce = true")
    found = quorum.describe()
    gone, epoch = found["leader_id"], found["leader_epoch"]
    rows = panel(page, "Leaders").locator("tbody tr")
    quorum.nodes.processes[gone].kill()
    try:
        quorum.wait_until_led_by_another_than(gone)
        expect(row_of(page, "Leaders", epoch)).to_contain_text(
            f"node {gone} closed its connections: it was stopped or it failed"
        )
        following = rows.filter(has_text="observed, ≤").filter(has_text="by the log")
        expect(following.first).to_be_visible()
        voter = row_of(page, "Voters", gone)
        expect(voter).to_contain_text("does not answer")
        expect(page.locator("#quorum dl.facts")).to_contain_text(re.compile(r"Tolerated failures\s*0"))
        assert page.evaluate("window.loadedOnce") is True
        page.get_by_role("link", name=f"Add voter… node {JOINER}").click()
        expect(page.locator("ul.checks")).to_contain_text(re.compile("Afterwards 3 of 4 voters are caught up"))
    finally:
        quorum.nodes.start(gone)
    page.goto("/quorum")
    expect(voter).to_contain_text("caught up")


def test_a_click_during_an_update_of_the_page_is_not_lost(quorum: VoterQuorum, page: Page) -> None:
    page.goto("/quorum")
    link = page.get_by_role("link", name=f"Add voter… node {JOINER}")
    expect(link).to_be_visible()
    page.evaluate("document.getElementById('quorum').dataset.seen = 'yes'")
    box = link.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    shown = page.locator("#live [data-offset]")
    for _ in range(4):  # the page hears of more than one change
        before = shown.inner_text()
        expect(shown).not_to_have_text(before)
    assert page.locator("#quorum").get_attribute("data-seen") == "yes", "a part was replaced under the button"
    page.mouse.up()
    expect(page.locator("h1")).to_contain_text(f"{JOINER}")
    page.goto("/quorum")
    expect(link).to_be_visible()
    link.focus()
    page.evaluate("document.getElementById('quorum').dataset.seen = 'yes'")
    expect(page.locator("#quorum[data-seen]")).to_have_count(0)
    expect(link).to_be_focused()


def test_a_voter_is_added_and_removed_and_the_page_says_what_changed(quorum: VoterQuorum, page: Page) -> None:
    page.goto("/quorum")
    observer = panel(page, "Observers").locator("tbody tr")
    expect(observer).to_contain_text(re.compile(rf"{JOINER}\s*controller\s*caught up"))
    page.get_by_role("link", name=f"Add voter… node {JOINER}").click()
    expect(page.locator("ul.checks li").filter(has_text="not met")).to_have_count(0)
    page.get_by_role("button", name=f"Add voter {JOINER}").click()
    said = page.get_by_role("status").first
    expect(said).to_contain_text(f"Voters: 1, 2, 3 → 1, 2, 3, {JOINER}; majority: 2 of 3 → 3 of 4")
    expect(panel(page, "Voters").locator("tbody tr")).to_have_count(4)
    page.get_by_role("link", name=f"Remove… node {JOINER}").click()
    expect(page.locator("main")).to_contain_text("controller.quorum.auto.join.enable=true")
    page.get_by_role("button", name=f"Remove voter {JOINER}").click()
    expect(said).to_contain_text(f"Voter {JOINER} removed at offset")
    expect(panel(page, "Voters").locator("tbody tr")).to_have_count(3)


def test_a_registered_node_that_does_not_fetch_is_shown(quorum: VoterQuorum, page: Page) -> None:
    observer = panel(page, "Observers").locator("tbody tr")
    quorum.nodes.processes[JOINER].kill()
    try:
        page.goto("/quorum")
        expect(observer).to_contain_text(re.compile("silent|does not fetch"))
    finally:
        quorum.nodes.start(JOINER)
    expect(observer).to_contain_text("caught up")
