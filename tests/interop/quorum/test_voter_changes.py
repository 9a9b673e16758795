"""Voters added and removed by Apache's tool under our leader (KIP-853)."""

import asyncio
from pathlib import Path

import pytest

from kraft_core.storage.format import FormatRequest, format_storage
from tests.interop import kafka
from tests.interop.admin.tools import QUORUM, Tools
from tests.interop.conclave import Quorum, describe_quorum, quorum

pytestmark = pytest.mark.interop


def members(found: Quorum) -> tuple[set[int], set[int]]:
    """Return voters and observers as the current leader reports them."""
    partition = kafka.wait_until(
        lambda: asyncio.run(describe_quorum(found.port_of(found.wait_for_leader()))),
        kafka.PATIENCE_S,
        "the leader answers",
    )
    return {each.replica_id for each in partition.current_voters}, {each.replica_id for each in partition.observers}


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
        kafka.wait_until(lambda: members(found) == ({1}, {2}), kafka.PATIENCE_S, "node 2 observes")

        bootstrap = ("--bootstrap-controller", f"127.0.0.1:{found.port_of(1)}")
        add = (*bootstrap, "--command-config", found.config_of(2), "add-controller")
        added = tools.attempt_when_loaded(QUORUM, *add)
        assert "Added controller 2" in added.text, added
        assert members(found)[0] == {1, 2}
        directory_id = next(
            line.partition("=")[2]
            for line in (data / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id")
        )
        key = ("--controller-id", "2", "--controller-directory-id", directory_id)
        removed = tools.attempt_when_loaded(QUORUM, *bootstrap, "remove-controller", *key)
        assert "Removed" in removed.text, removed
        assert members(found)[0] == {1}
        assert found.processes[1].alive
        assert found.processes[2].alive
