"""The page of one placement report: its charts, its numbers' links, and a loss of the reader's choice."""

import asyncio
import re
import shutil
from html import escape, unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.pages import placement_charts, report, report_rows, reports
from app.pages.report_strip import strip
from app.reports import store
from app.reports.body import REPORT_VERSION
from app.reports.live import live_report
from app.reports.models import ReportRun
from app.services import Services
from tests.app.live import LiveWeb, combined_node, running_web
from tests.app.reports.clusters import CLUSTER_ID, broker, image, partition
from tests.app.reports.test_report import three_racks
from tests.app.reports.test_what_if import completed

BODY = live_report(three_racks())
HEADER = {
    "cluster_id": CLUSTER_ID,
    "offset": 1000,
    "epoch": 7,
    "topics": 2,
    "partitions": 6,
    "brokers": 6,
    "topic_prefix": "",
    "engine": "Spark 4.3.0",
    "master": "local[2]",
    "duration_ms": 4_321,
    "content_sha256": "0" * 64,
}


def row(broker_id: int, excess: int = 0, deficit: int = 0, **more: object) -> dict[str, Any]:
    banded = {"band_low": 10, "band_high": 11, "excess": excess, "deficit": deficit}
    return {"broker_id": broker_id, "state": "ACTIVE", "replicas": 10 + excess - deficit, **banded, **more}


def test_a_chart_has_one_bar_for_each_broker_outside_its_range_and_a_mark_for_one_that_may_hold_none() -> None:
    rows = [row(1, excess=4), row(2), row(3, deficit=2), row(4, band_low=None, state="FENCED")]
    svg = ET.fromstring(str(placement_charts.deviation_chart(rows)))
    titles = [str(title.text) for title in svg.iter() if str(title.tag).endswith("title")]
    assert titles == [
        "broker 1: +4 replicas, has 14",
        "broker 3: -2 replicas, has 8",
        "broker 4: FENCED, holds 10",
    ]
    assert [each.get("class") for each in svg if each.tag.endswith("rect")] == ["tone-warn", "tone-plain", "tone-bad"]
    assert placement_charts.summary(rows) == (
        "1 of 3 eligible brokers hold a balanced number of replicas; broker 1 has 4 too many; broker 3 2 too few."
    )


def test_a_balanced_cluster_has_no_chart() -> None:
    assert placement_charts.deviation_chart([row(1), row(2)]) is None


def test_the_chart_of_a_plan_shows_the_brokers_that_change_most() -> None:
    rows = [
        {"broker_id": number, "before": {"replicas": 100 + number}, "after": {"replicas": 100}} for number in range(60)
    ]
    svg = str(placement_charts.moved_chart(rows))
    assert svg.count("<circle") == 2 * placement_charts.MOVED_MAX
    assert "broker 59<" in svg
    assert "broker 1<" not in svg
    assert placement_charts.moved_chart(rows[:1]) is None


def test_shades_grow_by_powers_of_ten() -> None:
    assert [placement_charts.heat(part, 10_000) for part in (0, 1, 10, 100, 500, 2_000, 10_000)] == [
        0,
        1,
        2,
        3,
        4,
        5,
        5,
    ]
    assert placement_charts.heat(0, 0) == 0


def test_numbers_link_to_what_they_count() -> None:
    links = {item.label: item.href for item in strip(BODY["verdict"], None, "/rows")}
    assert links["Offline"] == "/rows?what=offline"
    assert links["Rack rule violations"] == "/rows?what=rack_violated"
    assert links["Moves to balance"] == "#brokers"


@pytest.mark.parametrize(
    ("racks", "brokers", "error"),
    [
        ((), "1, x", "Broker 'x' is not in the report."),
        ((), "99", "Broker '99' is not in the report."),
        (("z",), "", "Rack 'z' is not in the report; it has a, b, c."),
        ((), "1", "The files of this report's run no longer exist; run another report."),
        (("a",), "", ""),
        ((), "", ""),
    ],
)
def test_a_loss_of_choice_is_answered_or_refused_in_words(
    tmp_path: Path, racks: tuple[str, ...], brokers: str, error: str
) -> None:
    services = cast("Services", SimpleNamespace(reports=SimpleNamespace(folder_of=lambda _run: tmp_path)))
    run = ReportRun(id=4, result={"body": BODY, "header": HEADER, "report_version": REPORT_VERSION})
    found = asyncio.run(report.picked_loss(services, run, racks, brokers))
    assert found.error == error
    if racks == ("a",):
        assert found.result is not None
        assert found.result["newly_down"] == 1
    assert found.racks == [(rack, rack in racks) for rack in ("a", "b", "c")]


@pytest.fixture
def fresh(tmp_path: Path) -> Any:
    """A product of its own, without a report."""
    with combined_node(tmp_path / "node") as node, running_web(tmp_path / "web", node.bootstrap) as web:
        yield web.wait_ready().wait_for_broker()


def add_report(
    web: LiveWeb, body: dict[str, Any], version: int = REPORT_VERSION, trends: dict[str, Any] | None = None
) -> int:
    result = {"body": body, "header": HEADER, "report_version": version, "trends": trends}
    run_id: int = web.call(web.services.database.write(store.create_run, "tester"))
    done = {"state": "succeeded", "finished_at": utc_now(), "result": result, "image_offset": 1000, "image_epoch": 7}
    web.call(web.services.database.write(store.update_run, run_id, lease_until=None, **done))
    return run_id


def test_a_report_that_is_stored_in_english_is_read_in_chinese(web: LiveWeb) -> None:
    report_id = add_report(
        web,
        {
            **BODY,
            "advice": [
                "Losing rack a takes 1 partition down and stops writes to 2. Spread their replicas over more racks.",
                "An advice of another version.",
            ],
        },
    )
    page = web.client.get(f"/reports/{report_id}", headers={"Accept-Language": "zh"}).text
    for said in ("失去机架 a 会使 1 个分区下线", "An advice of another version.", "故障影响", "机架规则违规"):
        assert said in page
    assert "Losing rack a takes 1 partition down" in web.client.get(f"/reports/{report_id}").text


def test_the_page_of_reports_shows_the_placement_before_the_first_run(fresh: LiveWeb) -> None:
    assert fresh.client.post(f"{fresh.cluster}/topics", json={"topic_name": "early"}).status_code == 201
    before = fresh.client.get("/reports").text
    assert "Placement now" in before
    assert "1 of 1 eligible brokers hold a balanced number of replicas." in before
    add_report(fresh, BODY)
    assert "Placement now" not in fresh.client.get("/reports").text

    def fail_runs(session: Session) -> None:
        for _ in range(reports.RUNS_SHOWN):
            store.update_run(session, store.create_run(session, "tester"), state="failed", finished_at=utc_now())

    fresh.call(fresh.services.database.write(fail_runs))
    after = fresh.client.get("/reports").text
    assert "succeeded" not in after
    assert "Placement now" not in after, "the first report is older than the runs of the page"


def test_a_report_is_compared_with_any_other_and_answers_for_a_loss(fresh: LiveWeb) -> None:
    better = image([broker(1, "a"), broker(2, "b")], {"t": [partition("1 2")]})
    first, second = add_report(fresh, live_report(better)), add_report(fresh, BODY)
    page = fresh.client.get(f"/reports/{second}?compare={first}&rack=a")
    assert page.status_code == 200, page.text
    assert f'<option value="{first}" selected>' in page.text
    assert "your choice: 2 brokers" in page.text
    assert "<b>1</b> replica to copy" not in page.text, "there is no plan in this report"
    assert fresh.client.get(f"/reports/{second}?compare=999").status_code == 404
    assert fresh.client.get(f"/reports/{second}?rack=%3Cscript%3E").text.count("<script>") == 0


def test_every_number_of_a_report_leads_to_its_rows(fresh: LiveWeb, tmp_path: Path) -> None:
    run_id = add_report(fresh, BODY)
    address = f"/reports/{run_id}/partitions"
    assert fresh.client.get(address).status_code == 410, "the run has no files"
    completed(three_racks(), tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "out", fresh.services.reports.folder_of(run_id) / "out")
    page = fresh.client.get(f"/reports/{run_id}").text
    links = {unescape(found) for found in re.findall(rf'href="({address}[^"]*)"', page)}
    assert {f"{address}?broker=1&broker=2", f"{address}?broker=3", f"{address}?margin=1"} <= links
    for link in sorted(links):
        counts = [int(text) for text in re.findall(rf'href="{re.escape(escape(link))}"[^>]*>(\d+)<', page)]
        rows = re.search(r"<h2>(\d+) partition", fresh.client.get(link).text)
        assert rows is not None, link
        if "rack=" not in link or "what=" in link:  # of a rack the page counts replicas
            assert {int(rows[1])} >= set(counts), link
    for query, said in (
        ("broker=x", "&#39;x&#39; is not a broker id"),
        ("broker=77", "broker 77 is not in the report"),
        ("what=" + "y" * 2000, f"&#39;{'y' * 40}&#39; is not one of replicas"),
        ("rack=%3Cb%3E", "rack &#39;&lt;b&gt;&#39; is not in the report"),
        ("margin=one", "margin &#39;one&#39; is not a whole number"),
    ):
        answer = fresh.client.get(f"{address}?{query}", headers={"Accept": "text/html"})
        assert (answer.status_code, said in answer.text) == (400, True), answer.text


def test_a_matrix_marks_the_worst_pairs_and_is_of_racks_where_there_are_too_many_brokers() -> None:
    risk = {
        "worst_pairs": [{"brokers": [1, 3]}],
        "pair_matrix": {"brokers": [1, 2, 3], "shared": [[9, 1, 10], [1, 1, 0], [10, 0, 10]]},
        "rack_matrix": {"racks": ["a", "b"], "shared": [[2, 5], [5, 0]]},
    }
    (found,) = report_rows.matrices(4, risk)
    cells = [[(cell.shared, cell.shade, cell.is_worst) for cell in row] for _, row in found.rows]
    assert cells == [[(9, 0, False), (1, 1, False), (10, 5, True)], [(1, 0, False), (0, 0, False)], [(10, 0, False)]]
    assert found.rows[0][1][0].href == "/reports/4/partitions?broker=1"
    (racks,) = report_rows.matrices(4, {**risk, "pair_matrix": None})
    assert [cell.href for cell in racks.rows[0][1]] == [
        "/reports/4/partitions?rack=a&rack=a",
        "/reports/4/partitions?rack=a&rack=b",
    ]
    assert report_rows.matrices(4, {**risk, "pair_matrix": None, "rack_matrix": None}) == []


def test_the_dashboard_has_the_trends_of_the_latest_report_and_none_without_them(fresh: LiveWeb) -> None:
    trends = {
        "to": 1_000 * (utc_now().timestamp() - 7200),
        "growth": [{"topics": 2, "partitions": 40}, {"topics": 3, "partitions": 60}],
        "leader_changes": {"total": 9, "days": [{"changes": 4}, {"changes": 5}], "partitions": []},
        "isr_flaps": {"total": 1, "days": [{"flaps": 1}], "partitions": []},
        "balance": [{"moves_from_balanced": 1000}, {"moves_from_balanced": 7}],
        "downtime": [],
    }
    assert 'id="trends"' not in fresh.client.get("/").text
    first = add_report(fresh, BODY, trends=trends)
    page = fresh.client.get("/fragments/dashboard").text
    shown = page[page.index('id="trends"') :]
    for said in ("40 → 60", "4 → 5", "1\u202f000 → 7", f"/reports/{first}#trends", "2 h ago"):
        assert said in shown, shown
    assert shown.count("<polyline") == 4, "one day is no line"
    assert "Last 30 days" in fresh.client.get(f"/reports/{first}").text
    add_report(fresh, BODY)
    assert 'id="trends"' not in fresh.client.get("/").text


def test_a_report_of_another_version_is_offered_as_json(fresh: LiveWeb) -> None:
    old = add_report(fresh, BODY, version=1)
    page = fresh.client.get(f"/reports/{old}")
    assert (page.status_code, f"/reports/{old}.json" in page.text) == (404, True)
    assert fresh.client.get(f"/reports/{old}.json").status_code == 200
    newest = add_report(fresh, BODY)
    assert fresh.client.get(f"/reports/{newest}").status_code == 200, "what cannot be compared is left out"
