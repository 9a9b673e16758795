"""The web process on Apache Kafka's controller: the quorum has no node of ours."""

from collections.abc import Iterator

import pytest

from tests.app.live import LiveWeb, running_web
from tests.app.rest import test_acl_changes
from tests.app.rest.authorizer import listed
from tests.interop import kafka
from tests.interop.conclave import new_cluster_id

pytestmark = pytest.mark.interop

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    kafka.require()
    folder = tmp_path_factory.mktemp("apache")
    (port,) = kafka.free_ports(1)
    bootstrap, cluster_id = f"127.0.0.1:{port}", new_cluster_id()
    (folder / "controller").mkdir()
    settings = {**kafka.controller_settings(100, port, folder / "controller", bootstrap), **AUTHORIZER}
    config = kafka.write_properties(folder / "controller" / "server.properties", settings)
    kafka.format_storage(config, cluster_id, "--standalone")
    with kafka.start("controller", config) as controller:
        (folder / "broker").mkdir()
        with (
            kafka.broker(folder / "broker", 1, bootstrap, cluster_id),
            running_web(folder, bootstrap, cluster_id=cluster_id) as web,
        ):
            yield web.wait_ready()
            _says_that_the_controller_is_gone(web, controller, port)


def _says_that_the_controller_is_gone(web: LiveWeb, controller: kafka.Process, port: int) -> None:
    """Kill the only voter, and check that the web process reports it. Runs last."""
    assert web.services.cluster.quorum.standing == "led"
    controller.kill()
    kafka.wait_until(lambda: web.services.cluster.quorum.standing == "no-majority", 60, "the loss is known", 0.02)
    why = " ".join(web.client.get("/readyz").json()["reasons"])
    assert f"0 of 1 voter answers, 1 is needed; node 100 at 127.0.0.1:{port} has not answered since" in why
    assert "conclave_cluster_leader_id -1.0" in web.client.get("/metrics").text


def test_the_web_attaches_to_apaches_controller_and_changes_its_cluster(apache: LiveWeb) -> None:
    quorum = kafka.wait_until(
        lambda: (found := apache.client.get(f"{apache.cluster}/quorum").json())["is_live"] and found, 60, "it answers"
    )
    assert (quorum["leader_id"], quorum["kraft_version"]) == (100, 1)
    apache.wait_for_broker()
    body = {"topic_name": "apache", "partitions_count": 3, "configs": [{"name": "retention.ms", "value": "5000"}]}
    created = apache.client.post(f"{apache.cluster}/topics", json=body)
    assert created.status_code == 201, created.text
    offset = int(created.headers["X-Metadata-Offset"])
    read = apache.client.get(f"{apache.cluster}/topics/apache?min_offset={offset}").json()
    assert (read["partitions_count"], read["replication_factor"]) == (3, 1)
    config = apache.client.get(f"{apache.cluster}/topics/apache/configs/retention.ms").json()
    assert (config["value"], config["source"]) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    change = apache.client.get(f"{apache.cluster}/metadata/records?from_offset={offset}&limit=1").json()["data"][0]
    assert change["lines"][0] == "topic apache: created"
    assert apache.client.delete(f"{apache.cluster}/topics/apache").status_code == 204
    assert apache.client.get(f"{apache.cluster}/topics/apache").status_code == 404


def test_several_acls_of_apaches_quorum_are_deleted_by_rest_and_on_the_page(apache: LiveWeb) -> None:
    assert not listed(apache)
    test_acl_changes.test_named_acls_are_deleted_in_one_call_with_a_result_for_each(apache)
    test_acl_changes.test_selected_acls_are_deleted_from_the_page_after_a_preview(apache)
    assert not listed(apache)
