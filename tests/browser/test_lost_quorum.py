"""Open pages during leader failures, a lost majority and a stopped web process: correct without a reload."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.app.live import LiveWeb, running_web
from tests.browser.axe import violations
from tests.interop import conclave, kafka

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]

PAGES = ("/", "/quorum", "/topics", "/reports")  # with live parts of three kinds, and with none

REMEMBER_PAIRS = """() => {
  window.pairs = new Set();
  const note = () => {
    const term = [...document.querySelectorAll("dl.facts dt")].find((each) => each.textContent.trim() === "Leader");
    const [leader, why] = [...term.parentElement.querySelectorAll("dd")].map((each) => each.textContent.trim());
    window.pairs.add(`${leader}|${/epoch (\\d+)/.exec(why)[1]}`);
    window.pairs.add(document.querySelector("#live [data-leader]").textContent);
  };
  new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
  note();
}"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[conclave.Quorum]:
    """Yield a quorum, started before Chromium, whose driver keeps an event loop running in this thread."""
    with conclave.running_quorum(tmp_path_factory.mktemp("lost") / "quorum", 3) as running:
        yield running


def free_port() -> int:
    return kafka.free_ports(1)[0]


def log_in(web: LiveWeb, chromium: Browser) -> BrowserContext:
    context = chromium.new_context(base_url=web.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(web.login_link)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{web.url}/")
    page.close()
    return context


def described(nodes: conclave.Quorum, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [Path(sys.executable).with_name("conclave"), "quorum", "describe", "--bootstrap-controller"]
    return subprocess.run([*map(str, command), nodes.bootstrap, *options], capture_output=True, text=True, timeout=60)


def metric(web: LiveWeb, name: str) -> float:
    text = web.http().get("/metrics").text
    return float(re.findall(rf"^conclave_cluster_{name} (\S+)$", text, re.MULTILINE)[0])


def current(nodes: conclave.Quorum, web: LiveWeb, other_than: int = -1) -> tuple[int, int]:
    """Return (leader, epoch) once the web process has confirmed it."""

    def is_known() -> bool:
        found = web.services.cluster.quorum
        return found.is_live and found.leader_id not in {None, other_than}

    kafka.wait_until(is_known, 60, "the web process knows the leader", 0.01)
    found = web.services.cluster.quorum
    assert found.leader_id is not None
    return found.leader_id, found.leader_epoch


@pytest.mark.timeout(240)
def test_every_open_page_shows_the_leader_and_the_silent_voters(
    nodes: conclave.Quorum, chromium: Browser, tmp_path: Path
) -> None:
    with running_web(tmp_path, nodes.bootstrap) as web:
        web.wait_ready()
        leader, epoch = current(nodes, web)
        context = log_in(web, chromium)
        pages = {path: context.new_page() for path in PAGES}
        for path, page in pages.items():
            page.goto(path)
            expect(page.locator("#live [data-leader]")).to_have_text(f"node {leader}, epoch {epoch}")
        dashboard = pages["/"]
        dashboard.evaluate(REMEMBER_PAIRS)

        nodes.processes[leader].kill()
        after, next_epoch = current(nodes, web, other_than=leader)
        for path, page in pages.items():
            expect(page.locator("#live [data-leader]"), path).to_have_text(f"node {after}, epoch {next_epoch}")
            notice = page.locator("#quorum-notice .notice")
            expect(notice).to_contain_text("Not all voters answer: 2 of 3 voters answer")
            expect(notice).to_contain_text(f"node {leader} at 127.0.0.1:{nodes.port_of(leader)} has not answered since")
        expect(dashboard.locator("dl.facts")).to_contain_text(re.compile(rf"Leader\s*node {after}"))
        pairs = set(dashboard.evaluate("[...window.pairs]"))
        true = {f"node {leader}|{epoch}", f"node {after}|{next_epoch}"}
        true |= {f"node {leader}, epoch {epoch}", f"node {after}, epoch {next_epoch}", "no leader"}
        assert {pair for pair in pairs if not pair.startswith("none|")} <= true, pairs

        nodes.processes[after].kill()
        (left,) = {1, 2, 3} - {leader, after}
        for page in pages.values():
            notice = page.locator("#quorum-notice [role=alert]")
            expect(notice).to_contain_text(
                f"The quorum has lost its majority: 1 of 3 voters answers (node {left}), 2 are needed"
            )
            for node_id in (leader, after):
                address = f"127.0.0.1:{nodes.port_of(node_id)}"
                expect(notice).to_contain_text(f"node {node_id} at {address} has not answered since")
            expect(notice).to_contain_text(re.compile(r"Showing metadata as of offset \d+, last confirmed at \d"))
            expect(page.locator("#live [data-leader]")).to_have_text("no leader")
            expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        expect(dashboard.locator("dl.facts")).to_contain_text(re.compile(r"Leader\s*none"))
        assert [violations(pages[path]) for path in ("/", "/quorum")] == [[], []]
        assert (metric(web, "leader_id"), metric(web, "voters_silent"), metric(web, "has_majority")) == (-1, 2, 0)
        ready = web.client.get("/readyz")
        assert ready.status_code == 503
        assert any(f"1 of 3 voters answers (node {left}), 2 are needed" in why for why in ready.json()["reasons"])
        began = time.monotonic()
        assert context.request.get("/").status == 200
        assert time.monotonic() - began < 5, "a page waited for the quorum"
        printed = described(nodes, "--json")
        assert printed.returncode == 1
        assert f"1 of 3 controllers answers (node {left})" in printed.stderr
        assert f"node {leader} at 127.0.0.1:{nodes.port_of(leader)}" in printed.stderr
        assert json.loads(printed.stdout)["leaderId"] == -1
        assert [each["answers"] for each in json.loads(printed.stdout)["voters"]].count(True) == 1

        for node_id in (leader, after):
            nodes.start(node_id)
        again, last_epoch = current(nodes, web)
        for page in pages.values():
            expect(page.locator("#live [data-leader]")).to_have_text(f"node {again}, epoch {last_epoch}")
            expect(page.locator("#quorum-notice .notice")).to_have_count(0)
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert web.client.get("/readyz").status_code == 200
        context.close()


def test_a_page_shows_that_the_web_process_has_stopped_and_recovers_with_it(
    nodes: conclave.Quorum, chromium: Browser, tmp_path: Path
) -> None:
    port = free_port()
    with running_web(tmp_path, nodes.bootstrap, http_port=port) as web:
        web.wait_ready()
        context = log_in(web, chromium)
        page: Page = context.new_page()
        page.goto("/topics")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.evaluate("window.loadedOnce = true")
        web.stop()
        expect(page.get_by_role("alert")).to_contain_text("Connection to Conclave lost at")
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    with running_web(tmp_path, nodes.bootstrap, http_port=port) as web:
        web.wait_ready()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert page.evaluate("window.loadedOnce") is True
        context.close()
