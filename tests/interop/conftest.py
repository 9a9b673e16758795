"""Fixtures of the tests with Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.interop import kafka
from tests.interop.admin.tools import Tools


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's tools, in a JVM that starts with the first test that uses them."""
    kafka.require()
    with Tools(tmp_path_factory.mktemp("tools")) as found:
        yield found
