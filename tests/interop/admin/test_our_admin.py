"""Our Admin on one of Apache's brokers: every operation, and group lags equal to those of kafka-consumer-groups."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from app.cli.main import main
from kraft_core.clients.admin.cluster import FeatureUpdate
from kraft_core.clients.admin.configs import ConfigChange, ConfigResource, ConfigResourceType
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.admin.log_dirs import TopicPartitionReplica
from kraft_core.clients.admin.offsets import IsolationLevel, OffsetSpec
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.clients.admin.quotas import QuotaFilterComponent, QuotaMatch
from kraft_core.clients.admin.scram import UserScramCredentialDeletion, UserScramCredentialUpsertion
from kraft_core.clients.admin.topics import NewPartitions, NewTopic
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.scram_mechanism import SCRAM_SHA_256
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.app.groups import shown as shown_page
from tests.app.live import LiveWeb, running_web
from tests.interop import conclave, kafka
from tests.interop.admin.tools import Tools
from tests.interop.kafka import PATIENCE_S, wait_until

pytestmark = pytest.mark.interop

BROKER = 101
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of the controller and of the broker."""
    kafka.require()
    folder = tmp_path_factory.mktemp("our-admin")
    with (
        conclave.running_quorum(folder / "quorum", 1, broker_session_timeout_ms=3_600_000, **AUTHORIZER) as quorum,
        kafka.broker(folder / "broker", BROKER, quorum.bootstrap, quorum.cluster_id, **AUTHORIZER) as found,
    ):
        process, address = found
        process.wait_for_output("Kafka Server started")
        yield quorum.bootstrap, address


@pytest.fixture(scope="module")
def bootstrap(cluster: tuple[str, str]) -> str:
    return cluster[1]


@pytest.fixture(scope="module")
def web(cluster: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    with running_web(tmp_path_factory.mktemp("web"), cluster[0]) as running:
        yield running.wait_ready().wait_for_broker(BROKER)


def with_admin(bootstrap: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            return await work(admin)

    return asyncio.run(run())


async def shown(ask: Callable[[], Awaitable[T]], is_so: Callable[[T], bool]) -> T:
    """Ask until the broker has applied what the controller has written."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so(found := await ask()):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)
    return found


async def new_topic(admin: Admin, name: str, partitions: int = 2) -> None:
    (await admin.create_topics([NewTopic(name=name, num_partitions=partitions, replication_factor=1)])).all()
    await shown(lambda: admin.describe_topics([name]), lambda found: not found.failed)


def fill(bootstrap: str, topic: str, counts: dict[int, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in counts.items():
        for _ in range(count):
            producer.produce(topic, b"v", partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def test_topics_and_records(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        await new_topic(admin, "records", 3)
        again = await admin.create_topics([NewTopic(name="records"), NewTopic(name="new", num_partitions=1)])
        assert {name: error.code for name, error in again.failed.items()} == {"records": ErrorCode.TOPIC_ALREADY_EXISTS}
        await asyncio.to_thread(fill, bootstrap, "records", {0: 5, 1: 3})
        first, second, missing = (TopicPartition("records", index) for index in (0, 1, 9))
        deleted = await admin.delete_records({first: 2, second: -1, missing: 0})
        assert deleted.succeeded == {first: 2, second: 3}
        assert list(deleted.failed) == [missing]
        for spec, offsets in ((OffsetSpec.EARLIEST, (2, 3)), (OffsetSpec.LATEST, (5, 3)), (0, (2, -1))):
            found = (await admin.list_offsets(dict.fromkeys((first, second), spec))).all()
            assert tuple(info.offset for info in found.values()) == offsets
        assert (await admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP})).all()[first].timestamp > 0
        (await admin.create_partitions({"records": NewPartitions(total_count=5)})).all()
        found_topic = await shown(
            lambda: admin.describe_topics(["records", "unknown"], partition_size_limit_per_response=2),
            lambda topics: len(topics.get_or_raise("records").partitions) == 5,
        )
        assert [each.partition for each in found_topic.get_or_raise("records").partitions] == [0, 1, 2, 3, 4]
        assert found_topic.failed["unknown"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        listed = await admin.list_topics()
        (await admin.delete_topics([listed["new"].topic_id])).all()
        await shown(admin.list_topics, lambda topics: "new" not in topics)

    with_admin(bootstrap, work)


def test_configs_and_loggers(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        await new_topic(admin, "configured")
        topic = ConfigResource(ConfigResourceType.TOPIC, "configured")
        logger = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(BROKER))
        group = ConfigResource(ConfigResourceType.GROUP, "some-group")
        changed = await admin.incremental_alter_configs(
            {
                topic: [ConfigChange("retention.ms", AlterConfigOp.SET, "77")],
                logger: [ConfigChange("kafka.server.KafkaApis", AlterConfigOp.SET, "DEBUG")],
                group: [ConfigChange("consumer.session.timeout.ms", AlterConfigOp.SET, "50000")],
                ConfigResource(ConfigResourceType.TOPIC, "unknown"): [
                    ConfigChange("retention.ms", AlterConfigOp.SET, "1")
                ],
            }
        )
        assert [resource.name for resource in changed.failed] == ["unknown"]
        found = await shown(
            lambda: admin.describe_configs([topic], names=["retention.ms"], include_documentation=True),
            lambda configs: configs.get_or_raise(topic)["retention.ms"].value == "77",
        )
        assert found.get_or_raise(topic)["retention.ms"].documentation
        levels = await admin.describe_configs([logger])
        assert levels.get_or_raise(logger)["kafka.server.KafkaApis"].value == "DEBUG"
        listed = await shown(lambda: admin.list_config_resources([ConfigResourceType.GROUP]), bool)
        assert listed == [group]

    with_admin(bootstrap, work)


def lags_of_the_tool(tools: Tools, bootstrap: str, group: str) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Return (current offset, log end offset, lag) by partition, as kafka-consumer-groups prints them."""
    printed = tools.run(GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    rows = re.findall(rf"^{group} +(\S+) +(\d+) +(\S+) +(\S+) +(\S+)", printed, re.MULTILINE)
    return {(topic, int(index)): (current, end, lag) for topic, index, current, end, lag in rows}


def lags_of_ours(bootstrap: str, group: str, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["groups", "describe", group, "--bootstrap", bootstrap, "--json"])
    assert ended.value.code == 0
    (found,) = json.loads(capsys.readouterr().out)

    def text(number: int | None) -> str:
        return "-" if number is None else str(number)

    return {
        (each["topic"], each["partition"]): tuple(text(each[key]) for key in ("currentOffset", "logEndOffset", "lag"))
        for each in found["partitions"]
    }


def lags_of_rest(web: LiveWeb, group: str) -> dict[tuple[str, int], tuple[str, ...]]:
    answer = web.client.get(f"{web.cluster}/consumer-groups/{group}/lags")
    assert answer.status_code == 200, answer.text
    return {
        (each["topic_name"], each["partition_id"]): tuple(
            str(each[key]) for key in ("current_offset", "log_end_offset", "lag")
        )
        for each in answer.json()["data"]
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lags_agree_with_kafka_consumer_groups(
    bootstrap: str, web: LiveWeb, tools: Tools, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    topic, group = f"read-{protocol}", f"readers-{protocol}"
    with_admin(bootstrap, lambda admin: new_topic(admin, topic, 3))
    fill(bootstrap, topic, {0: 7, 1: 4})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.2), PATIENCE_S, "a record")
        consumer.commit(offsets=[ConfluentPartition(topic, 0, 3)], asynchronous=False)
        fill(bootstrap, topic, {0: 2})
        ours = lags_of_ours(bootstrap, group, capsys)
        assert ours == {(topic, 0): ("3", "9", "6"), (topic, 1): ("-", "4", "-"), (topic, 2): ("-", "0", "-")}
        assert ours == lags_of_the_tool(tools, bootstrap, group)
        assert lags_of_rest(web, group) == {(topic, 0): ("3", "9", "6")}
        rest = web.client.get(f"{web.cluster}/consumer-groups/{group}").json()
        assert (rest["type"], rest["state"], rest["epoch"] is None) == (
            protocol.upper(),
            "STABLE",
            protocol == "classic",
        )
        page = shown_page(web, f"/groups/{group}", f'data-key="{topic}-2"', '<td class="num">9</td>')
        assert f"{topic}-0, {topic}-1, {topic}-2" in page

        async def active(admin: Admin) -> None:
            described = (await admin.describe_consumer_groups([group])).get_or_raise(group)
            assert (described.type.lower(), described.state, len(described.members)) == (protocol, "Stable", 1)
            assert {each.partition for each in described.members[0].assignment} == {0, 1, 2}
            assert (await admin.delete_consumer_groups([group])).failed[group].code == ErrorCode.NON_EMPTY_GROUP
            listed = await admin.list_groups(types=[protocol], states=["stable"])
            assert [each.group_id for each in listed.get_or_raise(BROKER)] == [group]
            refused = (await admin.delete_consumer_group_offsets(group, [TopicPartition(topic, 0)])).failed
            assert {error.code for error in refused.values()} == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

        with_admin(bootstrap, active)
    finally:
        consumer.close()
    reset = ["groups", "reset", group, "--all-topics", "--shift-by", "-2", "--bootstrap", bootstrap]
    with pytest.raises(SystemExit) as ended:
        main(reset)
    assert ended.value.code == 0
    ours = lags_of_ours(bootstrap, group, capsys)
    assert ours == {(topic, 0): ("1", "9", "8")} == lags_of_the_tool(tools, bootstrap, group)
    assert ours == lags_of_rest(web, group)

    async def empty(admin: Admin) -> None:
        await new_topic(admin, f"other-{protocol}")
        assert (await admin.delete_consumer_group_offsets(group, [TopicPartition(topic, 0)])).all()
        assert (await admin.delete_consumer_groups([group, "nobody"])).failed.keys() == {"nobody"}

    with_admin(bootstrap, empty)


def test_members_are_removed(bootstrap: str) -> None:
    with_admin(bootstrap, lambda admin: new_topic(admin, "static"))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "static", "group.instance.id": "one"})
    try:
        consumer.subscribe(["static"])

        def assigned() -> bool:
            consumer.poll(0.2)
            return bool(consumer.assignment())

        wait_until(assigned, PATIENCE_S, "an assignment")
        removed = with_admin(
            bootstrap, lambda admin: admin.remove_members_from_consumer_group("static", ["one", "two"], reason="test")
        )
        assert removed["one"] is None
        assert removed.failed["two"].code == ErrorCode.UNKNOWN_MEMBER_ID
    finally:
        consumer.close()


def test_log_dirs_of_a_broker(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        await new_topic(admin, "stored", 1)
        stored = TopicPartition("stored", 0)
        found = await shown(
            lambda: admin.describe_log_dirs([BROKER, 7]),
            lambda found: any(stored in each.replicas for each in found.get_or_raise(BROKER).values()),
        )
        assert [bool(each.total_bytes) for each in found.get_or_raise(BROKER).values()] == [True]
        assert found.failed[7].code == ErrorCode.BROKER_NOT_AVAILABLE
        moved = await admin.alter_replica_log_dirs({TopicPartitionReplica("stored", 0, BROKER): "/not/a/log/dir"})
        assert [error.code for error in moved.failed.values()] == [ErrorCode.LOG_DIR_NOT_FOUND]

    with_admin(bootstrap, work)


def abort_on_the_page(web: LiveWeb) -> None:
    """Abort the transaction that begins at offset 0 of paid-0, and audit it."""
    url, wanted = "/topics/paid/abort-transaction", {"partition": "0", "start_offset": "0"}
    refused = web.client.post(url, data={"partition": "0", "start_offset": "7"})
    assert "begins at offset 7" in refused.text
    assert web.client.post(url, data={"partition": "zero"}).status_code == 422
    assert "open in paid-0 since offset 0" in web.client.post(url, data=wanted).text
    done = web.client.post(url, data={**wanted, "confirmed": "yes"}, follow_redirects=True)
    assert "was aborted" in done.text
    assert web.client.get("/v3/audit?page_size=1").json()["data"][0]["action"] == "transaction.abort"


def test_producers_and_transactions(bootstrap: str, web: LiveWeb) -> None:
    with_admin(bootstrap, lambda admin: new_topic(admin, "paid", 1))
    partition = TopicPartition("paid", 0)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("paid", b"v", partition=0)
    producer.flush(PATIENCE_S)
    listed = shown_page(web, "/transactions?q=pay&state=Ongoing", 'data-key="payments"', "paid-0")
    assert "No list from broker" not in listed
    shown_page(web, "/topics/paid/producers", '<tr data-key="0 ')

    async def work(admin: Admin) -> None:
        (state,) = (await admin.describe_producers([partition])).get_or_raise(partition)
        assert state.current_transaction_start_offset == 0
        described = await admin.describe_transactions(["payments", "unknown"])
        payments = described.get_or_raise("payments")
        assert (payments.state, payments.partitions, payments.coordinator_id) == ("Ongoing", (partition,), BROKER)
        assert described.failed["unknown"].code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        listed = await admin.list_transactions(states=["Ongoing"], transactional_id_pattern="pay.*")
        assert [each.transactional_id for each in listed.get_or_raise(BROKER)] == ["payments"]
        assert not (await admin.list_transactions(duration_ms=3_600_000)).get_or_raise(BROKER)
        ends = {
            level: (await admin.list_offsets({partition: OffsetSpec.LATEST}, isolation_level=level)).all()[partition]
            for level in IsolationLevel
        }
        assert [info.offset for info in ends.values()] == [1, 0]
        abort_on_the_page(web)
        (aborted,) = (await admin.describe_producers([partition])).get_or_raise(partition)
        assert aborted.current_transaction_start_offset == -1
        fenced = (await admin.fence_producers(["payments", "later"])).all()
        assert fenced["payments"].epoch > state.producer_epoch
        ended = await shown(
            lambda: admin.describe_transactions(["payments"]),
            lambda found: found.get_or_raise("payments").state in {"Empty", "CompleteAbort"},
        )
        assert not ended.failed

    with_admin(bootstrap, work)


def test_access(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        acl = StandardAcl(
            resource_type=ResourceType.TOPIC,
            resource_name="orders",
            pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            host="*",
            operation=AclOperation.READ,
            permission_type=AclPermissionType.ALLOW,
        )
        bad = StandardAcl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:a", "*", AclOperation.READ, 3)
        created = await admin.create_acls([acl, bad])
        assert created[acl] is None
        assert list(created.failed) == [bad]
        assert await shown(admin.describe_acls, bool) == [acl]
        alices = AclFilter(principal="User:alice")
        assert (await admin.delete_acls([alices, AclFilter(principal="User:bob")])).all() == {
            alices: (acl,),
            AclFilter(principal="User:bob"): (),
        }
        alice = (("client-id", "c"), ("user", "alice"))
        default = (("user", None),)
        altered = await admin.alter_client_quotas(
            {
                alice: {"producer_byte_rate": 1000.0},
                default: {"request_percentage": 50.0},
                (("planet", "x"),): {"a": 1.0},
            }
        )
        assert [(entity, error.code) for entity, error in altered.failed.items()] == [
            ((("planet", "x"),), ErrorCode.INVALID_REQUEST)
        ]
        users = [QuotaFilterComponent("user", QuotaMatch.SPECIFIED)]
        assert await shown(lambda: admin.describe_client_quotas(users), lambda found: len(found) == 2) == {
            alice: {"producer_byte_rate": 1000.0},
            default: {"request_percentage": 50.0},
        }
        (await admin.alter_client_quotas({default: {"request_percentage": None}})).all()
        scram = await admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion("alice", SCRAM_SHA_256, "secret", 8192),
                UserScramCredentialDeletion("nobody", SCRAM_SHA_256),
            ]
        )
        assert {user: error.code for user, error in scram.failed.items()} == {"nobody": ErrorCode.RESOURCE_NOT_FOUND}
        infos = await shown(admin.describe_user_scram_credentials, bool)
        assert infos.all() == {"alice": (("SCRAM-SHA-256", 8192),)}
        unknown = await admin.describe_user_scram_credentials(["bob"])
        assert unknown.failed["bob"].code == ErrorCode.RESOURCE_NOT_FOUND
        with pytest.raises(KafkaError) as refused:
            await admin.create_delegation_token()
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    with_admin(bootstrap, work)


def test_partitions_and_the_cluster(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        await new_topic(admin, "moved")
        first, missing = TopicPartition("moved", 0), TopicPartition("moved", 8)
        elected = await admin.elect_leaders(ElectionType.PREFERRED, [first, missing])
        assert {key: error.code for key, error in elected.failed.items()} == {
            first: ErrorCode.ELECTION_NOT_NEEDED,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert not (await admin.elect_leaders(ElectionType.PREFERRED, None)).failed
        moved = await admin.alter_partition_reassignments({first: [BROKER, 55], TopicPartition("moved", 1): None})
        assert {error.code for error in moved.failed.values()} == {
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }
        assert await admin.list_partition_reassignments() == {}
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        assert [node.id for node in cluster.nodes] == [BROKER]
        quorum = await admin.describe_metadata_quorum()
        assert [voter.replica_id for voter in quorum.voters] == [quorum.leader_id]
        features = await admin.describe_features()
        level = features.finalized["metadata.version"]
        updated = await admin.update_features({"metadata.version": FeatureUpdate(level + 1)}, validate_only=True)
        assert updated.failed
        with pytest.raises(KafkaError) as refused:
            await admin.unregister_broker(55)
        assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED

    with_admin(bootstrap, work)
