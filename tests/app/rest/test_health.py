"""Probes and metrics."""

import pytest

from tests.app.live import LiveWeb


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_probes_need_no_login(web: LiveWeb, path: str) -> None:
    assert web.http().get(path).status_code == 200


def test_metrics_have_offset_leader_and_requests(web: LiveWeb) -> None:
    web.client.get(f"{web.cluster}/topics")
    text = web.http().get("/metrics").text
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(numbers["conclave_cluster_metadata_offset"]) > 10
    assert numbers["conclave_cluster_leader_id"] == "1.0"
    counted = 'conclave_http_requests_total{method="GET",route="/v3/clusters/{cluster_id}/topics",status="200"}'
    assert float(numbers[counted]) >= 1
