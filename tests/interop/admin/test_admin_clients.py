"""The admin clients of confluent-kafka, aiokafka and kafka-python on Apache's brokers under our controller.

None of the three supports a controller's listener (bootstrap.controllers, KIP-919): they begin with Metadata, which no
controller serves. The Java client does; see test_same_outputs.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka import admin as aio
from aiokafka.admin import config_resource as aio_configs
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import admin as confluent
from kafka import admin as python
from kafka.errors import InvalidPartitionsError, KafkaError, TopicAlreadyExistsError

from tests.interop import conclave, kafka
from tests.interop.admin.tools import STORAGE, Tools

pytestmark = pytest.mark.interop

FIRST, SECOND = 101, 102
SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "leader_imbalance_check_interval_seconds": 86_400,
    "broker_session_timeout_ms": 3_600_000,  # a busy machine must not fence a broker
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[str]:
    """Two of Apache's brokers in one JVM, under one of our controllers."""
    folder = tmp_path_factory.mktemp("admin-clients")
    with conclave.running_quorum(folder, 1, **SETTINGS) as quorum:
        ports = kafka.free_ports(2)
        configs = [format_broker(quorum, tools, *broker) for broker in zip((FIRST, SECOND), ports, strict=True)]
        program = str(Path(__file__).with_name("Nodes.java"))
        with kafka.Process("brokers", kafka.java(program, *configs), folder) as brokers:
            brokers.wait_for_output("all nodes started", 2 * kafka.PATIENCE_S)
            yield ",".join(f"127.0.0.1:{port}" for port in ports)


def format_broker(quorum: conclave.Quorum, jvm: Tools, broker_id: int, port: int) -> str:
    """Write a broker's configuration, format it, and return the path of the configuration."""
    folder = quorum.folder / f"broker-{broker_id}"
    folder.mkdir()
    settings = kafka.broker_settings(broker_id, port, folder, quorum.bootstrap)
    settings |= {key.replace("_", "."): value for key, value in SETTINGS.items()}
    config = kafka.write_properties(folder / "server.properties", {**settings, "log.cleaner.dedupe.buffer.size": 2**22})
    jvm.run(STORAGE, "format", "-t", quorum.cluster_id, "-c", config, "--no-initial-controllers")
    return str(config)


def done(futures: dict) -> list:
    """Wait for the futures of confluent-kafka."""
    return [future.result(kafka.PATIENCE_S) for future in futures.values()]


def shows(condition: Callable[[], object], what: str) -> None:
    """Wait until the broker has applied what the controller has written.

    The client chooses one of the two brokers for each request.
    """
    kafka.wait_until(
        condition, kafka.PATIENCE_S, what, not_yet=(confluent_kafka.KafkaException, KafkaError, LookupError)
    )


def fill(bootstrap: str, topic: str) -> None:
    """Write ten records to partition 0."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, value=f"{number}", partition=0)
    assert producer.flush(kafka.PATIENCE_S) == 0


class TestConfluentKafka:
    """librdkafka's admin client."""

    @pytest.fixture
    def admin(self, bootstrap: str) -> confluent.AdminClient:
        return confluent.AdminClient({"bootstrap.servers": bootstrap})

    def test_topics_are_made_grown_described_trimmed_and_deleted(
        self, admin: confluent.AdminClient, bootstrap: str
    ) -> None:
        topic = confluent.NewTopic("c", 1, replica_assignment=[[FIRST, SECOND]], config={"retention.ms": "100000"})
        done(admin.create_topics([topic]))
        with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
            done(admin.create_topics([topic]))
        done(admin.create_partitions([confluent.NewPartitions("c", 3)]))
        with pytest.raises(confluent_kafka.KafkaException, match="INVALID_PARTITIONS"):
            done(admin.create_partitions([confluent.NewPartitions("c", 2)]))

        def described() -> list:
            (found,) = done(admin.describe_topics(confluent_kafka.TopicCollection(["c"])))
            return [(len(found.partitions), [node.id for node in found.partitions[0].replicas])]

        shows(lambda: described() == [(3, [FIRST, SECOND])], "the topic has three partitions")
        fill(bootstrap, "c")
        up_to = [confluent_kafka.TopicPartition("c", 0, 4)]
        shows(lambda: [each.low_watermark for each in done(admin.delete_records(up_to))] == [4], "the log begins at 4")
        done(admin.delete_topics(["c"]))
        shows(lambda: "c" not in admin.list_topics(timeout=10).topics, "the topic is gone")

    def test_configs_change_by_increments(self, admin: confluent.AdminClient) -> None:
        done(admin.create_topics([confluent.NewTopic("c-configs", 1, 2)]))

        def change(value: str) -> Any:
            entry = confluent.ConfigEntry("retention.ms", value, incremental_operation=confluent.AlterConfigOpType.SET)
            return confluent.ConfigResource(confluent.ResourceType.TOPIC, "c-configs", incremental_configs=[entry])

        done(admin.incremental_alter_configs([change("123456")]))
        with pytest.raises(confluent_kafka.KafkaException, match="INVALID_CONFIG"):
            done(admin.incremental_alter_configs([change("soon")]))
        resource = confluent.ConfigResource(confluent.ResourceType.TOPIC, "c-configs")
        shows(lambda: done(admin.describe_configs([resource]))[0]["retention.ms"].value == "123456", "the new value")

    def test_acls_are_given_found_and_taken_back(self, admin: confluent.AdminClient) -> None:
        bound = (confluent.ResourceType.TOPIC, "c-acls", confluent.ResourcePatternType.PREFIXED, "User:ann", "*")
        binding = confluent.AclBinding(*bound, confluent.AclOperation.READ, confluent.AclPermissionType.ALLOW)
        query = confluent.AclBindingFilter(*bound, confluent.AclOperation.ANY, confluent.AclPermissionType.ANY)
        done(admin.create_acls([binding]))
        shows(lambda: admin.describe_acls(query).result(30) == [binding], "the broker knows the ACL")
        assert done(admin.delete_acls([query])) == [[binding]]
        shows(lambda: admin.describe_acls(query).result(30) == [], "the ACL is gone")

    def test_scram_users_come_and_go(self, admin: confluent.AdminClient) -> None:
        info = confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 8192)
        done(admin.alter_user_scram_credentials([confluent.UserScramCredentialUpsertion("carl", info, b"secret")]))

        def known() -> list:
            found = done(admin.describe_user_scram_credentials(["carl"]))[0].scram_credential_infos
            return [(each.mechanism, each.iterations) for each in found]

        shows(lambda: known() == [(confluent.ScramMechanism.SCRAM_SHA_256, 8192)], "the user is known")
        deletion = confluent.UserScramCredentialDeletion("carl", confluent.ScramMechanism.SCRAM_SHA_256)
        done(admin.alter_user_scram_credentials([deletion]))
        with pytest.raises(confluent_kafka.KafkaException, match="RESOURCE_NOT_FOUND"):
            done(admin.alter_user_scram_credentials([deletion]))

    def test_the_cluster_and_its_elections(self, admin: confluent.AdminClient) -> None:
        both = {FIRST, SECOND}
        shows(lambda: {node.id for node in admin.describe_cluster().result(30).nodes} == both, "both brokers")
        done(admin.create_topics([confluent.NewTopic("c-elections", 1, replica_assignment=[[FIRST, SECOND]])]))
        partition = confluent_kafka.TopicPartition("c-elections", 0)
        result = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [partition]).result(30)
        assert result[partition].code() == confluent_kafka.KafkaError.ELECTION_NOT_NEEDED


class TestAiokafka:
    """Its requests have older versions than those of the other clients."""

    def test_topics_are_made_grown_configured_trimmed_and_deleted(self, bootstrap: str) -> None:
        asyncio.run(self._begin_and_close(bootstrap))

    async def _begin_and_close(self, bootstrap: str) -> None:
        admin = aio.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await self._live(admin, bootstrap)
        finally:
            await admin.close()

    async def _live(self, admin: aio.AIOKafkaAdminClient, bootstrap: str) -> None:
        topic = aio.NewTopic("a", 1, 2, topic_configs={"retention.ms": "100000"})
        assert errors(await admin.create_topics([topic])) == [0]
        assert errors(await admin.create_topics([topic])) == [36]  # TOPIC_ALREADY_EXISTS
        grown = await admin.create_partitions({"a": aio.NewPartitions(3)})
        assert [each[1] for each in grown.topic_errors] == [0]
        resource = aio_configs.ConfigResource(aio_configs.ConfigResourceType.TOPIC, "a", {"retention.ms": "123456"})
        for response in await admin.alter_configs([resource]):
            assert [each[0] for each in response.resources] == [0]
        await shown(lambda: self._has(admin, 3, "123456"))
        await asyncio.to_thread(fill, bootstrap, "a")
        await shown(lambda: self._trims(admin))
        await shown(lambda: self._knows_both_brokers(admin))
        assert [each[1] for each in (await admin.delete_topics(["a"])).topic_error_codes] == [0]

    async def _has(self, admin: aio.AIOKafkaAdminClient, partitions: int, retention_ms: str) -> None:
        (described,) = await admin.describe_topics(["a"])
        assert len(described["partitions"]) == partitions
        resource = aio_configs.ConfigResource(aio_configs.ConfigResourceType.TOPIC, "a")
        (response,) = await admin.describe_configs([resource])
        values = {entry[0]: entry[1] for entry in response.resources[0][4]}
        assert values.get("retention.ms") == retention_ms

    async def _trims(self, admin: aio.AIOKafkaAdminClient) -> None:
        partition = aiokafka.TopicPartition("a", 0)
        assert await admin.delete_records({partition: aio.RecordsToDelete(before_offset=4)}) == {partition: 4}

    async def _knows_both_brokers(self, admin: aio.AIOKafkaAdminClient) -> None:
        cluster = await admin.describe_cluster()
        assert {node["node_id"] for node in cluster["brokers"]} == {FIRST, SECOND}


async def shown(assertion: Callable[[], Awaitable[None]]) -> None:
    """Repeat an assertion until the broker has applied what the controller has written."""
    await conclave.retry(assertion, kafka.PATIENCE_S, (AssertionError, AioKafkaError))


def errors(response: object) -> list[int]:
    """Return the error codes of CreateTopics as aiokafka shows them."""
    return [each[1] for each in response.topic_errors]


class TestKafkaPython:
    """It supports more requests than the others: reassignments, features, the quorum."""

    @pytest.fixture
    def admin(self, bootstrap: str) -> Iterator[python.KafkaAdminClient]:
        client = python.KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        yield client
        client.close()

    def test_topics_are_made_grown_described_and_deleted(self, admin: python.KafkaAdminClient) -> None:
        admin.create_topics({"p": {"assignments": {0: [FIRST, SECOND]}, "configs": {"retention.ms": "100000"}}})
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics({"p": {"num_partitions": 1, "replication_factor": 1}})
        admin.create_partitions({"p": 3})
        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({"p": 2})
        shows(lambda: len(admin.describe_topics(["p"])[0]["partitions"]) == 3, "three partitions")
        admin.delete_topics(["p"])
        shows(lambda: "p" not in admin.list_topics(), "the topic is gone")

    def test_configs_are_set_appended_and_reset(self, admin: python.KafkaAdminClient) -> None:
        admin.create_topics({"p-configs": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)

        def change(**configs: object) -> python.ConfigResource:
            return python.ConfigResource("TOPIC", "p-configs", {k.replace("_", "."): v for k, v in configs.items()})

        def value(name: str) -> str:
            found = admin.describe_configs([python.ConfigResource("TOPIC", "p-configs")], config_filter="all")
            return found["topic"]["p-configs"][name]["value"]

        admin.alter_configs([change(retention_ms="123456", cleanup_policy=("APPEND", "compact"))])
        shows(lambda: value("retention.ms") == "123456", "the value is set")
        shows(lambda: set(value("cleanup.policy").split(",")) == {"compact", "delete"}, "the value is appended")
        admin.reset_configs([change(retention_ms=None)])
        shows(lambda: value("retention.ms") == "604800000", "the default is back")
        refused = admin.alter_configs([change(retention_ms="soon")])
        assert "retention.ms" in str(refused)
        admin.alter_configs([python.ConfigResource("CLIENT_METRICS", "p-metrics", {"interval.ms": "1000"})])
        shows(lambda: "p-metrics" in str(admin.list_config_resources()), "the subscription is listed")

    def test_acls_are_given_found_and_taken_back(self, admin: python.KafkaAdminClient) -> None:
        pattern = python.ResourcePattern(python.ResourceType.TOPIC, "p-acls", python.ACLResourcePatternType.LITERAL)
        acl = python.ACL("User:ann", "*", python.ACLOperation.READ, python.ACLPermissionType.ALLOW, pattern)
        query = python.ACLFilter("User:ann", "*", python.ACLOperation.ANY, python.ACLPermissionType.ANY, pattern)
        assert admin.create_acls([acl])["succeeded"] == [acl]
        shows(lambda: admin.describe_acls(query)[0] == [acl], "the broker knows the ACL")
        ((_, deleted, _),) = admin.delete_acls([query])
        assert deleted == [acl]

    def test_scram_users_come_and_go(self, admin: python.KafkaAdminClient) -> None:
        mechanism = python.ScramMechanism.SCRAM_SHA_512
        assert admin.alter_user_scram_credentials(
            [python.UserScramCredentialUpsertion("pam", mechanism, "secret", iterations=4096)]
        ) == {"pam": None}
        shows(lambda: admin.describe_user_scram_credentials(["pam"])["pam"]["credential_infos"], "the user is known")
        assert admin.alter_user_scram_credentials([python.UserScramCredentialDeletion("pam", mechanism)]) == {
            "pam": None
        }

    def test_a_replica_moves_and_the_preferred_leader_is_elected(self, admin: python.KafkaAdminClient) -> None:
        topic = {"p-moves": {"assignments": {0: [FIRST, SECOND], 1: [FIRST, SECOND]}}}
        admin.create_topics(topic, wait_for_metadata=True)
        first, second = (kafka_python.TopicPartition("p-moves", partition) for partition in range(2))
        moved = admin.alter_partition_reassignments({first: [SECOND, FIRST], second: [SECOND]})
        assert moved == {first: None, second: None}

        def replicas() -> list:
            (found,) = admin.describe_topics(["p-moves"])
            found = sorted(found["partitions"], key=lambda each: each["partition_index"])
            return [(each["leader_id"], each["replica_nodes"]) for each in found]

        shows(lambda: not admin.list_partition_reassignments(), "the reassignments end")
        shows(lambda: replicas() == [(FIRST, [SECOND, FIRST]), (SECOND, [SECOND])], "the new replicas")
        admin.elect_leaders(0, {"p-moves": [0]})
        shows(lambda: replicas()[0][0] == SECOND, "the preferred replica leads")

    def test_features_and_the_quorum(self, admin: python.KafkaAdminClient) -> None:
        features = admin.describe_features()
        assert features["metadata.version"]["supported"] == (7, 30)
        assert features["transaction.version"]["finalized"] == (2, 2)
        admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)})
        shows(lambda: admin.describe_features()["transaction.version"]["finalized"] == (1, 1), "the level")
        admin.update_features({"transaction.version": 2})
        assert "'leader_id': 1" in str(admin.describe_metadata_quorum())
