"""Latency of the first page of topics with 10,000 topics and 40,000 partitions. Ours only."""

import http.client
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.frames import check_topics_created, create_topic_frames
from benchmarks.load import one_at_a_time
from benchmarks.plan import Plan
from benchmarks.sides import OURS, running
from conclave.testing.free_ports import free_ports
from tests.interop import kafka

TOKEN = "benchmark-admin-token"
TOPICS_PER_REQUEST = 100
TOPICS = 10_000
PARTITIONS = 4
PAGES = {"topics page": "/topics", "REST topics": "/v3/clusters/{}/topics"}


class Browser:
    """A persistent connection to the web process."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Return (status, body, milliseconds from the request to the last byte) of a GET."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self._connection.getresponse()
        body = answer.read()
        return answer.status, body, (time.perf_counter() - began) * 1000


def _web(folder: Path, bootstrap: str, port: int) -> kafka.Process:
    config = folder / "web.toml"
    config.write_text(f'bootstrap_controllers = "{bootstrap}"\nhttp_port = {port}\ndata_dir = "{folder / "data"}"\n')
    environment = {"CONCLAVE_ADMIN_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return kafka.Process("web", [sys.executable, "-m", "app.web", str(config)], folder, environment)


def _ready(port: int) -> Browser:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        browser = Browser(port)
        try:
            if browser.get("/readyz")[0] == 200:
                return browser
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the web process was not ready within 60 s")


def pages(plan: Plan) -> list[Figure]:
    """Measure the page and the REST list, each at the first request and at later ones."""
    figures = []
    requests = plan.count(TOPICS // TOPICS_PER_REQUEST, 1)
    with running(OURS, 1) as cluster, tempfile.TemporaryDirectory(prefix="conclave-bench-") as folder:
        frames = create_topic_frames("topic", requests, PARTITIONS, TOPICS_PER_REQUEST)
        check_topics_created(one_at_a_time(cluster.leader_port, frames).answers)
        (port,) = free_ports(1)
        with _web(Path(folder), cluster.quorum.bootstrap, port) as process:
            browser = _ready(port)
            for name, path in PAGES.items():
                first = Figure(f"{name}, {requests * TOPICS_PER_REQUEST:,} topics, first request", "ms", 100)
                again = Figure(f"{name}, {requests * TOPICS_PER_REQUEST:,} topics, p50", "ms", 100)
                for number in range(21):
                    status, body, took_ms = browser.get(path.format(cluster.quorum.cluster_id))
                    assert status == 200, f"{status} {body[:500]!r}\n{process.output[-2000:]}"
                    assert b"topic-0-0" in body, body[:500]
                    (again if number else first).add(OURS, took_ms)
                figures += [first, again]
    return figures
