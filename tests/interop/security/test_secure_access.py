"""Rights on our secured quorum: Apache's tools as users with and without rights, Apache's brokers as peers."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import CreateTopicsResponse, DescribeClusterRequest, DescribeClusterResponse
from kraft_core.security.listener_security import ClientSecurity, client_security
from kraft_core.storage.properties import parse_properties
from tests.interop import kafka
from tests.interop.admin.tools import ACLS, QUORUM, STORAGE, Printed, Tools
from tests.interop.conclave import create_topics
from tests.security.certificates import authority
from tests.security.secure_quorum import (
    PASSWORD,
    PLAIN_MODULE,
    SCRAM_MODULE,
    SecureQuorum,
    secure_quorum,
    stores,
    wait_for_voters,
)

pytestmark = pytest.mark.interop

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:controller;User:admin",
}


def user_config(found: SecureQuorum, name: str, password: str = PASSWORD) -> Path:
    """Return the client properties of another user."""
    module = PLAIN_MODULE if found.client_properties["sasl.mechanism"] == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="{name}" password="{password}";'
    return kafka.write_properties(
        found.folder / f"{name}.properties", {**found.client_properties, "sasl.jaas.config": jaas}
    )


def run(jvm: Tools, found: SecureQuorum, main_class: str, *arguments: str, config: Path | None = None) -> Printed:
    """Run one of Apache's tools against the controllers."""
    address = ("--bootstrap-controller", found.bootstrap, "--command-config", config or found.command_config)
    return jvm.attempt_when_loaded(main_class, *address, *arguments)


def wait_for_answer(ask: Callable[[], Printed], code: int, words: str) -> None:
    """Run a tool until its output is as expected: its controller applies a new right a moment after the leader."""
    seen = []

    def is_said() -> bool:
        seen.append(ask())
        return seen[-1].code == code and words in seen[-1].text

    try:
        kafka.wait_until(is_said, kafka.PATIENCE_S, repr(words))
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen[-1]}") from None


def load_properties(path: Path) -> dict[str, str]:
    """Read a properties file."""
    return parse_properties(path.read_text())


def add_user(found: SecureQuorum, name: str) -> None:
    """Add a user to the PLAIN users of every controller."""
    for node_id in found.node_ids:
        path = found.config_of(node_id)
        path.write_text(path.read_text().replace("user_admin=", f'user_{name}="{PASSWORD}" user_admin='))


def test_rights_are_granted_used_and_revoked(tmp_path: Path, tools: Tools) -> None:
    with secure_quorum(tmp_path, 3, "SASL_SSL", "PLAIN", **AUTHORIZER) as found:
        add_user(found, "alice")
        alice = user_config(found, "alice")
        for node_id in found.node_ids:
            found.format(node_id)
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        code, said = run(tools, found, QUORUM, "describe", "--status", config=alice)
        assert code != 0
        assert "ClusterAuthorizationException" in said, said
        code, said = run(
            tools, found, ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Alter", "--cluster"
        )
        assert code == 0, said
        wait_for_answer(lambda: run(tools, found, QUORUM, "describe", "--status", config=alice), 0, "LeaderId")
        right = "principal=User:alice, host=*, operation=ALTER, permissionType=ALLOW"
        wait_for_answer(lambda: run(tools, found, ACLS, "--list"), 0, right)

        asyncio.run(revoke_on_an_open_connection(found, client_security(load_properties(alice)), tools))
        assert "authorization_denied" in found.printed()
        assert PASSWORD not in found.printed()


async def revoke_on_an_open_connection(found: SecureQuorum, security: ClientSecurity, jvm: Tools) -> None:
    """The rights on Alice's open connection change with the ACLs, and the connection stays open."""
    connection = await KafkaConnection.open("127.0.0.1", found.port_of(1), "alice", 30_000, security)

    async def wait_for_rights(error: ErrorCode, operations: int) -> None:
        """Her controller need not be the leader, and applies a change a moment later."""
        seen: object = None
        async with asyncio.timeout(kafka.PATIENCE_S):
            while seen != (error, operations):
                answer = await connection.request(
                    DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
                )
                assert isinstance(answer, DescribeClusterResponse)
                seen = (answer.error_code, answer.cluster_authorized_operations)
                await asyncio.sleep(0.02)

    await wait_for_rights(ErrorCode.NONE, 1 << 7 | 1 << 8)
    client = found.client_of(security)
    created = await client.request(create_topics(["secret"]), 10_000)
    assert isinstance(created, CreateTopicsResponse)
    assert [topic.error_code for topic in created.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    client.close()
    said = await asyncio.to_thread(
        run,
        jvm,
        found,
        ACLS,
        "--remove",
        "--force",
        "--allow-principal",
        "User:alice",
        "--operation",
        "Alter",
        "--cluster",
    )
    assert said[0] == 0, said
    await wait_for_rights(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, DescribeClusterResponse().cluster_authorized_operations
    )
    connection.close()


def broker_config(found: SecureQuorum, folder: Path, port: int) -> Path:
    """Return the settings of an Apache broker with PLAIN and SCRAM clients; it is the controllers' user `broker`."""
    users = f'user_broker="{PASSWORD}" user_admin="{PASSWORD}"'
    plain = f'{PLAIN_MODULE} required username="broker" password="{PASSWORD}" {users};'
    base = kafka.broker_settings(11, port, folder, found.bootstrap)
    return kafka.write_properties(
        folder / "server.properties",
        {
            **base,
            **stores(folder, authority().issue("broker-11")),
            "listeners": f"CLIENT://127.0.0.1:{port}",
            "listener.security.protocol.map": f"CONTROLLER:{found.protocol},CLIENT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": plain,
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.controller.plain.sasl.jaas.config": plain,
            "authorizer.class.name": AUTHORIZER["authorizer_class_name"],
            "super.users": "User:controller;User:admin;User:broker",
        },
    )


def test_an_apache_broker_forwards_its_users_requests_and_our_controllers_authorize_them(
    tmp_path: Path, tools: Tools
) -> None:
    settings = {**AUTHORIZER, "super_users": "User:controller;User:admin;User:broker"}
    with secure_quorum(tmp_path, 3, "SASL_SSL", "PLAIN", **settings) as found:
        add_user(found, "broker")
        for node_id in found.node_ids:
            found.format(node_id)
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        folder = tmp_path / "broker"
        folder.mkdir()
        (port,) = kafka.free_ports(1)
        config = broker_config(found, folder, port)
        tools.run(STORAGE, "format", "-t", found.cluster_id, "-c", config, "-N")
        with kafka.start("apache-broker", config) as broker:
            broker.wait_for_output("Kafka Server started")
            at_broker = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
            as_admin = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": PASSWORD}
            as_carol = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "carol", "sasl.password": "carols-secret"}
            admin = AdminClient({**at_broker, **as_admin})
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(kafka.PATIENCE_S)
            add_scram_user(admin, "carol", "carols-secret")
            carol = AdminClient({**at_broker, **as_carol})
            with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                carol.create_topics([NewTopic("carols", 1, 1)])["carols"].result(kafka.PATIENCE_S)
            allow(admin, "carol", "orders")
            produce_and_consume({**at_broker, **as_carol}, "orders")
            with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                carol.delete_topics(["orders"])["orders"].result(kafka.PATIENCE_S)
        denials = [line for line in found.printed().splitlines() if "authorization_denied" in line]
        assert any("User:carol" in line and "127.0.0.1" in line and "TOPIC:carols" in line for line in denials), denials


def add_scram_user(admin: AdminClient, name: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(name, info, password.encode())
    admin.alter_user_scram_credentials([change])[name].result(kafka.PATIENCE_S)


def allow(admin: AdminClient, name: str, topic: str) -> None:
    """Allow a user to write and read a topic, in any group."""
    bindings = [
        AclBinding(kind, on, ResourcePatternType.LITERAL, f"User:{name}", "*", operation, AclPermissionType.ALLOW)
        for kind, on, operation in (
            (ResourceType.TOPIC, topic, AclOperation.WRITE),
            (ResourceType.TOPIC, topic, AclOperation.READ),
            (ResourceType.GROUP, "*", AclOperation.READ),
        )
    ]
    for future in admin.create_acls(bindings).values():
        future.result(kafka.PATIENCE_S)


def produce_and_consume(client: dict[str, str], topic: str) -> None:
    failures: list[KafkaError] = []

    def delivered() -> bool:
        failures.clear()
        producer = Producer({**client, "message.timeout.ms": "5000"})
        producer.produce(topic, b"hello", on_delivery=lambda error, _: failures.append(error) if error else None)
        return producer.flush(10) == 0 and not failures

    kafka.wait_until(delivered, kafka.PATIENCE_S, "a record is written")  # the broker applies the ACLs a moment later
    consumer = Consumer({**client, "group.id": "carols", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])

    def read() -> bool:
        message = consumer.poll(1)
        return message is not None and message.error() is None and message.value() == b"hello"

    try:
        kafka.wait_until(read, kafka.PATIENCE_S, "the record is read")
    finally:
        consumer.close()
