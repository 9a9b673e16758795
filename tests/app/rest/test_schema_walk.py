"""Requests made from the OpenAPI document: no answer is an internal error, and none is undocumented.

Changes are dry runs. Every other request names things that exist.
"""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.app.rest.test_dry_runs import names_in

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 3
TOPIC = "schema.walk"
ENDLESS = "/metadata/watch"
REPEATABLE = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_no_answer_is_undocumented_or_an_internal_error(web: LiveWeb) -> None:
    web.client.post(f"{web.cluster}/topics", json={"topic_name": TOPIC, "partitions_count": 2})
    document = web.http().get("/openapi.json").json()
    tried = []
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        if not operation.path.endswith(ENDLESS):
            walk(web, operation)
            tried.append(operation.path)
    assert len(set(tried)) == len(document["paths"]) - 1


def walk(web: LiveWeb, operation: Any) -> None:
    """Send some requests of an operation and check each answer."""
    sent, existing = [], {**names_in(web, operation.path), "topic_name": TOPIC}

    def send(case: Any) -> None:
        is_known = len(sent) % 2 == 0
        sent.append(case)
        for name in case.path_parameters or {}:
            if is_known or name == "cluster_id":
                case.path_parameters[name] = existing[name]
        query = {name: value for name, value in (case.query or {}).items() if name != "min_offset"}  # it would wait
        case.query = query if operation.method == "get" else {**query, "validate_only": "true"}
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        case.call_and_validate(base_url=web.url, headers=headers, checks=CHECKS)

    seed(1)(REPEATABLE(given(case=operation.as_strategy())(send)))()
    assert sent
