"""Brokers for tests of our clients: one of Apache's and one of ours, each for the whole session of a worker."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.interop import conclave, kafka
from tests.interop.clients.secured_broker import SecuredBroker, secured_broker
from tests.interop.embedded.embedded_node import running_node


@dataclass(frozen=True)
class ApacheNode:
    """The addresses of a combined node of Apache's: of its broker and of its controller."""

    broker: str
    controller: str


@pytest.fixture(scope="session")
def apache(apache_node: ApacheNode) -> str:
    """The address of a broker of Apache's."""
    return apache_node.broker


@pytest.fixture(scope="session")
def apache_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    """A combined node of Apache's."""
    kafka.require()
    folder = tmp_path_factory.mktemp("apache")
    port, controller_port = kafka.free_ports(2)
    settings = kafka.broker_settings(1, port, folder, f"127.0.0.1:{controller_port}")
    settings |= {"process.roles": "broker,controller", "group.min.session.timeout.ms": 500}
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    settings |= {
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.min.session.timeout.ms": 3_000,
        "group.consumer.session.timeout.ms": 3_000,
    }
    config = kafka.write_properties(folder / "server.properties", settings)
    kafka.format_storage(config, conclave.new_cluster_id(), "--standalone")
    with kafka.start("apache", config) as process:
        process.wait_for_output("Kafka Server started")
        yield ApacheNode(f"127.0.0.1:{port}", f"127.0.0.1:{controller_port}")


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A combined node of Apache's with TLS, logins and access control."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a combined node of ours."""
    with running_node(tmp_path_factory.mktemp("ours") / "node", group_min_session_timeout_ms=500) as node:
        yield node.address


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of either: a test that uses this runs with both."""
    address: str = request.getfixturevalue(request.param)
    return address
