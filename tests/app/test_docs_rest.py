"""docs/rest.md: every example runs, in order, with the status that it states; every endpoint is documented."""

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
    """Return each curl command of a block with its continuation lines."""
    return ["curl" + part for part in re.split(r"^curl", block, flags=re.MULTILINE) if part.strip()]


def test_every_example_answers_with_the_status_that_it_names(tmp_path: Path) -> None:
    assert TEXT.count("```sh\n") == len(list(examples())), "an example names no status"
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
    for path, operations in paths.items():
        for method in operations:
            assert f"`{method.upper()} {path}`" in TEXT


def test_every_api_of_the_controllers_is_in_the_table_of_operations() -> None:
    table = TEXT.partition("## Kafka's operations")[2]
    named = [name for row in table.splitlines() if row.startswith("| ") for name in row.split("|")[1].split(",")]
    served = {ApiKey(key).name for key in controller_versions()}
    assert sorted(name.strip() for name in named[1:]) == sorted(served)
