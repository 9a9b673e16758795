"""A real listener with TLS and SASL that answers with the client's principal, and clients for it."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS
from kraft_core.kafka_raft_server import LOOP_FACTORY
from kraft_core.protocol.framing import RequestHeader, decode_response
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.security.listener_security import (
    ClientSecurity,
    ServerSecurity,
    client_security,
    server_security,
)
from kraft_core.server.api_versions import ApiVersionsAnswers, controller_versions
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.server.network.request import Request
from kraft_core.server.network.sasl_session import ListenerLogin
from kraft_core.server.network.socket_server import SocketServer
from tests.interop.kafka import PATIENCE_S
from tests.security.certificates import authority, ssl_properties

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "correct-horse-battery"
CREDENTIALS = {
    (mechanism.type, "alice"): mechanism.credential(
        b"0123456789", mechanism.salted_password(PASSWORD, b"0123456789", 4096), 4096
    )
    for mechanism in SCRAM_MECHANISMS.values()
}
SASL = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
    "scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}
TIME_ENOUGH_MS = 60_000
LOOPS = [asyncio.new_event_loop, LOOP_FACTORY]


def run(scenario: Awaitable[None], loop_factory: Callable[[], asyncio.AbstractEventLoop] = LOOP_FACTORY) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario, PATIENCE_S)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(bounded())


def api_versions(header: RequestHeader, request: ApiVersionsRequest | None) -> bytes:
    answers = ApiVersionsAnswers(controller_versions(), FEATURES, lambda: (-1, {}))
    return answers.unsupported(header) if request is None else answers.answer(header, request)


def login_of(security: ServerSecurity) -> ListenerLogin:
    mechanisms = security.mechanisms(lambda mechanism, name: CREDENTIALS.get((mechanism, name)))
    return ListenerLogin(security, mechanisms, api_versions)


class Listener:
    """A listener whose DescribeCluster returns the client's principal as the cluster id."""

    def __init__(self, protocol: str, properties: dict[str, str], **limits: int) -> None:
        self.served: list[Request] = []
        self.server = SocketServer(
            "127.0.0.1",
            0,
            self.handle,
            SocketServerLimits(**limits),
            listener_name="CONTROLLER",
            login=login_of(server_security(properties, "CONTROLLER", protocol)),
        )

    def handle(self, request: Request) -> None:
        if request.header.api_key == 18:
            body = request.body()
            assert isinstance(body, ApiVersionsRequest)
            request.respond_bytes(api_versions(request.header, body))
            return
        self.served.append(request)
        request.respond(DescribeClusterResponse(cluster_id=request.principal))

    @property
    def port(self) -> int:
        return self.server.port


@asynccontextmanager
async def listening(protocol: str, properties: dict[str, str], **limits: int):
    listener = Listener(protocol, properties, **limits)
    await listener.server.start()
    try:
        yield listener
    finally:
        await listener.server.stop()


async def name_at(listener: Listener, security: ClientSecurity, host: str = "127.0.0.1") -> str:
    """Connect and return the client's principal."""
    connection = await KafkaConnection.open(host, listener.port, "test", TIME_ENOUGH_MS, security)
    try:
        answer = await connection.request(DescribeClusterRequest())
    finally:
        connection.close()
    assert isinstance(answer, DescribeClusterResponse)
    return answer.cluster_id


def sasl_client(mechanism: str, name: str = "alice", password: str = PASSWORD, **ssl_settings: str) -> ClientSecurity:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return client_security(
        {
            "security.protocol": "SASL_SSL" if ssl_settings else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
            **ssl_settings,
        }
    )


def ssl_client(name: str | None, **changed: str) -> ClientSecurity:
    identity = None if name is None else authority().issue(name)
    return client_security({"security.protocol": "SSL", **ssl_properties(identity), **changed})


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes until the peer closes; a peer with unread input resets the connection."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def ask(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], frame: bytes, api_key: int, version: int):
    reader, writer = client
    writer.write(frame)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return decode_response(api_key, version, await reader.readexactly(size))[1]
