"""Plans through REST, on a real node with one broker."""

import json
from typing import Any

import pytest

from app.reports import leases, store
from app.rest.schemas.plans import PlanData, PlanDataList, PlanPartitionDataList
from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.interop import kafka


def reassignment(topic: str, *replicas: list[int]) -> dict[str, Any]:
    """Return the content of a file of kafka-reassign-partitions."""
    moves = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    return {"version": 1, "partitions": moves}


def topic(web: LiveWeb, name: str, partitions: int = 2) -> None:
    body = {"topic_name": name, "partitions_count": partitions}
    answer = web.client.post(f"{web.cluster}/topics", json=body)
    assert answer.status_code == 201, answer.text


def create(web: LiveWeb, body: dict[str, object]) -> PlanData:
    answer = web.client.post(f"{web.cluster}/plans", json=body)
    assert answer.status_code == 201, answer.text
    plan = PlanData.model_validate_json(answer.content)
    assert answer.headers["Location"] == f"{web.url}{web.cluster}/plans/{plan.plan_id}"
    return plan


def act(web: LiveWeb, plan_id: int, action: str, status: int = 200) -> str:
    answer = web.client.post(f"{web.cluster}/plans/{plan_id}:{action}", json={})
    assert answer.status_code == status, answer.text
    return str(answer.json()["state"] if status == 200 else answer.json()["message"])


def get(web: LiveWeb, plan_id: int) -> PlanData:
    return PlanData.model_validate_json(web.client.get(f"{web.cluster}/plans/{plan_id}").content)


def ended(web: LiveWeb, plan_id: int) -> PlanData:
    return kafka.wait_until(
        lambda: plan if (plan := get(web, plan_id)).finished_at is not None else None, 60, "the plan has ended", 0.05
    )


def test_a_plan_is_approved_started_and_executed(web: LiveWeb) -> None:
    topic(web, "plans.done")
    body = {"reassignment": reassignment("plans.done", [1], [1]), "throttle_bytes_per_second": 1_000_000}
    plan = create(web, body)
    assert (plan.state, plan.partition_states, plan.replicas_to_add) == ("draft", {"pending": 2}, 0)
    assert act(web, plan.plan_id, "approve") == "approved"
    act(web, plan.plan_id, "start")
    done = ended(web, plan.plan_id)
    assert (done.state, done.partition_states) == ("done", {"unchanged": 2})
    assert done.result is not None
    listed = PlanDataList.model_validate_json(web.client.get(f"{web.cluster}/plans").content)
    assert listed.data[0].plan_id == plan.plan_id
    rows = web.client.get(f"{web.cluster}/plans/{plan.plan_id}/partitions?page_size=1")
    first = PlanPartitionDataList.model_validate_json(rows.content)
    assert first.metadata.next is not None
    second = PlanPartitionDataList.model_validate_json(web.client.get(first.metadata.next).content)
    assert [(each.partition_id, each.state) for each in (*first.data, *second.data)] == [
        (0, "unchanged"),
        (1, "unchanged"),
    ]
    assert second.metadata.next is None
    audited = web.client.get(f"/v3/audit?resource=plan/{plan.plan_id}").json()["data"]
    assert {"plan.create", "plan.approve", "plan.start"} <= {each["action"] for each in audited}


def test_a_draft_is_cancelled_at_once_and_nothing_else_can_be_done_with_it(web: LiveWeb) -> None:
    topic(web, "plans.cancelled")
    plan = create(web, {"reassignment": reassignment("plans.cancelled", [1])})
    message = act(web, plan.plan_id, "start", 409)
    assert message == f"Plan {plan.plan_id} is draft. Only a plan that is approved can be started."
    assert act(web, plan.plan_id, "cancel") == "cancelled"
    for action in ("approve", "start", "pause", "resume", "cancel"):
        act(web, plan.plan_id, action, 409)


def test_throttle_and_concurrency_are_changed(web: LiveWeb) -> None:
    topic(web, "plans.changed")
    plan = create(web, {"reassignment": reassignment("plans.changed", [1]), "throttle_bytes_per_second": 5})
    path = f"{web.cluster}/plans/{plan.plan_id}"
    changed = web.client.patch(path, json={"moves_per_broker": 9})
    assert (changed.json()["moves_per_broker"], changed.json()["throttle_bytes_per_second"]) == (9, 5)
    changed = web.client.patch(path, json={"throttle_bytes_per_second": None})
    assert (changed.json()["moves_per_broker"], changed.json()["throttle_bytes_per_second"]) == (9, None)
    assert web.client.patch(path, json={}).status_code == 422
    assert web.client.patch(path, json={"moves_per_broker": 0}).status_code == 422
    act(web, plan.plan_id, "cancel")


def test_a_dry_run_changes_nothing(web: LiveWeb) -> None:
    topic(web, "plans.dry")
    body = {"reassignment": reassignment("plans.dry", [1]), "validate_only": True}
    answer = web.client.post(f"{web.cluster}/plans", json=body)
    assert (answer.status_code, answer.json()["validated"]) == (200, True)
    assert web.client.get(f"{web.cluster}/plans/{answer.json()['plan_id']}").status_code == 404
    plan = create(web, {"reassignment": reassignment("plans.dry", [1])})
    dry = web.client.post(f"{web.cluster}/plans/{plan.plan_id}:approve", json={"validate_only": True})
    assert (dry.status_code, dry.json()["state"]) == (200, "approved")
    assert get(web, plan.plan_id).state == "draft"
    act(web, plan.plan_id, "cancel")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Exactly one of reassignment, report_id, options, drain, rollback_of is needed, not none."),
        ({"rollback_of": 1, "options": {}}, "is needed, not options and rollback_of."),
        ({"options": {"goals": ["ugly"]}}, "goals"),
        ({"options": {"goals": ["replication_factor"]}}, "needs a replication factor"),
        ({"options": {"goals": ["leaders"]}}, "The planner proposes no change"),
        ({"drain": {"broker_ids": []}}, "No broker is named; registered: 1."),
        ({"drain": {"broker_ids": [9]}}, "Broker 9 is not registered; registered: 1."),
        ({"drain": {"broker_ids": [1]}}, "No broker may take replicas"),
        ({"reassignment": {"version": 1, "partitions": []}}, "The plan has no partition."),
        ({"reassignment": {"partitions": 5}}, "The plan is not JSON as kafka-reassign-partitions has it"),
        ({"reassignment": reassignment("absent", [1])}, "absent-0 does not exist."),
        ({"reassignment": reassignment("plans.wrong", [])}, "plans.wrong-0: the plan gives it no replica."),
        ({"reassignment": reassignment("plans.wrong", [1, 1])}, "plans.wrong-0: the plan names a broker twice."),
        ({"reassignment": reassignment("plans.wrong", [7])}, "plans.wrong-0: broker 7 is not registered."),
        (
            {
                "reassignment": {
                    "partitions": [{"topic": "plans.wrong", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]
                }
            },
            "plans.wrong-0: Broker 1 has no log directory '/a'; it has ",
        ),
        ({"drain": {"log_dirs": [{"broker_id": 1, "path": "/a"}]}}, "Broker 1 has no log directory '/a'; it has "),
        ({"drain": {"log_dirs": [{"broker_id": 7, "path": "/a"}]}}, "Broker 7 is not registered; registered: 1."),
        ({"drain": {}}, "No broker is named; registered: 1."),
        ({"reassignment": reassignment("plans.wrong", [1]), "moves_per_broker": 0}, "moves_per_broker"),
        ({"reassignment": reassignment("plans.wrong", [1]), "throttle_bytes_per_second": -1}, "throttle"),
    ],
)
def test_a_plan_that_cannot_be_executed_is_refused(web: LiveWeb, body: dict[str, object], message: str) -> None:
    web.client.post(f"{web.cluster}/topics", json={"topic_name": "plans.wrong"})
    answer = web.client.post(f"{web.cluster}/plans", json=body)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["message"]


def test_an_unknown_plan_is_not_found(web: LiveWeb) -> None:
    for path in ("/plans/999999", "/plans/999999/partitions", "/plans/x"):
        assert web.client.get(web.cluster + path).status_code == 404
    assert web.client.post(f"{web.cluster}/plans/999999:start").status_code == 404
    assert web.client.post(f"{web.cluster}/plans", json={"rollback_of": 999999}).status_code == 404


def test_the_default_plan_of_a_report_becomes_a_plan_with_the_reports_replicas(web: LiveWeb) -> None:
    topic(web, "plans.reported")
    run_id = web.call(web.services.database.write(store.create_run, "ann"))
    body = {"report_id": run_id, "throttle_bytes_per_second": 1_000}
    answer = web.client.post(f"{web.cluster}/plans", json=body)
    assert answer.status_code == 422
    assert "The report has no plan" in answer.json()["message"]
    folder = web.services.reports.folder_of(run_id) / "out"
    folder.mkdir(parents=True)
    for name, replicas in (("reassign.json", [1]), ("rollback.json", [7, 1])):
        moves = [*reassignment("plans.reported", replicas)["partitions"], *reassignment("gone", replicas)["partitions"]]
        (folder / name).write_text(json.dumps({"version": 1, "partitions": moves}))
    plan = create(web, body)
    rows = PlanPartitionDataList.model_validate_json(
        web.client.get(f"{web.cluster}/plans/{plan.plan_id}/partitions").content
    )
    assert [(each.topic_name, each.original_replica_ids) for each in rows.data] == [("plans.reported", [7, 1])]
    assert (plan.origin, plan.options) == ("report", {"report_id": run_id})
    act(web, plan.plan_id, "cancel")
    web.call(web.services.database.write(leases.finish_run, run_id, "failed"))


def test_a_plan_without_moves_is_not_rolled_back(web: LiveWeb) -> None:
    topic(web, "plans.back")
    plan = create(web, {"reassignment": reassignment("plans.back", [1])})
    answer = web.client.post(f"{web.cluster}/plans", json={"rollback_of": plan.plan_id})
    assert answer.status_code == 422
    assert "The plan has moved no partition" in answer.json()["message"]
    act(web, plan.plan_id, "cancel")


def test_a_plan_is_changed_by_admins_only(web: LiveWeb) -> None:
    body = {"name": "plan-editor", "role": "editor", "scopes": []}
    token = web.client.post("/v3/tokens", json=body).json()["token"]
    with web.http(token) as editor:
        assert editor.get(f"{web.cluster}/plans").status_code == 200
        assert editor.post(f"{web.cluster}/plans", json={"rollback_of": 1}).status_code == 403
    assert token != ADMIN_TOKEN
