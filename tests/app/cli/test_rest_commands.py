"""`conclave topics|brokers|configs|groups` over REST print what they print at the brokers of the same cluster."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.cli import rest_admin
from conclave.client import Client
from conclave.client.models import PartitionsOfTopic
from conclave.contexts import Context, Contexts, save_contexts
from tests.app.cli.in_process import Outcome, conclave
from tests.app.live import ADMIN_TOKEN, CombinedNode, LiveWeb
from tests.interop.kafka import PATIENCE_S, wait_until

TOPIC = "both.ways"
GROUP = "both.ways.group"
OLD = "both.ways/old group"
ATTEMPTS = 3
"""Groups of other tests may change between the two commands."""
TEXTS = re.compile(r'"message": "[^"]*"')
"""Texts that the server chooses."""
SIZES = re.compile(r"\b(?:0|\d{3,})\b\s*")
"""Bytes of a directory, at first none, and its disk, which the web process asks for every 10 s."""


@pytest.fixture(scope="module")
def cluster(node: CombinedNode, web: LiveWeb) -> Iterator[CombinedNode]:
    """Yield a cluster with a topic, configs, a group with a member and one without."""
    with Client(web.url, ADMIN_TOKEN) as client:
        client.create_topic(topic_name=TOPIC, partitions_count=3)
        client.set_topic_config(TOPIC, "retention.ms", value="1000000")
        client.set_broker_config(1, "log.cleaner.threads", value="2")
        client.set_cluster_config("log.cleaner.backoff.ms", value="20000")
        client.set_group_config(GROUP, "consumer.session.timeout.ms", value="50000")
        producer = Producer({"bootstrap.servers": node.broker})
        for number in range(9):
            producer.produce(TOPIC, b"v", partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        listed = [PartitionsOfTopic(topic_name=TOPIC, partition_ids=[0, 2])]
        client.reset_offsets(OLD, to="LATEST", topics=listed)
        consumer = Consumer({"bootstrap.servers": node.broker, "group.id": GROUP, "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        read = 0
        while read < 9:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            read += 1
        consumer.commit(offsets=[TopicPartition(TOPIC, 1, 2)], asynchronous=False)
        yield node
        consumer.close()
        client.reset_broker_config(1, "log.cleaner.threads")
        client.reset_cluster_config("log.cleaner.backoff.ms")
        client.reset_group_config(GROUP, "consumer.session.timeout.ms")


@pytest.fixture
def over_rest(web: LiveWeb, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the web process the current context."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    save_contexts(Contexts("here", {"here": Context("here", web.url, ADMIN_TOKEN)}))


@pytest.mark.usefixtures("over_rest")
@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list", "--internal"),
        ("topics", "describe"),
        ("topics", "describe", TOPIC, "both.ways.absent"),
        ("topics", "create", TOPIC, "both.ways.new", "--config", "retention.ms=5", "-p", 2, "--dry-run", "-r", 9),
        ("topics", "alter", TOPIC, "both.ways.absent", "-p", 4, "--dry-run"),
        ("topics", "alter", TOPIC, "-p", 2, "--dry-run"),
        ("topics", "delete", TOPIC, "both.ways.absent", "--dry-run"),
        ("brokers", "list"),
        ("brokers", "describe", 1),
        ("configs", "describe", "--topic", TOPIC),
        ("configs", "describe", "--topic", TOPIC, "--all"),
        ("configs", "describe", "--topic", "both.ways.absent"),
        ("configs", "describe", "--broker", 1),
        ("configs", "describe", "--broker", 1, "--all"),
        ("configs", "describe", "--broker-defaults"),
        ("configs", "describe", "--group", GROUP),
        (
            "configs",
            "alter",
            "--topic",
            TOPIC,
            "--set",
            "retention.ms=7",
            "--append",
            "cleanup.policy=compact",
            "--dry-run",
        ),
        ("configs", "alter", "--topic", TOPIC, "--set", "retention.ms=many", "--dry-run"),
        ("configs", "alter", "--broker", 1, "--delete", "log.cleaner.threads", "--dry-run"),
        ("groups", "list"),
        ("groups", "list", "--state", "empty", "--type", "classic"),
        ("groups", "list", "--state", "asleep"),
        ("groups", "describe", GROUP, OLD),
        ("groups", "describe", GROUP, "--members"),
        ("groups", "describe", "both.ways.absent"),
        ("groups", "reset", OLD, "--all-topics", "--to-latest", "--dry-run"),
        ("groups", "reset", OLD, "--topic", f"{TOPIC}:0,2", "--shift-by", -1, "--dry-run"),
        ("groups", "reset", GROUP, "--all-topics", "--to-earliest", "--dry-run"),
        ("groups", "delete", OLD, "both.ways.absent", "--dry-run"),
    ],
    ids=lambda command: " ".join(map(str, command)),
)
def test_both_ways_print_the_same(
    cluster: CombinedNode,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[object, ...],
) -> None:
    if command == ("topics", "describe"):
        monkeypatch.setattr(rest_admin, "SINGLY_MAX", 0)
    wait_until(lambda: _shows_log_directories(capfd), PATIENCE_S, "the broker has described its directories", 0.05)
    varying = SIZES if command[:2] == ("brokers", "describe") else TEXTS
    for options in ((), ("--json",)):
        for _ in range(ATTEMPTS):
            direct = conclave(capfd, *command, *options, "--bootstrap", cluster.broker)
            over_rest = conclave(capfd, *command, *options)
            if direct.output == over_rest.output:
                break
        assert _told(over_rest) == _told(direct)
        assert varying.sub("", over_rest.output) == varying.sub("", direct.output)


def _told(outcome: Outcome) -> tuple[int, list[str]]:
    """Return the exit code, and what each complaint is about: its text is the server's choice."""
    return outcome.code, [":".join(line.split(":")[:2]) for line in outcome.complaint.splitlines()]


def _shows_log_directories(capfd: pytest.CaptureFixture[str]) -> bool:
    return conclave(capfd, "brokers", "describe", 1).code == 0


@pytest.mark.usefixtures("over_rest", "cluster")
def test_changes_over_rest_are_made(capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: object) -> str:
        outcome = conclave(capfd, *arguments)
        assert (outcome.code, outcome.complaint) == (0, "")
        return outcome.output

    name = "both.ways.made"
    made = f"Created topic {name}: 2 partitions, replication factor 1\n"
    assert run("topics", "create", name, "-p", 2, "--config", "retention.ms=5000") == made
    assert run("topics", "create", name, "--if-not-exists") == f"Topic {name} exists already.\n"
    assert run("topics", "alter", name, "-p", 3) == f"Changed topic {name}: 2 -> 3 partitions\n"
    assert run("configs", "alter", "--topic", name, "--set", "retention.ms=6000").endswith("Changed.\n")
    assert "retention.ms=6000" in run("topics", "describe", name)
    run("groups", "reset", "both.ways.reset", "--topic", TOPIC, "--to-latest")
    assert "both.ways.reset" in run("groups", "list")
    assert run("groups", "delete", "both.ways.reset", "--yes").endswith("Deleted group both.ways.reset\n")
    assert run("topics", "delete", name, "--yes").endswith(f"Deleted topic {name}\n")
    assert name not in run("topics", "list")


@pytest.mark.usefixtures("over_rest", "cluster")
@pytest.mark.parametrize(
    ("command", "code", "what"),
    [
        (("topics", "list", "--bootstrap", "127.0.0.1:1", "--context", "here"), 2, "either --bootstrap or"),
        (("topics", "list", "--context", "elsewhere"), 1, "there is no context elsewhere; known: here"),
        (("topics", "list", "--url", "http://127.0.0.1:1"), 1, "an API token is needed"),
        (("topics", "list", "--url", "nowhere", "--token", "t"), 2, "'nowhere' is no address"),
        (("topics", "list", "--token", "wrong"), 1, "401 The token is unknown, revoked or expired."),
        (("topics", "list", "--command-config", "{file}"), 2, "it is for --bootstrap"),
        (("configs", "describe", "--broker-logger", 1), 1, "give --bootstrap"),
        (("groups", "reset", OLD, "--from-file", "{file}"), 2, "give --bootstrap"),
    ],
    ids=["both", "no-context", "no-token", "no-address", "wrong-token", "properties", "log-levels", "file"],
)
def test_what_cannot_be_asked_over_rest_is_one_line(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[object, ...],
    code: int,
    what: str,
) -> None:
    monkeypatch.delenv("CONCLAVE_ADMIN_TOKEN", raising=False)
    (tmp_path / "file").write_text(f"{TOPIC},0,1\n")
    outcome = conclave(capfd, *(str(each).replace("{file}", str(tmp_path / "file")) for each in command))
    assert (outcome.code, outcome.output, len(outcome.complaint.splitlines())) == (code, "", 1), outcome.complaint
    assert what in outcome.complaint
