"""`conclave consume` as users type it, against a node of ours with records that librdkafka wrote."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from conclave.testing import Cluster
from tests.app.cli.in_process import Outcome, conclave

PATIENCE_S = 60
FIRST_MS = 1_700_000_000_000
TOPIC = "orders"


def write(cluster: Cluster, topic: str, partition: int, numbers: range) -> None:
    """Write records `number` with key `k-<number>` and a header, a second apart; every fifth value is null."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in numbers:
        producer.produce(
            topic,
            value=None if number % 5 == 4 else f"value {number}",
            key=f"k-{number}",
            partition=partition,
            timestamp=FIRST_MS + number * 1_000,
            headers=[("parity", "odd" if number % 2 else "even")],
        )
    assert producer.flush(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        started.create_topic(TOPIC, partitions=2)
        write(started, TOPIC, 0, range(10))
        write(started, TOPIC, 1, range(10, 14))
        yield started


def command(cluster: Cluster, *arguments: object) -> list[str]:
    words = map(str, arguments)
    return [sys.executable, "-m", "app.cli.main", "consume", "--bootstrap", cluster.bootstrap_servers, *words]


class Consume:
    """Runs the command to its end, on the module's cluster."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capfd = capfd

    def outcome(self, *arguments: object) -> Outcome:
        return conclave(self._capfd, "consume", "-b", self._cluster.bootstrap_servers, *arguments)

    def __call__(self, *arguments: object) -> list[str]:
        """Return the lines that a successful command prints."""
        outcome = self.outcome(*arguments)
        assert (outcome.code, outcome.complaint) == (0, "")
        return outcome.output.splitlines()

    def offsets(self, *arguments: object) -> list[str]:
        """Return partition and offset of what is read up to the end."""
        return sorted(self(TOPIC, "-e", "-f", r"%p:%o\n", *arguments), key=lambda text: (text[0], int(text[2:])))


@pytest.fixture
def consume(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Consume:
    return Consume(cluster, capfd)


def in_0(*numbers: int) -> list[str]:
    return [f"0:{number}" for number in numbers]


def in_1(*numbers: int) -> list[str]:
    return [f"1:{number}" for number in numbers]


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), []),
        (("--from", "beginning"), in_0(*range(10)) + in_1(*range(4))),
        (("--from", "8"), in_0(8, 9)),
        (("--from", "-3"), in_0(7, 8, 9) + in_1(1, 2, 3)),
        (("--from", "-100", "-p", 1), in_1(0, 1, 2, 3)),
        (("--from", f"@{FIRST_MS + 8_500}"), in_0(9) + in_1(0, 1, 2, 3)),
        (("--from", "2023-11-14T22:13:33Z"), in_1(3)),
        (("--from", "2033-01-01"), []),
        (("--from", "beginning", "--to", 2), in_0(0, 1) + in_1(0, 1)),
        (("--from", "beginning", "--to", f"@{FIRST_MS + 11_000}"), in_0(*range(10)) + in_1(0)),
        (("--from", 3, "--to", 3), []),
        (("--from", 999), []),
    ],
)
def test_reading_starts_and_ends_where_the_options_say(
    consume: Consume, arguments: tuple[object, ...], printed: list[str]
) -> None:
    assert consume.offsets(*arguments) == printed


def test_reading_ends_at_an_offset_without_waiting_for_more(consume: Consume) -> None:
    assert consume(TOPIC, "-p", 0, "--from", 3, "--to", 5) == ["value 3", ""]


def test_the_count_bounds_what_is_printed(consume: Consume) -> None:
    assert consume(TOPIC, "-p", 0, "--from", "beginning", "-n", 2) == ["value 0", "value 1"]


@pytest.mark.parametrize(
    ("filters", "printed"),
    [
        (["key=k-1"], in_0(1) + in_1(0, 1, 2, 3)),
        (["value~ [37]$"], in_0(3, 7)),
        (["key~^k-1.$", "header:parity=odd"], in_1(1, 3)),
        (["header:other=odd"], []),
    ],
)
def test_filters_choose_records_and_all_must_match(consume: Consume, filters: list[str], printed: list[str]) -> None:
    options = [word for text in filters for word in ("--filter", text)]
    assert consume.offsets("--from", "beginning", *options) == printed


def test_the_count_counts_records_that_pass_the_filter(consume: Consume) -> None:
    assert consume(TOPIC, "--from", "beginning", "-p", 0, "-n", 1, "--filter", "key=-6") == ["value 6"]


def test_json_has_every_field(consume: Consume) -> None:
    (line,) = consume(TOPIC, "-p", 0, "--from", 4, "-n", 1, "--json")
    assert json.loads(line) == {
        "topic": TOPIC,
        "partition": 0,
        "offset": 4,
        "timestamp_ms": FIRST_MS + 4_000,
        "timestamp_type": "CreateTime",
        "key": "k-4",
        "value": None,
        "headers": [{"name": "parity", "value": "even"}],
    }


def test_the_output_is_that_of_kcat(cluster: Cluster, consume: Consume) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is missing (apt install kcat)")
    text = r"%t %p %o %k %K %s %S %T %h %%\t\x41\n"
    kcat = ["kcat", "-q", "-C", "-b", cluster.bootstrap_servers, "-t", TOPIC, "-p", "0", "-e", "-o", "beginning"]
    theirs = subprocess.run([*kcat, "-f", text], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    ours = consume(TOPIC, "-p", 0, "-e", "--from", "beginning", "-f", text)
    assert "\n".join(ours) + "\n" == theirs.stdout


def test_a_group_commits_exactly_what_was_printed(cluster: Cluster, consume: Consume) -> None:
    cluster.create_topic("shared")
    write(cluster, "shared", 0, range(4))
    options = ("shared", "-G", "g", "--from", "beginning", "-f", r"%o\n")
    assert consume(*options, "-n", 3) == ["0", "1", "2"]
    group = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    (committed,) = group.committed([TopicPartition("shared", 0)], PATIENCE_S)
    group.close()
    assert committed.offset == 3
    assert consume(*options, "-e") == ["3"]
    assert consume(*options, "-e") == []


def test_it_follows_the_topic_until_ctrl_c(cluster: Cluster) -> None:
    cluster.create_topic("followed")
    with subprocess.Popen(
        command(cluster, "followed", "--from", "beginning", "-f", r"%o\n"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for number in range(3):
            write(cluster, "followed", 0, range(number, number + 1))
            assert process.stdout.readline() == f"{number}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_end_is_a_failure(cluster: Cluster, number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        command(cluster, TOPIC, "-p", 1, "--from", "beginning", "-n", 100), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "value 10\n"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code


def test_it_ends_in_silence_when_its_reader_has_gone(cluster: Cluster) -> None:
    cluster.create_topic("long")
    write(cluster, "long", 0, range(20_000))
    read, written = os.pipe()
    with subprocess.Popen(
        command(cluster, "long", "--from", "beginning"), stdout=written, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(written)
        assert os.read(read, 7) == b"value 0"
        os.close(read)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(PATIENCE_S) == 0


def test_what_consume_prints_produce_reads(
    cluster: Cluster, consume: Consume, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster.create_topic("copy")
    lines = tmp_path / "lines"
    lines.write_text("\n".join(consume(TOPIC, "-p", 0, "-e", "--from", "beginning", "--json")))
    copied = conclave(capfd, "produce", "copy", "--json", "-b", cluster.bootstrap_servers, lines)
    assert (copied.code, copied.complaint) == (0, "")
    shown = r"%k %S %s %h\n"
    original = consume(TOPIC, "-p", 0, "-e", "--from", "beginning", "-f", shown)
    assert consume("copy", "-e", "--from", "beginning", "-f", shown) == original


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 1, "Topic 'nowhere' does not exist."),
        (["nowhere", "-G", "g"], 1, "Topic 'nowhere' does not exist."),
        (
            [TOPIC, "-G", "g", "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=200"],
            1,
            "No metadata of topic orders after 200 ms; asked: 127.0.0.1:1",
        ),
        ([TOPIC, "-p", "7"], 2, "Topic 'orders' has no partition 7: it has 2, numbered from 0"),
        ([TOPIC, "--from", "middle"], 2, "invalid position 'middle': allowed are beginning, end, OFFSET, -COUNT"),
        ([TOPIC, "--to", "end"], 2, "invalid position 'end': allowed are OFFSET and a time"),
        ([TOPIC, "--filter", "offset=3"], 2, "invalid filter 'offset=3'"),
        ([TOPIC, "--filter", "key~("], 2, "invalid filter '('"),
        ([TOPIC, "-f", "%x"], 2, "unknown token '%x': allowed are %s"),
        ([TOPIC, "--json", "-Z"], 2, "excludes --format and --null"),
        ([TOPIC, "-G", "g", "-p", "0"], 2, "excludes --to and --partition"),
        ([TOPIC, "-G", "g", "--from", "3"], 2, "'3' is not allowed with --group: allowed are beginning and end"),
        ([TOPIC, "-X", "group.id=g"], 2, "group.id is not allowed: use --group"),
        ([TOPIC, "-X", "fetch.min.byte=1"], 2, "did you mean fetch.min.bytes"),
    ],
)
def test_wrong_use_is_one_line(consume: Consume, arguments: list[str], code: int, words: str) -> None:
    outcome = consume.outcome(*arguments)
    assert (outcome.code, outcome.output) == (code, "")
    assert words in outcome.complaint
    assert outcome.complaint.count("\n") == 1


def test_configs_of_the_properties_file_count(consume: Consume, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=NONE\n")
    outcome = consume.outcome(TOPIC, "--command-config", properties)
    assert outcome.code == 2
    assert "sasl.mechanism" in outcome.complaint
