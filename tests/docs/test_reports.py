"""docs/reports.md explains every number of a report, and names what the code has."""

from app.reports import definitions, job, runner, scheduler
from app.reports.body import Aggregates, Brokers, report_body
from app.reports.violations import REASONS
from tests.docs.markdown import DOCS, code_words, rows, section

PAGE = (DOCS / "reports.md").read_text()
WORDS = set(code_words(PAGE))


def test_every_number_of_a_report_is_explained() -> None:
    broker = {"broker_idx": 0, "broker_id": 1, "rack": "a", "state": "ACTIVE", "eligible": True}
    body = report_body(Brokers([broker]), Aggregates([], [], [], [], [], [], [], {}))
    assert set(body) <= WORDS
    assert set(body["verdict"]) <= WORDS
    named_by_column = {"broker_id", "rack", "state", "eligible", "brokers", "eligible_brokers"}
    assert set(body["brokers"][0]) | set(body["racks"][0]) <= WORDS | named_by_column
    assert set(body["what_if"]["brokers"][0]) - {"domain", "verdicts"} <= WORDS
    assert set(body["margins"]) - {"histogram"} <= WORDS


def test_the_verdicts_are_listed() -> None:
    listed = [row[0].strip("`") for row in rows(section(PAGE, "The numbers"))]
    assert set(definitions.VERDICTS) <= set(listed)
    assert set(REASONS) <= WORDS


def test_the_limits_are_the_codes() -> None:
    text = " ".join(PAGE.split())
    assert f"newest {runner.SNAPSHOTS_KEPT} snapshots and the newest {runner.RUNS_KEPT} run folders" in text
    assert f"`{scheduler.NIGHTLY}`, `{scheduler.NIGHTLY_CRON}`" in text
    assert f"which of {len(job.STAGES)} stages runs" in text
