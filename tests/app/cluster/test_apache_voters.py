"""A voter added and removed over REST where leader and candidate are Apache's."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.storage.meta_properties import read_meta_properties
from tests.app.live import running_web
from tests.interop import conclave, kafka

pytestmark = pytest.mark.interop


def test_apaches_leader_adds_and_removes_a_voter_for_us(tmp_path: Path) -> None:
    kafka.require()
    with conclave.quorum(tmp_path, 2) as nodes:
        kafka.format_storage(nodes.config_of(1), nodes.cluster_id, "--standalone")
        kafka.format_storage(nodes.config_of(2), nodes.cluster_id, "--no-initial-controllers")
        nodes.start_apache(1)
        nodes.start_apache(2)
        nodes.wait_for_leader(90)
        properties = read_meta_properties(nodes.folder_of(2) / "data")
        assert properties is not None
        assert properties.directory_id is not None
        body = {"voter_id": 2, "directory_id": uuid_to_text(properties.directory_id)}
        with running_web(tmp_path, f"127.0.0.1:{nodes.port_of(1)}") as web:
            web.wait_ready()
            path = f"{web.cluster}/quorum/voters"
            dry = {**body, "validate_only": True}
            kafka.wait_until(lambda: web.client.post(path, json=dry).status_code == 200, 90, "node 2 may be a voter")
            added = done(201, lambda: web.client.post(path, json=body))
            assert added.json()["after"]["voter_ids"] == [1, 2]
            removed = done(204, lambda: web.client.delete(f"{path}/2/{body['directory_id']}"))
            assert int(removed.headers["X-Metadata-Offset"]) > added.json()["offset"]

            def voters() -> list[int]:
                return [each["replica_id"] for each in web.client.get(f"{web.cluster}/quorum").json()["voters"]]

            kafka.wait_until(lambda: voters() == [1], 60, "the leader counts without node 2")


def done(status: int, ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Retry until it succeeds: Apache's leader refuses while it resigns or has not committed a record of its epoch."""

    def answered() -> httpx.Response | None:
        answer = ask()
        return None if answer.status_code in {409, 503} else answer

    answer = kafka.wait_until(answered, 60, "the leader changes its voters", 0.2)
    assert answer.status_code == status, answer.text
    return answer
