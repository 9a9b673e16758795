"""The web process on an unmodified Apache broker: records, transactions, share groups and groups of Kafka Streams.

Kafka's own tools say what is true.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kraft_core.clients.admin.kafka_admin_client import Admin
from tests.app.groups import shown
from tests.app.live import LiveWeb, combined_node, running_web
from tests.interop import kafka
from tests.interop.admin.tools import Tools
from tests.interop.clients.conftest import ApacheNode
from tests.interop.clients.streams_member import StreamsMember
from tests.interop.kafka import PATIENCE_S, wait_until

pytestmark = pytest.mark.interop

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def find_coordinator(address: str) -> None:
    """Look for a coordinator as a client does, upon which the broker creates __consumer_offsets."""
    async with Admin({"bootstrap.servers": address}) as admin:
        await admin.describe_consumer_groups(["none"])


@pytest.fixture(scope="module")
def web(apache_node: ApacheNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    asyncio.run(find_coordinator(apache_node.broker))
    with running_web(tmp_path_factory.mktemp("web"), apache_node.controller) as running:
        yield running.wait_ready().wait_for_broker()


def get(web: LiveWeb, path: str) -> Any:
    answer = web.client.get(f"{web.cluster}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def new_topic(web: LiveWeb, topic: str, partitions: int = 1) -> None:
    body = {"topic_name": topic, "partitions_count": partitions, "replication_factor": 1}
    assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201


def write_all_kinds(address: str, topic: str) -> None:
    """Write records of every codec, with headers, without keys, with null values, and in transactions."""
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 50})
        for number in range(20):
            headers = [("codec", codec.encode()), ("empty", b""), ("null", None)] if number % 2 else []
            value = None if number % 5 == 4 else f"{codec} {number} größe " * (number % 4 + 1)
            producer.produce(topic, value, key=None if number % 7 == 6 else f"key-{number}", headers=headers)
        assert producer.flush(PATIENCE_S) == 0
        settings = {"bootstrap.servers": address, "compression.type": codec, "transactional.id": f"{topic}-{codec}"}
        producer = Producer(settings)
        producer.init_transactions(PATIENCE_S)
        for outcome in ("aborted", "committed", "aborted"):
            producer.begin_transaction()
            for number in range(5):
                producer.produce(topic, f"{outcome} {codec}", key=f"{number}")
            assert producer.flush(PATIENCE_S) == 0
            producer.commit_transaction() if outcome == "committed" else producer.abort_transaction()


def line(record: dict[str, Any]) -> str:
    """Return a record as kafka-console-consumer prints it."""
    headers = ",".join(
        f"{each['name']}:{'null' if each['value'] is None else each['value']}" for each in record["headers"]
    )
    parts = (
        f"{record['timestamp_type']}:{record['timestamp_ms']}",
        f"Partition:{record['partition']}",
        f"Offset:{record['offset']}",
        headers or "NO_HEADERS",
        "null" if record["key"] is None else record["key"],
        "null" if record["value"] is None else record["value"],
    )
    return "\t".join(parts)


def test_records_are_those_that_the_console_consumer_prints(web: LiveWeb, apache: str, tools: Tools) -> None:
    new_topic(web, "browsed", 2)
    write_all_kinds(apache, "browsed")
    properties = [part for each in PRINTED for part in ("--formatter-property", f"print.{each}=true")]
    for isolation, count, choice in (("read_committed", 125, "committed"), ("read_uncommitted", 175, "all")):
        printed = tools.run(
            CONSUMER, "--bootstrap-server", apache, "--topic", "browsed", "--from-beginning",
            "--isolation-level", isolation, "--max-messages", count, *properties,
        )  # fmt: skip
        expected = sorted(each for each in printed.splitlines() if "Partition:" in each)
        assert len(expected) == count
        records = [
            record
            for index in (0, 1)
            for record in get(web, f"topics/browsed/partitions/{index}/records?limit=1000&isolation_level={isolation}")[
                "data"
            ]
        ]
        assert sorted(line(each) for each in records) == expected
        page = web.client.get(f"/topics/browsed/messages?count=500&isolation={choice}&start=beginning").text
        assert page.count("/topics/browsed/messages/0/") + page.count("/topics/browsed/messages/1/") >= count
        assert ("aborted zstd" in page) == (isolation == "read_uncommitted")


def test_transactions_are_listed_described_and_aborted(web: LiveWeb, apache: str) -> None:
    new_topic(web, "hanging")
    producer = Producer({"bootstrap.servers": apache, "transactional.id": "web/hangs"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("hanging", b"open", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    listed = {each["transactional_id"]: each for each in get(web, "transactions")["data"]}
    found = listed["web/hangs"]
    assert (found["kind"], found["state"]) == ("KafkaTransaction", "ONGOING")
    assert found["metadata"]["self"].endswith("/transactions/web%2Fhangs")
    detail = web.client.get(found["metadata"]["self"]).json()
    assert detail["partitions"] == [{"topic_name": "hanging", "partition_id": 0}]
    assert (detail["producer_id"], detail["start_time"] > 0) == (found["producer_id"], True)
    (state,) = get(web, "topics/hanging/partitions/0/producers")["data"]
    assert (state["producer_id"], state["transaction_start_offset"]) == (found["producer_id"], 0)
    url = f"{web.cluster}/topics/hanging/partitions/0/transactions:abort"
    dry = web.client.post(f"{url}?validate_only=true", json={"start_offset": 0})
    assert (dry.status_code, dry.json()["validated"]) == (200, True)
    assert get(web, "topics/hanging/partitions/0/producers")["data"] == [state]
    assert web.client.post(url, json={"start_offset": 7}).status_code == 409
    assert web.client.post(url, json={"start_offset": 0}).status_code == 204
    (state,) = get(web, "topics/hanging/partitions/0/producers")["data"]
    assert state["transaction_start_offset"] is None
    audit = web.client.get("/v3/audit?page_size=20").json()["data"]
    assert [each["resource"] for each in audit if each["action"] == "transaction.abort"] == ["topic/hanging"]


def group_in_state(web: LiveWeb, group_id: str, state: str, members: int) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        answer = web.client.get(f"{web.cluster}/consumer-groups/{group_id}")
        if answer.status_code != 200 or answer.json()["state"] != state:
            return None
        consumers = get(web, f"consumer-groups/{group_id}/consumers")["data"]
        group: dict[str, Any] = {**answer.json(), "members": consumers}
        return group if len(consumers) == members else None

    return wait_until(found, PATIENCE_S, f"group {group_id} is {state} with {members} members")


def test_a_share_group_is_shown_reset_and_deleted(web: LiveWeb, apache: str, tools: Tools, tmp_path: Path) -> None:
    new_topic(web, "shared", 2)
    producer = Producer({"bootstrap.servers": apache})
    for number in range(10):
        producer.produce("shared", f"{number}", partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    config = f"{web.cluster}/consumer-groups/workers/configs/share.auto.offset.reset"
    assert web.client.put(config, json={"value": "earliest"}).status_code == 204
    command = kafka.java(
        SHARE_CONSUMER, "--bootstrap-server", apache, "--topic", "shared", "--group", "workers",
        "--command-property", "client.id=worker",
    )  # fmt: skip
    with kafka.Process("share-consumer", command, tmp_path) as consumer:
        group = group_in_state(web, "workers", "STABLE", 1)
        assert (group["type"], group["is_simple"], group["topology"]) == ("SHARE", False, None)
        (member,) = group["members"]
        assert member["client_id"] == "worker"
        path = f"consumer-groups/workers/consumers/{member['consumer_id']}/assignments"

        def is_assigned() -> bool:
            found = [(each["topic_name"], each["partition_id"]) for each in get(web, path)["data"]]
            return found == [("shared", 0), ("shared", 1)]

        wait_until(is_assigned, PATIENCE_S, "the member has the partitions")

        def is_read() -> bool:
            answer = web.client.get(f"{web.cluster}/consumer-groups/workers/lags")
            rows = answer.json()["data"] if answer.status_code == 200 else []
            return [(each["log_end_offset"], each["lag"]) for each in rows] == [(5, 0), (5, 0)]

        wait_until(is_read, PATIENCE_S, "the share group has acknowledged all records")
        shown(web, "/groups/workers", "Start offset", "<td>worker</td>")
        reset = f"{web.cluster}/consumer-groups/workers/offsets:reset"
        refused = web.client.post(reset, json={"to": "EARLIEST"})
        assert (refused.status_code, "worker at" in refused.json()["message"]) == (409, True)
        consumer.stop()
    group_in_state(web, "workers", "EMPTY", 0)
    preview = web.client.post("/group-reset", data={"group": "workers", "way": "to-earliest"}).text
    assert "kafka-share-groups.sh --bootstrap-server BROKER:PORT --group workers --reset-offsets" in preview
    for to, before, after in (("LATEST", None, 5), ("EARLIEST", 5, 0)):
        done = web.client.post(reset, json={"to": to})
        assert done.status_code == 200, done.text
        assert [each["new_offset"] for each in done.json()["data"]] == [after, after]
        assert before is None or [each["current_offset"] for each in done.json()["data"]] == [before, before]
    lags = get(web, "consumer-groups/workers/lags")["data"]
    described = tools.run(SHARE_GROUPS, "--bootstrap-server", apache, "--describe", "--group", "workers", "--offsets")
    rows = [each.split() for each in described.splitlines() if each.startswith("workers")]
    assert sorted((int(row[2]), int(row[3]), int(row[4])) for row in rows) == sorted(
        (each["partition_id"], each["current_offset"], each["lag"]) for each in lags
    )
    deleted = web.client.post(
        "/group-delete-offsets", data={"group": "workers", "topic": "shared", "confirmed": "yes"}, follow_redirects=True
    )
    assert "Deleted for 2 of 2 partitions" in deleted.text
    assert web.client.get(f"{web.cluster}/consumer-groups/workers/lags").status_code == 404
    assert web.client.delete(f"{web.cluster}/consumer-groups/workers").status_code == 204
    assert web.client.get(f"{web.cluster}/consumer-groups/workers").status_code == 404


def test_a_group_of_kafka_streams_has_its_topology_and_tasks(web: LiveWeb, apache: str) -> None:
    new_topic(web, "events", 2)
    member = StreamsMember(apache, "app", "events", "app-store-changelog")
    try:
        wait_until(lambda: member.heartbeat() == [0, 1], PATIENCE_S, "the member has its tasks")
        member.heartbeat()
        group = group_in_state(web, "app", "STABLE", 1)
        assert group["type"] == "STREAMS"
        (part,) = group["topology"]["subtopologies"]
        assert (part["source_topics"], part["changelog_topics"]) == (["events"], ["app-store-changelog"])
        (found,) = group["members"]
        tasks = [{"subtopology_id": "0", "partition_id": index} for index in (0, 1)]
        assert found["tasks"] == {"active": tasks, "standby": [], "warmup": []}
        assigned = get(web, f"consumer-groups/app/consumers/{found['consumer_id']}/assignments")["data"]
        assert [(each["topic_name"], each["partition_id"]) for each in assigned] == [("events", 0), ("events", 1)]
        shown(web, "/groups/app", "0_0, 0_1", 'href="/topics/app-store-changelog"')
        assert "No broker serves" not in shown(web, "/groups?type=Streams", "/groups/app")
    finally:
        member.close()


def test_an_apache_cluster_and_ours_are_in_one_process(web: LiveWeb, tmp_path: Path, apache: str, tools: Tools) -> None:
    with combined_node(tmp_path / "ours") as ours:
        body = {"name": "Ours", "bootstrap_controllers": [ours.bootstrap], "color": "blue"}

        def is_added() -> bool:
            return web.client.put("/v3/cluster-connections/ours", json=body).status_code == 200

        wait_until(is_added, 60, "our cluster is added", 0.2)
        path = f"/v3/clusters/{ours.cluster_id}/topics"
        topic = {"topic_name": "of-ours", "partitions_count": 1, "replication_factor": 1}
        wait_until(lambda: web.client.post(path, json=topic).status_code == 201, 60, "our cluster has a topic", 0.2)
        new_topic(web, "of-apache")
        listed = [each["cluster_id"] for each in web.client.get("/v3/clusters").json()["data"]]
        assert listed == [web.cluster.rpartition("/")[2], ours.cluster_id]
        own, other = web.client.get("/topics?q=of-").text, web.client.get("/c/ours/topics?q=of-").text
        assert ("of-apache" in own, "of-ours" in own) == (True, False)
        assert ("of-apache" in other, "of-ours" in other) == (False, True)
        printed = tools.run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", apache, "--list").splitlines()
        assert ("of-apache" in printed, "of-ours" in printed) == (True, False)
        ours.process.kill()
        wait_until(lambda: ">lost</span>" in web.client.get("/clusters").text, 60, "our cluster is lost", 0.2)
        new_topic(web, "of-apache-alone")
        assert "of-apache-alone" in web.client.get("/topics?q=of-").text
        assert web.client.delete("/v3/cluster-connections/ours").status_code == 204
