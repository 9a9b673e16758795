"""A cluster of one controller and four brokers in three racks that only register, so that replicas can be anywhere."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.app.live import LiveWeb, running_web
from tests.interop import conclave

RACKS = {1: "a", 2: "a", 3: "b", 4: "c"}


@pytest.fixture(scope="package")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """Yield the web process of the cluster. Moves never complete here, since nobody copies."""
    folder = tmp_path_factory.mktemp("racked")
    settings = {"broker_session_timeout_ms": 3_600_000}
    with (
        conclave.running_quorum(folder, 1, **settings) as nodes,
        running_web(folder, nodes.bootstrap, login_attempts_max=100) as web,
    ):
        web.wait_ready()
        asyncio.run(_register(web))
        for broker_id in RACKS:
            web.wait_for_broker(broker_id)
        yield web


async def _register(web: LiveWeb) -> None:
    client = conclave.controller_client(",".join(web.services.settings.bootstrap_controllers))
    try:
        for broker_id, rack in RACKS.items():
            await conclave.RawBroker(broker_id, web.cluster.rpartition("/")[2], client, rack=rack).register()
    finally:
        client.close()


def create(web: LiveWeb, topic: str, *replicas: list[int]) -> None:
    """Create a topic with these replicas of its partitions."""
    body = {"topic_name": topic, "replicas_assignments": {str(index): ids for index, ids in enumerate(replicas)}}
    answer = web.client.post(f"{web.cluster}/topics", json=body)
    assert answer.status_code == 201, answer.text
