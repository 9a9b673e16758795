"""`conclave reports run`: asks the web process for a report over REST, as any script may."""

import json
import os
import urllib.error
import urllib.request
from typing import Any

TIMEOUT_SECONDS = 30


class ReportsError(ConnectionError):
    """The web process did not take the request; the message is one line."""


def run_report(url: str, token: str | None) -> None:
    """Start a report and print what the web process answers, as JSON.

    `token` is an API token; without one the environment's CONCLAVE_ADMIN_TOKEN is taken. Raises ReportsError.
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
        raise ReportsError(f"{method} {url}: the answer is no JSON") from error


def _detail(error: urllib.error.HTTPError) -> str:
    """Say in one line what the server says of a refusal (problem+json), else the status's own words."""
    try:
        problem = json.load(error)
        return str(problem.get("detail") or problem.get("message") or problem.get("title") or error.reason)
    except (ValueError, AttributeError):
        return str(error.reason)
