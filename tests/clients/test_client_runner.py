"""A sans-IO client on a real event loop and real sockets, against a node of ours."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conclave.testing import Cluster
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig
from kraft_core.clients.client_runner import ClientRunner
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, Effect, NetworkConfig, NodeRequest
from kraft_core.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kraft_core.security.sasl_client_authenticator import LoginFailed
from tests.security.certificates import authority, ssl_properties, stranger_authority
from tests.security.secure_listener import LOOPS, listening, run


class AskingCore:
    """Asks one broker for the cluster, again and again."""

    def __init__(self, host: str, port: int) -> None:
        random = Random(1)
        self.metadata = ClientMetadata([(host, port)], MetadataConfig(), random)
        self.network = NetworkClient(self.metadata, random, NetworkConfig("asking"))
        self.done: list[NodeRequest] = []
        self.wanted = 0

    def step(self, now_ms: float) -> None:
        self.done += self.network.take_completed()
        for node_id in self.metadata.nodes:
            if self.wanted > 0 and self.network.is_ready(node_id, now_ms):
                self.wanted -= 1
                self.network.send(NodeRequest(node_id, DescribeClusterRequest()), now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        return now_ms + 10 if self.wanted else None


def test_requests_are_answered_over_real_sockets_and_fail_when_the_client_closes() -> None:
    async def story(address: str) -> list[NodeRequest]:
        core = AskingCore("127.0.0.1", int(address.rpartition(":")[2]))
        runner = ClientRunner(core)
        core.wanted = 20
        runner.wake()
        async with asyncio.timeout(20):
            while len(core.done) < 20:
                await asyncio.sleep(0.01)
        core.wanted = 1
        while core.wanted:
            core.step(runner.now_ms())
            await asyncio.sleep(0.01)
        await runner.close()
        return core.done

    with Cluster() as cluster:
        done = asyncio.run(story(cluster.bootstrap_servers))
    assert all(isinstance(request.answer, DescribeClusterResponse) for request in done[:20])
    assert isinstance(done[20].error, Disconnected)


class CountingCore:
    """Counts its turns, and is its own network, which gets whole answers or parts of them."""

    def __init__(self) -> None:
        self.network: Any = self
        self.turns = 0
        self.is_whole = True

    def step(self, _now_ms: float) -> None:
        self.turns += 1

    def poll(self, _now_ms: float) -> None:
        pass

    def take_effects(self) -> list[Effect]:
        return []

    def next_deadline_ms(self, _now_ms: float) -> float | None:
        return None

    def buffer_updated(self, _connection_id: int, _count: int, _now_ms: float) -> bool:
        return self.is_whole


def test_an_answer_gets_its_turn_at_once_and_those_that_come_together_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        core = CountingCore()
        runner = ClientRunner(core)
        now_ms = 1_000.0
        monkeypatch.setattr(runner, "now_ms", lambda: now_ms)
        runner.buffer_updated(1, 10)
        assert core.turns == 1
        for _ in range(5):
            runner.buffer_updated(1, 10)
        assert core.turns == 1
        now_ms += 5
        runner.buffer_updated(1, 10)
        assert core.turns == 1, "the turn that they wait for"
        await asyncio.sleep(0)
        assert core.turns == 2
        now_ms += 5
        core.is_whole = False
        runner.buffer_updated(1, 10)
        await asyncio.sleep(0)
        assert core.turns == 2

    asyncio.run(story())


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("name", ["alice", None])
def test_requests_are_answered_over_tls_unless_the_node_refuses_the_certificate(
    name: str | None, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def story() -> None:
        settings = {"ssl.client.auth": "required", **ssl_properties(authority().issue("node"))}
        async with listening("SSL", settings) as listener:
            own = ssl_properties(None if name is None else authority().issue(name))
            configs = {"bootstrap.servers": f"127.0.0.1:{listener.port}", "security.protocol": "SSL", **own}
            async with Admin(configs) as admin, asyncio.timeout(20):
                if name is None:
                    with pytest.raises(LoginFailed, match=f"^127.0.0.1:{listener.port}: the TLS handshake failed: "):
                        await admin.describe_cluster()
                else:
                    assert (await admin.describe_cluster()).cluster_id == "User:CN=alice,O=Conclave"

    run(story(), loop_factory)


def test_a_certificate_that_is_not_trusted_fails_at_once(tmp_path: Path) -> None:
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(authority().issue("node").pem_file(tmp_path))

    async def story() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=server_tls)
        configs = {
            "bootstrap.servers": f"127.0.0.1:{server.sockets[0].getsockname()[1]}",
            "security.protocol": "SSL",
            **ssl_properties(None, trusted=stranger_authority().pem),
        }
        async with server, Admin(configs) as admin, asyncio.timeout(20):
            with pytest.raises(LoginFailed, match="its certificate is not trusted: "):
                await admin.describe_cluster()

    asyncio.run(story())
