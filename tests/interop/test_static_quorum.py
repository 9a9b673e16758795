"""A static quorum (controller.quorum.voters, kraft.version 0), with an Apache controller as one of its voters."""

import asyncio
from pathlib import Path

import pytest

from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, make_static, quorum
from tests.interop.log_files import committed_prefix, raw_batches

pytestmark = pytest.mark.interop


async def create(found: Quorum, name: str) -> int:
    client = controller_client(found.bootstrap)
    await RawBroker(101, found.cluster_id, client).register()
    answer = await client.request(create_topics([name]), timeout_ms=15_000)
    client.close()
    return answer.topics[0].error_code


def test_a_static_quorum_with_an_apache_voter_replicates(tmp_path: Path) -> None:
    kafka.require()
    with quorum(tmp_path, 3) as found:
        make_static(found)
        for node_id in found.node_ids[1:]:
            found.start(node_id)
        leader_id = found.wait_for_leader()
        found.start_apache(1)
        assert asyncio.run(create(found, "orders")) == 0

        def apache_has_it() -> bool:
            leader, apache = (raw_batches(found.folder_of(node_id)) for node_id in (leader_id, 1))
            return len(apache) > 3 and max(leader) - max(apache) < 5

        kafka.wait_until(apache_has_it, 30, "the Apache voter has the log")
        for process in found.processes.values():
            assert process.stop() in (0, 143)
        assert committed_prefix([raw_batches(found.folder_of(node_id)) for node_id in found.node_ids]) > 3
        state = (found.folder_of(leader_id) / "data" / "__cluster_metadata-0" / "quorum-state").read_text()
        assert '"data_version":0' in state
