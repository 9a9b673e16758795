"""`conclave produce` as users type it, against a node of ours; another client reads what it wrote."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from conclave.testing import Cluster
from tests.app.cli.in_process import conclave

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "app.cli.main", "produce", *map(str, arguments)]


class Produce:
    """Runs the command to its end, on the module's cluster."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
        self._cluster = cluster
        self._capfd = capfd
        self._folder = folder

    def __call__(self, *arguments: object, text: str, code: int = 0) -> str:
        """Send a file with this text; return what the command complains about, one line at most."""
        file = self._folder / "input"
        file.write_bytes(text.encode())
        servers = self._cluster.bootstrap_servers
        outcome = conclave(self._capfd, "produce", "--bootstrap", servers, *arguments, file)
        assert (outcome.code, outcome.output) == (code, ""), outcome.complaint
        assert outcome.complaint.count("\n") == (code != 0), outcome.complaint
        return outcome.complaint


@pytest.fixture
def produce(cluster: Cluster, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Produce:
    return Produce(cluster, capfd, tmp_path)


def written(cluster: Cluster, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    ends = 0
    while ends < len(partitions):
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                found.append(message)
            else:
                ends += 1
    consumer.close()
    assert len(found) == count
    return found


def wait_for_record(cluster: Cluster, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    deadline = time.monotonic() + PATIENCE_S
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)[1] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    consumer.close()


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def test_each_line_is_a_record(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("lines")
    produce("lines", text="one\n\ntwo\r\nlast")
    assert values(written(cluster, "lines", 4)) == [b"one", b"", b"two\r", b"last"]


def test_keys_headers_partition_and_codec(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("rich", partitions=3)
    options = ("-K", r"\t", "-H", "a=1", "-H", "none", "-p", 2, "-z", "zstd", "--acks", 1)
    produce("rich", *options, text="k\tv\tw\n\tv2\n")
    first, second = written(cluster, "rich", 2)
    assert (first.key(), first.value(), first.partition()) == (b"k", b"v\tw", 2)
    assert (second.key(), second.value(), second.partition()) == (b"", b"v2", 2)
    assert first.headers() == [("a", b"1"), ("none", None)]


def test_empty_values_become_tombstones_on_request(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("tombstones")
    produce("tombstones", "-K", ":", "-Z", text="gone:\n:kept\n")
    first, second = written(cluster, "tombstones", 2)
    assert (first.key(), first.value()) == (b"gone", None)
    assert (second.key(), second.value()) == (None, b"kept")


def test_json_lines_carry_bytes_and_headers(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("json", partitions=2)
    lines = [
        {"key": "k", "value_base64": "/wA=", "headers": [{"name": "h", "value": "1"}], "partition": 1},
        {"value": None, "timestamp_ms": 1_700_000_000_000},
    ]
    produce("json", "--json", "-k", "other", text="\n".join(map(json.dumps, lines)))
    by_key = {message.key(): message for message in written(cluster, "json", 2)}
    assert by_key[b"k"].value() == b"\xff\0"
    assert by_key[b"k"].headers() == [("h", b"1")]
    assert by_key[b"k"].partition() == 1
    assert by_key[b"other"].value() is None
    assert by_key[b"other"].timestamp()[1] == 1_700_000_000_000


def test_files_follow_each_other_and_standard_input_is_a_dash(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("files")
    (tmp_path / "a").write_text("a1\na2")
    (tmp_path / "b").write_text("b1\n")
    run = command("files", "-b", cluster.bootstrap_servers, tmp_path / "a", "-", tmp_path / "b")
    subprocess.run(run, input=b"stdin", check=True, timeout=PATIENCE_S)
    assert values(written(cluster, "files", 4)) == [b"a1", b"a2", b"stdin", b"b1"]


def test_many_records_arrive_in_order_up_to_the_count(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("many")
    produce("many", "-n", 30_000, text="".join(f"{number}\n" for number in range(50_000)))
    assert values(written(cluster, "many", 30_000)) == [b"%d" % number for number in range(30_000)]


def test_a_rate_bounds_the_speed(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("slow")
    began = time.monotonic()
    produce("slow", "--rate", 50, text="x\n" * 50)
    assert time.monotonic() - began > 0.9
    written(cluster, "slow", 50)


def test_a_line_that_is_no_record_ends_with_2_after_those_before_it(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("half")
    complaint = produce("half", "-K", ":", text="a:1\nb:2\nc\nd:4\n", code=2)
    assert complaint == "conclave produce: line 3 has no key separator ':'; 2 records before it were delivered\n"
    written(cluster, "half", 2)


def test_records_that_are_not_delivered_are_counted(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("refusing", configs={"max.message.bytes": 1_000})
    text = "small\n" + "x" * 5_000 + "\nsmall\n"
    complaint = produce("refusing", "-X", "batch.size=0", text=text, code=1)
    assert "1 of 3 records were not delivered; first error: " in complaint
    written(cluster, "refusing", 2)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-z", "brotli"], 2, "Invalid value brotli for configuration compression.type"),
        (["-X", "lingr.ms=1"], 2, "Unknown configuration lingr.ms: did you mean linger.ms"),
        (["-X", "linger.ms"], 2, "'linger.ms' is not NAME=VALUE"),
        (["-H", "=v"], 2, "'=v' is not NAME=VALUE, or NAME for a null"),
        (["-K", ""], 2, "must not be empty"),
        (["-K", r"\q"], 2, r"unknown escape '\q'"),
        (["--json", "-Z"], 2, "exclude --key-separator and --null"),
        (["-p", "7", "-X", "max.block.ms=200"], 1, "no partition 7"),
        (["no-such-file"], 1, "No such file or directory: 'no-such-file'"),
    ],
)
def test_wrong_use_is_one_line(produce: Produce, arguments: list[str], code: int, words: str) -> None:
    assert words in produce("wrong", *arguments, text="x\n", code=code)


def test_a_cluster_that_does_not_answer_is_named(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "input").write_text("x")
    outcome = conclave(capfd, "produce", "t", "-b", "127.0.0.1:1", "-X", "max.block.ms=200", tmp_path / "input")
    assert outcome.code == 1
    assert "none of 127.0.0.1:1 answered" in outcome.complaint


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_input_before_an_unfinished_line(cluster: Cluster, number: signal.Signals, code: int) -> None:
    topic = f"signal-{number}"
    cluster.create_topic(topic)
    arguments = command(topic, "-b", cluster.bootstrap_servers)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("read\nhalf a line")
        process.stdin.flush()
        wait_for_record(cluster, topic)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
        assert process.stderr.read() == ""
    assert values(written(cluster, topic, 1)) == [b"read"]
