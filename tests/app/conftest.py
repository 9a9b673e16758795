"""One node and one web process for all tests of the folder. Tests use topics of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.live import CombinedNode, LiveWeb, combined_node, running_web
from tests.interop import kafka


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedNode]:
    with combined_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="session")
def web(node: CombinedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    with running_web(tmp_path_factory.mktemp("web"), node.bootstrap, login_attempts_max=100) as running:
        running.wait_ready().wait_for_broker()
        kafka.wait_until(
            lambda: 1 in running.services.cluster.image.cluster.controllers, 60, "the controller has registered", 0.02
        )
        yield running


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[LiveWeb]:
    """A web process without a quorum: nothing listens on port 1."""
    with running_web(tmp_path, "127.0.0.1:1") as running:
        yield running
