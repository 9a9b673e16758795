"""Every reference to a document, in code and in documents, leads to a file and a heading of this repository."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.markdown import ROOT, anchors
from tests.tracked_files import tracked

SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".toml", ".java", ".txt", ""}
DOCUMENT = re.compile(r"\b((?:docs/|tests/golden/)?[A-Za-z_-]+\.md)(#[a-z0-9_-]+)?")
ELSEWHERE = re.compile(r"\b(INTEROP|RELIABILITY|DESIGN|PLACEMENT|STYLE)\b(?! CHARACTER)")
"""Papers that are not part of the repository."""


def texts() -> Iterator[tuple[Path, str]]:
    """All tracked text files, with what they say."""
    for path in tracked("*"):
        if path.suffix in SUFFIXES and path != Path(__file__):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def lines() -> Iterator[tuple[str, str]]:
    """Each line of them, with file and number."""
    for path, text in texts():
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def is_there(name: str, beside: Path, anchor: str | None) -> bool:
    """Whether a document exists, from the root or beside the file that names it, and has the heading."""
    for found in (ROOT / name, beside / name, ROOT / "docs" / name):
        if found.is_file():
            return anchor is None or anchor[1:] in anchors(found.read_text())
    return False


def test_documents_that_are_named_exist_with_their_headings() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} names {name}{anchor or ''}"
        for path, text in texts()
        for name, anchor in DOCUMENT.findall(text)
        if not is_there(name, path.parent, anchor or None)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_refers_to_papers_that_readers_do_not_have() -> None:
    wrong = [f"{where}: {line.strip()}" for where, line in lines() if ELSEWHERE.search(line)]
    assert not wrong, "\n".join(wrong)
