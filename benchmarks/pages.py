"""The main pages with 10,000 and 100,000 topics, 1,000 groups and dead brokers; 500 open pages. Ours only.

Three brokers have the topics and do not run; a fourth is real: it has the groups and the topic whose messages are read.
"""

import asyncio
import http.client
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.frames import check_topics_created, create_topic_frames
from benchmarks.load import one_at_a_time
from benchmarks.plan import Plan
from benchmarks.sides import OURS, Cluster, running
from conclave.testing.free_ports import free_ports
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.admin.topics import NewTopic
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS
from kraft_core.protocol.metadata_version import BROKER_FEATURES, FEATURES
from kraft_core.storage.format import FormatRequest, format_storage
from tests.interop import conclave, kafka

TOKEN = "benchmark-admin-token"
TOPICS_PER_REQUEST = 100
SIZES = (10_000, 100_000)
PARTITIONS = 4
BROKER = 4
GROUPS = 1_000
MESSAGES = 100_000
WATCHERS = 500
CHANGES = 3
LEVELS = dict.fromkeys(FEATURES.keys() - BROKER_FEATURES.keys(), 0)
"""Of features that our brokers do not have."""
PAGES = {
    "dashboard": ("/", 50),
    "topics": ("/topics", 50),
    "filter of topics": ("/fragments/topics?q=topic-7", 300),
    "search": ("/fragments/search?q=topic-77", 300),
    "topic": ("/topics/topic-0-0", 50),
    "groups": ("/groups", None),
    "messages, newest 50": ("/topics/messages/messages", None),
    "REST topics": ("/v3/clusters/{}/topics", 100),
}
"""Name, path and the budget of the first byte in ms."""


class Browser:
    """A persistent connection to the web process."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Return (status, body, milliseconds from the request to the first byte) of a GET."""
        return self._ask("GET", path, None)

    def create_topic(self, cluster_id: str, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        body = f'{{"topic_name": "{name}", "partitions_count": {partitions}}}'.encode()
        status, text, _ = self._ask("POST", f"/v3/clusters/{cluster_id}/topics", body)
        assert status == 201, text

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes, float]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        began = time.perf_counter()
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        took_ms = (time.perf_counter() - began) * 1000
        return answer.status, answer.read(), took_ms


def web_process(folder: Path, bootstrap: str, port: int) -> kafka.Process:
    config = folder / "web.toml"
    config.write_text(f'bootstrap_controllers = "{bootstrap}"\nhttp_port = {port}\ndata_dir = "{folder / "data"}"\n')
    environment = {"CONCLAVE_ADMIN_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return kafka.Process("web", [sys.executable, "-m", "app.web", str(config)], folder, environment)


def ready_browser(port: int) -> Browser:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        browser = Browser(port)
        try:
            if browser.get("/readyz")[0] == 200:
                return browser
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the web process was not ready within 120 s")


@contextmanager
def _broker(folder: Path, cluster: Cluster) -> Iterator[str]:
    """Yield the address of a real broker with the groups and the messages."""
    folder.mkdir()
    (port,) = free_ports(1)
    settings = kafka.broker_settings(BROKER, port, folder, cluster.quorum.bootstrap)
    config = kafka.write_properties(folder / "server.properties", settings | {"offsets.topic.num.partitions": 1})
    data = folder / "data"
    request = FormatRequest(
        node_id=BROKER, cluster_id=cluster.quorum.cluster_id, log_dirs=[data], metadata_log_dir=data, is_dynamic=True
    )
    format_storage(request, lambda _line: None)
    with conclave.start("broker", config) as process:
        process.wait_for_output("broker_started")
        asyncio.run(_fill(f"127.0.0.1:{port}"))
        yield f"127.0.0.1:{port}"


async def _fill(address: str) -> None:
    async with Admin({"bootstrap.servers": address, "default.api.timeout.ms": 120_000}) as admin:
        wanted = [NewTopic(name=name, replicas_assignments={0: [BROKER]}) for name in (CONSUMER_OFFSETS, "messages")]
        (await admin.create_topics(wanted)).all()
        async with KafkaProducer({"bootstrap.servers": address}) as producer:
            for number in range(MESSAGES):
                await producer.send("messages", value=f'{{"number": {number}}}'.encode(), partition=0)
        offset = {TopicPartition("messages", 0): OffsetAndMetadata(0)}
        names = [f"group-{number}" for number in range(GROUPS)]
        for first in range(0, GROUPS, 100):
            commits = [admin.alter_consumer_group_offsets(name, offset) for name in names[first : first + 100]]
            for done in await asyncio.gather(*commits):
                done.all()


@dataclass(frozen=True, slots=True)
class Setting:
    """A running web process, its cluster, and the number of topics as text."""

    browser: Browser
    port: int
    process: kafka.Process
    cluster_id: str
    topics: str


def pages(plan: Plan) -> list[Figure]:
    """Measure each page at the first request and at later ones, then 500 open pages, then memory."""
    figures = []
    for topics in SIZES:
        requests = plan.count(topics // TOPICS_PER_REQUEST, 1)
        with (
            running(OURS, 1, features=LEVELS) as cluster,
            tempfile.TemporaryDirectory(prefix="conclave-bench-") as name,
        ):
            folder = Path(name)
            frames = create_topic_frames("topic", requests, PARTITIONS, TOPICS_PER_REQUEST)
            check_topics_created(one_at_a_time(cluster.leader_port, frames).answers)
            (port,) = free_ports(1)
            with _broker(folder / "broker", cluster), web_process(folder, cluster.quorum.bootstrap, port) as web:
                count = f"{requests * TOPICS_PER_REQUEST:,} topics"
                setting = Setting(ready_browser(port), port, web, cluster.quorum.cluster_id, count)
                figures += [*_first_bytes(setting), *asyncio.run(_open_pages(setting)), _memory(setting)]
    return figures


def _first_bytes(setting: Setting) -> Iterator[Figure]:
    for name, (path, budget) in PAGES.items():
        first = Figure(f"{name}, {setting.topics}, first request", "ms", budget)
        again = Figure(f"{name}, {setting.topics}, p50", "ms", budget)
        for number in range(21):
            status, body, took_ms = setting.browser.get(path.format(setting.cluster_id))
            assert status == 200, f"{status} {body[:500]!r}\n{setting.process.output[-2000:]}"
            (again if number else first).add(OURS, took_ms)
        yield first
        yield again


class Watcher:
    """An open page as live.js keeps it: it reads the event stream, and fetches its part after each new stamp."""

    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._path = path
        self.shown_at: dict[str, float] = {}

    async def watch(self, names: list[str]) -> None:
        """Watch until the page has shown every name."""
        events, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(_get("/events"))
        part = await asyncio.open_connection("127.0.0.1", self._port)
        stamp = ""
        while len(self.shown_at) < len(names):
            line = (await events.readline()).decode()
            assert line, "the event stream ended"
            if not line.startswith("data: {"):
                continue
            new = line.partition('"stamp": "')[2].partition('"')[0]
            if new == stamp:
                continue
            stamp = new
            text = await self._fragment(*part)
            for name in names:
                if name in text:
                    self.shown_at.setdefault(name, time.perf_counter())

    async def _fragment(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        writer.write(_get(self._path, "X-Live: 1\r\n"))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 200"), head
        return (await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))).decode()


def _get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n".encode()


async def _open_pages(setting: Setting) -> list[Figure]:
    """Measure the time from the acknowledgement of a change until open pages show it: one page, and 500."""
    figures = []
    for count in (1, WATCHERS):
        figure = Figure(f"commit to open page, {count} open, {setting.topics}, p50", "ms", 200 if count == 1 else None)
        slowest = Figure(f"commit to open page, {count} open, {setting.topics}, slowest", "ms")
        names = [f"shown-{count}-{number}" for number in range(CHANGES)]
        watchers = [Watcher(setting.port, f"/fragments/topics?q=shown-{count}-") for _ in range(count)]
        tasks = [asyncio.create_task(each.watch(names)) for each in watchers]
        await asyncio.sleep(5)
        browser = Browser(setting.port)
        for name in names:
            await asyncio.to_thread(browser.create_topic, setting.cluster_id, name)
            acknowledged = time.perf_counter()
            while any(name not in each.shown_at for each in watchers):
                for task in tasks:
                    if task.done():
                        task.result()  # raises what ended it
                await asyncio.sleep(0.005)
            took = [max(0.0, each.shown_at[name] - acknowledged) * 1000 for each in watchers]
            figure.add(OURS, *took)
            slowest.add(OURS, max(took))
        await asyncio.gather(*tasks)
        figures += [figure, slowest]
    return figures


def _memory(setting: Setting) -> Figure:
    figure = Figure(f"resident memory of the web process, {setting.topics}", "MB")
    figure.add(OURS, conclave.resident_mb(setting.process))
    return figure
