"""All clients on listeners of Apache's with TLS and logins: what works, what is refused, and logins that expire."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conclave.kafka import (
    Admin,
    ErrorCode,
    GroupAuthorizationFailed,
    KafkaConsumer,
    KafkaError,
    KafkaProducer,
    LoginFailed,
    NewTopic,
    ProducerFailed,
)
from kraft_core.security.listener_security import ClientSecurity
from tests.interop.clients.secured_broker import SecuredBroker
from tests.interop.kafka import PATIENCE_S
from tests.security.certificates import stranger_authority

pytestmark = pytest.mark.interop

LONG_MS = PATIENCE_S * 1_000


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await story()

    asyncio.run(bounded())


def reader(configs: dict[str, object], group: str, **more: object) -> KafkaConsumer:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return KafkaConsumer({**configs, "group.id": group, "auto.offset.reset": "earliest", **given})


async def write_and_read(configs: dict[str, object], topic: str) -> None:
    async with Admin(configs) as admin:
        (await admin.create_topics([NewTopic(name=topic)])).all()
        while topic not in await admin.list_topics():  # the broker has not read the record yet
            await asyncio.sleep(0.05)
    async with KafkaProducer(configs) as producer:
        assert (await (await producer.send(topic, b"v"))).offset == 0
    async with reader(configs, f"group-{topic}") as consumer:
        consumer.subscribe([topic])
        ((record,),) = (await consumer.poll(LONG_MS)).values()
        assert record.value == b"v"
        await consumer.commit()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_all_clients_work_over_tls_with_a_login(secured: SecuredBroker, mechanism: str) -> None:
    run(lambda: write_and_read(secured.configs(mechanism), f"over-{mechanism.lower()}"))


def test_all_clients_work_with_a_certificate_of_their_own(secured: SecuredBroker) -> None:
    run(lambda: write_and_read(secured.mutual_configs("alice"), "over-mutual-tls"))


async def producer_error(configs: dict[str, object]) -> KafkaError:
    async with KafkaProducer(configs) as producer:
        with pytest.raises(KafkaError) as refused:
            await producer.send("t", b"v")
    return refused.value


async def poll_error(configs: dict[str, object]) -> KafkaError:
    async with reader(configs, "g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError) as refused:
            await consumer.poll(LONG_MS)
    return refused.value


async def partitions_error(configs: dict[str, object]) -> KafkaError:
    async with KafkaConsumer(configs) as consumer:
        with pytest.raises(KafkaError) as refused:
            await consumer.partitions_for("t")
    return refused.value


async def committed_error(configs: dict[str, object]) -> KafkaError:
    async with reader(configs, "g") as consumer:
        with pytest.raises(KafkaError) as refused:
            await consumer.committed([("t", 0)])
    return refused.value


async def admin_error(configs: dict[str, object]) -> KafkaError:
    async with Admin(configs) as admin:
        with pytest.raises(KafkaError) as refused:
            await admin.describe_cluster()
    return refused.value


CALLS = [producer_error, poll_error, partitions_error, committed_error, admin_error]


def refusals(secured: SecuredBroker) -> dict[str, tuple[dict[str, object], str]]:
    """Return configs that cannot work, and what the error says."""
    port = secured.encrypted.rpartition(":")[2]
    return {
        "plain password": (secured.configs(password="wrong"), "Authentication failed: Invalid username or password"),
        "scram password": (secured.configs("SCRAM-SHA-512", password="wrong"), "invalid credentials"),
        "authority": (secured.configs(trusted=stranger_authority().pem), "its certificate is not trusted: "),
        "host name": (
            {**secured.configs(), "bootstrap.servers": f"localhost:{port}"},
            "its certificate is not trusted: Hostname mismatch",
        ),
        "no certificate": (secured.mutual_configs(None), "the TLS handshake failed: "),
    }


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ["plain password", "scram password", "authority", "host name", "no certificate"])
def test_what_cannot_be_trusted_ends_the_call_at_once_and_names_the_broker(
    secured: SecuredBroker, what: str, call: Callable[[dict[str, object]], Awaitable[KafkaError]]
) -> None:
    configs, text = refusals(secured)[what]

    async def story() -> None:
        async with asyncio.timeout(20):  # of 60 s that the calls may take otherwise
            error = await call(configs)
        assert isinstance(error, LoginFailed), repr(error)
        assert error.message.startswith(f"{configs['bootstrap.servers']}: ")
        assert text in error.message

    run(story)


def test_no_record_is_lost_or_doubled_while_logins_expire(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = 0
    original = ClientSecurity.new_login

    def counted(security: ClientSecurity, *arguments: Any) -> Any:
        nonlocal logins
        logins += 1
        return original(security, *arguments)

    monkeypatch.setattr(ClientSecurity, "new_login", counted)

    async def story() -> None:
        configs = secured.configs("SCRAM-SHA-512")
        sent, seen = 0, list[int]()
        async with KafkaProducer(configs) as producer, reader(configs, "renewals") as consumer:
            consumer.subscribe(["renewals"])
            await producer.flush()
            first = await producer.send("renewals", b"0")
            await first
            sent = 1
            while not seen:
                for records in (await consumer.poll(1_000)).values():
                    seen += [int(record.value) for record in records]
            enough = logins + 6  # of the producer's and the consumer's connections
            while logins < enough or len(seen) < sent:
                if logins < enough:
                    await producer.send("renewals", str(sent).encode())
                    sent += 1
                for records in (await consumer.poll(20)).values():
                    seen += [int(record.value) for record in records]
        assert seen == list(range(sent))

    run(story)


# Access control


async def refused(operation: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        await operation
    return error.value


def test_what_a_user_may_not_do_is_an_error_of_its_own(secured: SecuredBroker) -> None:
    async def story() -> None:
        async with KafkaProducer(secured.configs()) as producer:
            await (await producer.send("private", b"v"))
        configs = secured.configs(user="dave")
        async with KafkaConsumer(configs) as consumer:
            consumer.assign([("private", 0)])
            error = await refused(consumer.poll(LONG_MS))
            assert (error.code, "private" in error.message) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True)
        async with reader(configs, "secret-group") as consumer:
            consumer.subscribe(["private"])
            error = await refused(consumer.poll(LONG_MS))
            while error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                error = await refused(consumer.poll(LONG_MS))
            assert isinstance(error, GroupAuthorizationFailed)
            assert "secret-group" in error.message
            assert isinstance(await refused(consumer.committed([("private", 0)])), GroupAuthorizationFailed)
        async with reader(configs, "secret-group", group_protocol="consumer") as consumer:
            consumer.subscribe(["private"])
            error = await refused(consumer.poll(LONG_MS))
            while error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                error = await refused(consumer.poll(LONG_MS))
            assert isinstance(error, GroupAuthorizationFailed)
        async with KafkaProducer({**configs, "transactional.id": "secret-id"}) as producer:
            error = await refused(producer.init_transactions())
            assert isinstance(error, ProducerFailed)
            assert error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert "secret-id" in error.message
        async with Admin(configs) as admin:
            created = (await admin.create_topics([NewTopic(name="new")])).failed["new"]
            assert created.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert (await refused(admin.describe_acls())).code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(story)
