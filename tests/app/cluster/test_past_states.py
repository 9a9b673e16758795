"""Past states in the real product: pages and REST at an offset, before and after a SIGKILL of the web process."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.http.errors import PROBLEM_JSON
from tests.app.live import ADMIN_TOKEN, CombinedNode, combined_node
from tests.interop import kafka

PAGES = (
    "/",
    "/quorum",
    "/quorum/epochs",
    "/brokers/1/timeline",
    "/flaps",
    "/flaps/elections",
    "/topics",
    "/topics/orders",
    "/topics/orders/configs",
    "/topics/orders/changes",
    "/brokers",
    "/brokers/1",
    "/features",
    "/changes",
    "/reassignments",
    "/rights",
    "/rights/scram",
    "/rights/quotas",
    "/rights/tokens",
)
LISTS = (
    "topics",
    "topics/orders",
    "topics/orders/partitions",
    "topics/orders/configs",
    "brokers",
    "brokers/1",
    "acls",
    "client-quotas",
    "features",
    "controllers",
    "brokers/1/timeline",
    "metadata/feature-changes",
    "topics/-/configs",
    "brokers/1/configs",
    "quorum",
    "quorum/epochs",
)


class WebProcess:
    """`conclave web` as a process of its own, which can be killed."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.port = kafka.free_ports(1)[0]
        self._command = [str(Path(sys.executable).with_name("conclave")), "web", "-c", str(folder / "web.toml")]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "web.toml").write_text(
            f'bootstrap_controllers = "{bootstrap}"\ndata_dir = "{folder / "data"}"\nhttp_port = {self.port}\n'
            f'admin_token = "{ADMIN_TOKEN}"\nhistory_records_max = 100\n'
        )
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}, timeout=60
        )
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kafka.wait_until(self._is_ready, 60, "the web process is ready", 0.05)

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def get(self, path: str, status: int = 200) -> httpx.Response:
        def answered() -> httpx.Response | None:
            answer = self.client.get(path, headers={"Accept": "text/html" if "/v3" not in path else "application/json"})
            return None if answer.status_code == 503 else answer

        answer: httpx.Response = kafka.wait_until(answered, 30, f"{path} is answered", 0.05)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-2000:])
        return answer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedNode]:
    with combined_node(tmp_path_factory.mktemp("node")) as started:
        yield started


@pytest.fixture(scope="module")
def web(node: CombinedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    process = WebProcess(tmp_path_factory.mktemp("web"), node.bootstrap)
    try:
        yield process
    finally:
        process.client.close()
        process.kill()


def test_a_past_state_is_the_same_after_a_kill_and_far_behind_the_changes_in_memory(
    node: CombinedNode, web: WebProcess
) -> None:
    cluster = f"/v3/clusters/{node.cluster_id}"

    def has_broker() -> bool:
        return web.get(f"{cluster}/brokers/1").json()["is_fenced"] is False

    kafka.wait_until(has_broker, 60, "the broker is active", 0.05)
    made = web.client.post(f"{cluster}/topics", json={"topic_name": "orders", "partitions_count": 3})
    assert made.status_code == 201, made.text
    set_config = web.client.put(f"{cluster}/topics/orders/configs/retention.ms", json={"value": "1000"})
    assert set_config.status_code == 204, set_config.text
    then = int(set_config.headers["X-Metadata-Offset"])
    assert web.client.delete(f"{cluster}/topics/orders").status_code == 204

    def shown() -> dict[str, bytes]:
        pages = {path: web.get(f"{path}?at_offset={then}").content for path in PAGES}
        lists = {path: web.get(f"{cluster}/{path}?at_offset={then}").content for path in LISTS}
        return {
            path: re.sub(rb'name="csrf_token" value="[^"]*"|X-CSRF-Token": "[^"]*"', b"", body)
            for path, body in (pages | lists).items()
        }

    first = shown()
    assert b"1000" in first["/topics/orders/configs"]
    assert b"State at offset" in first["/topics"]
    assert f'href="/brokers?at_offset={then}"'.encode() in first["/topics"]
    assert b"orders" not in web.get("/topics").content
    _check_quorum_of_then(web, cluster, then)
    web.kill()
    web.start()
    assert shown() == first

    for number in range(60):
        body = {"topic_name": f"later-{number}", "partitions_count": 3}
        assert web.client.post(f"{cluster}/topics", json=body).status_code == 201
    oldest = web.get(f"{cluster}/metadata/records").json()["oldest_offset"]
    assert oldest > then, "the state is no longer in memory"
    from_disk = shown()
    web.kill()
    web.start()
    assert shown() == from_disk
    assert {path: body for path, body in from_disk.items() if not path.startswith("/")} == {
        path: body for path, body in first.items() if not path.startswith("/")
    }


def _check_quorum_of_then(web: WebProcess, cluster: str, then: int) -> None:
    """The log names the leader, its epoch and the voters of then; what only the leader of today knows is left out."""
    now, past = (web.get(f"{cluster}/quorum{query}").json() for query in ("", f"?at_offset={then}"))
    assert now["is_live"]
    assert (past["is_live"], past["state"], past["state_text"], past["observers"]) == (False, "LED", "", [])
    assert (past["high_watermark"], past["leader_epoch"]) == (then + 1, now["leader_epoch"])
    assert [each["replica_id"] for each in past["voters"]] == [past["leader_id"]] == [now["leader_id"]]
    shown = web.get(f"{cluster}/quorum/epochs?at_offset={then}").json()["data"][0]
    assert (shown["end_offset"], shown["end_reason"]) == (then + 1, "leads")
    epoch = f"{cluster}/quorum/epochs/{shown['leader_epoch']}"
    assert web.get(f"{epoch}?at_offset={then}").json() == shown
    assert "No leader of epoch 4711" in web.get(f"{cluster}/quorum/epochs/4711?at_offset={then}", 404).text


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("at_offset=-1", 400, "at_offset must be an offset"),
        ("at_offset=x", 400, "at_offset must be an offset"),
        (f"at_offset={10**17}", 400, "not committed yet"),
        (f"at_offset={'9' * 30}", 400, "at_offset must be an offset"),
        ("at=2999-01-01T00:00:00Z", 400, "in the future"),
        ("at=yesterday", 400, "at must be a time"),
        ("at=1999-01-01T00:00:00Z", 410, "not kept"),
        ("at_offset=1&at=2025-01-01", 400, "exclude each other"),
    ],
)
def test_a_state_that_is_not_known_is_refused_with_what_is_kept(
    node: CombinedNode, web: WebProcess, query: str, status: int, said: str
) -> None:
    cluster = f"/v3/clusters/{node.cluster_id}"
    for path in ("/topics", f"{cluster}/topics", f"{cluster}/quorum", f"{cluster}/quorum/epochs"):
        answer = web.get(f"{path}?{query}", status)
        assert said in answer.text, answer.text
    problem = web.client.get(f"{cluster}/topics?{query}", headers={"Accept": PROBLEM_JSON})
    assert problem.json()["status"] == status
    assert web.client.get(f"/topics?at_offset={'1' * 2000}").status_code == 400


def test_the_history_is_searched_by_resource_and_compared_also_when_it_is_no_longer_in_memory(
    node: CombinedNode, web: WebProcess
) -> None:
    cluster = f"/v3/clusters/{node.cluster_id}"
    kafka.wait_until(lambda: not web.get(f"{cluster}/brokers/1").json()["is_fenced"], 60, "the broker is active", 0.05)
    body = {"topic_name": "found", "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "7"}]}
    made = web.client.post(f"{cluster}/topics", json=body)
    assert made.status_code == 201, made.text
    first = int(made.headers["X-Metadata-Offset"])
    deleted = web.client.delete(f"{cluster}/topics/found")
    last = int(deleted.headers["X-Metadata-Offset"])
    for number in range(60):
        other = web.client.post(f"{cluster}/topics", json={"topic_name": f"other-{number}", "partitions_count": 3})
        assert other.status_code == 201
    assert web.get(f"{cluster}/metadata/records").json()["oldest_offset"] > last

    def lines(query: str) -> list[str]:
        shown: list[str] = []
        page: str | None = f"/changes?{query}"
        while page is not None:
            text = web.get(page).text
            shown += re.findall(r"(?:</a><div>|<li>)([^<]+)", text)
            older = re.search(r'href="(/changes\?before=[^"]*)"', text)
            page = None if older is None else older[1].replace("&amp;", "&")
        return [line.strip() for line in shown]

    about = lines("about=topic&name=found")
    assert about[0] == "topic found: deleted"
    assert "topic found: created" in about
    assert "config of topic found: retention.ms set to 7" in about
    assert len(about) >= 5, about
    assert lines("about=config&name=retention.ms&q=found") == ["config of topic found: retention.ms set to 7"]
    assert any("registered" in line for line in lines("about=broker&name=1"))
    assert web.get("/changes?about=nothing&name=x", 400)
    change = web.get(f"/changes/{first}").text
    assert "topic found: p1 created" in change
    assert re.search(rf"offsets \d+ to {first}", change)
    assert web.get(f"/changes/{10**15}", 404)

    found = web.get(f"{cluster}/metadata/diff?from_offset={first}&to_offset={last}").json()["data"]
    assert [(each["resource_type"], each["resource_name"], each["change"]) for each in found] == [
        ("topic", "found", "removed"),
        ("config", "topic found", "removed"),
    ]
    assert "topic found: deleted" in web.get(f"/changes/diff?from={first}&to={last}").text
    paged = web.get(f"{cluster}/metadata/diff?from_offset={last}&page_size=7").json()
    assert len(paged["data"]) == 7
    following = web.get(paged["metadata"]["next"].removeprefix(str(web.client.base_url).rstrip("/"))).json()
    assert not {each["resource_name"] for each in paged["data"]} & {each["resource_name"] for each in following["data"]}
    assert "not committed yet" in web.get(f"/changes/diff?from=0&to={10**9}", 400).text
    assert "is not an offset" in web.get("/changes/diff?from=-1", 400).text


def test_a_deleted_topic_is_created_again_as_it_was(node: CombinedNode, web: WebProcess) -> None:
    cluster = f"/v3/clusters/{node.cluster_id}"
    kafka.wait_until(lambda: not web.get(f"{cluster}/brokers/1").json()["is_fenced"], 60, "the broker is active", 0.05)
    body = {"topic_name": "again", "partitions_count": 4, "configs": [{"name": "retention.ms", "value": "7"}]}
    assert web.client.post(f"{cluster}/topics", json=body).status_code == 201
    last = int(web.client.delete(f"{cluster}/topics/again").headers["X-Metadata-Offset"])
    page = web.get("/topics/again", 404).text
    assert f"deleted at offset {last}" in page
    assert "retention.ms" in web.get(f"/topics/again/configs?at_offset={last - 1}").text

    address = f"/topics/again/create-again?deleted_at={last}"
    assert address in page.replace("&amp;", "&")
    assert address in web.get(f"/changes/{last}").text.replace("&amp;", "&")
    preview = web.get(address).text
    assert "Config retention.ms" in preview
    made = web.client.post(
        "/topics/again/create-again", data={"deleted_at": str(last), "confirmed": "yes"}, follow_redirects=False
    )
    assert made.status_code == 303, made.text[-2000:]
    topic = web.get(f"{cluster}/topics/again").json()
    assert (topic["partitions_count"], topic["replication_factor"]) == (4, 1)
    assert web.get(f"{cluster}/topics/again/configs/retention.ms").json()["value"] == "7"
    assert "was not deleted at offset" in web.get("/topics/again/create-again?deleted_at=1", 404).text
    assert "already exists" in web.get(address, 409).text


def test_what_shows_the_present_only_refuses_a_past_state(node: CombinedNode, web: WebProcess) -> None:
    cluster = f"/v3/clusters/{node.cluster_id}"
    for path in ("/reports?at_offset=1", "/topics/orders/delete?at_offset=1", "/plans?at=2025-01-01"):
        assert "the present only" in web.get(path, 400).text
    assert "unknown query parameter" in web.get(f"{cluster}/plans?at_offset=1", 400).text
    for answer in (
        web.client.post(f"{cluster}/topics?at_offset=1", json={"topic_name": "x"}),
        web.client.put(f"{cluster}/topics/later-1/configs/retention.ms?at_offset=1", json={"value": "1"}),
    ):
        assert answer.status_code == 400, answer.text
