"""`conclave topics|configs|brokers|groups` against a node of ours, as users type them."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from app.cli.main import main
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, wait_until

Conclave = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("node") / "node") as started:
        yield started


class Command:
    """Runs a command in this process; `errors` holds its standard error."""

    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.address = address
        self.capsys = capsys
        self.errors = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        umask = os.umask(0o077)
        try:
            with pytest.raises(SystemExit) as ended:
                main([*map(str, arguments), "--bootstrap", self.address])
        finally:
            os.umask(umask)
        captured = self.capsys.readouterr()
        self.errors = captured.err
        assert ended.value.code == code, captured.err
        return captured.out

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def topics(self) -> list[str]:
        return [topic["name"] for topic in self.json("topics", "list")]

    def refused(self, *arguments: object, code: int = 2) -> str:
        """Return the one line of a failure."""
        self(*arguments, code=code)
        assert len(self.errors.strip().splitlines()) == 1, self.errors
        return self.errors


@pytest.fixture
def conclave(node: EmbeddedNode, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(node.address, capsys)


def fill(node: EmbeddedNode, topic: str, counts: dict[int, int]) -> None:
    """Produce records with timestamps 1,000 ms apart, beginning at 1,000,000 ms."""
    producer = Producer({"bootstrap.servers": node.address})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, b"v", partition=partition, timestamp=1_000_000 + 1_000 * number)
    assert producer.flush(30) == 0


def columns(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in table.splitlines()]


def test_a_topic_is_created_listed_described_altered_and_deleted(conclave: Command) -> None:
    options = ("topics", "create", "orders", "-p", 2, "-r", 1, "--config", "retention.ms=1000")
    assert conclave(*options, "--dry-run") == "Would create topic orders: 2 partitions, replication factor 1\n"
    assert "orders" not in conclave.topics()
    assert conclave(*options) == "Created topic orders: 2 partitions, replication factor 1\n"
    assert ["orders", "2", "1", "0", "0"] in [row[:5] for row in columns(conclave("topics", "list"))]
    shown = conclave("topics", "describe", "orders")
    assert "configs: retention.ms=1000" in shown
    assert columns(shown)[1:] == [
        ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "ELR"],
        ["0", "1", "0", "1", "1", "-", "-"],
        ["1", "1", "0", "1", "1", "-", "-"],
    ]
    assert conclave("topics", "alter", "orders", "-p", 3, "--dry-run").startswith("Would change topic orders: 2 -> 3")
    assert conclave("topics", "alter", "orders", "-p", 3) == "Changed topic orders: 2 -> 3 partitions\n"
    assert conclave("topics", "delete", "orders", "--dry-run") == "Would delete topic orders, 3 partitions\n"
    assert len(conclave.json("topics", "describe", "orders")[0]["partitions"]) == 3
    conclave("topics", "delete", "orders", "--yes")
    assert "orders" not in conclave.topics()


def test_one_topic_fails_and_the_others_are_done(conclave: Command) -> None:
    outcome = conclave("topics", "create", "fine", "bad name", code=1)
    assert outcome.startswith("Created topic fine")
    assert conclave.errors.startswith("conclave: topic bad name: INVALID_TOPIC_EXCEPTION: ")
    assert conclave.refused("topics", "create", "fine", code=1).startswith("conclave: topic fine: TOPIC_ALREADY_EXISTS")
    assert conclave("topics", "create", "fine", "--if-not-exists") == "Topic fine exists already.\n"
    found = conclave.json("topics", "delete", "fine", "missing", "--yes", code=1)
    assert found["fine"] == {"deleted": True}
    assert found["missing"]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_deletion_asks_on_a_terminal_and_is_refused_without(
    conclave: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    conclave("topics", "create", "kept")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "confirm with --yes" in conclave.refused("topics", "delete", "kept")
    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    conclave("topics", "delete", "kept", code=130)
    assert "kept" in conclave.topics()
    conclave("topics", "delete", "kept", "-y")


def test_configs_are_shown_and_changed(conclave: Command) -> None:
    conclave("topics", "create", "configured")
    topic = ("--topic", "configured")
    changes = ("--set", "retention.ms=5000", "--set", "cleanup.policy=compact")
    outcome = conclave("configs", "alter", *topic, *changes, "--dry-run")
    assert columns(outcome)[1] == ["retention.ms", "SET", "604800000", "5000"]
    assert outcome.endswith("Dry run: nothing was changed.\n")
    assert conclave.json("configs", "describe", *topic) == []
    conclave("configs", "alter", *topic, *changes)
    conclave("configs", "alter", *topic, "--append", "cleanup.policy=delete", "--delete", "retention.ms")
    found = conclave.json("configs", "describe", *topic)
    assert [(each["name"], each["value"], each["source"]) for each in found] == [
        ("cleanup.policy", "compact,delete", "DYNAMIC_TOPIC_CONFIG")
    ]
    assert len(conclave.json("configs", "describe", *topic, "--all")) > 20
    line = conclave.refused("configs", "alter", *topic, "--set", "retention.ms=x", code=1)
    assert line.startswith("conclave: configs of TOPIC 'configured': INVALID_CONFIG: Invalid value x for")
    line = conclave.refused("configs", "describe", "--topic", "missing", code=1)
    assert line.startswith("conclave: configs of TOPIC 'missing': UNKNOWN_TOPIC_OR_PARTITION")


def test_configs_of_a_broker_and_of_all_brokers_are_changed(conclave: Command) -> None:
    conclave("configs", "alter", "--broker-defaults", "--set", "log.retention.ms=123456")
    conclave("configs", "alter", "--broker", 1, "--set", "log.cleaner.threads=2")
    assert "log.retention.ms=123456" in conclave("brokers", "describe", 1)
    found = {each["name"]: each for each in conclave.json("configs", "describe", "--broker", 1)}
    assert found["log.cleaner.threads"]["source"] == "DYNAMIC_BROKER_CONFIG"
    conclave("configs", "alter", "--broker-defaults", "--delete", "log.retention.ms")
    conclave("configs", "alter", "--broker", 1, "--delete", "log.cleaner.threads")


def test_brokers_are_listed_and_described(conclave: Command, node: EmbeddedNode) -> None:
    found = conclave.json("brokers", "list")
    assert [(each["id"], each["port"], each["isFenced"]) for each in found["brokers"]] == [(1, node.port, False)]
    assert "online" in conclave("brokers", "describe", 1)
    conclave("brokers", "describe", 1, 9, code=1)
    assert (
        "conclave: broker 9: BROKER_NOT_AVAILABLE: Broker 9 is not in the cluster; its brokers are 1."
        in conclave.errors
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("configs", "describe"), "give exactly one of --topic, --broker"),
        (("configs", "describe", "--topic", "a", "--broker", 1), "give exactly one of --topic, --broker"),
        (("configs", "alter", "--topic", "a"), "give at least one of --set"),
        (("configs", "alter", "--topic", "a", "--set", "x"), "'x' is not NAME=VALUE"),
        (("configs", "alter", "--topic", "a", "--set", "x=1", "--delete", "x"), "more than one change of x"),
        (("groups", "reset", "g"), "give exactly one of --to-earliest"),
        (("groups", "reset", "g", "--to-latest", "--to-offset", 1), "give exactly one of --to-earliest"),
        (("groups", "reset", "g", "--to-latest"), "give either --topic or --all-topics"),
        (("groups", "reset", "g", "--to-latest", "--topic", "t:x"), "'t:x' is not TOPIC or TOPIC:PARTITION"),
        (("groups", "reset", "g", "--all-topics", "--to-datetime", "soon"), "'soon' is not a time"),
        (("groups", "reset", "g", "--all-topics", "--by-duration", "1d"), "'1d' is not a duration"),
        (("groups", "list", "--state", "asleep"), "Unknown group state 'asleep': must be one of PreparingRebalance"),
        (("topics", "list", "--command-config", "/no/such/file"), "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(conclave: Command, arguments: tuple[object, ...], text: str) -> None:
    assert text in conclave.refused(*arguments)


def test_a_bad_address_and_bad_settings_are_bad_input(conclave: Command, tmp_path: Path) -> None:
    conclave.address = "localhost"
    assert "'localhost' is not HOST:PORT" in conclave.refused("topics", "list")
    conclave.address = "localhost:1"
    settings = tmp_path / "client.properties"
    settings.write_text("request.timeout.ms=soon\n")
    line = conclave.refused("topics", "list", "--command-config", settings)
    assert "Invalid value soon for configuration request.timeout.ms" in line


def test_an_unreachable_cluster_is_a_failure_that_says_why(conclave: Command, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=300\nacks=all\n")
    conclave.address = "127.0.0.1:1"
    conclave("topics", "list", "--command-config", settings, code=1)
    assert "not used: acks" in conclave.errors
    assert "Not done within 300 ms. The last error was: 127.0.0.1:1: cannot be reached" in conclave.errors


def test_a_groups_lag_is_shown_and_its_offsets_are_reset(conclave: Command, node: EmbeddedNode, tmp_path: Path) -> None:
    conclave("topics", "create", "read", "-p", 2)
    fill(node, "read", {0: 10, 1: 5})

    def reset(*arguments: object) -> list[tuple[object, ...]]:
        found = conclave.json("groups", "reset", "readers", *arguments)
        return [(each["partition"], each["currentOffset"], each["newOffset"]) for each in found["partitions"]]

    topic = ("--topic", "read")
    assert reset(*topic, "--to-offset", 7, "--dry-run") == [(0, None, 7), (1, None, 5)]
    assert conclave.refused("groups", "describe", "readers", code=1).startswith("conclave: group readers: GROUP_ID_NOT")
    line = conclave.refused("groups", "reset", "readers", "--all-topics", "--to-latest", code=1)
    assert line == "conclave: Group 'readers' has no committed offsets: name the topics to reset.\n"
    assert reset(*topic, "--to-offset", 7) == [(0, None, 7), (1, None, 5)]
    shown = columns(conclave("groups", "describe", "readers"))
    assert shown[2][:5] == ["read", "0", "7", "10", "3"]
    assert shown[3][:5] == ["read", "1", "5", "5", "0"]
    assert reset("--topic", "read:0", "--shift-by", -3) == [(0, 7, 4)]
    assert reset("--all-topics", "--shift-by", 100) == [(0, 4, 10), (1, 5, 5)]
    assert reset("--all-topics", "--to-earliest") == [(0, 10, 0), (1, 5, 0)]
    assert reset("--all-topics", "--to-datetime", "1970-01-01T00:16:43") == [(0, 0, 3), (1, 0, 3)]
    assert reset("--all-topics", "--to-latest") == [(0, 3, 10), (1, 3, 5)]
    assert reset("--all-topics", "--to-current") == [(0, 10, 10), (1, 5, 5)]
    assert reset("--all-topics", "--by-duration", "PT1H") == [(0, 10, 10), (1, 5, 5)]
    plan = tmp_path / "plan.csv"
    plan.write_text("read,0,2\nother,read,1,1\nreaders,read,1,4\n")
    assert reset("--from-file", plan) == [(0, 10, 2), (1, 5, 4)]
    line = conclave.refused("groups", "reset", "readers", "--to-latest", "--topic", "missing", code=1)
    assert line.startswith("conclave: Topic 'missing': ")
    plan.write_text("read,0,x\n")
    assert "line 1: 'read,0,x' is not" in conclave.refused("groups", "reset", "readers", "--from-file", plan)
    assert "readers" in [each["groupId"] for each in conclave.json("groups", "describe")]
    assert "Topic read, id " in conclave("topics", "describe")
    listed = conclave.json("groups", "list", "--state", "empty")
    assert ("readers", "Classic", 1) in [(each["groupId"], each["type"], each["coordinator"]) for each in listed]
    assert conclave("groups", "delete", "readers", "--dry-run") == "Would delete group readers, Empty, 0 members\n"
    assert conclave("groups", "delete", "readers", "--yes").endswith("Deleted group readers\n")
    assert "readers" not in conclave("groups", "list")


def test_a_group_with_members_is_not_reset_and_its_members_are_named(conclave: Command, node: EmbeddedNode) -> None:
    conclave("topics", "create", "live", "-p", 1)
    fill(node, "live", {0: 3})
    consumer = Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": "busy",
            "client.id": "the-reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["live"])
        wait_until(lambda: consumer.poll(0.2) is not None, PATIENCE_S, "a record of the group")
        consumer.commit(asynchronous=False)
        line = conclave.refused("groups", "reset", "busy", "--all-topics", "--to-latest", code=1)
        assert "group 'busy' is inactive, but it is Stable. Stop its members first: the-reader at " in line
        assert "NON_EMPTY_GROUP" in conclave.refused("groups", "delete", "busy", "--yes", code=1)
        found = conclave.json("groups", "describe", "busy")[0]
        assert found["partitions"][0]["memberId"] == found["members"][0]["memberId"]
        assert found["partitions"][0]["lag"] == 3 - found["partitions"][0]["currentOffset"]
        assert "live-0" in conclave("groups", "describe", "busy", "--members")
    finally:
        consumer.close()


def test_a_login_is_used_and_a_refused_one_fails_at_once(conclave: Command, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    security = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{module} username="a" password="b" user_a="b";',
    }
    settings = tmp_path / "client.properties"

    def use(password: str) -> None:
        login = f'sasl.jaas.config={module} username="a" password="{password}";'
        settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")

    with running_node(tmp_path / "node", **security) as secured:
        conclave.address = secured.address
        use("b")
        assert len(conclave.json("brokers", "list", "--command-config", settings)["brokers"]) == 1
        use("wrong")
        line = conclave.refused("brokers", "list", "--command-config", settings, code=1)
        assert line.startswith(f"conclave: {secured.address}: Authentication failed")
        assert "wrong" not in line
