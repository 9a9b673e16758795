"""`conclave reports run`: requests a report from the web process over REST, as a script would."""

import json
import os
import urllib.error
import urllib.request
from typing import Any

TIMEOUT_SECONDS = 30


class ReportsError(ConnectionError):
    """The web process did not accept the request. The message is one line."""


def run_report(url: str, token: str | None) -> None:
    """Start a report and print the web process's response as JSON.

    `token` is an API token, by default the environment's CONCLAVE_ADMIN_TOKEN. Raises ReportsError.
    """
    base = url.rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ReportsError(f"--url {url}: it must begin with http:// or https://")
    bearer = token or os.environ.get("CONCLAVE_ADMIN_TOKEN")
    if not bearer:
        raise ReportsError("an API token is needed: --token, or CONCLAVE_ADMIN_TOKEN in the environment")
    clusters = _request("GET", f"{base}/v3/clusters", bearer)["data"]
    if not clusters:
        raise ReportsError(f"{base} has not reached its quorum yet")
    print(json.dumps(_request("POST", f"{base}/v3/clusters/{clusters[0]['cluster_id']}/reports:run", bearer)))


def _request(method: str, url: str, bearer: str) -> Any:
    headers = {"Authorization": f"Bearer {bearer}", "Accept": "application/json"}
    body = None
    if method == "POST":
        headers["Content-Type"], body = "application/json", b"{}"
    request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310  # checked by the caller
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # see above
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ReportsError(f"{method} {url}: {error.code} {_detail(error)}") from error
    except urllib.error.URLError as error:
        raise ReportsError(f"{method} {url}: {error.reason}") from error
    except ValueError as error:
        raise ReportsError(f"{method} {url}: the response is not JSON") from error


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the server's reason in one line: from problem+json, else the reason phrase of the status."""
    try:
        problem = json.load(error)
        return str(problem.get("detail") or problem.get("message") or problem.get("title") or error.reason)
    except (ValueError, AttributeError):
        return str(error.reason)
