"""`conclave reports run|list|show|cancel`, through the REST API of the web process."""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from app.cli.client_options import print_table
from app.cli.web_process import WebProcess

POLL_SECONDS: Final = 0.5
ACTIVE: Final = frozenset({"queued", "snapshotting", "running", "storing"})


def run_report(web: WebProcess, topic_prefix: str, *, wait: bool, as_json: bool) -> int:
    """Start a report and print it; with `wait`, its end. Returns the exit code. Raises WebError."""
    run = web.call("POST", "/reports:run", {"topic_prefix": topic_prefix} if topic_prefix else {})
    if not wait:
        print(json.dumps(run) if as_json else f"Report {run['report_id']} started.")
        return 0
    return _print_report(_wait(web, run["report_id"]), as_json=as_json)


def _wait(web: WebProcess, report_id: int) -> Any:
    """Return the report after its end. On a terminal, show the progress on standard error meanwhile."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("Report {task.fields[number]}"), BarColumn(), TextColumn("{task.description}")
    shown = Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    with shown as bar:
        task = bar.add_task("waiting", total=None, number=report_id)
        while (run := web.call("GET", f"/reports/{report_id}"))["state"] in ACTIVE:
            at = run["progress"]
            if at is None:
                bar.update(task, description=run["state"])
            else:
                part = at["tasks_done"] / at["tasks"] if at["tasks"] else 0.0
                bar.update(task, description=at["name"], total=at["stages"], completed=at["stage"] - 1 + part)
            time.sleep(POLL_SECONDS)
    return run


def list_reports(web: WebProcess, limit: int, *, as_json: bool) -> None:
    """Print the newest reports as a table or as JSON. Raises WebError."""
    runs = web.call("GET", f"/reports?page_size={limit}")["data"]
    if as_json:
        print(json.dumps(runs))
        return
    print_table(
        ("REPORT", "STATE", "OFFSET", "STARTED", "SECONDS", "REQUESTED BY", "TOPICS"),
        (
            (
                run["report_id"],
                run["state"],
                "" if run["metadata_offset"] is None else run["metadata_offset"],
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run["created_at"] / 1000)),
                "" if run["finished_at"] is None else f"{(run['finished_at'] - run['created_at']) / 1000:.1f}",
                run["requested_by"],
                f"{run['topic_prefix']}*",
            )
            for run in runs
        ),
    )


def show_report(web: WebProcess, report_id: int, *, as_json: bool) -> int:
    """Print a report. Returns the exit code. Raises WebError."""
    return _print_report(web.call("GET", f"/reports/{report_id}"), as_json=as_json)


def _print_report(run: Any, *, as_json: bool) -> int:
    """Print a report's state and verdict, or all of it as JSON. Returns 1 if it has ended without success, else 0."""
    if as_json:
        print(json.dumps(run))
    else:
        reason = f": {run['error']}" if run["error"] else ""
        at = "" if run["metadata_offset"] is None else f" at metadata offset {run['metadata_offset']}"
        print(f"Report {run['report_id']} {run['state'].replace('_', ' ')}{at}{reason}")
        if run["result"] is not None:
            print_table(("NUMBER", "VALUE"), _verdict(run["result"]["body"]["verdict"]))
    return 0 if run["state"] == "succeeded" or run["state"] in ACTIVE else 1


def _verdict(verdict: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the numbers of a verdict, those of its objects as `name.part`."""
    rows = []
    for name, value in verdict.items():
        if isinstance(value, dict):
            rows += [(f"{name}.{part}", str(inner)) for part, inner in value.items()]
        elif not isinstance(value, list):
            rows.append((name, "-" if value is None else str(value)))
    return rows


def cancel_report(web: WebProcess, report_id: int, *, as_json: bool) -> None:
    """Cancel a report. Raises WebError, also when it is not running."""
    web.call("POST", f"/reports/{report_id}:cancel", {})
    print(json.dumps({"report_id": report_id, "state": "cancelled"}) if as_json else f"Report {report_id} cancelled.")
