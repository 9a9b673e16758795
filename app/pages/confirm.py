"""A change, shown before it happens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmView:
    """confirm.html: `changes` are (what, now, afterwards); `fields` go along hidden; `type_name` must be typed.

    `checks` are (holds, what was found), shown before the button; with an `error` and no `type_name` there is no button.
    """

    back: str
    back_url: str
    action: str
    button: str
    changes: Sequence[tuple[str, str, str]]
    curl: str
    command: str = ""
    checks: Sequence[tuple[bool, str]] = ()
    consequences: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()
    type_name: str = ""
    dangerous: bool = False
    verdict: str = ""
    error: str = ""


def curl_line(base_url: str, cluster_id: str | None, method: str, path: str, body: object | None = None) -> str:
    """A change as a REST call for a shell; a quote in a value stays a quote."""
    return account_curl_line(base_url, method, f"clusters/{cluster_id or 'CLUSTER_ID'}/{path}", body)


def account_curl_line(base_url: str, method: str, path: str, body: object | None = None) -> str:
    """A change outside any cluster, as a REST call."""
    where = f"{base_url}/v3/{path}"
    text = json.dumps(body).replace("'", "'\\''")
    data = "" if body is None else f" -H \"Content-Type: application/json\" \\\n  -d '{text}'"
    return f'curl -X {method} -H "Authorization: Bearer $CONCLAVE_TOKEN"{data} \\\n  {where}'
