"""Plans executed on three Apache brokers with data, through kill -9 of web processes, a dead broker and a cancel.

Two web processes share a PostgreSQL database. Broker 101 has two log directories. The first plan is made, started and
read on the pages, the others by REST. Kafka's own tools judge each end: `kafka-reassign-partitions --verify` and
`kafka-log-dirs`.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from bs4 import BeautifulSoup
from confluent_kafka import Producer

from tests.app.db.servers import postgresql_server
from tests.app.pages.test_moves import fields, soup, table
from tests.interop import conclave, kafka
from tests.interop.admin.tools import CONFIGS, LOG_DIRS, REASSIGN, STORAGE, Tools
from tests.interop.kafka import PATIENCE_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

BROKER_IDS = (101, 102, 103)
TOKEN = "test-admin-token-0123456789"
TOPIC = "moved"
RECORDS = 800
VALUE = bytes(10_000)
FETCH_BYTES = 20_000
SLOW = 1_000
"""Bytes per second. A fetch brings 20 kB of a partition's 2 MB, and the next one follows some 11 s later (the window of
Kafka's quotas), so what moves at this pace does not arrive during the test."""
WEB = """
from app.reports.executor import driver, lease
lease.LEASE_SECONDS = driver.LEASE_SECONDS = 6.0
from app.web import main
raise SystemExit(main([]))
"""
"""The web process with a shorter lease, so that a successor takes over sooner."""


@dataclass
class Web:
    """A web process as a process of its own."""

    folder: Path
    bootstrap: str
    port: int
    database: str
    process: kafka.Process | None = None
    starts: int = 0

    def start(self) -> None:
        """Start it and wait until it has read the metadata."""
        self.starts += 1
        environment = {
            "CONCLAVE_BOOTSTRAP_CONTROLLERS": self.bootstrap,
            "CONCLAVE_DATA_DIR": str(self.folder / f"web-{self.port}"),
            "CONCLAVE_DATABASE_URL": self.database,
            "CONCLAVE_HTTP_PORT": str(self.port),
            "CONCLAVE_ADMIN_TOKEN": TOKEN,
        }
        self.process = kafka.Process(
            f"web-{self.port}-{self.starts}", [sys.executable, "-c", WEB], self.folder, environment
        )

        def is_ready() -> bool:
            with self.client() as client:
                return client.get("/readyz").status_code == 200

        kafka.wait_until(is_ready, PATIENCE_S, "the web process is ready", not_yet=(httpx.HTTPError,))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def fences(self, plan_id: int) -> list[int]:
        """Return the fences under which this run of the process has executed a plan."""
        assert self.process is not None
        claims = re.findall(r"plan_claimed.*", self.process.output)
        found = [dict(re.findall(r"(fence|plan_id)\W+(\d+)", each)) for each in claims]
        return [int(each["fence"]) for each in found if each["plan_id"] == str(plan_id)]

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60
        )

    def page(self, path: str, form: dict[str, object] | None = None, **asked: object) -> BeautifulSoup:
        """Return a page, or what follows on a form that is sent there."""
        with self.client() as client:
            method = "GET" if form is None else "POST"
            found = client.request(
                method, path, data=form, params=asked or None, headers={"Accept": "text/html"}, follow_redirects=True
            )
            return soup(found, 200)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call REST below the cluster; the answer must be a success."""
        with self.client() as client:
            answer = client.request(method, f"{cluster_path(client)}/{path}", json=body)
            assert answer.is_success, answer.text
            found: dict[str, Any] = answer.json()
            return found

    def started_plan(self, moves: dict[int, list[int]], **settings: object) -> int:
        """Create, approve and start a plan for partitions of the topic."""
        return self.started_plan_of({"reassignment": as_file(moves), **settings})

    def started_plan_of(self, body: dict[str, object]) -> int:
        """Create, approve and start a plan."""
        plan = self.call("POST", "plans", body)
        plan_id = int(plan["plan_id"])
        self.call("POST", f"plans/{plan_id}:approve", {})
        self.call("POST", f"plans/{plan_id}:start", {})
        return plan_id

    def states(self, plan_id: int) -> dict[str, int]:
        found: dict[str, int] = self.call("GET", f"plans/{plan_id}")["partition_states"]
        return found

    def wait_for_state(self, plan_id: int, state: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            plan = self.call("GET", f"plans/{plan_id}")
            return plan if plan["state"] == state else None

        plan = kafka.wait_until(found, PATIENCE_S, f"plan {plan_id} is {state}", not_yet=(httpx.HTTPError,))
        assert plan is not None
        return plan

    def replicas(self, index: int, topic: str = TOPIC) -> list[int]:
        found: list[int] = self.call("GET", f"topics/{topic}/partitions/{index}")["replica_ids"]
        return found


def cluster_path(client: httpx.Client) -> str:
    """Return the address of the cluster in REST."""
    return f"/v3/clusters/{client.get('/v3/clusters').json()['data'][0]['cluster_id']}"


def as_file(moves: dict[int, list[int]]) -> dict[str, object]:
    """Return the content of a file of kafka-reassign-partitions."""
    return {
        "version": 1,
        "partitions": [{"topic": TOPIC, "partition": index, "replicas": each} for index, each in moves.items()],
    }


@dataclass
class Cluster:
    """One of our controllers, three of Apache's brokers, and two web processes."""

    folder: Path
    quorum: conclave.Quorum
    ports: dict[int, int]
    web: Web
    other: Web
    tools: Tools
    brokers: dict[int, kafka.Process] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[each]}" for each in BROKER_IDS if self.brokers[each].alive)

    def verify(self, moves: dict[int, list[int]]) -> str:
        """Return what the tool prints; it leaves the throttles as they are."""
        return self.verify_file(as_file(moves))

    def verify_file(self, content: dict[str, object]) -> str:
        """Return what the tool prints of a plan's file."""
        path = self.folder / "plan.json"
        path.write_text(json.dumps(content))
        arguments = ("--bootstrap-server", self.bootstrap, "--reassignment-json-file", path)
        return self.tools.run(REASSIGN, *arguments, "--verify", "--preserve-throttles")

    def log_dirs(self, broker_id: int) -> dict[str, list[dict[str, Any]]]:
        """Return the partitions in each log directory of a broker, as kafka-log-dirs describes them."""
        arguments = ("--bootstrap-server", self.bootstrap, "--describe", "--broker-list", broker_id)
        text = self.tools.run(LOG_DIRS, *arguments)
        (found,) = json.loads(text[text.index("{") :])["brokers"]
        return {each["logDir"]: each["partitions"] for each in found["logDirs"]}

    def throttles(self) -> str:
        """Return the throttles of all brokers and of the topic, as kafka-configs describes them."""
        arguments = ("--bootstrap-server", self.bootstrap, "--describe")
        text = self.tools.run(CONFIGS, *arguments, "--entity-type", "topics", "--entity-name", TOPIC)
        text += self.configs_of_brokers()
        return "\n".join(line for line in text.splitlines() if "throttled" in line)

    def configs_of_brokers(self) -> str:
        """Return the dynamic configs of all brokers, as kafka-configs describes them."""
        arguments = ("--bootstrap-server", self.bootstrap, "--describe", "--entity-type", "brokers")
        return "".join(self.tools.run(CONFIGS, *arguments, "--entity-name", each) for each in BROKER_IDS)


@contextmanager
def running(folder: Path, tools: Tools) -> Iterator[Cluster]:
    settings: dict[str, object] = {"broker.session.timeout.ms": 4_000}
    with ExitStack() as stack:
        quorum = stack.enter_context(conclave.running_quorum(folder, 1, **settings))
        ports = dict(zip(BROKER_IDS, kafka.free_ports(3), strict=True))
        database = stack.enter_context(postgresql_server())
        web, other = (Web(folder, quorum.bootstrap, port, database.url) for port in kafka.free_ports(2))
        made = Cluster(folder, quorum, ports, web, other, tools)
        for broker_id, port in ports.items():
            home = folder / f"broker-{broker_id}"
            home.mkdir()
            found = kafka.broker_settings(broker_id, port, home, quorum.bootstrap)
            found["replica.fetch.max.bytes"] = FETCH_BYTES
            if broker_id == 101:
                found["log.dirs"] = f"{home}/a,{home}/b"
            config = kafka.write_properties(
                home / "server.properties",
                {**found, "broker.heartbeat.interval.ms": 500, "broker.session.timeout.ms": 4_000},
            )
            tools.run(STORAGE, "format", "-t", quorum.cluster_id, "-c", config, "-N")
            made.brokers[broker_id] = kafka.start(f"broker-{broker_id}", config)
            stack.callback(made.brokers[broker_id].kill)
        for each in (web, other):
            each.start()
            stack.callback(each.kill)
        for process in made.brokers.values():
            process.wait_for_output("Kafka Server started", 2 * PATIENCE_S)
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("plans"), tools) as made:
        assignments = {str(index): [102, 101] for index in range(4)}
        made.web.call("POST", "topics", {"topic_name": TOPIC, "replicas_assignments": assignments})
        batches = {"batch.size": FETCH_BYTES}  # a fetch brings a batch at least
        producer = Producer({"bootstrap.servers": made.bootstrap, "acks": "all", **batches})
        for number in range(RECORDS):
            producer.produce(TOPIC, VALUE, partition=number % 4)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        yield made


def started_in_the_wizard(web: Web) -> int:
    """Move the topic from broker 102 to 103 as a reader of the pages does: choose, look, save, approve and start."""
    choice: dict[str, object] = {"goal": "move", "topics": f"{TOPIC[:3]}*"}
    chosen = web.page("/moves/new", **choice, show="yes")
    assert [row[1:5] for row in table(chosen, "partitions")] == [[TOPIC, f"{at}", "102", "102, 101"] for at in range(4)]
    where = web.page("/moves/new", **choice, step="where")
    assert [row[1] for row in table(where, "brokers")] == ["101", "102", "103"]
    review = web.page("/moves/new", **choice, to=[101, 103], step="review", throttle=SLOW, unit="B/s", moves=2)
    assert table(review, "moves") == [[f"{TOPIC}-{index}", "102, 101", "103, 101"] for index in range(4)]
    balance = {row[0]: row[3:7] for row in table(review, "move-brokers")}  # replicas and leaders, before and after
    assert balance == {"101": ["4", "4", "0", "0"], "102": ["4", "0", "4", "0"], "103": ["0", "4", "0", "4"]}
    preview = web.page("/plans", fields(review, "/moves/new"))
    assert "4 replicas would be copied" in preview.get_text()
    draft = web.page("/plans", fields(preview, "/plans"))
    plan_id = int(re.findall(r"Plan (\d+) is saved as a draft", draft.get_text())[0])
    for action in ("approve", "start"):
        address = f"/plans/{plan_id}/{action}"
        asked = web.page(address, fields(draft, address))
        draft = web.page(address, fields(asked, address))
    return plan_id


def tells_its_story(web: Web, plan_id: int) -> None:
    """The page of the ended plan tells what happened, in sentences and in its order."""
    page = web.page(f"/plans/{plan_id}")
    story = "\n".join(each.get_text(" ", strip=True) for each in page.select("#plan .feed li > div")[::-1])
    expected = (
        "Saved as a draft with 4 partitions, as the planner proposed. token:environment",
        "Approved. token:environment",
        "Started. token:environment",
        "Throttles set: 1000 B/s on brokers 101, 102, 103, for 1 topic.",
        "began to move.",
        "Another web process continues the plan, or the same one after a break.",
        "Another web process continues the plan, or the same one after a break.",
        "Changed: throttle in bytes/s per broker from 1,000 to 100,000,000. token:environment",
        "Throttles set: 95.37 MiB/s on brokers 101, 102, 103.",
        ") moved.",
        "Throttles cleared: 8 configs as before.",
        "Done: 4 of 4 partitions verified in place, 4 replicas added in ",
    )
    assert re.search(".*".join(map(re.escape, expected)), story, re.DOTALL), story


def survives_kill_9_of_both_web_processes(cluster: Cluster) -> None:
    web, moves = cluster.web, {index: [103, 101] for index in range(4)}
    plan_id = started_in_the_wizard(web)
    kafka.wait_until(lambda: web.states(plan_id).get("moving"), PATIENCE_S, "partitions move")
    plan = kafka.wait_until(
        lambda: found if (found := web.call("GET", f"plans/{plan_id}"))["bytes_copied"] else None,
        PATIENCE_S,
        "bytes of partitions that move are counted",
    )
    assert plan is not None
    assert plan["bytes_to_copy"] > RECORDS * len(VALUE) > plan["bytes_copied"]
    page = web.page(f"/plans/{plan_id}")
    assert re.search(r"0 of 4 new replicas in sync, \S+ KiB of 7\.\d MiB copied", page.get_text()), page.select("p")
    assert {row[3] for row in table(page, "plan-partitions")} == {"moving", "pending"}
    throttles = cluster.throttles()
    assert f"leader.replication.throttled.rate={SLOW}" in throttles
    assert "follower.replication.throttled.replicas=0:103,1:103,2:103,3:103" in throttles
    first, second = sorted((web, cluster.other), key=lambda each: not each.fences(plan_id))
    assert (first.fences(plan_id), second.fences(plan_id)) == ([1], []), "one process executes"
    first.kill()
    kafka.wait_until(lambda: second.fences(plan_id), PATIENCE_S, "the other process continues")
    assert second.call("GET", f"plans/{plan_id}")["partition_states"].get("moving")
    second.kill()
    first.start()
    kafka.wait_until(lambda: first.fences(plan_id), PATIENCE_S, "the restarted process continues")
    second.start()
    assert web.call("GET", f"plans/{plan_id}")["state"] == "running"
    web.call("PATCH", f"plans/{plan_id}", {"throttle_bytes_per_second": 100_000_000})
    done = web.wait_for_state(plan_id, "done")
    assert (done["partition_states"], done["replicas_added"]) == ({"moved": 4}, 4)
    assert first.fences(plan_id) + second.fences(plan_id) == [3], "nobody else has executed meanwhile"
    verified = cluster.verify(moves)
    assert all(f"Reassignment of partition {TOPIC}-{index} is completed." in verified for index in range(4)), verified
    assert cluster.throttles() == ""
    leaders = [web.call("GET", f"topics/{TOPIC}/partitions/{index}")["leader_id"] for index in range(4)]
    assert leaders == [103] * 4
    tells_its_story(web, plan_id)


def puts_the_replicas_back_when_cancelled(cluster: Cluster) -> None:
    web, moves = cluster.web, {index: [102, 103] for index in range(4)}
    cluster.tools.run(
        CONFIGS, "--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "brokers", "--entity-name", 101,
        "--add-config", "leader.replication.throttled.rate=77777",
    )  # fmt: skip
    plan_id = web.started_plan(moves, throttle_bytes_per_second=SLOW)
    kafka.wait_until(lambda: web.states(plan_id).get("moving"), PATIENCE_S, "partitions move")
    web.call("POST", f"plans/{plan_id}:cancel", {"begun": "undo"})
    done = web.wait_for_state(plan_id, "cancelled")
    assert done["partition_states"] == {"undone": 4}
    assert [web.replicas(index) for index in range(4)] == [[103, 101]] * 4
    assert "is completed" in cluster.verify({index: [103, 101] for index in range(4)})
    left = [line.strip() for line in cluster.throttles().splitlines()]
    assert [line.partition(" ")[0] for line in left] == ["leader.replication.throttled.rate=77777"]


def empties_a_log_directory(cluster: Cluster) -> None:
    web = cluster.web
    held = cluster.log_dirs(101)
    full = max(held, key=lambda path: len(held[path]))
    (empty,) = set(held) - {full}
    named = {each["partition"] for each in held[full]}
    body = {"drain": {"log_dirs": [{"broker_id": 101, "path": full}]}}
    plan_id = web.started_plan_of({**body, "throttle_bytes_per_second": SLOW})
    kafka.wait_until(lambda: web.call("GET", f"plans/{plan_id}")["bytes_copied"], PATIENCE_S, "bytes are counted")
    assert f"cordoned.log.dirs={full}" in cluster.configs_of_brokers()
    assert any(each["isFuture"] for each in cluster.log_dirs(101)[empty])
    web.call("POST", f"plans/{plan_id}:cancel", {"begun": "undo"})
    cancelled = web.wait_for_state(plan_id, "cancelled")
    assert cancelled["partition_states"].get("undone"), cancelled
    assert "cordoned.log.dirs" not in cluster.configs_of_brokers()
    now = cluster.log_dirs(101)
    assert not any(each["isFuture"] for path in now for each in now[path])
    assert named >= {each["partition"] for each in now[full]} != set()

    plan_id = web.started_plan_of(body)
    done = web.wait_for_state(plan_id, "done")
    assert set(done["partition_states"]) == {"moved"}
    now = cluster.log_dirs(101)
    assert (now[full], any(each["isFuture"] for each in now[empty])) == ([], False)
    assert named <= {each["partition"] for each in now[empty]}
    rows = web.call("GET", f"plans/{plan_id}/partitions")["data"]
    entries = [
        {
            "topic": row["topic_name"],
            "partition": row["partition_id"],
            "replicas": row["proposed_replica_ids"],
            "log_dirs": row["proposed_log_dirs"],
        }
        for row in rows
    ]
    verified = cluster.verify_file({"version": 1, "partitions": entries})
    assert verified.count("completed successfully") == len(rows), verified
    assert "is still" not in verified
    assert done["cordoned_broker_ids"] == [101]
    uncordons_on_the_page(web, plan_id, full)
    assert "cordoned.log.dirs" not in cluster.configs_of_brokers()
    assert web.call("GET", f"plans/{plan_id}")["cordoned_broker_ids"] == []


def uncordons_on_the_page(web: Web, plan_id: int, path: str) -> None:
    """The page of the ended drain offers it, previews it and does it; afterwards nothing is left to uncordon."""
    address = f"/plans/{plan_id}/changes/uncordon"
    with web.client() as client:
        page = client.get(f"/plans/{plan_id}").text
        assert f"Still cordoned: cordoned.log.dirs of broker 101: {path}." in page
        assert address in page
        preview = client.post(address, headers={"Accept": "text/html"})
        assert path in preview.text
        assert "New replicas may be placed there again." in preview.text
        dry = client.post(f"{cluster_path(client)}/plans/{plan_id}:uncordon?validate_only=true")
        assert (dry.status_code, dry.json()["cordoned_broker_ids"]) == (200, [101])
        done = client.post(address, data={"confirmed": "yes"}, headers={"Accept": "text/html"})
        assert done.status_code in {200, 303}, done.text
        again = client.post(f"{cluster_path(client)}/plans/{plan_id}:uncordon")
        assert again.status_code == 409
        assert "has left no cordon" in again.json()["message"]
        events = client.get("/v3/audit", params={"action": "plan.uncordon"}).text
    assert f"plan/{plan_id}" in events


def uncordons_when_a_drain_is_cancelled(cluster: Cluster) -> None:
    web = cluster.web
    plan_id = web.started_plan_of({"drain": {"broker_ids": [103]}, "throttle_bytes_per_second": SLOW})
    kafka.wait_until(lambda: web.states(plan_id).get("moving"), PATIENCE_S, "partitions move off 103")
    assert "cordoned.log.dirs=*" in cluster.configs_of_brokers()
    body = {"topic_name": "meanwhile", "partitions_count": 6, "replication_factor": 2}
    web.call("POST", "topics", body)
    placed = [web.replicas(index, "meanwhile") for index in range(6)]
    assert all(set(each) == {101, 102} for each in placed), placed
    web.call("POST", f"plans/{plan_id}:cancel", {"begun": "undo"})
    web.wait_for_state(plan_id, "cancelled")
    assert "cordoned.log.dirs" not in cluster.configs_of_brokers()
    assert [web.replicas(index) for index in range(4)] == [[103, 101]] * 4


def balances_bytes_and_rolls_back(cluster: Cluster) -> None:
    """Broker 102 has the empty topic only, and 101 all of it too: its replicas change places with full ones of 103."""
    web = cluster.web
    before = {index: web.replicas(index) for index in range(4)}
    body = {"options": {"goals": ["bytes"], "topic_names": [TOPIC, "meanwhile"]}}

    def started() -> int | None:
        with web.client() as client:
            refused = client.post(f"{cluster_path(client)}/plans?validate_only=true", json=body)
        if not refused.is_success:
            assert "Bytes cannot be balanced" in refused.json()["message"], refused.text
            return None  # until the brokers have told the sizes of the new topic
        return web.started_plan_of(body)

    plan_id = kafka.wait_until(started, PATIENCE_S, "the brokers tell all sizes")
    assert plan_id is not None
    done = web.wait_for_state(plan_id, "done")
    numbers = done["options"]["proposal"]
    (share,) = numbers["byte_shares"]
    assert share["bound"] <= share["after"]["max"] <= share["before"]["max"]
    assert share["before"]["min"] < share["after"]["min"]
    assert done["partition_states"] == {"moved": 2 * numbers["swaps"]}
    held = {each: cluster.log_dirs(each) for each in BROKER_IDS}
    full = {each: sum(row["size"] for rows in held[each].values() for row in rows) for each in held}
    assert full[102] > len(VALUE) * RECORDS / 4
    assert full[103] < full[101], "101 has a replica of all that 102 could give in exchange"
    back = web.started_plan_of({"rollback_of": plan_id})
    web.wait_for_state(back, "done")
    assert {index: web.replicas(index) for index in range(4)} == before


def unregisters_a_dead_broker_after_its_drain(cluster: Cluster) -> None:
    web = cluster.web
    plan_id = web.started_plan_of({"drain": {"broker_ids": [102], "unregister": True}, "pause_on_under_min_isr": False})
    done = web.wait_for_state(plan_id, "done")
    assert set(done["partition_states"]) == {"moved"}
    assert all(set(web.replicas(index, "meanwhile")) == {101, 103} for index in range(6))
    brokers = web.call("GET", "brokers")["data"]
    assert sorted(each["broker_id"] for each in brokers) == [101, 103]


def continues_around_a_dead_broker(cluster: Cluster) -> None:
    web = cluster.web
    cluster.brokers[102].kill()
    kafka.wait_until(lambda: web.call("GET", "brokers/102").get("is_fenced", True), PATIENCE_S, "102 is fenced")
    now = {index: web.replicas(index) for index in range(4)}
    moves = {0: list(reversed(now[0])), 1: [102, 101]}
    plan_id = web.started_plan(moves, pause_on_under_min_isr=False)
    kafka.wait_until(lambda: web.states(plan_id).get("moved"), PATIENCE_S, "partition 0 is done")
    waits = kafka.wait_until(lambda: web.call("GET", f"plans/{plan_id}")["waits_for"], PATIENCE_S, "partition 1 waits")
    assert waits == "Broker 102 is down. (1 partition waiting)"
    web.call("POST", f"plans/{plan_id}:cancel", {"begun": "finish"})
    done = web.wait_for_state(plan_id, "cancelled")
    assert done["partition_states"] == {"moved": 1, "skipped": 1}
    assert f"Reassignment of partition {TOPIC}-0 is completed." in cluster.verify({0: moves[0]})


def test_plans_end_as_the_tool_verifies_through_kill_9_a_cancel_and_a_dead_broker(cluster: Cluster) -> None:
    survives_kill_9_of_both_web_processes(cluster)
    puts_the_replicas_back_when_cancelled(cluster)
    empties_a_log_directory(cluster)
    uncordons_when_a_drain_is_cancelled(cluster)
    balances_bytes_and_rolls_back(cluster)
    continues_around_a_dead_broker(cluster)
    unregisters_a_dead_broker_after_its_drain(cluster)
