"""Our broker advertises the features that it supports, and a client that needs more is rejected at once."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
)
from kraft_core.protocol.metadata_version import BROKER_FEATURES, FEATURES
from tests.interop import conclave, kafka
from tests.interop.conclave import Quorum, RawBroker
from tests.interop.embedded.embedded_node import running_node
from tests.interop.embedded.test_embedded_broker_only import our_broker

pytestmark = pytest.mark.interop

NOT_SERVED = {"group.version", "share.version", "streams.version", "transaction.version"}


def finalized(port: int) -> dict[str, int]:
    """Return the finalized levels above 0."""
    answer = asyncio.run(conclave.call(port, ApiVersionsRequest("test", "1"), 4))
    return {each.name: each.max_version_level for each in answer.finalized_features}


async def register(quorum: Quorum, broker_id: int) -> None:
    """Register a broker that claims to support every level, like Apache's brokers and older ones of ours."""
    client = ControllerClient([("127.0.0.1", port) for port in quorum.ports], cluster_id=quorum.cluster_id)
    await RawBroker(broker_id, quorum.cluster_id, client).register(until_unfenced=False)
    client.close()


async def lower(quorum: Quorum) -> None:
    client = ControllerClient([("127.0.0.1", port) for port in quorum.ports], cluster_id=quorum.cluster_id)
    updates = tuple(
        UpdateFeaturesRequestFeatureUpdateKey(feature=name, max_version_level=0, upgrade_type=2) for name in NOT_SERVED
    )
    answer = await client.request(UpdateFeaturesRequest(feature_updates=updates))
    assert isinstance(answer, UpdateFeaturesResponse)
    assert answer.error_code == ErrorCode.NONE, answer
    client.close()


def test_a_new_node_advertises_its_features_and_rejects_the_new_consumer_protocol_at_once(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        answer = asyncio.run(conclave.call(node.port, ApiVersionsRequest("test", "1"), 4))
        assert {each.name for each in answer.supported_features} == set(BROKER_FEATURES)
        assert set(FEATURES) - set(BROKER_FEATURES) == NOT_SERVED
        assert not NOT_SERVED & set(finalized(node.port))
        admin = AdminClient({"bootstrap.servers": node.address})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(kafka.PATIENCE_S)
        consumer = Consumer({"bootstrap.servers": node.address, "group.id": "new", "group.protocol": "consumer"})
        consumer.subscribe(["t"])

        refused = kafka.wait_until(lambda: consumer.poll(0.5), kafka.PATIENCE_S, "an error")

        assert refused.error().code() == KafkaError._FATAL  # confluent-kafka's public name
        assert "not supported" in refused.error().str()
        consumer.close()
        java = subprocess.run(
            kafka.java(
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                *("--bootstrap-server", node.address, "--topic", "t", "--group", "newer", "--timeout-ms", "60000"),
                *("--consumer-property", "group.protocol=consumer"),
            ),
            capture_output=True,
            text=True,
            timeout=kafka.PATIENCE_S,
        )
        assert "UnsupportedVersionException" in java.stderr + java.stdout, java.stderr + java.stdout


def test_a_broker_lowers_features_it_no_longer_supports_when_it_is_the_only_one(tmp_path: Path) -> None:
    with conclave.running_quorum(tmp_path / "quorum", 1) as quorum:
        asyncio.run(register(quorum, 11))
        assert set(finalized(quorum.ports[0])) >= NOT_SERVED

        with our_broker(tmp_path / "b", 11, quorum) as (process, address):
            assert "features_lowered" in process.output
            assert not set(finalized(int(address.rpartition(":")[2]))) & NOT_SERVED


def test_a_broker_does_not_lower_features_that_others_may_use_and_logs_the_command(tmp_path: Path) -> None:
    with conclave.running_quorum(tmp_path / "quorum", 1) as quorum:
        asyncio.run(register(quorum, 99))

        def operator(process: kafka.Process) -> None:
            process.wait_for_output("features_not_served_by_this_broker")
            line = next(each for each in process.output.splitlines() if "features_not_served" in each)
            assert "ERROR" in line
            assert "brokers [99] are registered" in line
            assert "downgrade --feature group.version=0 --feature share.version=0" in line
            assert set(finalized(quorum.ports[0])) >= NOT_SERVED
            asyncio.run(lower(quorum))

        with our_broker(tmp_path / "b", 11, quorum, before=operator) as (process, _):
            assert process.output.count("features_not_served_by_this_broker") == 1
