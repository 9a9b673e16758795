"""Apache's own command-line tools against our controllers."""

import re
from pathlib import Path

import pytest

from tests.interop import kafka
from tests.interop.conclave import running_quorum

pytestmark = pytest.mark.interop

QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


def test_kafka_metadata_quorum_reads_our_leader(tmp_path: Path) -> None:
    kafka.require()
    with running_quorum(tmp_path, 3) as quorum:
        leader_id = quorum.wait_for_leader()
        status = kafka.tool(QUORUM_TOOL, "--bootstrap-controller", quorum.bootstrap, "describe", "--status")
        assert re.search(rf"ClusterId:\s+{quorum.cluster_id}", status), status
        assert re.search(rf"LeaderId:\s+{leader_id}\b", status), status
        assert re.search(r"HighWatermark:\s+[1-9]\d*", status), status
        voters = re.search(r"CurrentVoters:\s+(.*)", status)
        assert voters is not None
        for directory_id, port in zip(quorum.directory_ids, quorum.ports, strict=True):
            assert directory_id in voters[1]
            assert f"CONTROLLER://127.0.0.1:{port}" in voters[1]
        replication = kafka.tool(QUORUM_TOOL, "--bootstrap-controller", quorum.bootstrap, "describe", "--replication")
        rows = [line.split() for line in replication.strip().splitlines()[1:]]
        states = {int(row[0]): row[-1] for row in rows}
        assert states == {node_id: "Leader" if node_id == leader_id else "Follower" for node_id in quorum.node_ids}


def test_kafka_features_and_kafka_cluster_read_our_controller(tmp_path: Path) -> None:
    kafka.require()
    with running_quorum(tmp_path, 1) as quorum:
        features = kafka.tool(
            "org.apache.kafka.tools.FeatureCommand", "--bootstrap-controller", quorum.bootstrap, "describe"
        )
        assert re.search(r"metadata\.version.*FinalizedVersionLevel: 4\.3-IV0", features), features
        cluster = kafka.tool(
            "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-controller", quorum.bootstrap
        )
        assert quorum.cluster_id in cluster
