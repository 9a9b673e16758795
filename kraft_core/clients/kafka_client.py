"""A client of Kafka's wire protocol: one connection, and the search for the active controller.

`KafkaConnection` speaks to one node: it negotiates versions once, pipelines requests and matches answers by
correlation id. It speaks TLS and logs in with SASL where its `ClientSecurity` says so. `ControllerClient` keeps one connection to the active controller and finds it again when it moves.

Errors a caller may see (all under KafkaError or ConnectionError):

    ConnectionError
    ├── ConnectionLost       the connection ended; requests in flight may or may not have taken effect
    ├── RequestTimedOut      no answer within the request's time; the connection is closed, as Kafka's clients do
    └── NoActiveController   no node asked knows a leader that answers; nothing was sent to a controller
    KafkaError
    ├── UnsupportedApi       the node does not serve the API in a version we speak
    └── LoginFailed          the node refused our SASL login

Source: Kafka's NetworkClient and NodeToControllerRequestThread.
"""

import asyncio
import itertools
import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, cast

from kraft_core.clients.metadata_source import LeaderEndpoint
from kraft_core.clients.quorum_fetch import describe_quorum_request, endpoint_of, fetch_partition, leader_probe
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import ErrorCode, InvalidFrame, KafkaError
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumResponse,
    FetchResponse,
)
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed

log = logging.getLogger(__name__)

MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024  # twice what Kafka lets a response grow to; a huge size means garbage
RETRY_BACKOFF_MS: Final = 20  # controller.quorum.retry.backoff.ms
RETRY_BACKOFF_MAX_MS: Final = 200
_CONTROLLERS: Final = 2  # DescribeCluster's endpoint type
_RENEWED_AFTER: Final = 0.85
"""A login is renewed after this share of its lifetime. Source: SaslClientAuthenticator.ReauthInfo."""

ResponseT = TypeVar("ResponseT", bound=Message)


class ConnectionLost(ConnectionError):  # noqa: N818 - what happened, as Kafka's names say it
    """The peer closed, refused or reset the connection, or sent what is no Kafka answer."""


class RequestTimedOut(ConnectionError):  # noqa: N818 - see above
    """No answer came in time; whether the request took effect is unknown."""


class NoActiveController(ConnectionError):  # noqa: N818 - see above
    """No active controller was found in time; the request was not sent to one."""


class UnsupportedApi(KafkaError):  # noqa: N818 - see above
    """The node offers no version of the API that we speak too."""

    def __init__(self, api_key: int, host: str, port: int) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"{host}:{port} does not serve API {api_key} in a known version"
        )


class KafkaConnection(asyncio.Protocol):
    """One connection to one Kafka node. Open it with `KafkaConnection.open`; it never reconnects by itself."""

    def __init__(
        self, host: str, port: int, client_id: str, default_timeout_ms: int, security: ClientSecurity = PLAINTEXT_CLIENT
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.node_versions: dict[int, tuple[int, int]] = {}  # api key -> lowest and highest version of the node
        self.api_versions: ApiVersionsResponse | None = None
        self._default_timeout_ms = default_timeout_ms
        self._security = security
        self._renew_at: float | None = None
        self._logging_in = asyncio.Lock()
        self._frames = Connection(MAX_RESPONSE_BYTES)
        self._correlation_ids = itertools.count(1)
        self._waiting: dict[int, tuple[int, int, asyncio.Future[Message]]] = {}
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._ended = asyncio.Event()
        self._is_accepted = False  # whether the node answered more than ApiVersions, which it answers to anybody

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int = 10_000,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> "KafkaConnection":
        """Connect, learn the node's versions and log in where `security` says so.

        `timeout_ms` bounds the connecting and each later request that names no time of its own.
        Raises ConnectionLost when nobody listens there, no Kafka node answers or it is not to be trusted,
        RequestTimedOut when nobody answers, LoginFailed.
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
            await connection._negotiate(timeout_ms)
            await connection._log_in(timeout_ms)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._transport is not None and not self._closed

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    async def wait_closed(self, timeout_ms: int) -> bool:
        """Wait until the connection has ended; False when `timeout_ms` passes first."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            return self._closed
        return True

    def version_of(self, api_key: int, lowest: int, highest: int) -> int:
        """Return the highest version both sides speak. Raises UnsupportedApi if there is none."""
        node_lowest, node_highest = self.node_versions.get(api_key, (0, -1))
        version = min(highest, node_highest)
        if version < max(lowest, node_lowest):
            raise UnsupportedApi(api_key, self.host, self.port)
        return version

    async def request(self, message: Message, timeout_ms: int | None = None, max_version: int | None = None) -> Message:
        """Send one request and wait for its answer; many may be under way at once.

        The version is the highest both sides speak, at most `max_version`. The answer is returned whatever error
        codes it carries. Raises ConnectionLost, RequestTimedOut (which also closes the connection, since answers
        keep their order and the ones behind would wait as long), UnsupportedApi, DecodeError, LoginFailed.
        """
        if self._renew_at is not None:
            await self._renew(self._renew_at)
        lowest, highest = message.VERSIONS
        version = self.version_of(
            message.API_KEY, lowest, highest if max_version is None else min(highest, max_version)
        )
        return await self._send(message, version, self._default_timeout_ms if timeout_ms is None else timeout_ms)

    def close(self, cause: str = "closed by this side") -> None:
        """Close now; requests in flight fail with ConnectionLost."""
        if self._transport is not None:
            self._transport.abort()
        self._fail_all(ConnectionLost(f"{self.host}:{self.port}: {cause}"))

    async def _send(self, message: Message, version: int, timeout_ms: int) -> Message:
        if self._transport is None or self._closed:
            raise ConnectionLost(f"{self.host}:{self.port}: the connection is closed")
        correlation_id = next(self._correlation_ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        frame = encode_request(message, version, correlation_id, self.client_id)
        self._waiting[correlation_id] = (message.API_KEY, version, answer)
        self._transport.write(frame)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            cause = f"no answer to {type(message).__name__} within {timeout_ms} ms"
            self.close(cause)
            raise RequestTimedOut(f"{self.host}:{self.port}: {cause}") from None

    async def _negotiate(self, timeout_ms: int) -> None:
        """Ask for the versions; a node older than our request answers in version 0 with error 35, then 0 is asked."""
        ask = api_versions_request()
        for version in (ApiVersionsRequest.VERSIONS[1], 0):
            answer = cast("ApiVersionsResponse", await self._send(ask, version, timeout_ms))
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if answer.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(answer.error_code), f"{self.host}:{self.port} refused ApiVersions")
        self.api_versions = answer
        self.node_versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    async def _log_in(self, timeout_ms: int) -> None:
        """Say who we are, if the node asks; note when to say it again. Raises LoginFailed."""
        login = self._security.new_login(self.node_versions)
        request = None if login is None else login.first_request()
        while login is not None and request is not None:
            request = login.received(await self._send(request, login.version_of(request), timeout_ms))
        lifetime_ms = 0 if login is None else login.session_lifetime_ms
        now = asyncio.get_running_loop().time()
        self._renew_at = now + _RENEWED_AFTER * lifetime_ms / 1000 if lifetime_ms else None

    async def _renew(self, renew_at: float) -> None:
        """Log in again if it is time; requests begun meanwhile wait for it."""
        if asyncio.get_running_loop().time() < renew_at:
            return
        async with self._logging_in:
            if self._renew_at == renew_at:  # else another request has done it
                await self._log_in(self._default_timeout_ms)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits. Called by asyncio."""
        cause = str(exc or "the peer closed the connection")
        if not self._is_accepted and self._transport is not None and not self._closed:
            protocol = self._security.security_protocol
            cause += (
                f" before it answered a request, as one does that expects another security.protocol than {protocol}"
            )
        self._fail_all(ConnectionLost(f"{self.host}:{self.port}: {cause}"))

    def data_received(self, data: bytes) -> None:
        """Complete the requests whose answers arrived. Called by asyncio."""
        try:
            self._frames.receive_data(data)
            while (frame := self._frames.next_frame()) is not None:
                self._answered(frame)
        except (InvalidFrame, KafkaError) as garbage:
            self.close(f"not an answer of Kafka's: {garbage}")

    def _answered(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            raise InvalidFrame(f"correlation id {correlation_id} was never asked")
        api_key, version, answer = waiting
        if api_key == ApiKey.API_VERSIONS and frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        self._is_accepted |= api_key != ApiKey.API_VERSIONS
        _, message = decode_response(api_key, version, frame)
        if not answer.done():  # the caller may have gone
            answer.set_result(message)

    def _fail_all(self, cause: ConnectionLost) -> None:
        self._closed = True
        self._ended.set()
        waiting, self._waiting = self._waiting, {}
        for _, _, answer in waiting.values():
            if not answer.done():
                answer.set_exception(cause)


class ControllerClient:
    """Sends requests to the active controller, wherever it is at the moment.

    `bootstrap` names nodes to ask first. `leader_hint` is asked before them, e.g. the `leader` method of a metadata
    observer of the same process. One connection is kept; requests are pipelined on it. `find_leader_timeout_ms` bounds
    the search for an active controller, where somebody waits who should hear of it sooner than the request may take.
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
        self._causes: dict[str, str] = {}  # why a node asked in this search was of no use, by its address
        self._connection: KafkaConnection | None = None
        self._connecting = asyncio.Lock()
        self._leader: LeaderEndpoint | None = None

    @property
    def leader(self) -> LeaderEndpoint | None:
        """The controller the connection goes to, None before the first request and after it was lost."""
        return self._leader

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._leader = None

    async def request(self, message: Message, timeout_ms: int = 30_000, *, idempotent: bool = False) -> Message:
        """Send `message` to the active controller and return its answer.

        A node that says it is not active took nothing, so the request goes to the next one until `timeout_ms` is
        over. A connection lost after sending leaves the effect unknown: only an `idempotent` request is sent again.
        Raises NoActiveController, ConnectionLost, RequestTimedOut, UnsupportedApi. Error codes other than
        NOT_CONTROLLER and NOT_LEADER_OR_FOLLOWER stay in the answer, the caller's to judge.
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

    def belong_to(self, cluster_id: str) -> None:
        """Take no controller of another cluster from now on."""
        self._cluster_id = cluster_id

    def _forget(self, connection: KafkaConnection) -> None:
        """Drop `connection`, unless another request has replaced it already."""
        if self._connection is connection:
            self._connection = None
            self._leader = None
        if connection.is_open and connection.in_flight == 0:
            connection.close()

    async def _connected(self, deadline: float) -> KafkaConnection:
        """Return the connection to the active controller, after opening it if need be."""
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
            self._bootstrap.rotate()  # the next search begins at another node
            if await self._try(*self._bootstrap[0]):
                return True
        return False

    async def _try(self, host: str, port: int) -> bool:
        """Ask one node who leads and connect to that one; True when a connection to the leader stands."""
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
        """Keep what a person must know to find the fault in addresses or security settings."""
        address = f"{host}:{port}"
        if isinstance(cause, LoginFailed) or isinstance(cause.__cause__, ssl.SSLError):
            said = f"no secure connection to {address}: {cause}"
        elif isinstance(cause, KafkaError) and cause.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            said = f"{address} refuses this user: {cause}"
        else:
            said = str(cause)
        self._causes[address] = said

    async def _open(self, host: str, port: int) -> KafkaConnection:
        return await KafkaConnection.open(host, port, self._client_id, self._connect_timeout_ms, self.security)


async def find_leader(connection: KafkaConnection, cluster_id: str | None = None) -> LeaderEndpoint | None:
    """Ask the node at the other end of `connection` who leads the metadata quorum; None when it does not know.

    Any controller answers, unlike DescribeQuorum, which only the leader answers. Who lacks CLUSTER_ACTION, which a node
    has and an administrator need not, asks DescribeCluster, which wants ALTER, and then DescribeQuorum, which wants
    DESCRIBE. Raises KafkaError INCONSISTENT_CLUSTER_ID when `cluster_id` is another cluster's,
    CLUSTER_AUTHORIZATION_FAILED for who may do none of these, ConnectionLost, RequestTimedOut.
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
        "DescribeClusterResponse", await connection.request(DescribeClusterRequest(endpoint_type=_CONTROLLERS))
    )
    if cluster.error_code == ErrorCode.NONE:
        found = next((node for node in cluster.brokers if node.broker_id == cluster.controller_id), None)
        return None if found is None else LeaderEndpoint(found.broker_id, found.host, found.port)
    quorum = cast("DescribeQuorumResponse", await connection.request(describe_quorum_request()))
    if quorum.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(quorum.error_code), f"{connection.host}:{connection.port} tells us nothing")
    partition = quorum.topics[0].partitions[0]
    if partition.error_code != ErrorCode.NONE:
        return None  # not the leader itself
    return LeaderEndpoint(partition.leader_id, connection.host, connection.port)


def says_not_active(answer: Message) -> bool:
    """Whether an answer means "I am not the active controller", wherever the response carries its error codes."""
    return any(
        code in {ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        for code in itertools.islice(_codes(answer, 3), 8)
    )


def _codes(message: Message, depth: int) -> Iterator[int]:
    """Error codes of a response, outermost first, down to `depth` levels of nested arrays."""
    own = getattr(message, "error_code", None)
    nested = (
        _codes(element, depth - 1)
        for name in message.__struct_fields__
        if depth > 0 and isinstance(value := getattr(message, name), tuple) and value
        for element in value[:2]
        if isinstance(element, Message)
    )
    return itertools.chain(() if own is None else (own,), itertools.chain.from_iterable(nested))
