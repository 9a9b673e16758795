"""Placement reports through REST: run on a real Spark, read, cancelled and scheduled."""

import time

import pytest

from app.rest.schemas.reports import ReportData, ReportDataList, ScheduleData, ScheduleDataList, ViolationDataList
from tests.app.live import LiveWeb

RUN_SECONDS = 180


def follow(web: LiveWeb, report_id: int, *, until: set[str]) -> ReportData:
    """Poll until the run is in one of these states, and return it."""
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        answer = web.client.get(f"{web.cluster}/reports/{report_id}")
        assert answer.status_code == 200, answer.text
        report = ReportData.model_validate_json(answer.content)
        if report.state in until:
            return report
        assert time.monotonic() < deadline, report
        time.sleep(0.1)


@pytest.fixture
def idle(web: LiveWeb) -> LiveWeb:
    """Return a web process whose default schedule is disabled and that has no running report."""
    off = web.client.put(f"{web.cluster}/report-schedules/nightly", json={"cron": "0 2 * * *", "enabled": False})
    assert off.status_code == 200, off.text
    for report in ReportDataList.model_validate_json(web.client.get(f"{web.cluster}/reports").content).data:
        follow(web, report.report_id, until=FINAL)
    return web


FINAL = {"succeeded", "failed", "cancelled", "timed_out", "lost"}


@pytest.mark.spark
def test_a_report_runs_to_its_result(idle: LiveWeb) -> None:
    web = idle
    body = {
        "topic_name": "reports.topic",
        "partitions_count": 3,
        "configs": [{"name": "min.insync.replicas", "value": "1"}],
    }
    created = web.client.post(f"{web.cluster}/topics", json=body)
    begun = web.client.post(f"{web.cluster}/reports:run", json={})
    assert begun.status_code == 202, begun.text
    report_id = begun.json()["report_id"]
    assert begun.headers["Location"] == f"{web.url}{web.cluster}/reports/{report_id}"
    again = web.client.post(f"{web.cluster}/reports:run", json={})
    assert (again.status_code, again.json()["type"]) == (409, "urn:conclave:error:report-busy")
    report = follow(web, report_id, until=FINAL)
    assert report.state == "succeeded", web.services.reports.log_tail(report_id)
    assert report.result is not None
    assert report.metadata_offset is not None
    assert report.metadata_offset >= int(created.headers["X-Metadata-Offset"])
    assert report.result["body"]["verdict"]["partitions"] >= 3
    listed = ReportDataList.model_validate_json(web.client.get(f"{web.cluster}/reports").content)
    assert listed.data[0].report_id == report_id
    assert listed.data[0].result is None
    rows = web.client.get(f"{web.cluster}/reports/{report_id}/violations?reason=offline")
    assert ViolationDataList.model_validate_json(rows.content).total == 0
    wrong = web.client.get(f"{web.cluster}/reports/{report_id}/violations?reason=ugly")
    assert (wrong.status_code, "reason cannot be 'ugly'" in wrong.json()["message"]) == (400, True)


@pytest.mark.spark
def test_a_report_is_cancelled(idle: LiveWeb) -> None:
    web = idle
    report_id = web.client.post(f"{web.cluster}/reports:run", json={}).json()["report_id"]
    assert follow(web, report_id, until={"running", *FINAL}).state == "running"
    assert web.client.post(f"{web.cluster}/reports/{report_id}:cancel").status_code == 204
    assert follow(web, report_id, until=FINAL).state == "cancelled"
    late = web.client.post(f"{web.cluster}/reports/{report_id}:cancel")
    assert (late.status_code, "its state is cancelled" in late.json()["message"]) == (409, True)
    assert web.client.get(f"{web.cluster}/reports/{report_id}/violations").status_code == 404


def test_a_schedule_is_created_changed_and_listed(web: LiveWeb) -> None:
    path = f"{web.cluster}/report-schedules/weekly"
    made = web.client.put(path, json={"cron": "0 3 * * 1", "enabled": True})
    assert made.status_code == 200, made.text
    schedule = ScheduleData.model_validate_json(made.content)
    assert schedule.next_due is not None
    off = ScheduleData.model_validate_json(web.client.put(path, json={"cron": "0 3 * * 1", "enabled": False}).content)
    assert off.next_due is None
    listed = ScheduleDataList.model_validate_json(web.client.get(f"{web.cluster}/report-schedules").content)
    assert [each.name for each in listed.data] == ["nightly", "weekly"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"cron": "soon"}, 422), ({"cron": "0 3 * * 1", "extra": 1}, 422), ({}, 422), ({"cron": 5}, 422)],
)
def test_an_invalid_schedule_is_refused(web: LiveWeb, body: dict[str, object], status: int) -> None:
    answer = web.client.put(f"{web.cluster}/report-schedules/weekly2", json=body)
    assert answer.status_code == status, answer.text
    assert "weekly2" not in web.client.get(f"{web.cluster}/report-schedules").text


def test_an_unknown_report_is_not_found(web: LiveWeb) -> None:
    for path in ("/reports/999999", "/reports/999999/violations", "/reports/x"):
        assert web.client.get(web.cluster + path).status_code == 404
    assert web.client.post(f"{web.cluster}/reports/999999:cancel").status_code == 404


def test_a_report_is_not_started_before_the_first_image(alone: LiveWeb) -> None:
    answer = alone.client.post("/v3/clusters/none/reports:run", json={})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
