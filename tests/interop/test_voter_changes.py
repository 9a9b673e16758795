"""Voters added and removed by Apache's own tool while our leader serves. KIP-853."""

import asyncio
from pathlib import Path

import pytest

from kraft_core.storage.format import FormatRequest, format_storage
from tests.interop import kafka
from tests.interop.conclave import Quorum, describe_quorum, quorum
from tests.interop.tools import QUORUM, Tools

pytestmark = pytest.mark.interop


def voters(found: Quorum, leader_id: int) -> set[int]:
    partition = asyncio.run(describe_quorum(found.port_of(leader_id)))
    return set() if partition is None else {voter.replica_id for voter in partition.current_voters}


def observers(found: Quorum, leader_id: int) -> set[int]:
    partition = asyncio.run(describe_quorum(found.port_of(leader_id)))
    return set() if partition is None else {each.replica_id for each in partition.observers}


def test_kafka_metadata_quorum_adds_and_removes_a_voter_of_ours(tmp_path: Path, tools: Tools) -> None:
    with quorum(tmp_path, 2) as found:
        found.format(1, initial_controllers=f"1@127.0.0.1:{found.port_of(1)}:{found.directory_ids[0]}")
        data = found.folder_of(2) / "data"
        joiner = FormatRequest(
            node_id=2, cluster_id=found.cluster_id, log_dirs=[data], metadata_log_dir=data, is_dynamic=True
        )
        format_storage(joiner, print)
        found.start(1)
        assert found.wait_for_leader() == 1
        found.start(2)
        kafka.wait_until(lambda: observers(found, 1) == {2}, 15, "node 2 observes")
        assert voters(found, 1) == {1}

        bootstrap = ("--bootstrap-controller", f"127.0.0.1:{found.port_of(1)}")
        added = tools.run(QUORUM, *bootstrap, "--command-config", found.config_of(2), "add-controller")
        assert "Added controller 2" in added
        assert voters(found, 1) == {1, 2}
        directory_id = next(
            line.partition("=")[2]
            for line in (data / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id")
        )
        key = ("--controller-id", "2", "--controller-directory-id", directory_id)
        removed = tools.run(QUORUM, *bootstrap, "remove-controller", *key)
        assert "Removed" in removed, removed
        assert voters(found, 1) == {1}
        assert found.processes[1].alive
        assert found.processes[2].alive
