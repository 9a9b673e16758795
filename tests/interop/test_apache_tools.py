"""Apache's kafka-metadata-quorum against three of our controllers; the other tools: test_same_outputs.py."""

import re
from pathlib import Path

import pytest

from tests.interop.conclave import running_quorum
from tests.interop.kafka import wait_until
from tests.interop.tools import QUORUM, Tools

pytestmark = pytest.mark.interop


def described(tools: Tools, bootstrap: str) -> str:
    """What the tool prints; "" while the controller that it asks cannot tell the metadata.version yet."""
    done = tools.attempt(QUORUM, "--bootstrap-controller", bootstrap, "describe", "--status")
    return done.text if done.code == 0 else ""


def test_kafka_metadata_quorum_reads_our_leader(tmp_path: Path, tools: Tools) -> None:
    with running_quorum(tmp_path, 3) as quorum:
        leader_id = quorum.wait_for_leader()
        status = wait_until(
            lambda: described(tools, quorum.bootstrap), 30, "every controller has loaded the metadata.version"
        )
        assert re.search(rf"ClusterId:\s+{quorum.cluster_id}", status), status
        assert re.search(rf"LeaderId:\s+{leader_id}\b", status), status
        assert re.search(r"HighWatermark:\s+[1-9]\d*", status), status
        voters = re.search(r"CurrentVoters:\s+(.*)", status)
        assert voters is not None
        for directory_id, port in zip(quorum.directory_ids, quorum.ports, strict=True):
            assert directory_id in voters[1]
            assert f"CONTROLLER://127.0.0.1:{port}" in voters[1]
        replication = tools.run(QUORUM, "--bootstrap-controller", quorum.bootstrap, "describe", "--replication")
        rows = [line.split() for line in replication.strip().splitlines()[1:]]
        states = {int(row[0]): row[-1] for row in rows}
        assert states == {node_id: "Leader" if node_id == leader_id else "Follower" for node_id in quorum.node_ids}
