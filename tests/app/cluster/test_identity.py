"""The web process follows the cluster of its setting or its database, and reports controllers of another one."""

import logging
from pathlib import Path

import pytest

from app.cluster.identity import remembered_cluster
from tests.app.live import CombinedNode, LiveWeb, combined_node, running_web
from tests.interop import conclave, kafka


def events(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == "foreign_cluster"]


def assert_says_both(web: LiveWeb, ours: str, theirs: str, caplog: pytest.LogCaptureFixture) -> None:
    def reasons() -> list[str]:
        found: list[str] = web.client.get("/readyz").json()["reasons"]
        return [reason for reason in found if ours in reason and theirs in reason]

    assert len(kafka.wait_until(reasons, 60, "/readyz names both clusters", 0.1)) == 1
    for path in ("/v3/clusters", f"/v3/clusters/{theirs}/topics"):
        answer = web.client.get(path)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:conclave:error:foreign-cluster")
        assert ours in answer.json()["message"]
        assert theirs in answer.json()["message"]
    page = web.client.get("/", headers={"Accept": "text/html"}).text
    assert ours in page
    assert theirs in page
    (line,) = events(caplog)
    assert line.levelno == logging.ERROR
    assert (vars(line)["cluster_id"], vars(line)["foreign_cluster_id"]) == (ours, theirs)


def test_a_setting_that_names_another_cluster_is_one_error_with_both_ids(
    node: CombinedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = node.cluster_id, conclave.new_cluster_id()
    with caplog.at_level(logging.INFO), running_web(tmp_path, node.bootstrap, cluster_id=ours) as web:
        assert_says_both(web, ours, theirs, caplog)
        assert web.services.cluster.image.offset < 0, "nothing of the other cluster is read"


def test_a_database_keeps_its_cluster_over_a_restart_and_a_swap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with combined_node(tmp_path / "first") as first, running_web(tmp_path, first.bootstrap) as web:
        ours = web.wait_ready().cluster.rpartition("/")[2]
        database = web.services.database
        kafka.wait_until(lambda: web.call(database.read(remembered_cluster)) == ours, 60, "the id is kept", 0.1)
    with caplog.at_level(logging.INFO), combined_node(tmp_path / "second") as second:
        theirs = second.cluster_id
        with running_web(tmp_path, second.bootstrap) as web:
            assert_says_both(web, ours, theirs, caplog)
        with running_web(tmp_path, second.bootstrap, cluster_id=theirs) as web:
            assert web.wait_ready().cluster.endswith(theirs), "the setting is the way out"
