"""docs/rest.md: every example runs, in order, with the status it names; and every endpoint is in it."""

import os
import re
import subprocess
from pathlib import Path

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.server.api_versions import controller_versions
from tests.app.live import ADMIN_TOKEN, LiveWeb, combined_node, running_web

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text()
EXAMPLE = re.compile(r"```sh\n(?P<commands>.*?)```\n→ (?P<statuses>[^\n]+)", re.DOTALL)


def commands(block: str) -> list[str]:
    """Each curl of a block, with its continuation lines."""
    return ["curl" + part for part in re.split(r"^curl", block, flags=re.MULTILINE) if part.strip()]


def test_every_example_answers_as_it_says(tmp_path: Path) -> None:
    assert TEXT.count("```sh\n") == len(list(examples())), "an example does not say its status"
    with combined_node(tmp_path / "node") as node, running_web(tmp_path, node.bootstrap) as web:
        web.wait_ready().wait_for_broker()
        environment = {
            **os.environ,
            "CONCLAVE": web.url,
            "CLUSTER": web.url + web.cluster,
            "AUTH": f"Authorization: Bearer {ADMIN_TOKEN}",
            "JSON": "Content-Type: application/json",
        }
        for block, statuses in examples():
            for command in commands(block):
                marked = command.replace("curl ", "curl -sS -m 60 -w '\\n%{http_code}' ", 1)
                outcome = subprocess.run(["bash", "-c", marked], capture_output=True, text=True, env=environment)
                body, _, status = outcome.stdout.rpartition("\n")
                assert status in statuses, f"{command}\n{status}: {body[:500]} {outcome.stderr}"


def examples() -> list[tuple[str, set[str]]]:
    return [(found["commands"], set(re.findall(r"\d{3}", found["statuses"]))) for found in EXAMPLE.finditer(TEXT)]


def test_every_endpoint_is_documented(web: LiveWeb) -> None:
    paths = web.http().get("/openapi.json").json()["paths"]
    missing = [path for path in paths if path not in TEXT]
    assert missing == []
    flat = TEXT.replace("`PUT` and `DELETE ", "`PUT ")
    for path, operations in paths.items():
        documented = {method for method in ("GET", "POST", "PUT", "PATCH", "DELETE") if f"{method} {path}" in TEXT}
        documented |= {"PUT", "DELETE"} if f"PUT {path}" in flat and f"DELETE {path}" in TEXT else set()
        assert {method.upper() for method in operations} <= documented, path


def test_every_operation_of_the_controllers_has_its_place() -> None:
    table = TEXT.partition("## Kafka's operations")[2]
    named = [name for row in table.splitlines() if row.startswith("| ") for name in row.split("|")[1].split(",")]
    served = {ApiKey(key).name for key in controller_versions()}
    assert sorted(name.strip() for name in named[1:]) == sorted(served)
