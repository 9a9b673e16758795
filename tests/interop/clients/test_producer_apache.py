"""KafkaProducer against an unmodified Apache broker; Apache's console consumer reads what it wrote."""

import asyncio

import pytest

from kraft_core.clients.producer.kafka_producer import KafkaProducer
from tests.interop import kafka
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {"gzip": 9, "lz4": 3, "zstd": 12}
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


async def write(bootstrap: str, topic: str, lines: list[str], **configs: object) -> list[int]:
    """Write lines with a key and a header; return the offsets."""
    async with asyncio.timeout(PATIENCE_S), KafkaProducer({"bootstrap.servers": bootstrap, **configs}) as producer:
        futures = [
            await producer.send(topic, line.encode(), b"key", partition=0, headers=[("line", b"%d" % number)])
            for number, line in enumerate(lines)
        ]
        return [(await future).offset for future in futures]


def test_apaches_console_consumer_reads_what_was_written_in_every_codec_and_level(apache: str) -> None:
    written: list[str] = []
    offsets: list[int] = []
    configs: list[dict[str, object]] = [{"compression.type": codec} for codec in CODECS]
    configs += [{"compression.type": codec, f"compression.{codec}.level": level} for codec, level in LEVELS.items()]
    for number, given in enumerate(configs):
        lines = [f"value-{number}-{line}-{'x' * (line % 700)}" for line in range(300)]
        offsets += asyncio.run(write(apache, "written", lines, **given))
        written += lines
    assert offsets == list(range(len(written)))
    printed = kafka.tool(
        CONSUMER,
        *("--bootstrap-server", apache, "--topic", "written", "--from-beginning"),
        *("--max-messages", str(len(written)), "--timeout-ms", "90000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
    )
    read = [line.split("\t") for line in printed.splitlines() if line.startswith("line:")]
    assert [value for _, _, value in read] == written
    assert {key for _, key, _ in read} == {"key"}
    assert [header for header, _, _ in read] == [f"line:{number % 300}" for number in range(len(written))]


def test_a_broker_acknowledges_with_its_offset_and_the_records_own_time(apache: str) -> None:
    async def story() -> None:
        async with KafkaProducer({"bootstrap.servers": apache}) as producer:
            first = await (await producer.send("plain", b"v", timestamp_ms=1_000))
            second = await (await producer.send("plain", b"v", timestamp_ms=2_000))
            assert (first.offset, first.timestamp) == (0, 1_000)
            assert (second.offset, second.timestamp) == (1, 2_000)

    asyncio.run(story())
