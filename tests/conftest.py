"""What holds for all tests.

In CI nothing is skipped in silence. A test of real processes that fails there is tried once more with new fixtures,
since it can lose a race for a port or a core; pytest shows why it failed and counts it as rerun. No example of a
property is judged by its time. What Hypothesis draws depends on its seed alone (`--hypothesis-seed`, which `make test`
takes from the committed tree): no examples are kept from earlier runs, and no constants are taken from the modules that
happen to be loaded.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "any machine",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("any machine")
assert hasattr(providers, "is_local_module_file"), "Hypothesis takes constants from loaded modules in another way now."
providers.is_local_module_file = lambda _path: False  # else the order of imports matters


LONG_MODULES = (
    "test_lint.py",
    "simulator/test_simulator.py",
    "install/test_install.py",
    "interop/brokers/test_three_brokers.py",
    "app/reports/test_masters.py",
    "browser/test_accessibility.py",
    "app/reports/test_runner.py",
    "app/reports/test_report.py",
    "interop/brokers/test_executed_plans.py",
    "interop/mixed/test_mixed_our_majority.py",
    "interop/mixed/test_mixed_apache_majority.py",
    "interop/embedded/test_embedded_apache.py",
    "app/reports/test_checkpoint.py",
    "test_kafka_raft_server.py",
    "app/rest/test_reports.py",
    "interop/quorum/test_static_quorum.py",
    "browser/test_pages.py",
)
"""Modules of more than 50 s, the longest first."""
PROCESSES = frozenset({"app", "benchmarks", "browser", "hostile", "install", "interop", "server", "testing"}) | {
    "test_kafka_raft_server.py"
}
"""Folders and modules of tests that start processes."""
NICENESS = os.nice(0)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest modules, so that no worker is left alone with one of them at the end.

    Workers take modules in this order with `--no-loadscope-reorder`; by default, those with the most tests come first.
    """
    ranks = {name: rank for rank, name in enumerate(LONG_MODULES)}
    root = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(root).as_posix(), len(ranks)))
    if os.environ.get("CI"):
        for item in items:
            if item.path.relative_to(root).parts[0] in PROCESSES:  # the others would pay for it with 13 ms each
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin a second try with new fixtures of every scope: what the first one left in them would decide the second."""
    if getattr(item, "execution_count", 1) > 1 and isinstance(item, pytest.Function):
        request: Any = item._request
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for each in definitions:
                each.finish(request)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that lowers the priority of this process: all later ones, and what they start, would be slow."""
    assert os.nice(0) == NICENESS, f"{item.nodeid} changed the niceness from {NICENESS} to {os.nice(0)}"


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
