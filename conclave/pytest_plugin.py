"""pytest plug-in of the test kit: the fixtures `conclave_cluster` and `conclave_topic`.

pytest loads it wherever Conclave is installed. It imports the kit only when a test uses a fixture.
"""

import re
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from conclave.testing import Cluster

NAME_LENGTH_MAX: Final = 200
"""Length of the part of a topic's name that comes from the test; Kafka allows 249 characters in all."""


class TopicFactory(Protocol):
    """The value of the fixture `conclave_topic`."""

    def __call__(self, partitions: int = 1, configs: Mapping[str, object] | None = None) -> str:
        """Create a topic on the session's cluster and return its name, which starts with the name of the test."""


@pytest.fixture(scope="session")
def conclave_cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """A running cluster of one broker for the whole session; its logs are in a temporary folder of pytest's."""
    from conclave.testing import Cluster

    with Cluster(folder=tmp_path_factory.mktemp("conclave")) as cluster:
        yield cluster


@pytest.fixture
def conclave_topic(conclave_cluster: "Cluster", request: pytest.FixtureRequest) -> TopicFactory:
    """A function that creates topics of the test's own on `conclave_cluster` and returns their names."""
    from kraft_core.protocol.uuids import random_uuid, uuid_to_text

    prefix = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:NAME_LENGTH_MAX]

    def create(partitions: int = 1, configs: Mapping[str, object] | None = None) -> str:
        name = f"{prefix}-{uuid_to_text(random_uuid())}"
        conclave_cluster.create_topic(name, partitions, configs=configs)
        return name

    return create


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the cluster's folder in the report of a failed test that used `conclave_cluster`."""
    report = yield
    arguments: Mapping[str, Any] = getattr(item, "funcargs", {})
    if report.failed and "conclave_cluster" in arguments:
        report.sections.append(
            ("conclave_cluster", f"Logs and data of the cluster: {arguments['conclave_cluster'].folder}")
        )
    return report
