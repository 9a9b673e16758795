"""Reassignments, elections, brokers and features through REST, on a node and a second broker that only registers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.rest.schemas.features import FeatureData, FeatureDataList
from app.rest.schemas.partitions import PartitionData, PartitionOutcomeDataList
from tests.app.live import LiveWeb, combined_node, running_web
from tests.interop import conclave


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """Yield a cluster of broker 1 and broker 2, which only registers: reassignments to it never complete."""
    folder: Path = tmp_path_factory.mktemp("operations")
    with combined_node(folder / "node") as node, running_web(folder, node.bootstrap) as web:
        web.wait_ready().wait_for_broker()
        register(web, 2)
        yield web


def register(web: LiveWeb, broker_id: int) -> None:
    """Register a broker and wait until the web process has read its registration."""

    async def ask() -> None:
        client = conclave.controller_client(",".join(web.services.settings.bootstrap_controllers))
        try:
            await conclave.RawBroker(broker_id, web.cluster.rpartition("/")[2], client).register()
        finally:
            client.close()

    asyncio.run(ask())
    web.wait_for_broker(broker_id, unfenced=False)


@pytest.fixture
def topic(moving: LiveWeb, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:200].replace("[", ".").replace("]", "")
    body = {"topic_name": name, "replicas_assignments": {"0": [1], "1": [1]}}
    assert moving.client.post(f"{moving.cluster}/topics", json=body).status_code == 201
    return name


def replicas(web: LiveWeb, topic: str, partition: int = 0) -> list[int]:
    answer = web.client.get(f"{web.cluster}/topics/{topic}/partitions/{partition}")
    return PartitionData.model_validate_json(answer.content).replica_ids


def test_a_reassignment_is_started_and_cancelled(moving: LiveWeb, topic: str) -> None:
    entry = {"topic_name": topic, "partition_id": 0}
    answer = moving.client.post(f"{moving.cluster}/reassignments", json={"data": [{**entry, "replica_ids": [1, 2]}]})
    assert answer.status_code == 200, answer.text
    (done,) = PartitionOutcomeDataList.model_validate_json(answer.content).data
    assert done.kafka_error is None
    assert replicas(moving, topic) == [1, 2]
    under_way = moving.client.get(f"{moving.cluster}/topics/{topic}/partitions/0/reassignment").json()
    assert under_way["adding_replicas"] == [2]
    cancelled = moving.client.post(f"{moving.cluster}/reassignments:cancel", json={"data": [entry]})
    assert cancelled.status_code == 200
    assert replicas(moving, topic) == [1]
    audited = moving.client.get(f"/v3/audit?resource=topic/{topic}&page_size=2").json()["data"]
    assert [row["action"] for row in audited] == ["partitions.reassign"] * 2
    again = moving.client.post(f"{moving.cluster}/reassignments:cancel", json={"data": [entry]})
    assert (again.status_code, again.json()["kafka_error"]) == (404, "NO_REASSIGNMENT_IN_PROGRESS")


def test_a_plan_is_validated_per_partition(moving: LiveWeb, topic: str) -> None:
    data = [
        {"topic_name": topic, "partition_id": 0, "replica_ids": [1, 2]},
        {"topic_name": topic, "partition_id": 1, "replica_ids": [9]},
        {"topic_name": topic, "partition_id": 7, "replica_ids": [1]},
    ]
    dry = moving.client.post(f"{moving.cluster}/reassignments", json={"data": data, "validate_only": True})
    assert replicas(moving, topic) == [1], "a dry run moves nothing"
    real = moving.client.post(f"{moving.cluster}/reassignments", json={"data": data})
    assert replicas(moving, topic) == [1, 2]
    for answer in (dry, real):
        assert answer.status_code == 207
        outcomes = PartitionOutcomeDataList.model_validate_json(answer.content).data
        assert [one.kafka_error for one in outcomes] == [
            None,
            "INVALID_REPLICA_ASSIGNMENT",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]


def test_a_change_of_the_replication_factor_can_be_refused(moving: LiveWeb, topic: str) -> None:
    data = [{"topic_name": topic, "partition_id": 0, "replica_ids": [1, 2]}]
    body = {"data": data, "allow_replication_factor_change": False}
    answer = moving.client.post(f"{moving.cluster}/reassignments", json=body)
    assert (answer.status_code, answer.json()["kafka_error"]) == (400, "INVALID_REPLICATION_FACTOR")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"data": []}, 422),
        ({"data": [{"topic_name": "t", "partition_id": -1, "replica_ids": [1]}]}, 422),
        ({"data": [{"topic_name": "t", "partition_id": 0, "replica_ids": [1], "throttle": 1}]}, 422),
        ({"data": [{"topic_name": "t", "partition_id": 0, "replica_ids": [1]}] * 2}, 400),
    ],
)
def test_an_invalid_plan_is_refused(moving: LiveWeb, body: dict[str, object], status: int) -> None:
    assert moving.client.post(f"{moving.cluster}/reassignments", json=body).status_code == status


def test_an_election_that_is_not_needed_is_reported_and_not_a_failure(moving: LiveWeb, topic: str) -> None:
    one = moving.client.post(f"{moving.cluster}/topics/{topic}/partitions/0:elect-leader", json={})
    assert one.status_code == 200
    assert one.json()["data"][0]["kafka_error"] == "ELECTION_NOT_NEEDED"
    every = moving.client.post(f"{moving.cluster}/topics/{topic}/partitions/-:elect-leader", json={})
    assert (every.status_code, every.json()["data"]) == (200, [])
    unknown = moving.client.post(f"{moving.cluster}/topics/{topic}/partitions/9:elect-leader", json={})
    assert (unknown.status_code, unknown.json()["kafka_error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    wrong = moving.client.post(f"{moving.cluster}/topics/{topic}/partitions/x:elect-leader", json={})
    assert wrong.status_code == 404


def test_a_preferred_leader_is_elected_only_when_in_sync(moving: LiveWeb, topic: str) -> None:
    data = [{"topic_name": topic, "partition_id": 0, "replica_ids": [2, 1]}]
    assert moving.client.post(f"{moving.cluster}/reassignments", json={"data": data}).status_code == 200
    refused = moving.client.post(f"{moving.cluster}/topics/{topic}/partitions/-:elect-leader", json={})
    assert (refused.status_code, refused.json()["kafka_error"]) == (409, "PREFERRED_LEADER_NOT_AVAILABLE")


def test_the_dry_run_of_an_election_lists_the_partitions_and_elects_none(moving: LiveWeb, topic: str) -> None:
    second = {
        "topic_name": f"{topic}.second",
        "replicas_assignments": {"0": [1]},
    }  # the refusal of a single partition would be the answer itself
    assert moving.client.post(f"{moving.cluster}/topics", json=second).status_code == 201
    data = [
        {"topic_name": topic, "partition_id": 1, "replica_ids": [2, 1]},
        {"topic_name": f"{topic}.second", "partition_id": 0, "replica_ids": [2, 1]},
    ]
    assert moving.client.post(f"{moving.cluster}/reassignments", json={"data": data}).status_code == 200
    every = f"{moving.cluster}/topics/-/partitions/-:elect-leader"
    path = f"{moving.cluster}/topics/{topic}/partitions/1"
    before = moving.client.get(path).json()
    dry = moving.client.post(every, json={"validate_only": True}).json()["data"]
    assert (topic, 1) in [(one["topic_name"], one["partition_id"]) for one in dry]
    assert (topic, 0) not in [(one["topic_name"], one["partition_id"]) for one in dry]
    assert {one["kafka_error"] for one in dry} == {"PREFERRED_LEADER_NOT_AVAILABLE"}, "broker 2 is not in sync"
    assert moving.client.get(path).json() == before
    real = moving.client.post(every, json={})
    assert real.status_code in {207, 409}, "broker 2 is not in sync"
    unneeded = moving.client.post(
        f"{moving.cluster}/topics/{topic}/partitions/0:elect-leader", json={"validate_only": True}
    )
    assert unneeded.json()["data"][0]["kafka_error"] == "ELECTION_NOT_NEEDED"
    unknown = moving.client.post(
        f"{moving.cluster}/topics/{topic}/partitions/9:elect-leader", json={"validate_only": True}
    )
    assert (unknown.status_code, unknown.json()["kafka_error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_broker_is_unregistered(moving: LiveWeb) -> None:
    register(moving, 3)
    assert moving.client.get(f"{moving.cluster}/brokers/3").status_code == 200
    refused = moving.client.post(f"{moving.cluster}/brokers/3:unregister")
    assert (refused.status_code, refused.json()["is_live"], refused.json()["replicas_count"]) == (409, True, 0)
    answer = moving.client.post(f"{moving.cluster}/brokers/3:unregister?force=true")
    assert answer.status_code == 202
    assert int(answer.headers["X-Metadata-Offset"]) > 0
    assert moving.client.get(f"{moving.cluster}/brokers/3").status_code == 404
    assert moving.client.post(f"{moving.cluster}/brokers/3:unregister").status_code == 404


def feature(web: LiveWeb, name: str) -> FeatureData:
    answer = web.client.get(f"{web.cluster}/features")
    features = FeatureDataList.model_validate_json(answer.content).data
    return next(each for each in features if each.feature_name == name)


def test_features_show_their_level_and_the_supported_levels(moving: LiveWeb) -> None:
    found = feature(moving, "metadata.version")
    assert (found.level, found.lowest_level, found.highest_level) == (30, 7, 30)
    assert {each.broker_id: each.highest_level for each in found.brokers}[1] == 30
    assert feature(moving, "kraft.version").level == 1


def test_a_feature_is_downgraded_and_upgraded(moving: LiveWeb) -> None:
    path = f"{moving.cluster}/features"
    down = {"feature_name": "eligible.leader.replicas.version", "level": 0, "upgrade_type": "SAFE_DOWNGRADE"}
    dry = moving.client.patch(path, json={"data": [down], "validate_only": True})
    assert dry.status_code == 200, dry.text
    assert feature(moving, "eligible.leader.replicas.version").level == 1
    answer = moving.client.patch(path, json={"data": [down]})
    after = FeatureDataList.model_validate_json(answer.content).data
    assert next(each.level for each in after if each.feature_name == "eligible.leader.replicas.version") == 0
    up = moving.client.patch(path, json={"data": [{"feature_name": "eligible.leader.replicas.version", "level": 1}]})
    assert up.status_code == 200
    assert feature(moving, "eligible.leader.replicas.version").level == 1
    unknown = moving.client.patch(path, json={"data": [{"feature_name": "no.such", "level": 1}]})
    assert (unknown.status_code, unknown.json()["kafka_error"]) == (409, "INVALID_UPDATE_VERSION")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "reassignments", {"data": [{"topic_name": "t", "partition_id": 0, "replica_ids": [1]}]}),
        ("POST", "reassignments:cancel", {"data": [{"topic_name": "t", "partition_id": 0}]}),
        ("POST", "brokers/1:unregister", None),
        ("PATCH", "features", {"data": [{"feature_name": "group.version", "level": 1}]}),
        ("GET", "acls", None),
        ("DELETE", "acls?resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY", None),
        ("GET", "scram-users", None),
        ("PUT", "scram-users/alice/credentials/SCRAM-SHA-256", {"password": "secret"}),
        ("GET", "client-quotas", None),
        ("GET", "delegation-tokens", None),
        ("POST", "delegation-tokens", {}),
        ("POST", "delegation-tokens:renew", {"hmac": "c2VjcmV0"}),
        ("POST", "delegation-tokens:expire", {"hmac": "c2VjcmV0"}),
        ("PUT", "client-metrics/all/configs/interval.ms", {"value": "1000"}),
        (
            "POST",
            "client-quotas:alter",
            {
                "entity": [{"entity_type": "user", "entity_name": "u"}],
                "data": [{"key": "request_percentage", "value": 5}],
            },
        ),
    ],
)
def test_a_change_for_admins_is_refused_to_an_editor(
    moving: LiveWeb, method: str, path: str, body: dict[str, object] | None
) -> None:
    made = moving.client.post("/v3/tokens", json={"name": f"editor {method} {path}"[:90], "role": "editor"})
    editor = moving.http(made.json()["token"])
    answer = editor.request(method, f"{moving.cluster}/{path}", json=body)
    assert answer.status_code == 403, answer.text
