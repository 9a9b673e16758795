"""The OpenAPI document: servers, logins, examples that are accepted, and the errors of each operation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.rest.examples import EXAMPLES
from sdk.__main__ import FOLDER
from sdk.modules import sources
from tests.app.live import LiveWeb
from tests.app.rest.test_dry_runs import address

TOPIC = "openapi.topic"
Operation = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def document(web: LiveWeb) -> dict[str, Any]:
    web.client.post(f"{web.cluster}/topics", json={"topic_name": TOPIC})
    return dict(web.http().get("/openapi.json").json())


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_servers_and_logins_are_described(document: dict[str, Any]) -> None:
    assert [each["url"] for each in document["servers"]] == ["/", "/kafka"]
    schemes = document["components"]["securitySchemes"]
    assert {name: each["type"] for name, each in schemes.items()} == {
        "bearer": "http",
        "basic": "http",
        "cookie": "apiKey",
    }
    assert document["security"] == [{name: []} for name in schemes]
    is_open = {path for _, path, operation in operations(document) if operation.get("security") == []}
    assert is_open == {"/healthz", "/readyz", "/metrics"}


def test_the_document_is_not_sent_to_those_who_have_it(web: LiveWeb, document: dict[str, Any]) -> None:
    first = web.http().get("/openapi.json")
    again = web.http().get("/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.json(), again.status_code, again.content) == (document, 304, b"")
    assert web.http().head("/openapi.json").status_code == 200


def test_operation_ids_are_unique_and_name_no_path(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    assert [each for each in ids if "v3" in each] == []
    assert {"list_topics", "create_topic", "get_topic_config", "alter_broker_configs", "list_clusters"} <= set(ids)


def test_every_body_has_an_example_that_is_accepted(web: LiveWeb, document: dict[str, Any]) -> None:
    tried = set()
    for method, path, operation in operations(document):
        if "requestBody" not in operation:
            continue
        example = operation["requestBody"]["content"]["application/json"]["example"]
        tried.add(operation["operationId"])
        example = json.loads(json.dumps(example).replace('"orders"', f'"{TOPIC}"'))
        url = address(web, path).replace("/dry", f"/{TOPIC}") if "{cluster_id}" in path else address(web, path)
        answer = web.client.request(method, f"{url}?validate_only=true", json=example)
        refused_by_kafka = "kafka_error" in answer.text or answer.status_code in {404, 409}
        if operation["operationId"] == "put_cluster_connection":
            was_asked = answer.status_code == 200 or "No controller answers" in answer.text  # others may use the ports
            assert was_asked, "the example is right, and its controllers are asked"
            continue
        assert answer.status_code < 300 or refused_by_kafka, f"{operation['operationId']}: {answer.text}"
        assert answer.status_code != 422, answer.text
    assert tried == set(EXAMPLES)


def test_every_operation_documents_its_errors(document: dict[str, Any]) -> None:
    shared = document["components"]["responses"]
    for method, path, operation in operations(document):
        if not path.startswith("/v3"):
            continue
        answers = operation["responses"]
        assert {"400", "401", "403", "429", "500", "503"} <= set(answers), path
        assert ("422" in answers) == (method != "GET"), path
        assert any(status < "300" for status in answers), path
        for status, answer in answers.items():
            whole = shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
            if status >= "400" and status != "431":
                assert whole["content"]["application/problem+json"]["schema"]["$ref"].endswith("/ProblemData"), path
    assert "40403" in shared["V3Error404"]["description"]
    assert "HTTPValidationError" not in str(document)


def test_the_python_client_is_made_from_these_routes(document: dict[str, Any]) -> None:
    """`make client` makes it again."""
    made = sources(document)
    old = [name for name, text in made.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]
    folders = {FOLDER / Path(name).parent for name in made}
    left = [path for folder in folders for path in folder.glob("*.py") if str(path.relative_to(FOLDER)) not in made]
    assert (old, left) == ([], []), "run `make client`"
