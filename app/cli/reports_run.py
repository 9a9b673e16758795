"""`conclave reports run|list|show|cancel`: uses the REST API of the web process, as a script would."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from app.cli.client_options import print_table

TIMEOUT_SECONDS: Final = 30
POLL_SECONDS: Final = 0.5
ACTIVE: Final = frozenset({"queued", "snapshotting", "running", "storing"})


class ReportsError(ConnectionError):
    """The web process did not accept the request. The message is one line."""


class WebReports:
    """The reports of a web process. `token` is an API token, by default the environment's CONCLAVE_ADMIN_TOKEN."""

    def __init__(self, url: str, token: str | None) -> None:
        """Raise ReportsError for an address that is none, and without a token."""
        self._base = url.rstrip("/")
        if not self._base.startswith(("http://", "https://")):
            raise ReportsError(f"--url {url}: it must begin with http:// or https://")
        bearer = token or os.environ.get("CONCLAVE_ADMIN_TOKEN")
        if not bearer:
            raise ReportsError("an API token is needed: --token, or CONCLAVE_ADMIN_TOKEN in the environment")
        self._bearer = bearer
        self._cluster = ""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Request `path` below the cluster's reports, and return the JSON. Raises ReportsError."""
        if not self._cluster:
            clusters = self._request("GET", f"{self._base}/v3/clusters", None)["data"]
            if not clusters:
                raise ReportsError(f"{self._base} has not reached its quorum yet")
            self._cluster = f"{self._base}/v3/clusters/{clusters[0]['cluster_id']}"
        return self._request(method, f"{self._cluster}/reports{path}", body)

    def _request(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Authorization": f"Bearer {self._bearer}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310  # checked above
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # see above
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise ReportsError(f"{method} {url}: {error.code} {_detail(error)}") from error
        except urllib.error.URLError as error:
            raise ReportsError(f"{method} {url}: {error.reason}") from error
        except ValueError as error:
            raise ReportsError(f"{method} {url}: the response is not JSON") from error


def run_report(web: WebReports, topic_prefix: str, *, wait: bool, as_json: bool) -> int:
    """Start a report and print it; with `wait`, its end. Returns the exit code. Raises ReportsError."""
    run = web.call("POST", ":run", {"topic_prefix": topic_prefix} if topic_prefix else {})
    if not wait:
        print(json.dumps(run) if as_json else f"Report {run['report_id']} started.")
        return 0
    return _print_report(_wait(web, run["report_id"]), as_json=as_json)


def _wait(web: WebReports, report_id: int) -> Any:
    """Return the report after its end. On a terminal, show the progress on standard error meanwhile."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("Report {task.fields[number]}"), BarColumn(), TextColumn("{task.description}")
    shown = Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    with shown as bar:
        task = bar.add_task("waiting", total=None, number=report_id)
        while (run := web.call("GET", f"/{report_id}"))["state"] in ACTIVE:
            at = run["progress"]
            if at is None:
                bar.update(task, description=run["state"])
            else:
                part = at["tasks_done"] / at["tasks"] if at["tasks"] else 0.0
                bar.update(task, description=at["name"], total=at["stages"], completed=at["stage"] - 1 + part)
            time.sleep(POLL_SECONDS)
    return run


def list_reports(web: WebReports, limit: int, *, as_json: bool) -> None:
    """Print the newest reports as a table or as JSON. Raises ReportsError."""
    runs = web.call("GET", f"?page_size={limit}")["data"]
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


def show_report(web: WebReports, report_id: int, *, as_json: bool) -> int:
    """Print a report. Returns the exit code. Raises ReportsError."""
    return _print_report(web.call("GET", f"/{report_id}"), as_json=as_json)


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


def cancel_report(web: WebReports, report_id: int, *, as_json: bool) -> None:
    """Cancel a report. Raises ReportsError, also when it is not running."""
    web.call("POST", f"/{report_id}:cancel", {})
    print(json.dumps({"report_id": report_id, "state": "cancelled"}) if as_json else f"Report {report_id} cancelled.")


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the server's reason in one line: from problem+json, else the reason phrase of the status."""
    try:
        problem = json.load(error)
        return str(problem.get("detail") or problem.get("message") or problem.get("title") or error.reason)
    except (ValueError, AttributeError):
        return str(error.reason)
