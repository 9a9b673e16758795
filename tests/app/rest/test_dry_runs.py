"""Every change has a dry run that changes nothing, and every endpoint refuses unknown query parameters.

The tests visit all routes of the application. A new change fails until CHANGES has a request for it.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from app.db.base import Base
from app.rest.schemas.base import DryRunData
from kraft_core.image.metadata_image import MetadataImage
from tests.app.live import LiveWeb

Operation = tuple[str, str]

_TOPIC = {"data": [{"topic_name": "dry", "partition_id": 0}]}
_ACL = {
    "resource_type": "TOPIC",
    "resource_name": "dry",
    "pattern_type": "LITERAL",
    "principal": "User:ann",
    "operation": "READ",
    "permission": "ALLOW",
}
_PLAN = {"version": 1, "partitions": [{"topic": "dry", "partition": 0, "replicas": [1]}]}
_ALTER = {"data": [{"name": "retention.ms", "value": "4711"}]}
_FILTER = "?resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"
_CREDENTIALS = "/v3/clusters/{cluster_id}/scram-users/{user_name}/credentials/{mechanism}"
C = "/v3/clusters/{cluster_id}"

CHANGES: dict[Operation, tuple[str, dict[str, Any] | None, int]] = {
    ("POST", "/v3/users"): ("", {"name": "dry-new", "role": "viewer"}, 200),
    ("PATCH", "/v3/users/{name}"): ("", {"role": "editor", "password": "correct horse battery"}, 200),
    ("DELETE", "/v3/users/{name}"): ("", None, 200),
    ("PUT", "/v3/users/{name}/grants"): ("", {"topic_prefix": "pay.", "role": "editor"}, 200),
    ("DELETE", "/v3/users/{name}/grants"): ("", None, 404),
    ("DELETE", "/v3/users/{name}/sessions"): ("", None, 200),
    ("DELETE", "/v3/users/{name}/sessions/{session_id}"): ("", None, 404),
    ("DELETE", "/v3/users/{name}/second-factor"): ("", None, 409),  # the user has none
    ("POST", "/v3/users/{name}/login-link"): ("", None, 200),
    ("POST", "/v3/tokens"): ("", {"name": "dry-token", "role": "viewer"}, 200),
    ("DELETE", "/v3/tokens/{token}"): ("", None, 200),
    ("POST", f"{C}/topics"): ("", {"topic_name": "dry-new", "partitions_count": 1}, 200),
    ("PATCH", f"{C}/topics/{{topic_name}}"): ("", {"partitions_count": 9}, 200),
    ("DELETE", f"{C}/topics/{{topic_name}}"): ("", None, 200),
    ("POST", f"{C}/topics:delete"): ("", {"data": [{"topic_name": "dry"}]}, 200),
    ("POST", f"{C}/consumer-groups:delete"): ("", {"data": [{"consumer_group_id": "dry"}]}, 200),
    ("POST", f"{C}/acls:delete"): ("", {"data": [_ACL]}, 207),  # SECURITY_DISABLED, as below
    ("POST", f"{C}/topics/-/configs:alter"): (
        "",
        {"data": [{"topic_name": "dry", "configs": [{"name": "retention.ms", "value": "5"}]}]},
        204,
    ),
    ("PUT", f"{C}/topics/{{topic_name}}/configs/{{name}}"): ("", {"value": "4711"}, 200),
    ("DELETE", f"{C}/topics/{{topic_name}}/configs/{{name}}"): ("", None, 200),
    ("POST", f"{C}/topics/{{topic_name}}/configs:alter"): ("", _ALTER, 204),
    ("PUT", f"{C}/brokers/{{broker_id}}/configs/{{name}}"): ("", {"value": "3"}, 200),
    ("DELETE", f"{C}/brokers/{{broker_id}}/configs/{{name}}"): ("", None, 200),
    ("POST", f"{C}/brokers/{{broker_id}}/configs:alter"): (
        "",
        {"data": [{"name": "log.cleaner.threads", "value": "3"}]},
        204,
    ),
    ("PUT", f"{C}/broker-configs/{{name}}"): ("", {"value": "3"}, 200),
    ("DELETE", f"{C}/broker-configs/{{name}}"): ("", None, 200),
    ("POST", f"{C}/broker-configs:alter"): ("", {"data": [{"name": "log.cleaner.threads", "value": "3"}]}, 204),
    ("PUT", f"{C}/consumer-groups/{{consumer_group_id}}/configs/{{name}}"): ("", {"value": "6000"}, 200),
    ("DELETE", f"{C}/consumer-groups/{{consumer_group_id}}/configs/{{name}}"): ("", None, 200),
    ("POST", f"{C}/consumer-groups/{{consumer_group_id}}/configs:alter"): (
        "",
        {"data": [{"name": "consumer.heartbeat.interval.ms", "value": "6000"}]},
        204,
    ),
    ("POST", f"{C}/consumer-groups/{{consumer_group_id}}/offsets:reset"): ("", {"to": "LATEST"}, 200),
    ("DELETE", f"{C}/consumer-groups/{{consumer_group_id}}"): ("", None, 200),
    ("PUT", f"{C}/client-metrics/{{subscription_name}}/configs/{{name}}"): ("", {"value": "60000"}, 200),
    ("DELETE", f"{C}/client-metrics/{{subscription_name}}/configs/{{name}}"): ("", None, 200),
    ("POST", f"{C}/client-metrics/{{subscription_name}}/configs:alter"): (
        "",
        {"data": [{"name": "interval.ms", "value": "60000"}]},
        204,
    ),
    ("POST", f"{C}/reassignments"): (
        "",
        {"data": [{"topic_name": "dry", "partition_id": 0, "replica_ids": [1]}]},
        200,
    ),
    ("POST", f"{C}/reassignments:cancel"): ("", _TOPIC, 404),  # none is in progress
    ("POST", f"{C}/topics/{{topic_name}}/partitions/{{partition_id}}:elect-leader"): ("", {}, 200),
    ("POST", f"{C}/leaders:elect"): ("", {"topic_names": ["dry"]}, 200),
    ("POST", f"{C}/brokers/{{broker_id}}:unregister"): ("?force=true", {}, 200),
    ("PATCH", f"{C}/features"): ("", {"data": [{"feature_name": "metadata.version", "level": 30}]}, 200),
    ("POST", f"{C}/quorum/voters"): ("", {"voter_id": 9, "directory_id": "nBQDfFT6Q2WVyEPPkqGzPg"}, 400),
    ("DELETE", f"{C}/quorum/voters/{{voter_id}}/{{directory_id}}"): ("", None, 404),
    ("POST", f"{C}/acls"): ("", _ACL, 400),  # SECURITY_DISABLED; with an authorizer in test_acl_changes
    ("POST", f"{C}/acls:batch"): ("", {"data": [_ACL]}, 400),
    ("POST", f"{C}/acls:import"): ("", {"data": [_ACL]}, 400),
    ("POST", f"{C}/acls:application"): (
        "",
        {"preset": "producer", "principal": "User:dry", "write_topics": ["dry"]},
        400,
    ),
    ("DELETE", f"{C}/acls"): (_FILTER, None, 400),
    ("PUT", _CREDENTIALS): ("", {"password": "secret-enough"}, 200),
    ("DELETE", _CREDENTIALS): ("", None, 200),
    ("POST", f"{C}/client-quotas:alter"): (
        "",
        {
            "entity": [{"entity_type": "user", "entity_name": "dry"}],
            "data": [{"key": "producer_byte_rate", "value": 5}],
        },
        200,
    ),
    ("POST", f"{C}/delegation-tokens"): ("", {"renewers": ["User:ann"]}, 400),  # refused on a plaintext connection
    ("POST", f"{C}/delegation-tokens:renew"): ("", {"hmac": "AAAA"}, 400),
    ("POST", f"{C}/delegation-tokens:expire"): ("", {"hmac": "AAAA"}, 400),
    ("POST", f"{C}/topics/{{topic_name}}/partitions/{{partition_id}}/transactions:abort"): (
        "",
        {"start_offset": 4711},  # no transaction is open
        409,
    ),
    ("POST", f"{C}/topics/{{topic_name}}/records"): ("", {"value": {"type": "JSON", "data": {"n": 1}}}, 200),
    ("POST", f"{C}/topics/{{topic_name}}/records:batch"): (
        "",
        {"entries": [{"id": "1", "value": {"type": "JSON", "data": {"n": 1}}}]},
        207,
    ),
    ("POST", f"{C}/reports:run"): ("", None, 200),
    ("POST", f"{C}/reports/{{report_id}}:cancel"): ("", None, 404),
    ("POST", f"{C}/plans"): ("", {"reassignment": _PLAN}, 200),
    ("PATCH", f"{C}/plans/{{plan_id}}"): ("", {"moves_per_broker": 2}, 404),
    ("POST", f"{C}/plans/{{plan_id}}:approve"): ("", None, 404),
    ("POST", f"{C}/plans/{{plan_id}}:start"): ("", None, 404),
    ("POST", f"{C}/plans/{{plan_id}}:pause"): ("", None, 404),
    ("POST", f"{C}/plans/{{plan_id}}:resume"): ("", None, 404),
    ("POST", f"{C}/plans/{{plan_id}}:cancel"): ("", {}, 404),
    ("POST", f"{C}/plans/{{plan_id}}:uncordon"): ("", None, 404),
    ("PUT", f"{C}/report-schedules/{{name}}"): ("", {"cron": "1 2 3 4 5"}, 200),
    ("DELETE", f"{C}/report-schedules/{{name}}"): ("", None, 404),
    ("PUT", "/v3/cluster-connections/{key}"): ("", {"name": "Dry", "bootstrap_controllers": ["127.0.0.1:1"]}, 422),
    ("DELETE", "/v3/cluster-connections/{key}"): ("", None, 404),
}
"""For each change: a valid query and body, and the status of its dry run."""


@pytest.fixture(scope="module")
def filled(web: LiveWeb) -> LiveWeb:
    """Create what the changes alter or delete."""
    made = [
        web.client.post(f"{web.cluster}/topics", json={"topic_name": "dry", "partitions_count": 2}),
        web.client.post("/v3/users", json={"name": "dry-ann", "role": "viewer"}),
        web.client.post("/v3/tokens", json={"name": "dry-ann", "role": "viewer"}),
        web.client.put(f"{web.cluster}/scram-users/dry-ann/credentials/SCRAM-SHA-256", json={"password": "first-one"}),
        web.client.put(f"{web.cluster}/topics/dry/configs/retention.ms", json={"value": "1000000"}),
        web.client.put(f"{web.cluster}/brokers/1/configs/log.cleaner.threads", json={"value": "2"}),
        web.client.put(f"{web.cluster}/broker-configs/log.cleaner.threads", json={"value": "2"}),
        web.client.post(
            f"{web.cluster}/consumer-groups/dry/offsets:reset",
            json={"to": "EARLIEST", "topics": [{"topic_name": "dry"}]},
        ),
    ]
    assert all(answer.status_code in {200, 201, 204, 409} for answer in made), [answer.text for answer in made]
    return web


def operations(web: LiveWeb) -> Iterator[tuple[Operation, dict[str, Any]]]:
    for path, methods in web.http().get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            yield (method.upper(), path), operation


def address(web: LiveWeb, path: str) -> str:
    return path.format(**names_in(web, path))


def names_in(web: LiveWeb, path: str) -> dict[str, str]:
    """Return what a path can contain: names that exist where `filled` creates them."""
    config = "retention.ms" if "/topics/" in path else "log.cleaner.threads"
    config = "consumer.heartbeat.interval.ms" if "consumer-groups" in path else config
    config = "interval.ms" if "client-metrics" in path else config
    is_account = path.startswith(("/v3/users", "/v3/tokens"))
    return {
        "cluster_id": web.cluster.rpartition("/")[2],
        "topic_name": "dry",
        "name": "dry-ann" if is_account else "dry" if "schedules" in path else config,
        "broker_id": "1",
        "controller_id": "1",
        "consumer_group_id": "dry",
        "consumer_id": "none",
        "transactional_id": "none",
        "subscription_name": "dry",
        "partition_id": "0",
        "voter_id": "9",
        "directory_id": "nBQDfFT6Q2WVyEPPkqGzPg",
        "user_name": "dry-ann",
        "mechanism": "SCRAM-SHA-256",
        "report_id": "4711",
        "plan_id": "4711",
        "election_id": "4711",
        "session_id": "4711",
        "epoch": "1",
        "key": "dry",
        "token_id": "none",
        "feature_name": "group.version",
    }


def key_of(operation: Operation) -> Operation:
    method, path = operation
    return (method, "/v3/tokens/{token}") if path == "/v3/tokens/{name}" else operation


def state(web: LiveWeb) -> list[object]:
    """Return everything that a change can alter: the image without its offset, and all rows without times of use."""
    image: MetadataImage = web.services.cluster.image
    parts = [
        getattr(image, name) for name in image.__struct_fields__ if name not in {"offset", "epoch", "timestamp_ms"}
    ]

    def rows(session: Any) -> list[tuple[str, list[str]]]:
        tables = [table for table in sorted(Base.metadata.tables) if table not in {"quorum_epochs", "sessions"}]
        return [
            (name, sorted(str(_kept(row)) for row in session.execute(text(f"SELECT * FROM {name}")).mappings()))
            for name in tables
        ]

    return [repr(parts), *web.call(web.services.database.read(rows))]


def _kept(row: Any) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in {"last_used_at", "last_seen_at"}}


def test_the_dry_run_of_every_change_changes_nothing(filled: LiveWeb) -> None:
    web, tried = filled, set()
    web.call(web.services.security.flush())  # counts of refusals in earlier tests are stored seconds later
    before = state(web)
    for operation, described in operations(web):
        method, path = operation
        if method == "GET":
            continue
        assert key_of(operation) in CHANGES, f"add {method} {path} to CHANGES"
        query, body, status = CHANGES[key_of(operation)]
        tried.add(key_of(operation))
        url = address(web, path)
        flagged = f"{url}{query}{'&' if query else '?'}validate_only=true"
        answers = [web.client.request(method, flagged, json=body)]
        if body is not None:
            answers.append(web.client.request(method, url + query, json={**body, "validate_only": True}))
            assert "validate_only" in str(described["requestBody"]) or "$ref" in str(described["requestBody"])
        for answer in answers:
            assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
            if status == 200:
                assert answer.json()["validated"] is True, f"{method} {path}: {answer.text}"
                if answer.json().get("kind") == "KafkaDryRun":
                    DryRunData.model_validate_json(answer.content)
        assert state(web) == before, f"the dry run of {method} {path} changed something"
    assert tried == set(CHANGES)


def test_a_dry_run_is_documented_at_every_change(web: LiveWeb) -> None:
    document = web.http().get("/openapi.json").json()
    for (method, path), operation in operations(web):
        names = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
        assert ("validate_only" in names) == (method != "GET"), f"{method} {path}"
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        for reference in [body.get("$ref"), *(each.get("$ref") for each in body.get("anyOf", []))]:
            if reference is not None:
                schema = document["components"]["schemas"][reference.rpartition("/")[2]]
                assert "validate_only" in schema["properties"], f"{method} {path}"


def test_every_endpoint_refuses_an_unknown_parameter(filled: LiveWeb) -> None:
    for method, path in [key for key, _ in operations(filled)]:
        answer = filled.client.request(method, f"{address(filled, path)}?validate_onyl=true")
        assert answer.status_code == 400, f"{method} {path}: {answer.status_code} {answer.text}"
        problem = answer.json()
        assert "'validate_onyl'" in problem["message"], problem
        assert problem["errors"][0]["pointer"] == "?validate_onyl"
        assert ("validate_only" in problem["message"]) == (method != "GET"), problem


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("?validate_only=yes", None, 400),
        ("?validate_only=1", None, 400),
        ("?validate_only=", None, 400),
        ("?validate_only=true&validate_only=true", None, 400),
        ("?validate_only=true&validate_only=false", None, 400),
        ("?validate_only=false", {"validate_only": True}, 400),
        ("?validate_only=true", {"validate_only": False}, 400),
        ("", {"validate_only": "true"}, 422),
        ("", {"validate_only": 1}, 422),
        ("", {"validate_only": None}, 422),
        ("?validate_only=TRUE", None, 200),
        ("?validate_only=true", {"validate_only": True}, 200),
        ("", {"validate_only": True}, 200),
    ],
)
def test_an_ambiguous_validate_only_deletes_nothing(
    filled: LiveWeb, query: str, body: dict[str, Any] | None, status: int
) -> None:
    answer = filled.client.request("DELETE", f"{filled.cluster}/topics/dry{query}", json=body)
    assert answer.status_code == status, answer.text
    assert filled.client.get(f"{filled.cluster}/topics/dry").status_code == 200


def test_an_escaped_name_in_the_body_is_the_same_name(filled: LiveWeb) -> None:
    body = b'{"partitions_count": 7, "validate\\u005fonly": true}'
    headers = {"Content-Type": "application/json"}
    answer = filled.client.patch(f"{filled.cluster}/topics/dry", content=body, headers=headers)
    assert (answer.status_code, answer.json()["validated"]) == (200, True)
    assert filled.client.get(f"{filled.cluster}/topics/dry").json()["partitions_count"] == 2


def test_head_answers_as_get_does_and_refuses_as_get_does(filled: LiveWeb) -> None:
    for path in ("/v3/clusters", f"{filled.cluster}/topics/dry", f"{filled.cluster}/topics/none", "/v3/users"):
        head, get = filled.client.head(path), filled.client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers.get("etag") == get.headers.get("etag")
        assert filled.client.head(f"{path}?validate_onyl=true").status_code == 400


def test_a_form_takes_no_query_parameter(filled: LiveWeb) -> None:
    answer = filled.client.post("/topics/dry/delete?validate_only=true", data={"confirmed": "yes", "typed": "dry"})
    assert answer.status_code == 400, answer.text
    assert filled.client.get(f"{filled.cluster}/topics/dry").status_code == 200


def test_thousands_of_parameters_are_refused_at_once(filled: LiveWeb) -> None:
    query = "&".join(f"p{index % 900}=" for index in range(9_000))
    answer = filled.client.get(f"{filled.cluster}/topics?{query}")
    assert (answer.status_code, len(answer.json()["errors"])) == (400, 5)


def test_a_dry_run_refuses_what_the_change_would(filled: LiveWeb) -> None:
    c, web = filled.cluster, filled.client
    for user in web.get("/v3/users").json()["data"]:  # of other modules, which share the web process
        if user["role"] == "admin" and user["name"] != "admin":
            assert web.delete(f"/v3/users/{user['name']}").status_code == 204
    refused = [
        (404, web.delete(f"{c}/topics/no-such-topic?validate_only=true")),
        (404, web.delete(f"{c}/scram-users/nobody/credentials/SCRAM-SHA-256?validate_only=true")),
        (404, web.delete("/v3/users/nobody?validate_only=true")),
        (409, web.post("/v3/users?validate_only=true", json={"name": "dry-ann", "role": "viewer"})),
        (409, web.delete("/v3/users/admin?validate_only=true")),
        (404, web.delete("/v3/tokens/nothing?validate_only=true")),
        (422, web.put(f"{c}/report-schedules/dry?validate_only=true", json={"cron": "never"})),
        (409, web.post(f"{c}/brokers/1:unregister?validate_only=true")),
        (404, web.post(f"{c}/brokers/77:unregister?validate_only=true&force=true")),
        (
            400,
            web.post(
                f"{c}/reassignments?validate_only=true",
                json={
                    "data": [{"topic_name": "dry", "partition_id": 0, "replica_ids": [1, 1]}],
                },
            ),
        ),
    ]
    assert [(wanted, answer.status_code) for wanted, answer in refused] == [
        (wanted, wanted) for wanted, _ in refused
    ], [answer.text for _, answer in refused]
    same = web.delete(f"{c}/topics/no-such-topic")
    instance = {"instance": ""}
    assert refused[0][1].json() | instance == same.json() | instance


_keys = itertools.count()


def test_a_dry_run_and_the_change_do_not_share_an_idempotency_key(filled: LiveWeb) -> None:
    name = f"dry.once.{next(_keys)}"
    body, headers = {"topic_name": name, "partitions_count": 1}, {"Idempotency-Key": f"key-{name}"}
    url = f"{filled.cluster}/topics"
    dry = filled.client.post(f"{url}?validate_only=true", json=body, headers=headers)
    made = filled.client.post(url, json=body, headers=headers)
    again = filled.client.post(url, json=body, headers=headers)
    dry_again = filled.client.post(f"{url}?validate_only=true", json=body, headers=headers)
    assert (dry.status_code, made.status_code, again.status_code) == (200, 201, 201)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (dry_again.status_code, dry_again.json()["kafka_error"]) == (400, "TOPIC_ALREADY_EXISTS")


def test_a_live_broker_is_unregistered_only_by_force(filled: LiveWeb) -> None:
    url = f"{filled.cluster}/brokers/1:unregister"
    for answer in (filled.client.post(url), filled.client.post(url, json={"force": False})):
        problem = answer.json()
        assert (answer.status_code, problem["is_live"]) == (409, True)
        assert problem["replicas_count"] >= 2
        assert "dry" in problem["message"] or problem["topics_count"] > 10
    differing = filled.client.post(f"{url}?force=true", json={"force": False})
    assert differing.status_code == 400
    forced = filled.client.post(f"{url}?validate_only=true", json={"force": True})
    assert (forced.status_code, forced.json()["changes"][0]["after"]) == (200, None)
    assert filled.client.get(f"{filled.cluster}/brokers/1").status_code == 200


def test_the_page_unregisters_a_live_broker_only_after_a_warning(filled: LiveWeb) -> None:
    url, browser = "/brokers/1/unregister", {"Accept": "text/html"}
    shown = filled.client.post(url, headers=browser)
    assert shown.status_code == 200
    assert "Broker 1 is live" in shown.text
    assert 'name="force" value="yes"' in shown.text
    blind = filled.client.post(url, headers=browser, data={"confirmed": "yes", "typed": "1"})
    assert blind.status_code == 409
    assert "stop it first" in blind.text
    assert filled.client.get(f"{filled.cluster}/brokers/1").status_code == 200
