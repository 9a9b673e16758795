"""Connections to the nodes of a cluster as one state machine: events and a time in, effects and completed requests out.

The owner performs the effects (`Connect`, `Write`, `Close`) and reports what happened (`connected`, `received`,
`disconnected`); `poll` advances everything that only time decides. Nothing here does I/O, reads a clock or draws a
random number of its own: times are ms of a monotonic clock and the generator is an argument.

    client.send(NodeRequest(node_id, message), now_ms)     # when client.is_ready(node_id, now_ms)
    client.poll(now_ms)
    for effect in client.take_effects(): ...
    for request in client.take_completed(): ...            # request.answer or request.error
    wait until client.next_deadline_ms(now_ms) or an event

Metadata is asked for and taken in here, from the node with the least load. Source: NetworkClient,
ClusterConnectionStates, InFlightRequests of Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from random import Random
from typing import Final

from kraft_core.clients.client_metadata import ClientMetadata, Node
from kraft_core.clients.client_session import Answered, ClientSession, NotSent, Ready, VersionsRefused
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_requests import (
    Close,
    Connect,
    Disconnected,
    Effect,
    InvalidAnswer,
    NetworkConfig,
    NodeRequest,
    NodeTimedOut,
    Write,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import MetadataResponse
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed


class _State(Enum):
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"  # versions and login
    READY = "ready"


class _Link:
    """One connection to a node."""

    __slots__ = ("deadline_ms", "id", "in_flight", "is_paused", "last_used_ms", "node", "session", "state")

    def __init__(self, connection_id: int, node: Node, session: ClientSession[NodeRequest], now_ms: float) -> None:
        self.id = connection_id
        self.node = node
        self.session = session
        self.state = _State.CONNECTING
        self.deadline_ms: float | None = None
        self.in_flight: list[NodeRequest] = []
        self.is_paused = False
        self.last_used_ms = now_ms


class _NodeState:
    """What is remembered of a node between its connections."""

    __slots__ = ("failure", "failures", "login_error", "not_before_ms", "setup_failures", "throttled_until_ms")

    def __init__(self) -> None:
        self.failure: KafkaError | None = None
        self.failures = 0
        self.setup_failures = 0
        self.not_before_ms: float = 0
        self.throttled_until_ms: float = 0
        self.login_error: LoginFailed | None = None


class NetworkClient:
    """The connections of one client. `metadata` names the nodes; `random` is drawn from for jitter and choices."""

    def __init__(
        self,
        metadata: ClientMetadata,
        random: Random,
        config: NetworkConfig | None = None,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.metadata = metadata
        self.config = config = config or NetworkConfig()
        self._random = random
        self.security = security
        self.finalized_features: Mapping[str, int] = {}  # of the newest epoch that a node named
        self.finalized_features_epoch = -1
        self._backoff = ExponentialBackoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random)
        self._setup_timeout = ExponentialBackoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random
        )
        self._links: dict[int, _Link] = {}  # by node id
        self._by_connection: dict[int, _Link] = {}
        self._states: dict[int, _NodeState] = {}
        self._added: dict[int, Node] = {}
        self._last_connection_id = 0
        self._effects: list[Effect] = []
        self._completed: list[NodeRequest] = []
        self._is_closed = False

    # Requests

    def is_ready(self, node_id: int, now_ms: float) -> bool:
        """Whether a request can be sent to the node now; begins to connect to it where the back-off allows.

        Raises LoginFailed once if the node refused the login of the last connection.
        """
        state = self._states.get(node_id)
        if state is not None and state.login_error is not None:
            error, state.login_error = state.login_error, None
            raise error
        link = self._links.get(node_id)
        if link is None:
            node = self.node(node_id)
            if node is not None:
                self._connect(node, now_ms)
            return False
        return self._can_send(link, now_ms)

    def node(self, node_id: int) -> Node | None:
        """Look a node up: a broker of the metadata, a bootstrap address, or a node that was added."""
        if node_id < 0:
            return next((node for node in self.metadata.bootstrap_nodes if node.id == node_id), None)
        return self.metadata.nodes.get(node_id) or self._added.get(node_id)

    def add_node(self, node: Node) -> None:
        """Make a node known that an answer named, such as a coordinator. Metadata about the same id goes before it."""
        self._added[node.id] = node

    def is_unavailable(self, node_id: int, now_ms: float) -> bool:
        """Whether the last connection to a node failed or ended, and the back-off does not allow another one yet."""
        return node_id not in self._links and self.connect_due_ms(node_id) > now_ms

    def failure_of(self, node_id: int) -> KafkaError | None:
        """Return why the last connection to a node could not be made or ended, None while it is connected or new."""
        state = self._states.get(node_id)
        return None if state is None else state.failure

    def versions_of(self, node_id: int) -> Mapping[int, tuple[int, int]] | None:
        """Return the version ranges by API key of a node that is connected, else None."""
        link = self._links.get(node_id)
        return link.session.node_versions if link is not None and link.state is _State.READY else None

    def in_flight(self, node_id: int | None = None) -> int:
        """Count the unanswered requests, of one node or of all."""
        links = self._links.values() if node_id is None else filter(None, [self._links.get(node_id)])
        return sum(len(link.in_flight) for link in links)

    def send(self, request: NodeRequest, now_ms: float) -> None:
        """Send a request to a node that is ready. It is completed later, in any case."""
        link = self._links[request.node_id]
        timeout_ms = self.config.request_timeout_ms if request.deadline_ms < 0 else request.deadline_ms
        request.created_ms, request.deadline_ms = now_ms, now_ms + timeout_ms
        link.in_flight.append(request)
        link.last_used_ms = now_ms
        link.session.send(request)
        self._advance(link, now_ms)

    def least_loaded_node(self, now_ms: float) -> Node | None:
        """Return the node to ask what any node may answer: ready ones with the fewest requests first, then new ones.

        None while all nodes are full, throttled or within their back-off.
        """
        nodes = list(self.metadata.all_nodes())
        self._random.shuffle(nodes)
        best: tuple[tuple[int, int], Node] | None = None
        for node in nodes:
            link = self._links.get(node.id)
            if link is None:
                if self.connect_due_ms(node.id) > now_ms:
                    continue
                rank = (2, 0)
            elif link.state is not _State.READY:
                rank = (1, 0)
            elif self._can_send(link, now_ms):
                rank = (0, len(link.in_flight))
            else:
                continue
            if best is None or rank < best[0]:
                best = rank, node
        return None if best is None else best[1]

    def disconnect(self, node_id: int, now_ms: float, cause: str = "closed by the client") -> None:
        """Close the connection to a node; its requests fail with Disconnected."""
        link = self._links.get(node_id)
        if link is not None:
            self._drop(link, Disconnected(cause), now_ms)

    def close(self, now_ms: float) -> None:
        """Close all connections; all requests fail with Disconnected, and no new connection is opened."""
        self._is_closed = True
        for link in list(self._links.values()):
            self._drop(link, Disconnected("the client is closed"), now_ms)

    def take_effects(self) -> list[Effect]:
        """Return what is to be done, in order, and forget it."""
        effects, self._effects = self._effects, []
        return effects

    def take_completed(self) -> list[NodeRequest]:
        """Return the requests that got an answer or an error since the last call, in that order."""
        completed, self._completed = self._completed, []
        return completed

    # Events

    def connected(self, connection_id: int, now_ms: float) -> None:
        """Begin the session on a connection that is open."""
        link = self._by_connection.get(connection_id)
        if link is None:
            return
        link.state = _State.NEGOTIATING
        link.last_used_ms = now_ms
        link.session.start(int(now_ms))
        self._advance(link, now_ms)

    def received(self, connection_id: int, data: bytes, now_ms: float) -> None:
        """Take in bytes of a connection."""
        link = self._by_connection.get(connection_id)
        if link is not None:
            link.last_used_ms = now_ms
            link.session.receive_data(data)
            self._advance(link, now_ms)

    def get_buffer(self, connection_id: int) -> memoryview | None:
        """Return room for bytes of a connection, to be written to at once; None if it was closed."""
        link = self._by_connection.get(connection_id)
        return None if link is None else link.session.get_buffer()

    def buffer_updated(self, connection_id: int, count: int, now_ms: float) -> bool:
        """Take in bytes of a connection that are in its buffer; return False if they only are a part of an answer."""
        link = self._by_connection.get(connection_id)
        if link is None:
            return True
        link.last_used_ms = now_ms
        link.session.buffer_updated(count)
        return self._advance(link, now_ms)

    def disconnected(self, connection_id: int, cause: str, now_ms: float, *, is_untrusted: bool = False) -> None:
        """Fail the requests of a connection that ended or could not be opened.

        `is_untrusted`: the node could not prove its identity, or refused the client's (TLS): reported as LoginFailed.
        """
        link = self._by_connection.get(connection_id)
        if link is None:
            return
        text = f"{link.node.host}:{link.node.port}: {cause}"
        error = LoginFailed(text) if is_untrusted else Disconnected(text)
        if isinstance(error, LoginFailed):
            self._state(link.node.id).login_error = error
        self._drop(link, error, now_ms, was_closed=True)

    def paused(self, connection_id: int, *, is_paused: bool) -> None:
        """Take note of whether the connection's owner still has bytes to write; then no further request is sent.

        Without this, requests that expect no answer would pile up in front of a slow node.
        """
        link = self._by_connection.get(connection_id)
        if link is not None:
            link.is_paused = is_paused

    @property
    def has_unwritten(self) -> bool:
        """Whether the owner of the connections still has bytes to write."""
        return any(link.is_paused for link in self._links.values())

    def poll(self, now_ms: float) -> None:
        """Close what is too late or idle, and ask for metadata when it is due."""
        for link in list(self._links.values()):
            self._check_times(link, now_ms)
        if not self._is_closed:
            self._maybe_update_metadata(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return the time at which `poll` has something to do without an event; None for never.

        It is now while completed requests are not taken: `send` itself completes a request that the node lacks.
        """
        if self._completed:
            return now_ms
        times = [time for link in self._links.values() for time in self._times_of(link, now_ms)]
        due = None if self._is_closed else self.metadata.update_due_ms(now_ms)
        if due is not None:
            times.append(max(due, self._first_chance_ms(now_ms)) if due <= now_ms else due)
        return min(times, default=None)

    # Connections

    def _connect(self, node: Node, now_ms: float) -> None:
        if self._is_closed or self.connect_due_ms(node.id) > now_ms:
            return
        self._last_connection_id += 1
        session: ClientSession[NodeRequest] = ClientSession(
            self.config.client_id,
            self.security,
            max_frame_bytes=self.config.response_bytes_max,
            step_timeout_ms=self.config.request_timeout_ms,
            renewal_share=self._random.uniform(0.85, 0.95),
        )
        link = _Link(self._last_connection_id, node, session, now_ms)
        link.deadline_ms = now_ms + self._setup_timeout.after(self._state(node.id).setup_failures)
        self._links[node.id] = self._by_connection[link.id] = link
        self._effects.append(Connect(link.id, node.host, node.port))

    def _state(self, node_id: int) -> _NodeState:
        return self._states.setdefault(node_id, _NodeState())

    def connect_due_ms(self, node_id: int) -> float:
        """Return the time before which no connection to a node is opened; 0 for none."""
        state = self._states.get(node_id)
        return 0 if state is None else state.not_before_ms

    def _can_send(self, link: _Link, now_ms: float) -> bool:
        if link.state is not _State.READY or link.is_paused:
            return False
        if len(link.in_flight) >= self.config.max_in_flight_requests_per_connection:
            return False
        state = self._states.get(link.node.id)
        return state is None or state.throttled_until_ms <= now_ms

    def _drop(self, link: _Link, error: KafkaError, now_ms: float, *, was_closed: bool = False) -> None:
        """End a connection, and complete its requests with `error`."""
        del self._links[link.node.id]
        del self._by_connection[link.id]
        link.session.close()
        if not was_closed:
            self._effects.append(Close(link.id))
        state = self._state(link.node.id)
        if link.state is _State.CONNECTING:
            state.setup_failures += 1
        state.not_before_ms = now_ms + self._backoff.after(state.failures)
        state.failures += 1
        state.failure = error
        for request in link.in_flight:
            request.error = error
            self._complete(request, now_ms)
        link.in_flight.clear()
        if not self._is_closed:
            self.metadata.request_update()

    def _advance(self, link: _Link, now_ms: float) -> bool:
        """Take the session's events, and write what it has to send; return whether there was anything."""
        has_event = False
        try:
            while (event := link.session.next_event(int(now_ms))) is not None:
                has_event = True
                self._take(link, event, now_ms)
        except LoginFailed as refused:
            error = LoginFailed(f"{link.node.host}:{link.node.port}: {refused.message}", refused.code)
            error.__cause__ = refused
            self._state(link.node.id).login_error = error
            self._drop(link, error, now_ms)
            return True
        except VersionsRefused as refused:
            self._drop(link, refused, now_ms)
            return True
        except KafkaError as garbage:
            cause = f"{link.node.host}:{link.node.port} sent what is not an answer of Kafka's: {garbage}"
            self._drop(link, InvalidAnswer(cause), now_ms)
            return True
        if link.id not in self._by_connection:
            return True
        data = link.session.data_to_send()
        if data:
            self._effects.append(Write(link.id, data))
            for request in [each for each in link.in_flight if not each.expects_answer and each.version >= 0]:
                link.in_flight.remove(request)
                self._complete(request, now_ms)
        return has_event or bool(data)

    def _take(self, link: _Link, event: Ready | Answered[NodeRequest] | NotSent[NodeRequest], now_ms: float) -> None:
        match event:
            case Ready():
                link.state = _State.READY
                link.deadline_ms = None
                state = self._state(link.node.id)
                state.failures = state.setup_failures = 0
                state.failure = None
                if link.session.finalized_features_epoch > self.finalized_features_epoch:
                    self.finalized_features = link.session.finalized_features
                    self.finalized_features_epoch = link.session.finalized_features_epoch
            case Answered(request, answer):
                link.in_flight.remove(request)
                request.answer = answer
                self._throttle(link, answer, now_ms)
                self._complete(request, now_ms)
            case NotSent(request, error):
                link.in_flight.remove(request)
                request.error = error
                self._complete(request, now_ms)

    def _throttle(self, link: _Link, answer: Message, now_ms: float) -> None:
        throttle_ms: int = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._state(link.node.id).throttled_until_ms = now_ms + throttle_ms

    def _check_times(self, link: _Link, now_ms: float) -> None:
        if link.deadline_ms is not None and now_ms >= link.deadline_ms and link.state is _State.CONNECTING:
            where, time_ms = f"{link.node.host}:{link.node.port}", now_ms - link.last_used_ms
            limit = "socket.connection.setup.timeout.ms"
            text = f"{where} did not accept a connection within {time_ms:.0f} ms ({limit})"
            self._drop(link, NodeTimedOut(text), now_ms)
            return
        step_deadline = link.session.step_deadline_ms
        late = [request for request in link.in_flight if now_ms >= request.deadline_ms]
        if late or (step_deadline is not None and now_ms >= step_deadline):
            what = type(late[0].message if late else link.session.step).__name__
            default_ms = self.config.request_timeout_ms
            time_ms = round(late[0].deadline_ms - late[0].created_ms) if late else default_ms
            limit = " (request.timeout.ms)" if time_ms == default_ms else ""
            cause = f"{link.node.host}:{link.node.port}: no answer to {what} within {time_ms} ms{limit}"
            self._drop(link, NodeTimedOut(cause), now_ms)
            return
        idle_ms = self.config.connections_max_idle_ms
        if idle_ms >= 0 and now_ms >= link.last_used_ms + idle_ms and not link.in_flight:  # as in `_times_of`
            self._drop(link, Disconnected("idle"), now_ms)
            self._state(link.node.id).failures = 0
            self._state(link.node.id).not_before_ms = 0

    def _times_of(self, link: _Link, now_ms: float) -> Iterable[float]:
        if link.deadline_ms is not None and link.state is _State.CONNECTING:
            yield link.deadline_ms
        if link.session.step_deadline_ms is not None:
            yield link.session.step_deadline_ms
        if link.in_flight:
            yield min(request.deadline_ms for request in link.in_flight)
        elif self.config.connections_max_idle_ms >= 0:
            yield link.last_used_ms + self.config.connections_max_idle_ms
        state = self._states.get(link.node.id)
        if state is not None and state.throttled_until_ms > now_ms:
            yield state.throttled_until_ms

    # Metadata

    def _maybe_update_metadata(self, now_ms: float) -> None:
        if self.metadata.must_rebootstrap(now_ms):
            self._rebootstrap(now_ms)
        due = self.metadata.update_due_ms(now_ms)
        if due is None or due > now_ms:
            return
        node = self.least_loaded_node(now_ms)
        if node is None and self.metadata.nodes and self.metadata.config.rebootstrap and self._all_unreachable():
            self._rebootstrap(now_ms)
            node = self.least_loaded_node(now_ms)
        if node is None:
            return
        try:
            if self.is_ready(node.id, now_ms):
                message = self.metadata.new_request(now_ms)
                has_ids = any(topic.name is None for topic in message.topics or ())
                min_version = _FIRST_METADATA_VERSION_WITH_IDS if has_ids else 0
                self.send(NodeRequest(node.id, message, _METADATA, min_version=min_version), now_ms)
        except LoginFailed as refused:
            self.metadata.failed(now_ms, refused)

    def _all_unreachable(self) -> bool:
        """Whether no known broker has a connection (KIP-899)."""
        return not any(node_id in self._links for node_id in self.metadata.nodes)

    def _rebootstrap(self, now_ms: float) -> None:
        for link in [link for link in self._links.values() if not link.node.is_bootstrap]:
            self._drop(link, Disconnected("the client returns to its bootstrap servers"), now_ms)
        for node in self.metadata.bootstrap_nodes:
            self._states.pop(node.id, None)
        self.metadata.rebootstrap(now_ms)

    def _first_chance_ms(self, now_ms: float) -> float:
        """Return when metadata that is due can be asked for, if no event comes before."""
        later = now_ms + self.config.request_timeout_ms
        links = [self._links.get(node.id) for node in self.metadata.all_nodes()]
        if any(link is not None and self._can_send(link, now_ms) for link in links):
            return now_ms
        if any(link is not None and link.state is not _State.READY for link in links):
            return later
        new = [node.id for node in self.metadata.all_nodes() if node.id not in self._links]
        return max(now_ms, min(map(self.connect_due_ms, new), default=later))

    def _complete(self, request: NodeRequest, now_ms: float) -> None:
        if request.context is not _METADATA:
            self._completed.append(request)
            return
        answer = request.answer
        if isinstance(answer, MetadataResponse):
            self.metadata.update(answer, now_ms)
            if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.metadata.config.rebootstrap:
                self._rebootstrap(now_ms)
        else:
            self.metadata.failed(now_ms)


_FIRST_METADATA_VERSION_WITH_IDS: Final = 12
_METADATA: Final = object()
"""The context of the client's own requests for metadata."""
