"""What holds for all tests: in CI nothing is skipped in silence."""

import os
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where CI=true: a missing JVM, browser or database must not look like success."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason: Any = report.longrepr
        report.longrepr = f"skipped in CI: {reason[2] if isinstance(reason, tuple) else reason}"
    return report
