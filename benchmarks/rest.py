"""REST beside librdkafka's AdminClient on the same node of ours: 1, 8 and 64 callers; and the watch.

Callers are threads of one process. Over REST each has a connection; `conclave.client` and the AdminClient are shared by
all of them, as programs do.
"""

import http.client
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.figures import Figure
from benchmarks.load import percentile
from benchmarks.pages import TOKEN, ready_browser, web_process
from benchmarks.plan import Plan
from benchmarks.sides import OURS, Side
from conclave.client import Client
from conclave.testing.free_ports import free_ports
from tests.app.live import CombinedNode, combined_node

CALLERS: Final = (1, 8, 64)
TOPICS: Final = 1_000
LIST_SIZE: Final = 100
WATCHED: Final = 20
TIMEOUT_SECONDS: Final = 60
SDK: Final = Side("conclave.client", is_apache=False)
LIBRDKAFKA: Final = Side("librdkafka", is_apache=False)
SIDES: Final = (OURS, SDK, LIBRDKAFKA)
CALLS: Final = {"list": 200, "get": 1_000, "create": 320, "config": 500}
"""Calls of a full run by operation, for each side and number of callers."""


class Calls(Protocol):
    """The operations of one side. Each waits for its answer."""

    def list(self) -> None:
        """List all topics."""

    def get(self) -> None:
        """Describe a topic."""

    def create(self, name: str) -> None:
        """Create a topic."""

    def config(self, value: int) -> None:
        """Set a config of a topic."""


class Rest:
    """REST without a library: a connection for each thread."""

    def __init__(self, port: int, cluster_id: str) -> None:
        self._port = port
        self._base = f"/v3/clusters/{cluster_id}/topics"
        self._own = threading.local()

    def _ask(self, method: str, path: str, body: object = None) -> None:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        while True:
            self._own.connection.request(method, f"{self._base}{path}", json.dumps(body) if body else None, headers)
            answer = self._own.connection.getresponse()
            text = answer.read()
            if answer.status != 429:
                break
            time.sleep(0.01)  # programs retry what is refused; Retry-After would be a whole second
        assert answer.status < 300, text

    def list(self) -> None:
        self._ask("GET", "")

    def get(self) -> None:
        self._ask("GET", "/topic-0")

    def create(self, name: str) -> None:
        self._ask("POST", "", {"topic_name": name})

    def config(self, value: int) -> None:
        self._ask("PUT", "/topic-1/configs/retention.ms", {"value": str(value)})


class Sdk:
    """`conclave.client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> None:
        assert sum(1 for _ in self._client.list_topics()) >= LIST_SIZE

    def get(self) -> None:
        self._client.get_topic("topic-0")

    def create(self, name: str) -> None:
        self._client.create_topic(topic_name=name)

    def config(self, value: int) -> None:
        self._client.set_topic_config("topic-1", "retention.ms", value=str(value))


class Librdkafka:
    """The AdminClient of confluent-kafka."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address})

    def list(self) -> None:
        assert len(self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics) >= LIST_SIZE

    def get(self) -> None:
        for future in self._admin.describe_topics(TopicCollection(["topic-0"])).values():
            future.result(TIMEOUT_SECONDS)

    def create(self, name: str) -> None:
        for future in self._admin.create_topics([NewTopic(name, 1, 1)]).values():
            future.result(TIMEOUT_SECONDS)

    def config(self, value: int) -> None:
        entry = ConfigEntry("retention.ms", str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "topic-1", incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True)
class Setting:
    """A running node and its web process."""

    node: CombinedNode
    port: int

    @property
    def url(self) -> str:
        """The address of the web process."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def _running() -> Iterator[Setting]:
    with tempfile.TemporaryDirectory(prefix="conclave-bench-") as name, combined_node(Path(name) / "node") as node:
        (port,) = free_ports(1)
        with web_process(Path(name), node.bootstrap, port):
            ready_browser(port)
            yield Setting(node, port)


def rest(plan: Plan) -> list[Figure]:
    """Measure the operations with each number of callers, then how soon watchers see a change."""
    figures: dict[str, Figure] = {}
    numbers = itertools.count()
    with _running() as setting, Client(setting.url, TOKEN, cluster_id=setting.node.cluster_id) as client:
        topics = plan.count(TOPICS, LIST_SIZE)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: client.create_topic(topic_name=f"topic-{number}"), range(topics)))
        sides: dict[Side, Calls] = {
            OURS: Rest(setting.port, setting.node.cluster_id),
            SDK: Sdk(client),
            LIBRDKAFKA: Librdkafka(setting.node.broker),
        }
        for _, (callers, side), operation in itertools.product(
            range(plan.rounds), itertools.product(CALLERS, SIDES), CALLS
        ):
            call = _call(sides[side], operation, numbers)
            took_ms, seconds = _timed(call, callers, plan.count(CALLS[operation], callers))
            what = f"{operation}, {callers} caller{'s' if callers > 1 else ''}"
            for name, unit, value in (
                ("p50", "ms", percentile(took_ms, 0.5)),
                ("p99", "ms", percentile(took_ms, 0.99)),
                ("rate", "calls/s", len(took_ms) / seconds),
            ):
                figure = Figure(f"{what}, {name}", unit, more_is_better=unit != "ms", sides=SIDES)
                figures.setdefault(figure.name, figure).add(side, value)
        return [*figures.values(), *(_watch(setting, client, count, numbers, plan) for count in CALLERS)]


def _call(calls: Calls, operation: str, numbers: Iterator[int]) -> Callable[[], None]:
    if operation == "create":
        return lambda: calls.create(f"made-{next(numbers)}")
    if operation == "config":
        return lambda: calls.config(1_000_000 + next(numbers))
    return calls.list if operation == "list" else calls.get


def _timed(call: Callable[[], None], callers: int, count: int) -> tuple[list[float], float]:
    """Make `count` calls by so many threads. Return the milliseconds of each, and the seconds of all."""

    def one(_: int) -> float:
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1000

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(one, range(callers)))  # connections
        began = time.perf_counter()
        took_ms = list(pool.map(one, range(count)))
        return took_ms, time.perf_counter() - began


def _watch(setting: Setting, client: Client, watchers: int, numbers: Iterator[int], plan: Plan) -> Figure:
    """Measure the time from the request of a creation until each watcher has it."""
    first, *names = [f"watched-{next(numbers)}" for _ in range(plan.count(WATCHED, 2) + 1)]
    begun = threading.Barrier(watchers + 1)  # every watcher has the first topic, so its stream is open
    seen: list[dict[str, float]] = []
    offset = client.metadata_offset or 0

    def watch() -> None:
        at: dict[str, float] = {}
        with Client(setting.url, TOKEN, cluster_id=setting.node.cluster_id) as own:
            for change in own.watch(from_offset=offset + 1):
                if f"topic {first}: created" in change.lines:
                    begun.wait(TIMEOUT_SECONDS)
                at |= {name: time.perf_counter() for name in names if f"topic {name}: created" in change.lines}
                if len(at) == len(names):
                    break
        seen.append(at)

    threads = [threading.Thread(target=watch) for _ in range(watchers)]
    for thread in threads:
        thread.start()
    client.create_topic(topic_name=first)
    begun.wait(TIMEOUT_SECONDS)
    made: dict[str, float] = {}
    for name in names:
        made[name] = time.perf_counter()
        client.create_topic(topic_name=name)
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert len(seen) == watchers
    figure = Figure(f"request to watcher, {watchers} watching, p50", "ms", sides=SIDES)
    late = [(at[name] - made[name]) * 1000 for at in seen for name in names]
    figure.add(OURS, percentile(late, 0.5))
    return figure
