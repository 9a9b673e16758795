"""Placement reports through REST: run on a real Spark, read, cancelled and scheduled."""

import json
import re
import subprocess
import sys
import time

import pytest

from app.reports.executor.copied import known_log_dirs
from app.reports.placement_file import FILE
from app.rest.schemas.reports import (
    ReportData,
    ReportDataList,
    ScheduleData,
    ScheduleDataList,
    ViolationDataList,
    WhatIfData,
)
from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.interop.kafka import wait_until

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


def knows_sizes(web: LiveWeb, topic: str, partitions: int) -> bool:
    """Return whether the broker has the logs of a topic. The answer gets old at once: a report must ask again."""
    sizes = web.call(known_log_dirs(web.services.cluster, fresh_seconds=0.0))[1].sizes
    return all(sizes.of(topic, partition) is not None for partition in range(partitions))


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
    wait_until(lambda: knows_sizes(web, "reports.topic", 3), 30, "the broker has the logs of the topic")
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
    assert report.result["body"]["sizes"]["coverage"] == "1.000000000000", "the broker gave all sizes"
    events = web.client.get(f"{web.cluster}/reports/{report_id}/event-log")
    assert (events.status_code, len(events.content) > 1000) == (200, True), events.text
    listed = ReportDataList.model_validate_json(web.client.get(f"{web.cluster}/reports").content)
    assert listed.data[0].report_id == report_id
    assert listed.data[0].result is None
    assert report.result["body"]["proposal"]["refused"] == []
    for name in ("reassign", "rollback"):
        plan = web.client.get(f"{web.cluster}/reports/{report_id}/{name}.json")
        assert (plan.status_code, plan.json()) == (200, {"version": 1, "partitions": []})
    elections = web.client.get(f"{web.cluster}/reports/{report_id}/elect.json")
    assert (elections.status_code, elections.json()) == (200, {"partitions": []})
    assert web.http().get(f"{web.cluster}/reports/{report_id}/elect.json").status_code == 401
    rows = web.client.get(f"{web.cluster}/reports/{report_id}/violations?reason=offline")
    assert ViolationDataList.model_validate_json(rows.content).total == 0
    wrong = web.client.get(f"{web.cluster}/reports/{report_id}/violations?reason=ugly")
    assert (wrong.status_code, "reason cannot be 'ugly'" in wrong.json()["message"]) == (400, True)
    check_what_if(web, report)


def check_what_if(web: LiveWeb, report: ReportData) -> None:
    """Ask what the loss of the only broker, which the report has, would do."""
    assert report.result is not None
    lost, path = report.result["body"]["brokers"][0]["broker_id"], f"{web.cluster}/reports/{report.report_id}/what-if"
    answer = web.client.get(f"{path}?brokers={lost}")
    assert answer.status_code == 200, answer.text
    data = WhatIfData.model_validate_json(answer.content)
    assert (data.source, data.brokers) == ("placement", [lost])
    assert data.verdicts["lost"] == report.result["body"]["verdict"]["partitions"]
    for query, named in (("brokers=9999", "broker '9999'"), ("racks=none", "rack 'none'"), ("", "must name")):
        wrong = web.client.get(f"{path}?{query}")
        assert (wrong.status_code, named in wrong.json()["message"]) == (400, True), wrong.text
    (web.services.reports.folder_of(report.report_id) / "out" / FILE).unlink()
    assert web.client.get(f"{path}?brokers={lost}").status_code == 410


def command(web: LiveWeb, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "app.cli.main", "reports", *arguments, "--url", web.url, "--token", ADMIN_TOKEN]
    return subprocess.run(line, capture_output=True, text=True, timeout=RUN_SECONDS)


@pytest.mark.spark
def test_the_command_waits_for_a_report_and_lists_shows_and_cancels(idle: LiveWeb) -> None:
    web = idle
    done = command(web, "run", "--wait", "--topics", "reports.", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["state"], report["topic_prefix"], report["progress"]) == ("succeeded", "reports.", None)
    report_id = str(report["report_id"])
    shown = command(web, "show", report_id)
    assert (shown.returncode, f"Report {report_id} succeeded at metadata offset " in shown.stdout) == (0, True)
    assert re.search(r"^under_replicated +0$", shown.stdout, re.MULTILINE), shown.stdout
    table = command(web, "list", "--limit", "1").stdout.splitlines()
    assert [line.split()[:2] for line in table] == [["REPORT", "STATE"], [report_id, "succeeded"]]
    late = command(web, "cancel", report_id)
    assert (late.returncode, "its state is succeeded" in late.stderr) == (1, True)
    begun = command(web, "run")
    started = re.fullmatch(r"Report (\d+) started\.\n", begun.stdout)
    assert started is not None, begun
    assert command(web, "cancel", started[1]).stdout == f"Report {started[1]} cancelled.\n"
    ended = command(web, "show", started[1])
    assert (ended.returncode, ended.stdout.startswith(f"Report {started[1]} cancelled")) == (1, True)
    assert command(web, "show", "none").returncode == 2
    assert command(web, "show", "999999").returncode == 1


@pytest.mark.spark
def test_a_report_is_cancelled(idle: LiveWeb) -> None:
    web = idle
    report_id = web.client.post(f"{web.cluster}/reports:run", json={}).json()["report_id"]
    assert follow(web, report_id, until={"running", *FINAL}).state == "running"
    assert web.client.post(f"{web.cluster}/reports/{report_id}:cancel").status_code == 204
    assert follow(web, report_id, until=FINAL).state == "cancelled"
    late = web.client.post(f"{web.cluster}/reports/{report_id}:cancel")
    assert (late.status_code, "its state is cancelled" in late.json()["message"]) == (409, True)
    for path in ("violations", "reassign.json"):
        assert web.client.get(f"{web.cluster}/reports/{report_id}/{path}").status_code == 404


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


def test_a_dry_run_of_a_schedule_shows_its_next_five_runs(web: LiveWeb) -> None:
    path = f"{web.cluster}/report-schedules/preview"
    body = {"cron": "30 6 * * mon", "time_zone": "Europe/Berlin", "topic_prefix": "pay.", "on_change": True}
    shown = ScheduleData.model_validate_json(web.client.put(f"{path}?validate_only=true", json=body).content)
    assert (len(shown.next_runs), shown.next_due) == (5, shown.next_runs[0])
    assert (shown.time_zone, shown.topic_prefix, shown.on_change) == ("Europe/Berlin", "pay.", True)
    assert web.client.get(path).status_code == 404
    assert web.client.put(path, json=body).status_code == 200
    assert ScheduleData.model_validate_json(web.client.get(path).content).next_runs == shown.next_runs
    assert [web.client.delete(path).status_code for _ in range(2)] == [204, 404]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"cron": "0 3 * * 1", "time_zone": "Mars"}, 422),
        ({"cron": "0 3 * * 1", "topic_prefix": "a/b"}, 422),
        ({"cron": "0 3 * * 1", "webhook_url": "http://10.0.0.1/"}, 422),
        ({"cron": "soon"}, 422),
        ({"cron": "0 3 * * 1", "extra": 1}, 422),
        ({}, 422),
        ({"cron": 5}, 422),
    ],
)
def test_an_invalid_schedule_is_refused(web: LiveWeb, body: dict[str, object], status: int) -> None:
    answer = web.client.put(f"{web.cluster}/report-schedules/weekly2", json=body)
    assert answer.status_code == status, answer.text
    assert "weekly2" not in web.client.get(f"{web.cluster}/report-schedules").text


def test_an_unknown_report_is_not_found(web: LiveWeb) -> None:
    for path in ("", "/violations", "/what-if", "/reassign.json"):
        assert web.client.get(f"{web.cluster}/reports/999999{path}").status_code == 404
    assert web.client.get(f"{web.cluster}/reports/x").status_code == 404
    assert web.client.post(f"{web.cluster}/reports/999999:cancel").status_code == 404


def test_a_report_is_not_started_before_the_first_image(alone: LiveWeb) -> None:
    answer = alone.client.post("/v3/clusters/none/reports:run", json={})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
