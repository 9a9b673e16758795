"""Delegation tokens through REST, on a controller with an authorizer; and a user with few rights."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.rest.schemas.acls import AclImportData
from app.rest.schemas.delegation_tokens import CreatedDelegationTokenData, DelegationTokenData, DelegationTokenDataList
from tests.app.live import LiveWeb, running_web
from tests.app.rest.authorizer import ACL, authorized_quorum, listed, super_user_web
from tests.security.secure_quorum import SecureQuorum


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureQuorum]:
    with authorized_quorum(tmp_path_factory.mktemp("authorizer")) as running:
        yield running


@pytest.fixture(scope="module")
def web(quorum: SecureQuorum, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    with super_user_web(tmp_path_factory.mktemp("web"), quorum) as running:
        yield running


def test_a_dry_run_of_tokens_names_what_it_does_not_check(web: LiveWeb) -> None:
    url = f"{web.cluster}/delegation-tokens"
    made = create_token(web)
    before = web.client.get(url).json()
    dry = web.client.post(f"{url}?validate_only=true", json={"renewers": ["User:alice"]})
    assert (dry.status_code, dry.json()["changes"][0]["after"]["renewers"]) == (200, ["User:alice"]), dry.text
    for verb in ("renew", "expire"):
        answer = web.client.post(f"{url}:{verb}", json={"hmac": made.hmac, "validate_only": True})
        assert (answer.status_code, len(answer.json()["not_checked"])) == (200, 1), answer.text
        wrong = web.client.post(f"{url}:{verb}?validate_only=true", json={"hmac": "AAAA"})
        assert (wrong.status_code, wrong.json()["kafka_error"]) == (404, "DELEGATION_TOKEN_NOT_FOUND")
    group = web.client.post(f"{url}?validate_only=true", json={"renewers": ["Group:all"]})
    assert (group.status_code, group.json()["kafka_error"]) == (400, "INVALID_PRINCIPAL_TYPE")
    assert web.client.get(url).json() == before


CHANGES: list[tuple[str, str, dict[str, object] | None]] = [
    ("POST", "topics", {"topic_name": "t", "replicas_assignments": {"0": [1]}}),
    ("DELETE", "topics/t", None),
    ("PATCH", "topics/t", {"partitions_count": 2}),
    ("PUT", "broker-configs/log.cleaner.threads", {"value": "2"}),
    ("PUT", "consumer-groups/g/configs/consumer.session.timeout.ms", {"value": "50000"}),
    ("PUT", "client-metrics/m/configs/interval.ms", {"value": "60000"}),
    ("POST", "reassignments", {"data": [{"topic_name": "t", "partition_id": 0, "replica_ids": [1]}]}),
    ("POST", "reassignments:cancel", {"data": [{"topic_name": "t", "partition_id": 0}]}),
    ("PATCH", "features", {"data": [{"feature_name": "group.version", "level": 0, "upgrade_type": "SAFE_DOWNGRADE"}]}),
    ("POST", "acls", ACL),
    ("DELETE", "acls?resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY", None),
    ("PUT", "scram-users/mallory/credentials/SCRAM-SHA-256", {"password": "x"}),
    (
        "POST",
        "client-quotas:alter",
        {"entity": [{"entity_type": "user", "entity_name": "u"}], "data": [{"key": "request_percentage", "value": 5}]},
    ),
    ("POST", "delegation-tokens", {"owner": "User:alice"}),
]


def test_changes_that_acls_forbid_are_refused_and_audited(web: LiveWeb, quorum: SecureQuorum, tmp_path: Path) -> None:
    """The web process has no more rights than its user: 403 with Kafka's error, and one audit event per attempt."""
    allow_only(web, "CLUSTER_ACTION", "DESCRIBE")
    cluster_id = web.cluster.rpartition("/")[2]
    with running_web(
        tmp_path, quorum.bootstrap, command_config=quorum.command_config, cluster_id=cluster_id
    ) as limited:
        limited.wait_ready()
        image = limited.services.cluster.image

        def events() -> list[dict[str, str]]:
            rows: list[dict[str, str]] = limited.client.get("/v3/audit?page_size=100").json()["data"]
            return rows

        for method, path, body in CHANGES:
            before = len(events())
            answer = limited.client.request(method, f"{limited.cluster}/{path}", json=body)
            is_hidden = path.startswith(("topics/t", "reassignments"))  # the topic does not exist, or is hidden
            assert answer.status_code in ({403, 404} if is_hidden else {403}), f"{method} {path}: {answer.text}"
            after = events()
            assert len(after) - before == 1 or (is_hidden and len(after) == before), f"{method} {path}"
            if len(after) > before:
                assert after[0]["result"] == "failed"
                assert after[0]["error"], "the controller's words"
        assert limited.services.cluster.image.same_metadata(image)


def create_token(web: LiveWeb, **body: Any) -> CreatedDelegationTokenData:
    answer = web.client.post(f"{web.cluster}/delegation-tokens", json=body)
    assert answer.status_code == 201, answer.text
    made = CreatedDelegationTokenData.model_validate_json(answer.content)
    assert answer.headers["Location"] == made.metadata.self
    return made


def test_a_token_is_created_renewed_and_expired(web: LiveWeb) -> None:
    made = create_token(web, renewers=["User:alice"], max_lifetime_ms=7_200_000)
    assert (made.owner, made.requester, made.renewers) == ("User:controller", "User:controller", ["User:alice"])
    assert made.max_timestamp - made.issue_timestamp == 7_200_000
    assert len(base64.b64decode(made.hmac)) == 64
    described = web.client.get(made.metadata.self)
    same = DelegationTokenData.model_validate_json(described.content)
    assert same.model_dump() == made.model_dump(exclude={"hmac"})
    tokens = DelegationTokenDataList.model_validate_json(web.client.get(f"{web.cluster}/delegation-tokens").content)
    assert same in tokens.data
    renewed = web.client.post(
        f"{web.cluster}/delegation-tokens:renew", json={"hmac": made.hmac, "renew_period_ms": 60_000}
    )
    assert renewed.status_code == 200, renewed.text
    end = renewed.json()["expiry_timestamp"]
    assert web.client.get(made.metadata.self).json()["expiry_timestamp"] == end < made.expiry_timestamp
    later = web.client.post(
        f"{web.cluster}/delegation-tokens:expire", json={"hmac": made.hmac, "expiry_period_ms": 90_000}
    )
    assert later.json()["expiry_timestamp"] > end
    ended = web.client.post(f"{web.cluster}/delegation-tokens:expire", json={"hmac": made.hmac})
    assert ended.status_code == 200
    assert web.client.get(made.metadata.self).status_code == 404
    again = web.client.post(f"{web.cluster}/delegation-tokens:expire", json={"hmac": made.hmac})
    assert (again.status_code, again.json()["kafka_error"]) == (404, "DELEGATION_TOKEN_NOT_FOUND")


def test_a_token_cannot_be_renewed_by_its_requester(web: LiveWeb) -> None:
    made = create_token(web, owner="User:alice")
    assert (made.owner, made.requester) == ("User:alice", "User:controller")
    answer = web.client.post(f"{web.cluster}/delegation-tokens:renew", json={"hmac": made.hmac})
    assert (answer.status_code, answer.json()["kafka_error"]) == (403, "DELEGATION_TOKEN_OWNER_MISMATCH")


def test_the_hmac_of_a_token_is_stored_nowhere(web: LiveWeb, quorum: SecureQuorum) -> None:
    made = create_token(web)
    web.client.post(f"{web.cluster}/delegation-tokens:renew", json={"hmac": made.hmac})
    page = web.client.get("/rights/tokens", headers={"Accept": "text/html"}).text
    assert made.token_id in page
    audit = web.client.get("/v3/audit?resource=delegation-token/*").text
    assert made.token_id in audit
    records = web.client.get(f"{web.cluster}/metadata/records?from_offset=0&limit=1000").text
    for text in (audit, records, page, quorum.outputs()):
        assert made.hmac not in text
        assert base64.b64decode(made.hmac).hex() not in text


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        ("", {"owner": "alice"}, 400),
        ("", {"renewers": ["Group:admins"]}, 400),
        ("", {"max_lifetime_ms": 0}, 422),
        ("", {"owner": ""}, 422),
        (":renew", {"hmac": "not Base64!"}, 400),
        (":renew", {"hmac": "c2VjcmV0"}, 404),
        (":renew", {"renew_period_ms": 1}, 422),
        (":expire", {"hmac": "c2VjcmV0", "expiry_period_ms": -1}, 422),
    ],
)
def test_an_invalid_token_request_is_refused(web: LiveWeb, action: str, body: dict[str, object], status: int) -> None:
    answer = web.client.post(f"{web.cluster}/delegation-tokens{action}", json=body)
    assert answer.status_code == status, answer.text
    assert "c2VjcmV0" not in answer.text


def allow_only(web: LiveWeb, *operations: str) -> None:
    """Give `admin`, the user of the other web processes, these rights on the cluster and no others.

    Rights that stay are never revoked in between, since such a process reads the log meanwhile.
    """
    base = {**ACL, "resource_type": "CLUSTER", "resource_name": "kafka-cluster", "principal": "User:admin"}
    body = {"data": [{**base, "operation": operation} for operation in operations]}
    assert web.client.post(f"{web.cluster}/acls:batch", json=body).status_code == 204
    for acl in listed(web, principal="User:admin"):
        if acl not in body["data"]:
            assert web.client.delete(f"{web.cluster}/acls", params=acl).status_code == 200


def test_a_web_process_has_the_rights_of_its_user(web: LiveWeb, quorum: SecureQuorum, tmp_path: Path) -> None:
    """Reading needs three rights on the cluster (docs/security.md). A change without its right is 403."""
    reading = ("CLUSTER_ACTION", "DESCRIBE", "ALTER")
    allow_only(web, *reading)
    with running_web(tmp_path, quorum.bootstrap, command_config=quorum.command_config) as limited:
        limited.wait_ready()
        assert limited.client.get(f"{limited.cluster}/quorum").json()["leader_id"] == 1
        config = f"{limited.cluster}/broker-configs/log.cleaner.threads"
        refused = limited.client.put(config, json={"value": "2"})
        assert (refused.status_code, refused.json()["kafka_error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        allow_only(web, *reading, "ALTER_CONFIGS")
        done = limited.client.put(config, json={"value": "2"})
        assert done.status_code == 204
        read = f"{web.cluster}/broker-configs/log.cleaner.threads?min_offset={done.headers['X-Metadata-Offset']}"
        assert web.client.get(read).json()["value"] == "2"
        assert web.client.delete(config).status_code == 204


def test_an_import_that_deletes_the_right_to_delete_tells_what_stays(
    web: LiveWeb, quorum: SecureQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACLs of transactional ids are deleted after those of the cluster."""
    reading = ("CLUSTER_ACTION", "DESCRIBE")
    allow_only(web, *reading, "ALTER")
    left = {**ACL, "resource_type": "TRANSACTIONAL_ID", "principal": "User:left", "operation": "WRITE"}
    assert web.client.post(f"{web.cluster}/acls", json=left).status_code == 201
    monkeypatch.setattr("app.actions.acls.DELETED_AT_ONCE", 1)
    with running_web(tmp_path, quorum.bootstrap, command_config=quorum.command_config) as limited:
        limited.wait_ready()
        kept = [each for each in listed(web, principal="User:admin") if each["operation"] in reading]
        answer = limited.client.post(f"{limited.cluster}/acls:import", json={"data": kept, "remove_others": True})
        assert answer.status_code == 207, answer.text
        found = AclImportData.model_validate_json(answer.content)
        assert (found.unchanged_count, found.refused_count) == (2, 1)
        assert [(each.operation, each.kafka_error) for each in found.data[-2:]] == [
            ("ALTER", None),
            ("WRITE", "CLUSTER_AUTHORIZATION_FAILED"),
        ]
        form = {"text": json.dumps(kept), "remove": "yes", "confirmed": "yes", "typed": "1"}
        page = limited.client.post("/rights/import", data=form, headers={"Accept": "text/html"}, follow_redirects=True)
        assert "Not deleted: 1." in page.text
    assert left in listed(web)
    assert web.client.post(f"{web.cluster}/acls:delete", json={"data": [left]}).status_code == 200
