"""Links lead somewhere, and the commands that the pages show exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.main import app
from tests.docs.markdown import DOCS, PAGES, ROOT, anchors, fenced, links

CONCLAVE = typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in links(page.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link} does not exist"
        assert target.is_relative_to(ROOT), f"{page.name}: {link} leads out of the project"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{page.name}: {link} has no such heading"


def conclave_commands(text: str) -> list[list[str]]:
    """The arguments of every `conclave …` line in a console block, continued lines joined."""
    found = []
    for block in fenced(text, "console"):
        for line in block.replace("\\\n", " ").splitlines():
            words = re.split(r"\s(?:\||&&|>|#)\s", line.lstrip("$# "))[0]
            match = re.match(r"(?:sudo (?:-u \S+ )?)?(?:[A-Z_]+=\S+ )*(?:\S*/)?conclave(?:\s(.*)|)$", words)
            if match:
                found.append(shlex.split((match[1] or "").replace("…", "")))
    return found


COMMANDS = [
    pytest.param(words, id=f"{page.stem}: {' '.join(words)[:60]}")
    for page in PAGES
    for words in conclave_commands(page.read_text())
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_that_is_shown_exists_with_its_options(words: list[str]) -> None:
    command: Any = CONCLAVE
    rest = list(words)
    while rest and not rest[0].startswith("-") and (known := getattr(command, "commands", None)):
        name = rest.pop(0)
        assert name in known, f"conclave has no command {name}"
        command = known[name]
    known_options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word.startswith("-") and not word[1:].isdecimal():  # else a negative number as a value
            assert word.partition("=")[0] in known_options | {"--help"}, f"{command.name} has no option {word}"


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) > 10
    assert {path.name for path in DOCS.glob("*.md")} >= {
        "architecture.md",
        "compatibility.md",
        "configuration.md",
        "operations.md",
        "reports.md",
        "security.md",
    }


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_lines_of_text_have_at_most_120_characters(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not [line for line in text.splitlines() if len(line) > 120 and not line.lstrip().startswith(("|", "!["))]
