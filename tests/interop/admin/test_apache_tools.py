"""Apache's kafka-metadata-quorum on three of our controllers; see test_same_outputs.py for the other tools."""

import re
from pathlib import Path

import pytest

from tests.interop.admin.tools import QUORUM, Printed, Tools
from tests.interop.conclave import running_quorum
from tests.interop.kafka import PATIENCE_S, wait_until

pytestmark = pytest.mark.interop


def test_kafka_metadata_quorum_reads_our_leader(tmp_path: Path, tools: Tools) -> None:
    with running_quorum(tmp_path, 3) as quorum:

        def described() -> tuple[int, Printed, Printed] | None:
            """Return both reports under one leader, and the leader."""
            leader_id = quorum.wait_for_leader()
            status, replication = (
                tools.attempt_when_loaded(QUORUM, "--bootstrap-controller", quorum.bootstrap, "describe", report)
                for report in ("--status", "--replication")
            )
            return (leader_id, status, replication) if quorum.wait_for_leader() == leader_id else None

        leader_id, *reports = wait_until(described, PATIENCE_S, "one leader for as long as both reports take")
        assert [code for code, _ in reports] == [0, 0], reports
        status, replication = (text for _, text in reports)
        assert re.search(rf"ClusterId:\s+{quorum.cluster_id}", status), status
        assert re.search(rf"LeaderId:\s+{leader_id}\b", status), status
        assert re.search(r"HighWatermark:\s+[1-9]\d*", status), status
        voters = re.search(r"CurrentVoters:\s+(.*)", status)
        assert voters is not None
        for directory_id, port in zip(quorum.directory_ids, quorum.ports, strict=True):
            assert directory_id in voters[1]
            assert f"CONTROLLER://127.0.0.1:{port}" in voters[1]
        rows = [line.split() for line in replication.strip().splitlines()[1:]]
        states = {int(row[0]): row[-1] for row in rows}
        assert states == {node_id: "Leader" if node_id == leader_id else "Follower" for node_id in quorum.node_ids}
