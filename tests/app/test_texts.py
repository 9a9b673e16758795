"""Texts in the language of the reader, and the completeness of the catalogues."""

import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.pofile import read_po

from app import texts
from app.http.templating import folder, make_environment
from app.texts import joined, phrase, phrases, preferred, recognised, shown, speaking

FOLDER = Path(texts.__file__).parent / "languages"
ROOT = FOLDER.parents[1]
PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]")
TAG = re.compile(r"</?[a-z][^>]*>")
JINJA = re.compile(r"\{#.*?#\}|\{% *trans\b.*?\{% *endtrans *%\}|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
UNSPOKEN = re.compile(r"<(code|pre|script|kbd|svg)\b[^>]*>.*?</\1>", re.DOTALL)
SPOKEN_ATTRIBUTE = re.compile(r'\b(?:title|aria-label|placeholder|alt)="([^"]*)"')
SAME = frozenset(["Conclave", "Con", "clave", "CSV", "JSON", "HTTP", "UTC", "REST", "ACL", "null"])
"""Words that are the same in every language. "Con" and "clave" are the halves of the name."""
EXAMPLES = frozenset(
    {"orders-*, payments", "topic/orders", "User:alice", "User:bob", "orders", "customer.id"}
    | {"51200 or 2026-01-31T12:00", "orders 0 1,2,3", "4:/data/a"}
)
"""What could be typed into a field."""


@pytest.fixture
def small_catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Chinese that knows four sentences, each form of them as `_catalogue` has it."""
    known = {
        "Broker %(id)s": "代理 %(id)s",
        "%(count)s topic": "%(count)s 个主题",
        "%(count)s topics": "%(count)s 个主题",
        "%(who)s is <b>fenced</b>": "%(who)s <b>已隔离</b>",
        ", ": "、",
    }
    monkeypatch.setattr(texts, "_catalogue", lambda language: known if language == "zh" else {})
    with speaking("zh"):
        yield


def test_a_text_is_english_until_it_is_shown(small_catalogue: None) -> None:
    broker = phrase("Broker %(id)s", id=3)
    topics = phrases("%(count)s topic", "%(count)s topics", 2)
    both = joined(", ", [broker, topics, "x"])
    assert (broker, topics, both) == ("Broker 3", "2 topics", "Broker 3, 2 topics, x")
    assert shown(both) == "代理 3、2 个主题、x"
    assert shown(phrase("No such sentence")) == "No such sentence"
    assert shown("Broker %(id)s") == "Broker %(id)s"
    with speaking("en"):
        assert shown(both) == "Broker 3, 2 topics, x"


def test_a_sentence_that_was_stored_in_english_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "Broker %(id)s is down.": "代理 %(id)s 已停机。",
        "Waits: %(reason)s": "等待：%(reason)s",
        "%(count)s topic was moved.": "已移动 %(count)s 个主题。",
        "%(count)s topics were moved.": "已移动 %(count)s 个主题。",
        "%(a)s, %(b)s": "%(b)s",
        "done": "完成",
        "Brokers": "Broker",
    }
    monkeypatch.setattr(texts, "_catalogue", lambda language: known if language == "zh" else {})
    wait = recognised("Waits: Broker 3 is down.")
    assert (wait, pickle.loads(pickle.dumps(wait))) == ("Waits: Broker 3 is down.",) * 2
    assert shown(wait) == "Waits: Broker 3 is down."
    with speaking("zh"):
        assert shown(wait) == "等待：代理 3 已停机。"
        assert shown(recognised("7 topics were moved.")) == "已移动 7 个主题。"
        assert shown(recognised("Broker (.*) is down.")) == "代理 (.*) 已停机。"
        assert shown(recognised("Broker Brokers is down.")) == "代理 Brokers 已停机。"
        assert [shown(recognised(each)) for each in ("done", "one, two", "Not known at all.", "")] == [
            "完成",
            "one, two",
            "Not known at all.",
            "",
        ]


def test_templates_translate_what_they_print_and_escape_its_values(small_catalogue: None) -> None:
    template = make_environment().from_string(
        '{{ broker }}|{{ _("Broker %(id)s", id="<i>") }}|'
        "{% trans who=broker %}{{ who }} is <b>fenced</b>{% endtrans %}|"
        "{% trans count=n %}{{ count }} topic{% pluralize %}{{ count }} topics{% endtrans %}|{{ hostile }}"
    )
    found = template.render(broker=phrase("Broker %(id)s", id=3), n=2, hostile=phrase("Broker %(id)s", id="<i>"))
    assert found == "代理 3|代理 &lt;i&gt;|代理 3 <b>已隔离</b>|2 个主题|代理 &lt;i&gt;"


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en;q=0.5, zh", "zh"),
        ("de, fr;q=0.9", "en"),
        ("de, zh;q=0.1", "zh"),
        ("zh;q=0", "en"),
        ("zh;q=x", "en"),
        (",;=,,zh-Hant-TW", "zh"),
        ("x" * 5_000 + ", zh", "en"),
    ],
)
def test_the_language_is_what_the_browser_likes_best(accepted: str, language: str) -> None:
    assert preferred(accepted) == language


def messages(path: Path) -> dict[str, Message]:
    with path.open("rb") as file:
        return {_key(each): each for each in read_po(file, abort_invalid=True) if each.id}


def _key(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def test_the_english_catalogue_is_that_of_the_sources(tmp_path: Path) -> None:
    found = tmp_path / "messages.pot"
    options = [
        "--mapping-file",
        "pyproject.toml",
        "--keywords",
        "phrase phrases:1,2 joined:1 catalogued",
        "--omit-header",
    ]
    command = [sys.executable, "-m", "babel.messages.frontend", "-q", "extract", *options, "--output-file", found, "."]
    subprocess.run(command, cwd=ROOT, check=True)
    assert messages(FOLDER / "messages.pot").keys() == messages(found).keys(), "make messages"


def test_every_sentence_has_its_chinese_with_the_same_values_and_tags() -> None:
    english, chinese = messages(FOLDER / "messages.pot"), messages(FOLDER / "zh.po")
    assert chinese.keys() == english.keys(), "make messages"
    missing = [
        key for key, each in chinese.items() if not (each.string if isinstance(each.string, str) else all(each.string))
    ]
    assert missing == []
    for key, each in chinese.items():
        assert not each.fuzzy, key
        said = each.string if isinstance(each.string, str) else each.string[0]
        wanted = (
            set(PLACEHOLDER.findall(key)) | {"count"} if not isinstance(each.id, str) else set(PLACEHOLDER.findall(key))
        )
        assert set(PLACEHOLDER.findall(said)) <= wanted, key
        assert wanted - {"count"} <= set(PLACEHOLDER.findall(said)) | {"count"}, key
        assert sorted(TAG.findall(said)) == sorted(TAG.findall(key)), key
        assert said.replace("%%", "").count("%") == len(PLACEHOLDER.findall(said)), key


def spoken(template: str) -> list[str]:
    """Return the texts of a template that are no sentences of the catalogue: between tags, and in attributes."""
    text = UNSPOKEN.sub(" ", JINJA.sub(" ", template))
    found = [each.strip() for each in (*SPOKEN_ATTRIBUTE.findall(text), *re.split(r"<[^>]*>|[a-z-]+=\"[^\"]*\"", text))]
    return [each for each in found if each not in EXAMPLES and set(re.findall(r"[A-Za-z]{2,}", each)) - SAME]


def test_words_of_a_template_outside_of_sentences_are_found() -> None:
    template = """{# a comment #}<p title="A title">{{ _("Marked") }} not <b>marked</b></p>
    {% trans %}Marked{% endtrans %}
    <code>code</code><input placeholder="{{ _("Marked") }}" aria-label="Of {{ x }}"><a href="/path">Conclave</a>"""
    assert spoken(template) == ["A title", "Of", "not", "marked"]


def test_templates_have_no_words_outside_of_sentences() -> None:
    found = {path.name: spoken(path.read_text()) for path in folder("templates").glob("*.html")}
    assert {name: words for name, words in found.items() if words} == {}


def test_sentences_that_follow_each_other_need_no_space_in_chinese() -> None:
    two = texts.sentences([texts.phrase("Nothing can be changed until a majority answers again."), "a", "B."])
    assert two == "Nothing can be changed until a majority answers again. a B."
    small = texts.capitalised(texts.phrase("broker '%(id)s' is not in the report.", id=7))
    assert small == "Broker '7' is not in the report."
    with texts.speaking("zh"):
        assert texts.shown(two).endswith("。a B.")
        assert "报告" in texts.shown(small)
