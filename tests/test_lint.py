"""Format, style, types and layers of all sources, each by its tool, beside the other tests instead of before them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = (("mypy",), ("ruff", "format", "--check", "."), ("ruff", "check", "."), ("lint-imports",))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_sources_pass(command: tuple[str, ...]) -> None:
    tool = str(Path(sys.executable).parent / command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
