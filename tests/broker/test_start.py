"""A broker that finds no leader of its cluster touches no log, reports it and keeps waiting."""

import asyncio
import logging
from pathlib import Path

import pytest

from kraft_core.broker import broker_server
from kraft_core.broker.broker_role import BrokerRole
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.storage.meta_properties import MetaProperties
from tests.broker.test_log_folders import FIRST, OLD, write
from tests.interop.conclave import Quorum, new_cluster_id
from tests.interop.kafka import PATIENCE_S, broker_settings, free_ports, write_properties


async def watch_it_wait(config: KafkaConfig, cluster_id: str, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Start a broker and check that it logs `reason` repeatedly, listens and does not fail."""
    (data,) = config.log_dirs
    meta = MetaProperties(cluster_id=cluster_id, node_id=config.node_id, directory_id=FIRST)
    role = BrokerRole(config, {data: meta}, None, ConnectionQuotas())
    await role.start()

    def reasons() -> list[str]:
        return [record.__dict__["waits_for"] for record in caplog.records if record.message == "broker_waits"]

    async with asyncio.timeout(PATIENCE_S):
        while sum(reason in each for each in reasons()) < 3:
            assert not role.failed.done(), role.failed.result()
            await asyncio.sleep(0.05)
    assert all(each.startswith("a leader of the quorum: ") for each in reasons())
    await role.stop(0)


@pytest.mark.parametrize("why", ["no controller answers", "another cluster"])
def test_a_broker_without_a_leader_waits_and_does_not_touch_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    monkeypatch.setattr(broker_server, "_REMINDER_S", 0.2)
    caplog.set_level(logging.WARNING)
    data = tmp_path / "first"
    write(tmp_path, "t", OLD, 3)
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    (port,) = free_ports(1)
    quorum = Quorum(tmp_path / "quorum", 1)
    settings = broker_settings(3, port, tmp_path, quorum.bootstrap) | {
        "log.dirs": data,
        "initial.broker.registration.timeout.ms": 300,  # much shorter than the broker is observed
        "broker.heartbeat.interval.ms": 100,
    }
    config = KafkaConfig.load(write_properties(tmp_path / "server.properties", settings))
    try:
        if why == "another cluster":
            quorum.format(1)
            quorum.start(1)
            quorum.wait_for_leader()

        reason = "INCONSISTENT_CLUSTER_ID" if why == "another cluster" else quorum.bootstrap
        asyncio.run(watch_it_wait(config, new_cluster_id(), caplog, reason))
    finally:
        quorum.stop_all()

    assert sorted(path.name for path in data.iterdir()) == [".kafka_cleanshutdown", "t-0"]


def test_requests_of_clients_that_have_left_are_dropped_while_the_broker_waits(tmp_path: Path) -> None:
    """Without a leader a broker may wait for days, and clients that time out retry continuously."""
    port, controller_port = free_ports(2)
    settings = broker_settings(3, port, tmp_path, f"127.0.0.1:{controller_port}")
    config = KafkaConfig.load(write_properties(tmp_path / "server.properties", settings))
    config.log_dirs[0].mkdir()
    meta = MetaProperties(cluster_id=new_cluster_id(), node_id=config.node_id, directory_id=FIRST)
    header = b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x00"  # Metadata v9
    frame = (len(header) + 100_000).to_bytes(4, "big") + header + bytes(100_000)

    async def run() -> None:
        role = BrokerRole(config, {config.log_dirs[0]: meta}, None, ConnectionQuotas())
        await role.start()
        (listener,) = role.listeners
        waiting = role.server._waiting
        assert waiting is not None
        _, staying = await asyncio.open_connection("127.0.0.1", port)
        staying.write(frame)
        for number in range(100):
            _, leaving = await asyncio.open_connection("127.0.0.1", port)
            leaving.write(frame)
            async with asyncio.timeout(PATIENCE_S):
                while listener.queued_bytes < 2 * 100_000:
                    await asyncio.sleep(0)
                leaving.transport.abort()
                while listener.queued_bytes > 110_000:
                    await asyncio.sleep(0)
            assert len(waiting) < 20, f"after {number} clients"
        assert len(waiting.open()) == 1
        staying.close()
        await role.stop(0)

    asyncio.run(run())
