"""A topic of 10 GB is browsed in bounded memory. Ours only.

`python -m benchmarks.large_topic [GB]` writes the topic to one node, reads windows of it through the web process, and
prints how long each took and what the web process needed at its peak. The records are removed at the end.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.pages import Browser, ready_browser, web_process
from conclave.testing.free_ports import free_ports
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from tests.app.live import CombinedNode, combined_node
from tests.interop import kafka

GB = 10
RECORD_BYTES = 10_000
PARTITIONS = 6
TOPIC = "large"


async def write(node: CombinedNode, records: int) -> None:
    """Write records of RECORD_BYTES to all partitions in turn; one in 100,000 has the word needle."""
    filling = bytes(number % 94 + 33 for number in range(RECORD_BYTES))
    async with KafkaProducer({"bootstrap.servers": node.broker, "batch.size": 500_000, "linger.ms": 20}) as producer:
        for number in range(records):
            value = b"needle " + filling if number % 100_000 == 77_777 else filling
            await producer.send(TOPIC, value=value, key=str(number).encode(), partition=number % PARTITIONS)


def peak_mb(process: kafka.Process) -> float:
    """Return the most resident memory that a process had, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.popen.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def browse(browser: Browser, process: kafka.Process, records: int) -> None:
    """Read windows of all kinds and print the time and the peak of memory after each."""
    page = f"/topics/{TOPIC}/messages"
    middle = records // PARTITIONS // 2
    for name, query in {
        "before": "",
        "newest 50": "?",
        "newest 500": "?count=500",
        "beginning": "?start=beginning&count=500",
        "offset in the middle": f"?start=offset&position={middle}&count=500",
        "filter, until a limit": "?start=beginning&field=value&name=&operator=contains&text=no-such",
    }.items():
        if not query:
            print(f"{name}: peak {peak_mb(process):.0f} MB")
            continue
        status, body, took_ms = browser.get(page + query)
        assert status == 200, body[:2_000]
        said = re.search(rb"[\d,]+ records?\. Scanned[^<]*", body)
        print(f"{name}: {took_ms:,.0f} ms, {said[0].decode() if said else '?'} peak {peak_mb(process):.0f} MB")


def main(gigabytes: float) -> int:
    """Write and browse a topic."""
    records = int(gigabytes * 10**9 / RECORD_BYTES)
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as name:
        folder = Path(name)
        with combined_node(folder / "node") as node:
            (port,) = free_ports(1)
            with web_process(folder, node.bootstrap, port) as process:
                browser = ready_browser(port)
                browser.create_topic(node.cluster_id, TOPIC, PARTITIONS)
                asyncio.run(write(node, records))
                size = sum(each.stat().st_size for each in (folder / "node").rglob("*.log"))
                print(f"{records:,} records, {size / 10**9:.1f} GB on disk")
                browse(browser, process, records)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else GB))
