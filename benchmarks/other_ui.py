"""The pages of ours beside kafka-viewer, a web UI for messages that PyPI has, on the same cluster in the same Chromium.

`python -m benchmarks.other_ui [TOPICS]` installs it into a folder of its own below ~/.cache at the first run, starts
both on one node with a broker, and prints the time until each answers, until its pages can be used, and its memory.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserType, Page, sync_playwright

from benchmarks.pages import TOKEN, ready_browser, web_process
from conclave.testing.free_ports import free_ports
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from tests.app.live import combined_node
from tests.browser.conftest import ARGUMENTS, chromium_program
from tests.interop import conclave, kafka

OTHER = "kafka-viewer==0.4.0"
TOPICS = 10_000
MESSAGES = 10_000
ROUNDS = 5
WAIT_MS = 120_000


def installed() -> Path:
    """Return the folder with the other UI's Python, made at the first call."""
    folder = Path.home() / ".cache" / "conclave" / OTHER.replace("==", "-")
    if not (folder / "bin" / "kafka-viewer").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", OTHER], check=True)
    return folder


def other_process(folder: Path, broker: str, port: int) -> kafka.Process:
    """Start the other UI as its own command does, without a browser."""
    found = installed()
    config = folder / "viewer.properties"
    config.write_text(f"kafka.bootstrap.servers={broker}\nkafka.security.protocol=PLAINTEXT\n")
    (program,) = found.glob("lib/python*/site-packages/kafka_viewer/ui.py")
    options = {"server.port": port, "server.address": "127.0.0.1", "server.headless": "true"}
    given = [f"--{name}={value}" for name, value in options.items()]
    command = [found / "bin" / "python", "-m", "streamlit", "run", program, *given, "--", "--config", config]
    environment = {"STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false", "HOME": str(folder)}
    return kafka.Process("other", [str(each) for each in command], folder, environment)


def wait_for_other(port: int) -> None:
    """Wait until the other UI says that it is healthy."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    kafka.wait_until(answers, 120, "the other UI answers", 0.05)


async def fill(broker: str) -> None:
    """Write the messages."""
    async with KafkaProducer({"bootstrap.servers": broker}) as producer:
        for number in range(MESSAGES):
            await producer.send("messages", value=f'{{"number": {number}}}'.encode(), partition=0)


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def ours(page: Page, port: int) -> dict[str, list[float]]:
    """Open the list of topics and the newest messages."""
    took: dict[str, list[float]] = {"topics": [], "messages": []}

    def open_page(path: str, text: str) -> None:
        page.goto(f"http://127.0.0.1:{port}{path}")
        page.get_by_text(text).first.wait_for(timeout=WAIT_MS)

    for _ in range(ROUNDS):
        took["topics"].append(milliseconds(lambda: open_page("/topics", "large-0")))
        took["messages"].append(milliseconds(lambda: open_page("/topics/messages/messages", f"{MESSAGES - 1}")))
    return took


def theirs(page: Page, port: int) -> dict[str, list[float]]:
    """Open the page with the choice of topics, choose the topic, and load its latest messages."""
    took: dict[str, list[float]] = {"topics": [], "messages": []}
    load = page.get_by_role("button", name="Load Messages")

    def open_page() -> None:
        page.goto(f"http://127.0.0.1:{port}/")
        load.wait_for(timeout=WAIT_MS)

    def choose() -> None:
        place = page.get_by_role("combobox").first
        place.click()
        place.fill("messages")
        page.get_by_role("option", name="messages", exact=True).click()
        load.click()
        page.get_by_text("#1 partition=").first.wait_for(timeout=WAIT_MS)

    for _ in range(ROUNDS):
        took["topics"].append(milliseconds(open_page))
        took["messages"].append(milliseconds(choose))
    return took


def chromium_page(chromium: BrowserType, token: str = "") -> Page:
    """Return a page of a new browser."""
    browser = chromium.launch(executable_path=chromium_program(), args=ARGUMENTS)
    return browser.new_page(extra_http_headers={"Authorization": f"Bearer {token}"} if token else {})


def show(name: str, start_s: float, took: dict[str, list[float]], process: kafka.Process) -> None:
    """Print the figures of one side."""
    pages = ", ".join(
        f"{page} first {found[0]:,.0f} ms, p50 {statistics.median(found):,.0f} ms" for page, found in took.items()
    )
    print(f"{name}: answers after {start_s:.1f} s; {pages}; {conclave.resident_mb(process):.0f} MB")


def main(topics: int) -> int:
    """Measure both, one after the other."""
    installed()
    print(f"{topics:,} topics, load average {os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory(prefix="conclave-bench-") as name,
        combined_node(Path(name) / "node") as node,
        sync_playwright() as playwright,
    ):
        folder, (our_port, their_port) = Path(name), free_ports(2)
        began = time.perf_counter()
        with web_process(folder, node.bootstrap, our_port) as process:
            browser = ready_browser(our_port)
            started = time.perf_counter() - began
            for topic in ("messages", *(f"large-{number}" for number in range(topics))):
                browser.create_topic(node.cluster_id, topic)
            asyncio.run(fill(node.broker))
            show("ours", started, ours(chromium_page(playwright.chromium, TOKEN), our_port), process)
            began = time.perf_counter()
            with other_process(folder, node.broker, their_port) as other:
                wait_for_other(their_port)
                started = time.perf_counter() - began
                show(OTHER, started, theirs(chromium_page(playwright.chromium), their_port), other)
        print(f"load average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TOPICS))
