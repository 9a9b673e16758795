"""Several clusters in one process: added on a page or by REST, apart in everything, and none harmed by another."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.cli.web_process import WebProcess
from app.reports import leases, store
from conclave.client import Client
from kraft_core.protocol.uuids import uuid_to_text
from tests.app.live import ADMIN_TOKEN, CombinedNode, LiveWeb, combined_node, running_web
from tests.app.records.registry import LOGIN, running_registry
from tests.app.security.test_logins import FORM, add_user, login, session_token
from tests.interop import kafka

ADDRESS = re.compile(r'\b(?:href|action|formaction|hx-get|hx-post|data-live|data-source|data-root)="(/[^"]*)"')
PAGES = ("/", "/topics", "/groups", "/transactions", "/brokers", "/brokers/1", "/quorum", "/changes", "/reports")
PAGES = (
    *PAGES,
    "/reports/new-schedule",
    "/plans",
    "/moves/new",
    "/features",
    "/rights",
    "/access",
    "/audit",
    "/clusters",
)
PAGES = (*PAGES, "/topics/there", "/topics/there/configs", "/elections", "/account", "/explorer", "/search?q=there")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedNode]:
    with combined_node(tmp_path_factory.mktemp("second")) as running:
        yield running


def add(web: LiveWeb, key: str, node: CombinedNode, **more: object) -> httpx.Response:
    body = {"name": f"Cluster {key}", "bootstrap_controllers": [node.bootstrap], "color": "green", **more}
    return web.client.put(f"/v3/cluster-connections/{key}", json=body)


def remove(web: LiveWeb, key: str) -> None:
    """Remove a cluster; other tests do not want it, even after an outage of the database."""

    def is_removed() -> bool:
        return web.client.delete(f"/v3/cluster-connections/{key}").status_code in {204, 404}

    kafka.wait_until(is_removed, 60, f"cluster {key} is removed", 0.2)


def wait_for(web: LiveWeb, key: str) -> None:
    def is_ready() -> bool:
        found = web.app.state.clusters.get(key)
        return found is not None and 1 in found.cluster.image.cluster.brokers

    kafka.wait_until(is_ready, 60, f"cluster {key} is read", 0.02)


@pytest.fixture(scope="module")
def both(web: LiveWeb, second: CombinedNode) -> Iterator[LiveWeb]:
    """The process of all tests with the second cluster as `second`, which has the topic `there`."""
    kafka.wait_until(lambda: add(web, "second", second).status_code == 200, 60, "the second cluster is added", 0.2)
    wait_for(web, "second")
    there = f"/v3/clusters/{second.cluster_id}/topics"
    made = kafka.wait_until(
        lambda: (answer := web.client.post(there, json={"topic_name": "there"})).status_code == 201 and answer,
        60,
        "the second cluster creates topics",
        0.2,
    )
    assert made.json()["cluster_id"] == second.cluster_id
    yield web
    remove(web, "second")


def test_the_api_finds_each_cluster_by_its_id(both: LiveWeb, second: CombinedNode) -> None:
    listed = both.client.get("/v3/clusters").json()["data"]
    assert [each["cluster_id"] for each in listed] == [both.cluster.rpartition("/")[2], second.cluster_id]
    names = [each["topic_name"] for each in both.client.get(listed[1]["topics"]["related"]).json()["data"]]
    assert "there" in names
    assert both.client.get(f"{both.cluster}/topics/there").status_code == 404
    assert both.client.get(f"/c/second{both.cluster}/topics").status_code == 404, "the prefix names another cluster"
    prefixed = both.client.get(f"/c/second/v3/clusters/{second.cluster_id}/topics/there").json()
    assert prefixed["metadata"]["self"] == f"{both.url}/c/second/v3/clusters/{second.cluster_id}/topics/there"


@pytest.mark.parametrize("page", PAGES)
def test_every_address_on_a_page_stays_in_its_cluster(both: LiveWeb, page: str) -> None:
    answer = both.client.get(f"/c/second{page}", headers={"Accept": "text/html"})
    assert answer.status_code == 200, answer.text
    found = ADDRESS.findall(answer.text)
    assert len(found) > 20
    assert not [each for each in found if not each.startswith(("/c/second/", "/c/default/", "/static/"))]
    assert "Cluster second" in answer.text
    home = both.client.get(page.replace("there", "missing"), headers={"Accept": "text/html"}).text
    assert not [each for each in ADDRESS.findall(home) if each.startswith("/c/") and not each.endswith("/")], (
        "only links to dashboards"
    )


def test_addresses_in_headers_and_events_stay_in_the_cluster(both: LiveWeb) -> None:
    anonymous = both.http()
    answer = anonymous.get("/c/second/topics?q=x", headers={"Accept": "text/html"})
    assert answer.headers["location"] == "/c/second/login?next=%2Ftopics%3Fq%3Dx"
    assert 'action="/c/second/login' in anonymous.get(answer.headers["location"]).text
    form = both.client.post("/c/second/theme", data={"theme": "dark", "back": "/topics"})
    assert (form.status_code, form.headers["location"]) == (303, "/c/second/topics")
    topic_id = both.app.state.clusters.get("second").cluster.image.topics.topic("there").id
    gone = f"topic/{uuid_to_text(topic_id)[:-2]}AA/never"
    with both.client.stream("GET", "/c/second/events", params={"subject": gone}) as events:
        line = next(each for each in events.iter_lines() if each.startswith("data:"))
    assert '"url": "/c/second/topics"' in line


def test_an_unknown_cluster_is_no_page_and_tells_strangers_nothing(both: LiveWeb) -> None:
    for path in ("/c/nowhere/topics", "/c/nowhere", "/c/%73econd/topics", "/c/UPPER/", "/c/", "/c/second%2Ftopics"):
        assert both.client.get(path, headers={"Accept": "text/html"}).status_code == 404, path
        answer = both.http().get(path, headers={"Accept": "text/html"})
        assert answer.headers.get("location", "").startswith("/login"), path
    assert both.client.get("/c/default/topics").status_code == 200


def test_reports_schedules_and_audit_are_those_of_the_cluster(both: LiveWeb, second: CombinedNode) -> None:
    there = f"/v3/clusters/{second.cluster_id}"
    schedule = {"cron": "0 3 1 1 *", "enabled": False}
    assert both.client.put(f"{there}/report-schedules/only-there", json=schedule).status_code == 200
    own = [each["name"] for each in both.client.get(f"{both.cluster}/report-schedules").json()["data"]]
    others = [each["name"] for each in both.client.get(f"{there}/report-schedules").json()["data"]]
    assert ("only-there" in own, "only-there" in others, "nightly" in others) == (False, True, True)
    assert both.client.put(f"{both.cluster}/report-schedules/only-there", json=schedule).status_code == 200, "own name"
    assert both.client.delete(f"{both.cluster}/report-schedules/only-there").status_code == 204
    audit = both.client.get("/audit?resource=schedule/only-there", headers={"Accept": "text/html"}).text
    assert audit.count("<td>second</td>") == 1, "that of the other cluster has none"


def test_metrics_name_the_cluster(both: LiveWeb) -> None:
    text = both.client.get("/metrics").text
    assert re.search(r'^conclave_cluster_brokers\{cluster="second"\} 1\.0$', text, re.MULTILINE)
    assert re.search(r"^conclave_cluster_brokers 1\.0$", text, re.MULTILINE)
    assert text.count("# HELP conclave_cluster_brokers ") == 1
    assert re.search(r'^conclave_report_running\{cluster="second"\} 0\.0$', text, re.MULTILINE)


@pytest.mark.parametrize(
    ("key", "more", "status", "said"),
    [
        ("Bad_Key", {}, 422, "key 'Bad_Key' must be"),
        ("default", {}, 422, "and not default"),
        ("x", {"bootstrap_controllers": ["nonsense"]}, 422, "'nonsense' is not HOST:PORT"),
        ("x", {"bootstrap_controllers": []}, 422, "1 to 20 addresses"),
        ("x", {"bootstrap_controllers": ["127.0.0.1:1"]}, 422, "No controller answers: 127.0.0.1:1"),
        ("x", {"command_config": "../../etc/passwd"}, 422, "there is no file '../../etc/passwd'"),
        ("x", {"schema_registry_url": "ftp://registry"}, 422, "schema_registry_url 'ftp://registry' must be"),
        ("x", {"schema_registry_url": "http://u:p@registry"}, 422, "with a host, without a user"),
        ("x", {"color": "plaid"}, 422, "color"),
        ("x", {"name": "two\nlines"}, 422, "name must have"),
        ("x", {}, 409, "is here already"),
    ],
)
def test_a_cluster_that_cannot_be_added_is_refused_with_the_reason(
    both: LiveWeb, second: CombinedNode, key: str, more: dict[str, object], status: int, said: str
) -> None:
    answer = add(both, key, second, **more)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert both.client.get(f"/v3/cluster-connections/{key}").status_code == 404


def shows_what_its_registry_describes(web: LiveWeb, third: CombinedNode) -> None:
    """Write a value with the id of a schema and read it on the cluster's page; the first cluster has no registry."""
    value = {"type": "BINARY", "data": base64.b64encode(b"\0\0\0\0\x07\x0ahello").decode()}
    topics = f"/v3/clusters/{third.cluster_id}/topics"

    def is_written() -> bool:
        web.client.post(topics, json={"topic_name": "described"})
        return web.client.post(f"{topics}/described/records", json={"value": value}).status_code == 200

    kafka.wait_until(is_written, 60, "the record is written", 0.2)
    page = web.client.get("/c/third/topics/described/messages").text
    assert ("Avro" in page, "&#34;hello&#34;" in page) == (True, True), page
    assert web.services.cluster.records.schemas is None


def test_a_cluster_is_added_changed_and_removed_on_its_page(web: LiveWeb, tmp_path: Path) -> None:
    with combined_node(tmp_path / "third") as third, running_registry() as registry:
        config = web.services.settings.client_configs_dir
        config.mkdir(exist_ok=True)
        (config / "plain.properties").write_text("security.protocol=PLAINTEXT\nbasic.auth.user.info=reader:secret\n")
        registry.login = LOGIN
        registry.answers["/schemas/types"] = ["AVRO"]
        registry.add(7, '"string"')
        form = {"key": "third", "name": "Third <b>", "bootstrap_controllers": third.bootstrap, "color": "red"}
        form["schema_registry_url"] = registry.url
        kafka.wait_until(lambda: add(web, "probe", third, validate_only=True).status_code == 200, 60, "it answers", 0.2)
        refused = web.client.post("/clusters", data=form)
        assert (refused.status_code, "registry answers with HTTP 401" in refused.text) == (422, True), "no login"
        preview = web.client.post("/clusters", data={**form, "command_config": "plain.properties"})
        assert preview.status_code == 200
        assert f"The schema registry {registry.url} answers." in preview.text
        assert "secret" not in preview.text
        assert f"Its controllers belong to cluster {third.cluster_id}." in preview.text
        assert web.app.state.clusters.get("third") is None, "a preview changes nothing"
        saved = web.client.post("/clusters", data={**form, "command_config": "plain.properties", "confirmed": "yes"})
        assert (saved.status_code, saved.headers["location"]) == (303, "/clusters")
        wait_for(web, "third")
        assert 'href="/c/third/">Third &lt;b&gt;</a>' in web.client.get("/clusters").text
        filled = web.client.get("/clusters/third/change").text
        assert third.bootstrap in filled
        assert registry.url in filled
        shows_what_its_registry_describes(web, third)
        assert web.client.get("/v3/cluster-connections/third").json()["schema_registry_url"] == registry.url
        form |= {"name": "Trois", "command_config": "plain.properties", "is_change": "yes", "confirmed": "yes"}
        running = web.app.state.clusters.get("third").cluster
        assert web.client.post("/clusters", data=form).status_code == 303
        assert "Trois" in web.client.get("/c/third/").text
        assert web.app.state.clusters.get("third").cluster is running, "another name ends no report and no plan"
        form |= {"command_config": "", "schema_registry_url": ""}
        assert web.client.post("/clusters", data=form).status_code == 303
        assert web.app.state.clusters.get("third").cluster is not running
        token = {"name": "of-third", "role": "viewer", "cluster": "third"}
        assert web.client.post("/v3/tokens", json=token).status_code == 201
        refused = web.client.post("/clusters/third/remove", data={"confirmed": "yes", "typed": "else"})
        assert refused.status_code == 422
        gone = web.client.post("/clusters/third/remove", data={"confirmed": "yes", "typed": "third"})
        assert gone.status_code == 303, gone.text
        assert web.client.get("/c/third/", headers={"Accept": "text/html"}).status_code == 404
        assert "of-third" not in web.client.get("/v3/tokens").text, "else it would be valid in another cluster 'third'"


def test_a_cluster_whose_report_runs_is_not_removed(both: LiveWeb) -> None:
    database = both.app.state.clusters.get("second").database
    run_id = both.call(database.write(store.create_run, "ann"))
    refused = both.client.delete("/v3/cluster-connections/second")
    assert (refused.status_code, f"Report {run_id} of this cluster is running" in refused.text) == (409, True)
    page = both.client.post("/clusters/second/remove", data={"confirmed": "yes", "typed": "second"})
    assert (page.status_code, f"Report {run_id} of this cluster is running" in page.text) == (422, True)
    assert both.call(database.write(leases.finish_run, run_id, "cancelled")) is True
    assert both.call(database.write(leases.finish_run, run_id + 1_000, "lost")) is False, "a run that was deleted"


def test_a_dead_cluster_costs_the_others_nothing(node: CombinedNode, tmp_path: Path) -> None:
    with combined_node(tmp_path / "dying") as dying, running_web(tmp_path, node.bootstrap) as web:
        web.wait_ready()
        config = web.services.settings.client_configs_dir / "gone.properties"
        config.parent.mkdir()
        config.write_text("security.protocol=PLAINTEXT\n")
        added = {"command_config": "gone.properties"}
        kafka.wait_until(lambda: add(web, "dying", dying, **added).status_code == 200, 60, "it is added", 0.2)
        wait_for(web, "dying")
        dying.process.kill()

        def is_seen() -> bool:
            return 'class="tag bad">lost' in web.client.get("/clusters").text

        kafka.wait_until(is_seen, 60, "the page says that the cluster is lost", 0.2)
        assert web.client.get("/readyz").status_code == 200
        assert web.client.get("/topics").status_code == 200
        assert web.client.get("/c/dying/topics").status_code == 200, "what was read is still shown, with its age"
        web.stop()
        config.unlink()
        with running_web(tmp_path, node.bootstrap) as again:
            again.wait_ready()
            kafka.wait_until(lambda: again.app.state.clusters.not_started, 60, "its file is missed", 0.02)
            page = again.client.get("/clusters").text
            assert ("gone.properties" in page, 'href="/clusters/dying/change">Cluster dying' in page) == (True, True)
            assert again.client.get("/topics").status_code == 200
            config.write_text("security.protocol=PLAINTEXT\n")
            kafka.wait_until(lambda: not again.app.state.clusters.not_started, 60, "it is started", 0.1)
        with running_web(tmp_path, node.bootstrap) as again:  # with the dead cluster in its table
            again.wait_ready()
            kafka.wait_until(lambda: again.app.state.clusters.get("dying") is not None, 60, "it is followed", 0.02)
            assert again.client.get("/topics").status_code == 200
            remove(again, "dying")


def test_another_process_follows_what_one_adds(web: LiveWeb, second: CombinedNode, tmp_path: Path) -> None:
    with (
        running_web(tmp_path, second.bootstrap) as one,
        running_web(tmp_path / "b", second.bootstrap, database_url=one.services.settings.sqlalchemy_url) as other,
    ):
        one.wait_ready()
        added = one.client.put(
            "/v3/cluster-connections/far",
            json={"name": "Far", "bootstrap_controllers": list(web.services.settings.bootstrap_controllers)},
        )
        assert added.status_code == 200, added.text
        kafka.wait_until(lambda: other.client.get("/c/far/topics").status_code == 200, 60, "the other follows", 0.2)
        remove(other, "far")
        kafka.wait_until(
            lambda: one.client.get("/c/far/topics", headers={"Accept": "text/html"}).status_code == 404,
            60,
            "the first has noticed",
            0.2,
        )


def test_a_form_that_is_kept_over_a_login_goes_to_its_own_cluster(both: LiveWeb) -> None:
    add_user(both, "kept-there", "admin")
    client = login(both, "kept-there")
    form = {"csrf_token": session_token(client), "principal": "User:kept", "resource_name": "there"}
    assert both.client.delete("/v3/users/kept-there/sessions").status_code == 204
    answer = client.post("/c/second/rights/acls", data=form, headers=FORM)
    assert answer.headers["location"] == "/c/second/login?next=%2Fkept-form"
    assert "Path=/c/second/kept-form" in answer.headers["set-cookie"]
    login(both, "kept-there", client=client)
    assert 'action="/c/second/rights/acls"' in client.get("/c/second/kept-form", headers=FORM).text
    assert "/rights/acls" not in client.get("/kept-form", headers=FORM).text, "not to another cluster"


def test_the_command_line_and_the_client_use_a_cluster_by_its_address(both: LiveWeb, second: CombinedNode) -> None:
    process = WebProcess(f"{both.url}/c/second", ADMIN_TOKEN)
    assert "there" in [each["topic_name"] for each in process.pages("/topics", {}, 100)]
    assert process.cluster_ids()[0] == second.cluster_id
    with Client(f"{both.url}/c/second", ADMIN_TOKEN) as client:
        assert client.cluster_id == second.cluster_id
        assert "there" in [each.topic_name for each in client.list_topics()]
