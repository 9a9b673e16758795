"""The pictures of the pages in docs/images: `make screenshots`.

Three controllers of this project, three Apache brokers in three racks, and Chromium. Each main page is taken in both
themes: NAME.png and NAME-dark.png.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, sync_playwright

from conclave.testing.free_ports import free_ports
from tests.browser.conftest import ARGUMENTS, chromium_program
from tests.interop import conclave, kafka

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
TOKEN: Final = "a-token-for-pictures-0123456789"
BROKERS: Final = {101: "rack-a", 102: "rack-b", 103: "rack-c"}
TOPICS: Final = {"orders": 6, "payments": 6, "shipments": 3, "clicks": 12, "customer-profiles": 4, "inventory": 3}
COMPACTED: Final = frozenset({"customer-profiles", "inventory"})
SETTLE_MS: Final = 1_500
PAGES: Final = {
    "dashboard": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "messages": "/topics/orders/messages?count=20",
    "configs": "/topics/orders/configs",
    "groups": "/groups",
    "group": "/groups/billing",
    "brokers": "/brokers",
    "timeline": "/brokers/103/timeline",
    "quorum": "/quorum",
    "changes": "/changes",
    "flaps": "/flaps",
    "report": "/reports/{report}",
    "moves": "/moves/new?goal=drain&broker=103",
    "plan": "/plans/{plan}",
    "access-control": "/rights",
    "clusters": "/clusters",
}


@dataclass(frozen=True, slots=True)
class Demo:
    """A running installation with content."""

    url: str
    login_link: str
    found: dict[str, int]


@contextmanager
def installation(folder: Path) -> Iterator[Demo]:
    """Yield an installation with topics, records, a group behind, a report, a plan and a second cluster."""
    (port,) = free_ports(1)
    with ExitStack() as stack:
        quorum = stack.enter_context(conclave.running_quorum(folder, 3))
        brokers = []
        for broker_id, rack in BROKERS.items():
            one = kafka.broker(
                folder / f"broker-{broker_id}",
                broker_id,
                quorum.bootstrap,
                quorum.cluster_id,
                broker_rack=rack,
                offsets_topic_num_partitions=6,
                offsets_topic_replication_factor=3,
            )
            brokers.append(stack.enter_context(one))
        for process, _ in brokers:
            process.wait_for_output("Kafka Server started", 120)
        data = folder / "web"
        environment = {
            "CONCLAVE_ADMIN_TOKEN": TOKEN,
            "CONCLAVE_CLUSTER_NAME": "Production",
            "CONCLAVE_CLUSTER_COLOR": "red",
            "CONCLAVE_BOOTSTRAP_CONTROLLERS": quorum.bootstrap,
            "CONCLAVE_DATA_DIR": str(data),
            "CONCLAVE_HTTP_PORT": str(port),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        stack.enter_context(kafka.Process("web", [sys.executable, "-m", "app.web"], folder, environment))
        client = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120)
        )
        kafka.wait_until(
            lambda: client.get("/readyz").status_code == 200,
            120,
            "the web process is ready",
            not_yet=(httpx.HTTPError,),
        )
        staging = stack.enter_context(conclave.running_quorum(folder / "staging", 1))
        body = {"name": "Staging", "bootstrap_controllers": staging.bootstrap.split(","), "color": "green"}
        client.put("/v3/cluster-connections/staging", json=body).raise_for_status()
        found = fill(client, ",".join(address for _, address in brokers))
        link = client.post("/v3/users/admin/login-link").raise_for_status().json()["url"]
        yield Demo(f"http://127.0.0.1:{port}", link, found)


def fill(client: httpx.Client, bootstrap: str) -> dict[str, int]:
    """Make the content and return the numbers that addresses need."""
    path = f"/v3/clusters/{client.get('/v3/clusters').json()['data'][0]['cluster_id']}"

    def call(method: str, address: str, body: object = None) -> dict[str, Any]:
        answer = client.request(method, f"{path}/{address}", json=body)
        assert answer.is_success, answer.text
        return dict(answer.json()) if answer.content else {}

    for name, partitions in TOPICS.items():
        policy = "compact" if name in COMPACTED else "delete"
        configs = [{"name": "cleanup.policy", "value": policy}, {"name": "min.insync.replicas", "value": "2"}]
        factor = 2 if name == "clicks" else 3
        body = {"topic_name": name, "partitions_count": partitions, "replication_factor": factor, "configs": configs}
        call("POST", "topics", body)
    produce(bootstrap)
    consume(bootstrap)
    plan_id = execute(call)
    report_id = int(call("POST", "reports:run", {})["report_id"])
    kafka.wait_until(
        lambda: call("GET", f"reports/{report_id}")["state"] == "succeeded", 180, "the report is finished", 0.5
    )
    return {"report": report_id, "plan": plan_id}


def execute(call: Callable[..., dict[str, Any]]) -> int:
    """Move four partitions of the topic with two replicas and return the number of the plan."""
    moves = []
    for partition in range(4):
        first, second = call("GET", f"topics/clicks/partitions/{partition}")["replica_ids"]
        (third,) = BROKERS.keys() - {first, second}
        moves.append({"topic": "clicks", "partition": partition, "replicas": [third, second]})
    plan_id = int(call("POST", "plans", {"reassignment": {"version": 1, "partitions": moves}})["plan_id"])
    call("POST", f"plans/{plan_id}:approve", {})
    call("POST", f"plans/{plan_id}:start", {})
    kafka.wait_until(lambda: call("GET", f"plans/{plan_id}")["state"] == "done", 120, "the plan is done", 0.5)
    return plan_id


def produce(bootstrap: str) -> None:
    """Produce JSON records to every topic."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(900):
        for name in TOPICS:
            value = {"id": number, "customer": f"c-{number % 41}", "total": round(number * 7.35 % 400, 2), "paid": True}
            producer.produce(name, json.dumps(value).encode(), key=f"{name}-{number % 97}", headers={"source": b"web"})
        producer.poll(0)
    assert producer.flush(60) == 0


def consume(bootstrap: str) -> None:
    """Commit offsets of two groups, one of them behind."""
    for group, topic, share in (("billing", "orders", 0.8), ("search-index", "inventory", 1.0)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        offsets = []
        for partition in range(TOPICS[topic]):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            offsets.append(TopicPartition(topic, partition, int(end * share)))
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def take(browser: Browser, demo: Demo) -> None:
    """Log in once and take every page in both themes."""
    state = browser.new_context()
    page = state.new_page()
    page.goto(demo.login_link)
    page.get_by_label("New password").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{demo.url}/")
    cookies = state.storage_state()
    state.close()
    for theme, suffix in (("light", ""), ("dark", "-dark")):
        context = browser.new_context(
            viewport={"width": 1280, "height": 800}, storage_state=cookies, color_scheme="dark" if suffix else "light"
        )
        for name, address in PAGES.items():
            page = context.new_page()
            page.goto(demo.url + address.format(**demo.found))
            page.wait_for_timeout(SETTLE_MS)
            page.screenshot(path=IMAGES / f"{name}{suffix}.png")
            print(f"{name}, {theme}: {page.title()}")
            page.close()
        context.close()


def main() -> int:
    """Take the pictures. Exit code 2 without Chromium."""
    program = chromium_program()
    if program is None:
        print("Chromium is missing (apt install chromium)", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="conclave-pictures-") as name,
        installation(Path(name)) as demo,
        sync_playwright() as playwright,
    ):
        time.sleep(60)  # the lines of the dashboard's cards have a point every ten seconds
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        take(browser, demo)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
