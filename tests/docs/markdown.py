"""Just enough Markdown: headings, tables, fenced blocks and links of the project's own pages."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])

_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def fenced(text: str, language: str) -> list[str]:
    """The bodies of all fenced blocks in this language."""
    return [body for found, body in _FENCE.findall(text) if found == language]


def section(text: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same level or above. Raises ValueError without it."""
    lines = text.splitlines()
    level = 0
    found: list[str] = []
    for line in lines:
        match = _HEADING.match(line)
        if match and level and len(match[1]) <= level:
            break
        if level:
            found.append(line)
        elif match and match[2] == heading:
            level = len(match[1])
    if not level:
        raise ValueError(f"no heading '{heading}'")
    return "\n".join(found)


def rows(text: str) -> list[list[str]]:
    """The body rows of every table in the text, cell by cell; header and rule rows are left out."""
    found: list[list[str]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|--") and not following.startswith("|--"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def code_words(text: str) -> list[str]:
    """Everything in `backticks`."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Targets of links and images outside fenced blocks."""
    return _LINK.findall(_FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors GitHub gives the headings."""
    titles = [match[2] for line in _FENCE.sub("", text).splitlines() if (match := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
