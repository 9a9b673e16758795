"""The fixtures of the pytest plug-in, in a pytest of their own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.tracked_files import ROOT

TESTS = """
from kraft_core.protocol.errors import KafkaError
import pytest

def test_topics_have_names_of_their_own(conclave_cluster, conclave_topic):
    first, second = conclave_topic(), conclave_topic(partitions=3, configs={"cleanup.policy": "compact"})
    assert first != second
    assert first.startswith("test_topics_have_names")
    with pytest.raises(KafkaError):
        conclave_cluster.create_topic(first)

@pytest.mark.parametrize("case", ["a b/ü"])
def test_any_name_of_a_test_will_do(conclave_topic, case):
    assert conclave_topic().startswith("test_any_name_of_a_test_will_do-a-b")

def test_fails(conclave_cluster):
    raise AssertionError(conclave_cluster.bootstrap_servers)
"""


def test_tests_share_a_cluster_and_a_failure_names_its_logs(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conclave.pytest_plugin", "--basetemp", str(tmp_path / "t")]
    outcome = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "1 failed, 2 passed" in outcome.stdout, outcome.stdout + outcome.stderr
    assert f"Logs and data of the cluster: {tmp_path / 't' / 'conclave0'}" in outcome.stdout


def test_pytest_finds_the_plug_in_by_its_entry_point() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"conclave": "conclave.pytest_plugin"}
