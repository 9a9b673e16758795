"""Client of Kafka's wire protocol: a connection to one node, and a client of the active controller.

`KafkaConnection` pipelines requests over one connection, with TLS and SASL as its `ClientSecurity` says.
`ControllerClient` keeps one connection to the active controller and finds the controller again when it moves.

Errors a caller may see (all under KafkaError or ConnectionError):

    ConnectionError
    ├── ConnectionLost       the connection ended; requests in flight may or may not have taken effect
    ├── RequestTimedOut      no answer within the request's timeout; the connection is closed, as Kafka's clients do
    └── NoActiveController   none of the nodes knows a leader that answers; nothing was sent to a controller
    KafkaError
    ├── UnsupportedApi       the node has no version of the API that this client has
    └── LoginFailed          the node refused the SASL login

Source: NetworkClient and NodeToControllerRequestThread, Kafka 4.3.1.
"""

import asyncio
import itertools
import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from kraft_core.clients.client_session import Answered, ClientRequest, ClientSession, NotSent, Ready, VersionsRefused
from kraft_core.clients.metadata_source import LeaderEndpoint
from kraft_core.clients.quorum_fetch import describe_quorum_request, endpoint_of, fetch_partition, leader_probe
from kraft_core.protocol.endpoint_type import EndpointType
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumResponse,
    FetchResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed

log = logging.getLogger(__name__)

MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024  # twice Kafka's largest response; more means garbage
RETRY_BACKOFF_MS: Final = 20  # controller.quorum.retry.backoff.ms
RETRY_BACKOFF_MAX_MS: Final = 200


class ConnectionLost(ConnectionError):  # noqa: N818 - what happened, as Kafka's names say it
    """The peer closed, refused or reset the connection, or sent bytes that are not a Kafka answer."""


class RequestTimedOut(ConnectionError):  # noqa: N818 - see above
    """No answer arrived in time; whether the request took effect is unknown."""


class NoActiveController(ConnectionError):  # noqa: N818 - see above
    """No active controller was found in time; the request was not sent to one."""


class UnsupportedApi(KafkaError):  # noqa: N818 - see above
    """The node and this client have no common version of the API."""

    def __init__(self, api_key: int, host: str, port: int) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"{host}:{port} does not serve API {api_key} in a known version"
        )


class _Call(ClientRequest):
    """One request and the future of its answer."""

    __slots__ = ("answer",)

    def __init__(self, message: Message, max_version: int | None, answer: asyncio.Future[Message]) -> None:
        super().__init__(message, max_version=max_version)
        self.answer = answer

    def fail(self, cause: Exception) -> None:
        """Raise `cause` from the request, unless its caller was cancelled."""
        if not self.answer.done():
            self.answer.set_exception(cause)


class KafkaConnection(asyncio.Protocol):
    """One connection to one Kafka node. Open it with `KafkaConnection.open`; it never reconnects."""

    def __init__(
        self, host: str, port: int, client_id: str, default_timeout_ms: int, security: ClientSecurity = PLAINTEXT_CLIENT
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._default_timeout_ms = default_timeout_ms
        self._security = security
        self._session: ClientSession[_Call] = ClientSession(
            client_id, security, max_frame_bytes=MAX_RESPONSE_BYTES, step_timeout_ms=default_timeout_ms
        )
        self._transport: asyncio.Transport | None = None
        self._step_timer: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()  # once the session is ready, or has failed
        self._failure: Exception | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int = 10_000,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> "KafkaConnection":
        """Connect, negotiate versions and log in if `security` asks for it.

        `timeout_ms` bounds the connecting, each step of the login, and each later request without a time of its own.
        Raises ConnectionLost if the node is not reachable, is no Kafka node or has an untrusted certificate,
        RequestTimedOut if it does not answer, LoginFailed.
        """
        loop = asyncio.get_running_loop()
        connection = cls(host, port, client_id, timeout_ms, security)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=security.tls)
        except TimeoutError:
            raise RequestTimedOut(f"{host}:{port} did not accept a connection within {timeout_ms} ms") from None
        except OSError as refused:
            raise ConnectionLost(f"{host}:{port} cannot be reached: {refused}") from refused
        try:
            await connection._settled.wait()
            if connection._failure is not None:
                raise connection._failure
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._transport is not None and self._failure is None

    @property
    def in_flight(self) -> int:
        """How many requests are not answered yet."""
        return self._session.pending

    @property
    def node_versions(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version of the node by API key."""
        return self._session.node_versions

    async def wait_closed(self, timeout_ms: int) -> bool:
        """Wait until the connection has ended; False when `timeout_ms` passes first."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            return self._failure is not None
        return True

    def version_of(self, api_key: int, lowest: int, highest: int) -> int:
        """Return the highest version both sides have. Raises UnsupportedApi if there is none."""
        version = self._session.version_of(api_key, lowest, highest)
        if version is None:
            raise UnsupportedApi(api_key, self.host, self.port)
        return version

    async def request(self, message: Message, timeout_ms: int | None = None, max_version: int | None = None) -> Message:
        """Send one request and wait for its answer; many requests may be in flight at once.

        The version is the highest both sides have, at most `max_version`. The answer is returned whatever error
        codes it carries. Raises ConnectionLost, RequestTimedOut (which also closes the connection, since answers
        keep their order and those behind it would wait as long), UnsupportedApi, LoginFailed.
        """
        if self._transport is None or self._failure is not None:
            raise ConnectionLost(f"{self.host}:{self.port}: the connection is closed")
        timeout_ms = self._default_timeout_ms if timeout_ms is None else timeout_ms
        call = _Call(message, max_version, self._loop.create_future())
        self._session.send(call)
        self._advance()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await call.answer
        except TimeoutError:
            cause = f"no answer to {type(message).__name__} within {timeout_ms} ms"
            self.close(cause)
            raise RequestTimedOut(f"{self.host}:{self.port}: {cause}") from None

    def close(self, cause: str = "closed by this side") -> None:
        """Close now; requests in flight fail with ConnectionLost."""
        self._end(ConnectionLost(f"{self.host}:{self.port}: {cause}"))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the session. Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._session.start(self._now_ms())
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending requests. Called by asyncio."""
        cause = str(exc or "the peer closed the connection")
        if not self._session.is_accepted and self._failure is None:
            protocol = self._security.security_protocol
            cause += f" before it answered a request, as a listener with another security.protocol than {protocol} does"
        self.close(cause)

    def data_received(self, data: bytes) -> None:
        """Complete the requests whose answers arrived. Called by asyncio."""
        self._session.receive_data(data)
        self._advance()

    # The session

    def _advance(self) -> None:
        """Handle the events of the session and write its output."""
        now_ms = self._now_ms()
        try:
            while (event := self._session.next_event(now_ms)) is not None:
                self._take(event)
        except LoginFailed as refused:
            self._end(refused)
        except VersionsRefused as refused:
            self._end(KafkaError(refused.code, f"{self.host}:{self.port} refused ApiVersions: {refused}"))
        except KafkaError as garbage:
            self.close(f"not an answer of Kafka's: {garbage}")
        data = self._session.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
        if self._session.step is not None or self._step_timer is not None:
            self._watch_step()

    def _take(self, event: Ready | Answered[_Call] | NotSent[_Call]) -> None:
        match event:
            case Answered(call, answer):
                if not call.answer.done():  # else the caller was cancelled
                    call.answer.set_result(answer)
            case Ready():
                self._settled.set()
            case NotSent(call, error):
                is_unsupported = isinstance(error, UnsupportedVersion)
                call.fail(UnsupportedApi(call.message.API_KEY, self.host, self.port) if is_unsupported else error)

    def _watch_step(self) -> None:
        """Let the deadline of the session's own request end the connection."""
        deadline_ms = self._session.step_deadline_ms
        if self._step_timer is not None:
            self._step_timer.cancel()
            self._step_timer = None
        if deadline_ms is not None:
            self._step_timer = self._loop.call_at(deadline_ms / 1000, self._step_expired)

    def _step_expired(self) -> None:
        cause = f"no answer to {type(self._session.step).__name__} within {self._default_timeout_ms} ms"
        self._end(RequestTimedOut(f"{self.host}:{self.port}: {cause}"))

    def _end(self, failure: Exception) -> None:
        """End connection and session; the first failure counts."""
        if self._transport is not None:
            self._transport.abort()
        if self._failure is not None:
            return
        self._failure = failure
        for call in self._session.close():
            call.fail(failure)
        self._watch_step()
        self._settled.set()
        self._ended.set()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


class ControllerClient:
    """Sends requests to the active controller and follows it to another node.

    `bootstrap` names the nodes to ask for the leader. `leader_hint` is asked before them, e.g. the `leader` method of a
    metadata observer of the same process. One connection is kept; requests are pipelined on it.
    `find_leader_timeout_ms` bounds the search for an active controller, if it should end before the request's timeout.
    """

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        *,
        client_id: str = "conclave-admin",
        cluster_id: str | None = None,
        connect_timeout_ms: int = 2_000,
        find_leader_timeout_ms: int | None = None,
        leader_hint: Callable[[], LeaderEndpoint | None] | None = None,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self._bootstrap = deque(bootstrap)
        self._client_id = client_id
        self._cluster_id = cluster_id
        self._connect_timeout_ms = connect_timeout_ms
        self._find_leader_timeout_ms = find_leader_timeout_ms
        self._leader_hint = leader_hint
        self.bootstrap = tuple(bootstrap)
        self.security = security
        self._causes: dict[str, str] = {}  # why each node of this search led to no leader, by address
        self._connection: KafkaConnection | None = None
        self._connecting = asyncio.Lock()
        self._leader: LeaderEndpoint | None = None

    @property
    def leader(self) -> LeaderEndpoint | None:
        """The controller at the other end of the connection; None before the first request and after a loss."""
        return self._leader

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._leader = None

    async def request(self, message: Message, timeout_ms: int = 30_000, *, idempotent: bool = False) -> Message:
        """Send `message` to the active controller and return its answer.

        A node that is not active has not handled the request, which is retried on the next node until `timeout_ms` has
        passed. A connection lost after sending leaves the effect unknown: only an `idempotent` request is sent again.
        Raises NoActiveController, ConnectionLost, RequestTimedOut, UnsupportedApi. The caller judges all error codes
        but NOT_CONTROLLER and NOT_LEADER_OR_FOLLOWER.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        find_ms = min(timeout_ms, self._find_leader_timeout_ms or timeout_ms)
        find_deadline = loop.time() + find_ms / 1000
        backoff_ms = RETRY_BACKOFF_MS
        while True:
            connection = await self._connected(find_deadline)
            remaining_ms = max(1, int((deadline - loop.time()) * 1000))
            try:
                answer = await connection.request(message, remaining_ms)
            except ConnectionLost:
                self._forget(connection)
                if not idempotent or loop.time() >= deadline:
                    raise
            except RequestTimedOut:
                self._forget(connection)
                raise
            else:
                if not says_not_active(answer):
                    return answer
                self._forget(connection)
                if loop.time() >= find_deadline:
                    raise NoActiveController(f"no controller was active within {find_ms} ms")
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(RETRY_BACKOFF_MAX_MS, backoff_ms * 2)

    def require_cluster(self, cluster_id: str) -> None:
        """Refuse controllers of another cluster from now on."""
        self._cluster_id = cluster_id

    def _forget(self, connection: KafkaConnection) -> None:
        """Drop `connection`, unless another request has replaced it already."""
        if self._connection is connection:
            self._connection = None
            self._leader = None
        if connection.is_open and connection.in_flight == 0:
            connection.close()

    async def _connected(self, deadline: float) -> KafkaConnection:
        """Return the connection to the active controller; open it if necessary."""
        loop = asyncio.get_running_loop()
        async with self._connecting:
            backoff_ms = RETRY_BACKOFF_MS
            self._causes = {f"{host}:{port}": f"{host}:{port} knows no leader" for host, port in self._bootstrap}
            while self._connection is None or not self._connection.is_open:
                self._connection = None
                if await self._try_hint() or await self._try_bootstrap():
                    break
                if loop.time() >= deadline:
                    raise NoActiveController(f"no active controller found: {'; '.join(self._causes.values())}")
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(RETRY_BACKOFF_MAX_MS, backoff_ms * 2)
            connection = self._connection
            assert connection is not None, "the loop above ends with a connection"
            return connection

    async def _try_hint(self) -> bool:
        hint = self._leader_hint() if self._leader_hint is not None else None
        return hint is not None and await self._try(hint.host, hint.port)

    async def _try_bootstrap(self) -> bool:
        for _ in range(len(self._bootstrap)):
            self._bootstrap.rotate()  # the next search starts with another node
            if await self._try(*self._bootstrap[0]):
                return True
        return False

    async def _try(self, host: str, port: int) -> bool:
        """Ask one node for the leader and connect to the leader; return whether that succeeded."""
        asked: KafkaConnection | None = None
        try:
            asked = await self._open(host, port)
        except (ConnectionError, KafkaError) as cause:
            log.info("controller_not_reachable", extra={"host": host, "port": port, "cause": str(cause)})
            self._note(host, port, cause)
            return False
        try:
            leader = await find_leader(asked, self._cluster_id)
            if leader is None:
                return False
            if (leader.host, leader.port) == (host, port):
                asked, connection = None, asked
            else:
                connection = await self._open(leader.host, leader.port)
        except (ConnectionError, KafkaError) as cause:
            log.info("leader_not_reachable", extra={"host": host, "port": port, "cause": str(cause)})
            self._note(host, port, cause)
            return False
        finally:
            if asked is not None:
                asked.close()
        self._connection, self._leader = connection, leader
        return True

    def _note(self, host: str, port: int, cause: Exception) -> None:
        """Keep the cause for the error text, so that wrong addresses and security settings can be found."""
        address = f"{host}:{port}"
        if isinstance(cause, LoginFailed) or isinstance(cause.__cause__, ssl.SSLError):
            text = f"no secure connection to {address}: {cause}"
        elif isinstance(cause, KafkaError) and cause.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            text = f"{address} refuses this user: {cause}"
        else:
            text = str(cause)
        self._causes[address] = text

    async def _open(self, host: str, port: int) -> KafkaConnection:
        return await KafkaConnection.open(host, port, self._client_id, self._connect_timeout_ms, self.security)


async def find_leader(connection: KafkaConnection, cluster_id: str | None = None) -> LeaderEndpoint | None:
    """Return the leader of the metadata quorum that the node at the other end knows, None if it knows none.

    The request is a Fetch, which every controller answers and which needs CLUSTER_ACTION. For a user without that right
    (an administrator may lack it) DescribeCluster follows, which needs ALTER, and then DescribeQuorum, which needs
    DESCRIBE and which only the leader answers. Raises KafkaError INCONSISTENT_CLUSTER_ID if `cluster_id` is not the
    node's, CLUSTER_AUTHORIZATION_FAILED for a user without any of these rights, ConnectionLost, RequestTimedOut.
    """
    answer = cast("FetchResponse", await connection.request(leader_probe(cluster_id)))
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return await _find_leader_as_administrator(connection)
    if answer.error_code != ErrorCode.NONE:
        code = ErrorCode(answer.error_code)
        raise KafkaError(code, f"{connection.host}:{connection.port} refused the probe: {code.name}")
    partition = fetch_partition(answer)
    if partition is None or partition.current_leader.leader_id < 0:
        return None
    return endpoint_of(answer, partition.current_leader.leader_id)


async def _find_leader_as_administrator(connection: KafkaConnection) -> LeaderEndpoint | None:
    cluster = cast(
        "DescribeClusterResponse",
        await connection.request(DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)),
    )
    if cluster.error_code == ErrorCode.NONE:
        found = next((node for node in cluster.brokers if node.broker_id == cluster.controller_id), None)
        return None if found is None else LeaderEndpoint(found.broker_id, found.host, found.port)
    quorum = cast("DescribeQuorumResponse", await connection.request(describe_quorum_request()))
    if quorum.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(quorum.error_code), f"{connection.host}:{connection.port} refused DescribeQuorum")
    partition = quorum.topics[0].partitions[0]
    if partition.error_code != ErrorCode.NONE:
        return None  # this node is not the leader
    return LeaderEndpoint(partition.leader_id, connection.host, connection.port)


def says_not_active(answer: Message) -> bool:
    """Return whether any error code of an answer, also a nested one, says that the node is not active."""
    return any(
        code in {ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        for code in itertools.islice(_codes(answer, 3), 8)
    )


def _codes(message: Message, depth: int) -> Iterator[int]:
    """Yield the error codes of a response, outermost first, down to `depth` levels of nested arrays."""
    own = getattr(message, "error_code", None)
    nested = (
        _codes(element, depth - 1)
        for name in message.__struct_fields__
        if depth > 0 and isinstance(value := getattr(message, name), tuple) and value
        for element in value[:2]
        if isinstance(element, Message)
    )
    return itertools.chain(() if own is None else (own,), itertools.chain.from_iterable(nested))
