"""KafkaProducer on a listener of Apache's broker with logins, with and without the right to write."""

import asyncio

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.sasl_client_authenticator import LoginFailed
from tests.interop.clients.secured_broker import SecuredBroker
from tests.interop.kafka import PATIENCE_S
from tests.security.secure_listener import PLAIN_MODULE

pytestmark = pytest.mark.interop


def configs(address: str, user: str, password: str, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{user}" password="{password}";',
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_a_login_with_the_right_to_write_writes(secured: SecuredBroker) -> None:
    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), KafkaProducer(configs(secured.login, "alice", "a-secret")) as producer:
            assert (await (await producer.send("of-alice", b"v"))).offset == 0

    asyncio.run(story())


def test_a_refused_login_ends_send_at_once_with_its_reason(secured: SecuredBroker) -> None:
    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), KafkaProducer(configs(secured.login, "alice", "wrong")) as producer:
            with pytest.raises(LoginFailed):
                await producer.send("of-alice", b"v")

    asyncio.run(story())


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_refused_write_is_named_and_works_once_it_is_allowed(secured: SecuredBroker, *, is_idempotent: bool) -> None:
    open_address, address = secured.open, secured.login
    user = "bob" if is_idempotent else "carol"
    topic = f"of-{user}"
    admin = AdminClient({"bootstrap.servers": open_address})

    def allow(operation: AclOperation) -> None:
        pattern = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
        rule = AclBinding(*pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for future in admin.create_acls([rule]).values():
            future.result(PATIENCE_S)

    async def eventually(producer: KafkaProducer, code: ErrorCode) -> None:
        """Send until the outcome is this one: rights take a moment to reach the broker."""
        while True:
            try:
                await (await producer.send(topic, b"v"))
                found, text = ErrorCode.NONE, ""
            except KafkaError as error:
                found, text = error.code, error.message
            if found == code:
                assert topic in text or code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
                return
            await asyncio.sleep(0.05)

    # KIP-679: a producer id needs the right to write to some topic
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_idempotent else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def story() -> None:
        given = configs(address, user, f"{user[0]}-secret", enable_idempotence=is_idempotent, max_block_ms=5_000)
        async with asyncio.timeout(PATIENCE_S), KafkaProducer(given) as producer:
            await eventually(producer, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            await asyncio.to_thread(allow, AclOperation.DESCRIBE)
            await asyncio.to_thread(allow, AclOperation.CREATE)
            await asyncio.sleep(0.3)
            await eventually(producer, refused)
            await asyncio.to_thread(allow, AclOperation.WRITE)
            await eventually(producer, ErrorCode.NONE)

    asyncio.run(story())
