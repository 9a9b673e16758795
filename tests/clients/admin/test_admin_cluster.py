"""Admin on a real cluster of ours whose nodes die: the controller moves, a broker stays away."""

import asyncio

import pytest

from conclave.testing import Cluster
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.topics import NewTopic
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError


def test_a_dead_broker_costs_its_items_and_a_new_controller_takes_changes() -> None:
    async def work(cluster: Cluster) -> None:
        configs = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": 20_000}
        async with Admin(configs) as admin:
            assignments = {0: [1], 1: [2], 2: [3]}
            (await admin.create_topics([NewTopic(name="spread", replicas_assignments=assignments)])).all()
            partitions = [TopicPartition("spread", index) for index in assignments]
            ends = dict.fromkeys(partitions, OffsetSpec.LATEST)
            assert not (await admin.list_offsets(ends)).failed
            leader = (await admin.describe_metadata_quorum()).leader_id
            await asyncio.to_thread(cluster.kill, leader)

            created = await admin.create_topics([NewTopic(name="later", num_partitions=1)])
            assert list(created.all()) == ["later"]
            assert (await admin.describe_metadata_quorum()).leader_id != leader
            alive = sorted({1, 2, 3} - {leader})
            found = await admin.list_offsets(ends, timeout_ms=1_000)
            assert [each.partition + 1 for each in found.succeeded] == alive
            assert [each.partition + 1 for each in found.failed] == [leader]
            assert [error.code for error in found.failed.values()] == [ErrorCode.REQUEST_TIMED_OUT]

    with Cluster(brokers=3) as cluster:
        asyncio.run(work(cluster))


def test_a_closed_client_is_used_no_more() -> None:
    async def work() -> None:
        admin = Admin({"bootstrap.servers": "127.0.0.1:1"})
        running = asyncio.create_task(admin.list_topics())
        await asyncio.sleep(0)
        await admin.close()
        with pytest.raises(KafkaError, match="closed"):
            await running
        with pytest.raises(RuntimeError, match="closed"):
            await admin.list_topics()

    asyncio.run(work())
