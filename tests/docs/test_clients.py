"""The examples of docs/clients.md: commands and the test kit run as they are shown, all others import what exists."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conclave.testing import Cluster
from tests.docs.markdown import DOCS, fenced, section

PAGE = (DOCS / "clients.md").read_text()
RECORDS = section(PAGE, "Records on the command line")
EXAMPLES = fenced(PAGE, "python")
PATIENCE_S = 60


def test_commands_of_produce_and_consume_run_as_they_are_shown(tmp_path: Path) -> None:
    bounded, following = fenced(RECORDS, "console")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Cluster() as cluster:
        for line in bounded.splitlines():
            text = line.removeprefix("$ ").replace("localhost:9092", cluster.bootstrap_servers)
            outcome = subprocess.run(
                ["bash", "-o", "pipefail", "-c", text],
                capture_output=True,
                text=True,
                env={**os.environ, "PATH": path},
                cwd=tmp_path,
                timeout=PATIENCE_S,
            )
            assert (outcome.returncode, outcome.stderr) == (0, ""), line
            assert bool(outcome.stdout) == (line.split()[1:3] != ["conclave", "produce"] and "produce" not in line), (
                line
            )
    assert following.startswith("$ conclave consume")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[-1].strip())
def test_an_example_in_python_compiles_and_imports_what_exists(example: str) -> None:
    compile(example, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    imports: list[ast.stmt] = [
        node for node in ast.parse(example).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, []), "imports", "exec"), {})


def test_the_example_of_the_test_kit_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(fenced(section(PAGE, "Test kit"), "python")[0], {})
    assert capsys.readouterr().out.startswith("127.0.0.1:")
