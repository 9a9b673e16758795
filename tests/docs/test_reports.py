"""docs/reports.md explains every number of a report, and names what the code has."""

from typing import Any

from app.reports import progress, scheduler, states
from app.reports.live import live_report
from app.reports.upkeep import Retention
from app.reports.violations import REASONS
from tests.app.reports.test_report import three_racks
from tests.docs.markdown import DOCS, code_words, rows, section

PAGE = (DOCS / "reports.md").read_text()
WORDS = set(code_words(PAGE))


def names(value: Any) -> set[str]:
    """Return the names of all objects in a JSON value, without those of the cube, which is for programs."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(names(each) for name, each in value.items() if name != "cube"))


def test_every_number_of_a_report_is_explained() -> None:
    body = live_report(three_racks())
    named_by_column = {"broker_id", "rack", "state", "eligible", "eligible_brokers", "topic", "partition", "domain"}
    assert names(body) <= WORDS | named_by_column | {"now", "verdicts"}


def test_the_verdicts_are_listed() -> None:
    listed = [row[0].strip("`") for row in rows(section(PAGE, "The numbers"))]
    assert set(states.VERDICTS) <= set(listed)
    assert set(REASONS) <= WORDS


def test_the_limits_are_the_codes() -> None:
    text = " ".join(PAGE.split())
    kept = Retention()
    assert f"`report_days` ({kept.days})" in text
    assert f"`report_runs_max` ({kept.runs_max})" in text
    assert f"`report_snapshots_max` ({kept.snapshots_max})" in text
    assert f"`{scheduler.NIGHTLY}`, `{scheduler.NIGHTLY_CRON}`" in text
    assert f"which of {len(progress.STAGES)} stages runs" in text
