"""House limits, held by a test: sizes, leftovers and names that do not belong in the project."""

import ast
import re
from pathlib import Path

import pytest

from tests.tracked_files import ROOT, tracked

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LEFTOVERS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
BARE_SUPPRESSION = re.compile(r"#\s*(type:\s*ignore|noqa)(\[[^\]]*\]|:\s*[A-Z0-9, ]+)?\s*$")


SOURCES = [path for path in tracked("*.py") if "versions" not in path.parts]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def functions_too_long(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [
        f"{name_of(path)}:{node.lineno} {node.name} has {length} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_has_at_most_500_lines(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MODULE_LINES_MAX, f"{name_of(path)} has {lines} lines; cut it by subject"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_function_has_at_most_70_lines(path: Path) -> None:
    assert functions_too_long(path) == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_left_for_later_and_every_suppression_has_a_reason(path: Path) -> None:
    text = path.read_text()
    found = [
        f"{name_of(path)}:{number} {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if LEFTOVERS.search(line) or BARE_SUPPRESSION.search(line)
    ]
    assert found == []


def test_templates_name_no_foreign_host() -> None:
    """Scripts and styles come from this process alone; a page works without any other network."""
    foreign = re.compile(r"""(src|href)=["'](https?:)?//""")
    found = [
        f"{name_of(path)}: {match.group(0)}"
        for path in tracked("templates/*.html", "templates/**/*.html", "*.css")
        for match in foreign.finditer(path.read_text())
        if "w3.org" not in path.read_text()[match.start() : match.start() + 80]
    ]
    assert found == []


def test_the_limit_on_functions_can_fail(tmp_path: Path) -> None:
    long = tmp_path / "long.py"
    long.write_text("def grows() -> None:\n" + "    pass\n" * FUNCTION_LINES_MAX)
    assert functions_too_long(long) == ["long.py:1 grows has 71 lines"]
