"""Finds the broker that coordinates a group or a transactional id, as a state machine without I/O.

`find_coordinator` and `found_coordinators` ask for several keys at once and read the answer; `CoordinatorLookup` keeps
the coordinator of one key: it asks any node, retries with back-off, and asks again when the coordinator is lost.

    node = lookup.ready_node(now_ms)       # raises what makes further attempts useless
    if node is not None:
        network.send(NodeRequest(node.id, message), now_ms)

The lookup's requests carry `lookup.completed` as their context: the owner calls `request.context(request, now_ms)`.
Source: AbstractCoordinator, TransactionManager, CoordinatorStrategy of Kafka 4.3.1; KIP-699 (several keys).
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from kraft_core.clients.client_metadata import Node
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

_FIRST_BATCHED_VERSION: Final = 4
_COORDINATOR_IDS_FROM: Final = 2**31 - 1


class CoordinatorType(IntEnum):
    """What a coordinator is asked for. Source: FindCoordinatorRequest.CoordinatorType."""

    GROUP = 0
    TRANSACTION = 1


def find_coordinator(
    network: NetworkClient, node_id: int, key_type: CoordinatorType, keys: Sequence[str], context: object = None
) -> NodeRequest:
    """Return a request for the coordinators of `keys`, for a node that is ready.

    A node older than KIP-699 (before version 4) takes one key a request: the request then names the first key only.
    """
    versions = network.versions_of(node_id) or {}
    if versions.get(ApiKey.FIND_COORDINATOR, (0, 0))[1] >= _FIRST_BATCHED_VERSION:
        message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=tuple(keys))
        return NodeRequest(node_id, message, context, min_version=_FIRST_BATCHED_VERSION)
    message = FindCoordinatorRequest(key_type=key_type, key=keys[0])
    return NodeRequest(node_id, message, context, max_version=_FIRST_BATCHED_VERSION - 1)


def found_coordinators(request: NodeRequest) -> Mapping[str, Node | KafkaError]:
    """Return what a completed request says of each of its keys: the coordinator or an error.

    An error of the whole request, such as Disconnected, is that of every key; so is an answer that leaves a key out.
    """
    message = request.message
    assert isinstance(message, FindCoordinatorRequest)
    keys = message.coordinator_keys or (message.key,)
    found: dict[str, Node | KafkaError] = {}
    answer = request.answer
    if isinstance(answer, FindCoordinatorResponse):
        for each in answer.coordinators:
            error = _error(each.error_code, each.error_message, message.key_type, each.key)
            found[each.key] = error or Node(each.node_id, each.host, each.port)
        if not message.coordinator_keys:
            error = _error(answer.error_code, answer.error_message, message.key_type, message.key)
            found[message.key] = error or Node(answer.node_id, answer.host, answer.port)
    missing = request.error or KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR, "The answer to FindCoordinator names no coordinator for a requested key."
    )
    return {key: found.get(key, missing) for key in keys}


def _error(code: int, text: str | None, key_type: int, key: str) -> KafkaError | None:
    if code == ErrorCode.NONE:
        return None
    error = ErrorCode(code)
    what = "transactional id" if key_type == CoordinatorType.TRANSACTION else "group"
    return KafkaError(error, f"No coordinator for the {what} '{key}': {text or error.default_message}")


class CoordinatorLookup:
    """The coordinator of one key.

    With `has_own_connection` the coordinator gets a connection apart from the one for other requests to the same
    broker, so that no fetch delays a heartbeat; its nodes then have ids of their own, counted down from 2**31 - 1.
    """

    def __init__(
        self,
        network: NetworkClient,
        key_type: CoordinatorType,
        key: str,
        backoff: ExponentialBackoff,
        *,
        has_own_connection: bool = False,
    ) -> None:
        self._network = network
        self._key_type = key_type
        self._key = key
        self._backoff = backoff
        self._has_own_connection = has_own_connection
        self._coordinator: Node | None = None
        self._pending: NodeRequest | None = None
        self._fatal: KafkaError | None = None
        self._failures = 0
        self._not_before_ms: float = 0

    def coordinator(self, now_ms: float) -> Node | None:
        """Return the coordinator, None while it is unknown; a connection that failed makes it unknown."""
        known = self._coordinator
        if known is not None and self._network.is_unavailable(known.id, now_ms):
            self.mark_unknown(now_ms, is_disconnected=True)
        return self._coordinator

    def ready_node(self, now_ms: float) -> Node | None:
        """Return the coordinator if it takes a request now; else advance the lookup or the connection, and None.

        Raises, once each, KafkaError that no retry heals, such as GROUP_AUTHORIZATION_FAILED, and LoginFailed.
        """
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal
        coordinator = self.coordinator(now_ms)
        if coordinator is not None:
            if not self._network.is_ready(coordinator.id, now_ms):
                return None
            self._failures = 0
            return coordinator
        if self._pending is None and now_ms >= self._not_before_ms:
            self._ask(now_ms)
        return None

    def mark_unknown(self, now_ms: float, *, is_disconnected: bool = False) -> None:
        """Forget the coordinator: it moved, or is not reachable. The next call of `ready_node` asks for it again.

        A connection of its own is closed, so that its requests fail at once, unless it `is_disconnected` already.
        """
        old, self._coordinator = self._coordinator, None
        if old is None:
            return
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1
        if self._has_own_connection and not is_disconnected:
            self._network.disconnect(old.id, now_ms, "the coordinator is looked up again")

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `ready_node` has something to do without an event; None for never."""
        if self._fatal is not None:
            return now_ms
        if self._coordinator is not None:
            return now_ms if self._network.is_unavailable(self._coordinator.id, now_ms) else None
        if self._pending is not None:
            return None
        if self._not_before_ms > now_ms:
            return self._not_before_ms
        return now_ms + self._backoff.after(0)  # no node takes a request now

    def completed(self, request: NodeRequest, now_ms: float) -> None:
        """Take the answer to a request of this lookup."""
        if request is not self._pending:
            return
        self._pending = None
        found = found_coordinators(request)[self._key]
        if isinstance(found, Node):
            if self._has_own_connection:
                found = Node(_COORDINATOR_IDS_FROM - found.id, found.host, found.port)
            self._network.add_node(found)
            self._coordinator = found
            return
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1
        if not found.retriable:
            self._fatal = found
        elif not isinstance(found, Disconnected):
            self._network.metadata.request_update()

    def _ask(self, now_ms: float) -> None:
        node = self._network.least_loaded_node(now_ms)
        if node is not None and self._network.is_ready(node.id, now_ms):
            request = find_coordinator(self._network, node.id, self._key_type, (self._key,), self.completed)
            self._pending = request
            self._network.send(request, now_ms)
