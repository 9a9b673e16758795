"""Pages in another language: no sentence of theirs is left in English.

The node and the web process are those of this module: names, audits and reports of other tests look like sentences.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from app import texts
from app.pages import change_lines
from app.pages.report_schedules import due_texts
from app.reports.schedules import ScheduleSpec
from tests.app.live import CombinedNode, LiveWeb, combined_node, running_web
from tests.browser.routes import ADDRESSES, GROUP

TOPIC = "spoken-topic"
CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9", "Accept": "text/html"}
SPOKEN = frozenset({"title", "aria-label", "placeholder", "alt"})
SILENT = frozenset({"code", "pre", "script", "style", "kbd", "textarea"})
DOCUMENTATION = re.compile(r'<div class="doc">.*?</div>|<(p|td) lang="en">.*?</\1>', re.DOTALL)
"""Of configs: Kafka's, in English; of the API: that of its document."""
ENGLISH = re.compile(r"\b[A-Za-z][a-z]+ [a-z]+ [a-z]+\b|[A-Z][a-z]+( [a-z]+)*")
"""What looks like a sentence or a label: three words, or words that begin with a capital."""
NAMES = frozenset({"Con", "Kafka", "English"})
STORED = "No broker has a rack, so the rack rule cannot be checked. Set broker.rack on every broker."
"""A sentence of a report: it is known by the real catalogue."""
OF_SESSIONS = "/account/tokens"
"""A page that no token may open."""
REFUSED = (
    ("GET", "/topics?at_offset=x", 400),
    ("GET", "/topics?at_offset=1&at=2026-01-01", 400),
    ("GET", "/topics?at_offset=999999999", 400),
    ("GET", "/topics?at=never", 400),
    ("GET", "/topics?at=2999-01-01", 400),
    ("GET", "/audit?at_offset=1", 400),
    ("GET", "/topics/absent", 404),
    ("GET", "/topics/absent/again/7", 404),
    ("GET", "/brokers/99", 404),
    ("GET", "/plans/99", 404),
    ("GET", "/nowhere", 404),
    ("GET", "/brokers/99/timeline", 404),
    ("GET", "/changes?about=weather", 400),
    ("GET", "/changes/999999999", 404),
    ("GET", "/changes/diff?from=x&to=1", 400),
    ("GET", "/flaps?from=x", 400),
    ("GET", "/flaps?from=9&to=3", 400),
    ("GET", "/flaps?window=week&page=x", 400),
    ("GET", "/changes?before=-1", 400),
    ("GET", "/flaps/elections?topic=a&partition=x", 400),
    ("GET", "/download?format=zip", 400),
    ("GET", "/download?format=csv&table=_", 400),
    ("GET", "/download?format=csv&table=topics&of=elsewhere", 400),
    ("GET", "/download?format=csv&table=absent&of=/topics", 404),
    ("GET", "/login?next=//[", 400),
    ("PUT", "/topics", 405),
    ("POST", "/topics?name=x", 400),
)
"""Requests of pages that are refused, with their status."""
OPEN, CLOSE = "\u27e6", "\u27e7"


class Bracketed(dict[str, str]):
    """A catalogue of a language that is English in brackets."""

    def get(self, key: str, default: Any = None) -> Any:
        return f"{OPEN}{key if default is None else default}{CLOSE}"


class Reader(HTMLParser):
    """The texts of a page that stand outside of brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.language = ""
        self.found: list[str] = []
        self._silent = 0
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read the attributes of an element."""
        if tag == "html":
            self.language = dict(attrs).get("lang") or ""
        self._silent += tag in SILENT
        for name, value in attrs:
            if name in SPOKEN and value:
                self._take(value, 0)

    def handle_endtag(self, tag: str) -> None:
        """Note that an element has ended."""
        self._silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        """Read a text; a sentence may contain elements."""
        self._depth = self._take(data, self._depth)

    def _take(self, text: str, depth: int) -> int:
        outside = []
        for part in re.split(f"([{OPEN}{CLOSE}])", text):
            depth += (part == OPEN) - (part == CLOSE)
            if depth == 0 and part not in {OPEN, CLOSE}:
                outside.append(part)
        if not self._silent:
            self.found += [part.strip() for part in outside if re.search(r"[A-Za-z]{2}", part)]
        return depth


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CombinedNode]:
    with combined_node(tmp_path / "node") as running:
        yield running


@pytest.fixture
def web(node: CombinedNode, tmp_path: Path) -> Iterator[LiveWeb]:
    with running_web(tmp_path / "web", node.bootstrap) as running:
        running.wait_ready().wait_for_broker()
        yield running


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Chinese be English in brackets."""
    catalogue = texts._catalogue
    monkeypatch.setattr(texts, "_catalogue", lambda language: Bracketed() if language == "zh" else catalogue(language))


def addresses() -> list[str]:
    """Return the address of every page that needs nothing but a topic."""
    found = (address.replace("accessible", TOPIC) for address in ADDRESSES.values() if GROUP not in address)
    return sorted(each for each in found if "{" not in each and "/messages/" not in each and each != OF_SESSIONS)


def test_no_page_has_a_sentence_that_is_not_translated(web: LiveWeb, bracketed: None) -> None:
    made = web.client.post(f"{web.cluster}/topics", json={"topic_name": TOPIC, "partitions_count": 60})
    assert made.status_code == 201, made.text
    assert len(addresses()) > 30
    left = {}
    for method, address, status in [*(("GET", each, 200) for each in addresses()), *REFUSED]:
        answer = web.client.request(method, address, headers=CHINESE)
        reader = Reader()
        reader.feed(DOCUMENTATION.sub("", answer.text))
        assert (answer.status_code, reader.language) == (status, "zh"), address
        texts_left = {each for each in reader.found if is_english(each)} - NAMES - {STORED}
        if texts_left:
            left[address] = sorted(texts_left)
    assert left == {}


def test_partitions_and_weekdays_are_told_in_chinese() -> None:
    line = (
        "topic a: p3 leader 2→none, isr [2,4]→[4], directory of replicas 1, 2, unclean, recovering, partitionEpoch 17"
    )
    (run, *_) = due_texts(ScheduleSpec(cron="0 6 * * mon"))
    assert (change_lines.said(line), run[:4]) == (line, "Mon ")
    with texts.speaking("zh"):
        assert texts.shown(change_lines.said(line)) == (
            "主题 a：p3 领导者 2→无，isr [2,4]→[4]，副本 1, 2 的目录，不干净，正在恢复，partitionEpoch 17"
        )
        assert texts.shown(run).startswith("周一 ")


def is_english(text: str) -> bool:
    """Return whether a text of a page should have been in brackets."""
    return any(found[0].count(" ") >= 2 or found[0] == text for found in ENGLISH.finditer(text))
