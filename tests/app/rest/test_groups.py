"""Consumer groups over REST: numbers are those of the broker, ids may have any characters, changes can be checked."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pydantic import TypeAdapter

from app.rest.schemas.deletions import GroupDeletionDataList
from app.rest.schemas.groups import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
    OffsetResetDataList,
)
from app.security.audit import plain_text
from tests.app import groups
from tests.app.live import CombinedNode, LiveWeb

TOPIC = "rest-groups"
HOSTILE = ["a/b", "'; drop table users; --", 'q"uote', "line\nbreak", "<script>alert(1)</script>", "x" * 2_000, "."]


@pytest.fixture(scope="module", autouse=True)
def filled(web: LiveWeb, node: CombinedNode) -> None:
    groups.new_topic(web, node, TOPIC, {0: 7, 1: 4, 2: 0})


def path_of(group_id: str) -> str:
    return "consumer-groups/" + (quote(group_id, safe="") if group_id != "." else "%2E")


def get(web: LiveWeb, path: str, model: Any, status: int = 200) -> Any:
    answer = web.client.get(path if path.startswith("http") else f"{web.cluster}/{path}")
    assert answer.status_code == status, answer.text
    if status == 200:
        TypeAdapter(model).validate_json(answer.content)
    return answer.json()


def audited(web: LiveWeb, action: str) -> list[dict[str, Any]]:
    rows = web.client.get("/v3/audit?page_size=100").json()["data"]
    return [each for each in rows if each["action"] == action]


def test_a_group_with_a_member_is_described_as_rest_v3_does(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "billing", TOPIC, {0: 3, 1: 4})
    with groups.member(node, "billing", TOPIC, **{"group.instance.id": "one"}):
        group = get(web, "consumer-groups/billing", ConsumerGroupData)
        assert group["metadata"]["resource_name"].endswith("/consumer-group=billing")
        assert (group["state"], group["type"], group["is_simple"]) == ("STABLE", "CLASSIC", False)
        assert group["partition_assignor"] == "range"
        assert group["coordinator"]["related"].endswith("/brokers/1")
        listed = get(web, "consumer-groups", ConsumerGroupDataList)["data"]
        assert group in listed
        (consumer,) = get(web, group["consumers"]["related"], ConsumerDataList)["data"]
        assert (consumer["client_id"], consumer["instance_id"]) == ("reader", "one")
        assert get(web, consumer["metadata"]["self"], ConsumerData) == consumer
        assigned = get(web, consumer["assignments"]["related"], ConsumerAssignmentDataList)["data"]
        assert [(each["topic_name"], each["partition_id"]) for each in assigned] == [
            (TOPIC, index) for index in range(3)
        ]
        assert get(web, assigned[0]["metadata"]["self"], ConsumerAssignmentData) == assigned[0]
        lags = get(web, "consumer-groups/billing/lags", ConsumerLagDataList)["data"]
        figures = [(each["partition_id"], each["current_offset"], each["log_end_offset"], each["lag"]) for each in lags]
        assert figures == [(0, 3, 7, 4), (1, 4, 4, 0)]
        assert lags[0]["consumer_id"] == consumer["consumer_id"]
        assert get(web, assigned[0]["lag"]["related"], ConsumerLagData) == lags[0]
        summary = get(web, group["lag_summary"]["related"], ConsumerGroupLagSummaryData)
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (4, 4, 0)
        assert summary["max_lag_consumer"]["related"] == consumer["metadata"]["self"]
        for method, path, body in (("POST", "/offsets:reset", {"to": "EARLIEST"}), ("DELETE", "", None)):
            refused = web.client.request(method, f"{web.cluster}/consumer-groups/billing{path}", json=body)
            assert (refused.status_code, refused.json()["kafka_error"]) == (409, "NON_EMPTY_GROUP")
            assert "reader at" in refused.json()["message"]


@pytest.mark.parametrize("group_id", HOSTILE, ids=lambda each: repr(each[:12]))
def test_an_id_may_have_any_characters(web: LiveWeb, node: CombinedNode, group_id: str) -> None:
    groups.commit(node, group_id, TOPIC, {0: 1})
    path = path_of(group_id)
    group = get(web, path, ConsumerGroupData)
    assert (group["consumer_group_id"], group["state"]) == (group_id, "EMPTY")
    assert httpx.URL(group["metadata"]["self"]).raw_path == f"{web.cluster}/{path}".encode()
    assert get(web, group["metadata"]["self"], ConsumerGroupData) == group
    lags = get(web, f"{path}/lags", ConsumerLagDataList)
    assert [(each["current_offset"], each["lag"], each["consumer_id"]) for each in lags["data"]] == [(1, 6, "")]
    assert lags["metadata"]["self"] == f"{group['metadata']['self']}/lags"
    deleted = web.client.delete(f"{web.cluster}/{path}")
    assert deleted.status_code == 204, deleted.text
    assert get(web, path, None, 404)["error_code"] == 404
    assert audited(web, "group.delete")[0]["resource"] == plain_text(f"group/{group_id}", 512)
    groups.commit(node, group_id, TOPIC, {0: 1})
    body = {"data": [{"consumer_group_id": group_id}, {"consumer_group_id": "nobody"}]}
    results = web.client.post(f"{web.cluster}/consumer-groups:delete", json=body)
    found = GroupDeletionDataList.model_validate_json(results.content).data
    assert [(each.consumer_group_id, each.kafka_error) for each in found] == [
        (group_id, None),
        ("nobody", "GROUP_ID_NOT_FOUND"),
    ]
    assert results.status_code == 207
    assert get(web, path, None, 404)["error_code"] == 404


def test_offsets_are_moved_after_a_dry_run_that_shows_where_to(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "moved", TOPIC, {0: 3, 1: 4})
    url = f"{web.cluster}/consumer-groups/moved/offsets:reset"

    def reset(body: dict[str, Any], status: int = 200) -> Any:
        answer = web.client.post(url, json=body)
        assert answer.status_code == status, answer.text
        if status != 200:
            return answer.json()
        OffsetResetDataList.model_validate_json(answer.content)
        return [(each["partition_id"], each["current_offset"], each["new_offset"]) for each in answer.json()["data"]]

    assert reset({"to": "EARLIEST", "validate_only": True}) == [(0, 3, 0), (1, 4, 0)]
    assert reset({"shift_by": 2, "topics": [{"topic_name": TOPIC, "partition_ids": [0]}]}) == [(0, 3, 5)]
    lags = get(web, "consumer-groups/moved/lags", ConsumerLagDataList)["data"]
    assert [(each["partition_id"], each["lag"]) for each in lags] == [(0, 2), (1, 0)]
    assert reset({"to_offset": 99, "topics": [{"topic_name": TOPIC}]}) == [(0, 5, 7), (1, 4, 4), (2, None, 0)]
    assert reset({"to_datetime": "2001-01-01T00:00:00Z", "validate_only": True})[0] == (0, 7, 0)
    assert reset({"by_duration": "PT1H", "validate_only": True})[0] == (0, 7, 0)
    assert reset({"to": "CURRENT", "validate_only": True})[0] == (0, 7, 7)
    events = audited(web, "group.reset")
    assert events[0]["detail"]["offsets"] == {f"{TOPIC}-0": "5 → 7", f"{TOPIC}-1": "4 → 4", f"{TOPIC}-2": "None → 0"}
    assert len([each for each in events if each["resource"] == "group/moved"]) == 2, "dry runs are not audited"
    assert "not a time" in reset({"to_datetime": "soon"}, 400)["message"]
    assert "not a duration" in reset({"by_duration": "1h"}, 400)["message"]
    assert reset({"to": "LATEST", "topics": [{"topic_name": "no-such-topic"}]}, 404)["kafka_error"]
    shift = {"shift_by": 1, "topics": [{"topic_name": TOPIC, "partition_ids": [7]}]}
    assert reset(shift, 400)["kafka_error"] == "INVALID_REQUEST"
    assert "exactly one of" in str(reset({"to": "LATEST", "to_offset": 1}, 422))
    assert "exactly one of" in str(reset({}, 422))


def test_what_does_not_exist_is_not_found(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "lonely", TOPIC, {0: 1})
    for path in (
        "consumer-groups/nobody",
        "consumer-groups/nobody/lags",
        "consumer-groups/nobody/consumers",
        "consumer-groups/lonely/consumers/none",
        "consumer-groups/lonely/consumers/none/assignments",
        f"consumer-groups/lonely/lags/{TOPIC}/partitions/2",
    ):
        assert "cannot be found" in get(web, path, None, 404)["message"]
    assert web.client.delete(f"{web.cluster}/consumer-groups/nobody").status_code == 404
    assert web.client.get(f"{web.cluster}/consumer-groups/{'x' * 40_000}").json()["kafka_error"] == "INVALID_GROUP_ID"


def test_viewers_see_and_editors_change(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "guarded", TOPIC, {0: 1})
    tokens = {}
    for name, role, scopes in (
        ("g-viewer", "viewer", []),
        ("g-editor", "editor", ["groups"]),
        ("g-t", "editor", ["topics"]),
    ):
        body = {"name": name, "role": role, "scopes": scopes}
        tokens[name] = web.client.post("/v3/tokens", json=body).json()["token"]
    url = f"{web.cluster}/consumer-groups/guarded"
    assert web.http(tokens["g-viewer"]).get(url).status_code == 200
    for name, status in (("g-viewer", 403), ("g-t", 403), ("g-editor", 204)):
        assert web.http(tokens[name]).delete(url).status_code == status, name
