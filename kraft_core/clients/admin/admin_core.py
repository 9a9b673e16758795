"""The rules of Admin without I/O: sends the requests of calls where they belong, and retries what has moved.

Every key of a call is resolved to a broker (any, the controller, one by id, a partition's leader, a coordinator); keys
with the same broker share a request. A key whose answer says that the broker is the wrong one, or whose connection is
lost, is resolved again after a back-off. A key that has no result within the call's time-out fails alone: an
unreachable broker costs only the keys that need it.

Leaders and coordinators are remembered only while calls are running. Times are ms of a monotonic clock.
Source: KafkaAdminClient, AdminApiDriver, AdminMetadataManager, PartitionLeaderStrategy, CoordinatorStrategy of Kafka
4.3.1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from kraft_core.clients.admin.admin_call import (
    AdminCall,
    AnyBroker,
    Broker,
    Controller,
    Coordinator,
    K,
    Leader,
    RequestContext,
    Results,
    Target,
    V,
)
from kraft_core.clients.client_metadata import NO_LEADER, Node, TopicPartition
from kraft_core.clients.coordinator_lookup import CoordinatorType, find_coordinator, found_coordinators
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut, UnsupportedVersion
from kraft_core.protocol.messages import FindCoordinatorRequest
from kraft_core.protocol.wire import Message
from kraft_core.security.sasl_client_authenticator import LoginFailed

UNKNOWN_TOPIC_GRACE_MS: Final = 3_000
"""For how long a topic that no broker knows may have been created just now."""
_POLL_MS: Final = 50
"""How often a key that waits for a broker is looked at without an event."""

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that another broker, or the same one a little later, answers differently."""


@dataclass(slots=True)
class _Item:
    """One key of a running call that has no result. `is_sent`: its request is in flight."""

    target: Target
    failures: int = 0
    not_before_ms: float = 0
    is_sent: bool = False
    last_error: KafkaError | None = None


class _Running:
    """A call that has keys without a result. `waiting` are those without a request in flight."""

    def __init__(self, call: AdminCall[Any, Any], done: Callable[[Results[Any, Any]], None]) -> None:
        self.call = call
        self.done = done
        self.keys = tuple(dict.fromkeys(call.keys))
        self.items = {key: _Item(call.target(key)) for key in self.keys}
        self.results: dict[Any, Any] = {}
        self.started_ms: float = 0
        self.deadline_ms: float = 0
        self.changes = 0  # of the metadata, at the start

    @property
    def waiting(self) -> list[tuple[Any, _Item]]:
        return [(key, item) for key, item in self.items.items() if not item.is_sent]

    def finish(self, key: Any, result: object) -> None:
        del self.items[key]
        self.results[key] = result


class _Batch:
    """The context of a request: what it is for."""

    __slots__ = ("context", "running")

    def __init__(self, running: _Running, context: RequestContext[Any]) -> None:
        self.running = running
        self.context = context


_LOOKUP: Final = object()
"""The context of a request for coordinators."""


class AdminCore:
    """Carries out calls over the connections of `network`; `random` is drawn from for the jitter of the back-off."""

    def __init__(self, network: NetworkClient, random: Random, default_api_timeout_ms: int) -> None:
        self.network = network
        self._timeout_ms = default_api_timeout_ms
        config = network.metadata.config
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._running: list[_Running] = []
        self._coordinators: dict[Coordinator, int] = {}
        self._looked_up: set[Coordinator] = set()  # with a request in flight

    def start(self, call: AdminCall[K, V], done: Callable[[Results[K, V]], None], now_ms: float) -> None:
        """Begin a call; `done` is called once, from `step` or `close`, when every key has a result."""
        running = _Running(call, done)
        running.started_ms = now_ms
        running.deadline_ms = now_ms + (self._timeout_ms if call.timeout_ms is None else call.timeout_ms)
        metadata = self.network.metadata
        running.changes = metadata.changes
        targets = {item.target for item in running.items.values()}
        metadata.want({target.partition.topic for target in targets if isinstance(target, Leader)})
        if any(isinstance(target, Broker) and target.id not in metadata.nodes for target in targets):
            metadata.request_update()
        self._running.append(running)

    def step(self, now_ms: float) -> None:
        """Take answers, send what can be sent, and end the calls that are complete or too late."""
        for request in self.network.take_completed():
            self._completed(request, now_ms)
        try:
            self.network.metadata.raise_fatal_error()
        except KafkaError as fatal:
            for running in self._running:
                for key, _item in running.waiting:
                    running.finish(key, fatal)
        needed: set[Coordinator] = set()
        for running in self._running:
            if now_ms >= running.deadline_ms:
                self._expire(running)
            else:
                self._send(running, needed, now_ms)
        self._look_up(needed - self._looked_up, now_ms)
        self._end_finished()

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        times: list[float] = []
        for running in self._running:
            times.append(running.deadline_ms)
            times.extend(
                item.not_before_ms if item.not_before_ms > now_ms else now_ms + _POLL_MS
                for _key, item in running.waiting
            )
        return min(times, default=None)

    def close(self) -> None:
        """End all calls: keys without a result get Disconnected."""
        for running in self._running:
            for key in list(running.items):
                running.finish(key, Disconnected("the admin client is closed"))
        self._end_finished()

    def fail(self, cause: KafkaError) -> None:
        """End all calls with an error."""
        for running in self._running:
            for key in list(running.items):
                running.finish(key, cause)
        self._end_finished()

    def _end_finished(self) -> None:
        finished = [running for running in self._running if not running.items]
        self._running = [running for running in self._running if running.items]
        for running in finished:
            running.done(Results({key: running.results[key] for key in running.keys}))
        if finished and not self._running:
            self.network.metadata.want_only(())
            self._coordinators.clear()

    def _expire(self, running: _Running) -> None:
        time_ms = round(running.deadline_ms - running.started_ms)
        for key, item in list(running.items.items()):
            cause = f" The last error was: {item.last_error}" if item.last_error is not None else ""
            sent = " The last request has no answer and may have taken effect." if item.is_sent else ""
            running.finish(key, RequestTimedOut(f"Not done within {time_ms} ms.{sent}{cause}"))

    # Sending

    def _send(self, running: _Running, needed: set[Coordinator], now_ms: float) -> None:
        keys_by_node: dict[int, list[Any]] = {}
        any_node = None
        for key, item in running.waiting:
            if item.not_before_ms > now_ms:
                continue
            if isinstance(item.target, AnyBroker):
                any_node = any_node or self.network.least_loaded_node(now_ms)
            found = self._resolve(running, item, any_node, needed, now_ms)
            if isinstance(found, KafkaError):
                running.finish(key, found)
            elif found is not None:
                keys_by_node.setdefault(found, []).append(key)
            elif item.last_error is None:
                item.last_error = self._any_failure()
        for node_id, keys in keys_by_node.items():
            self._send_to(node_id, running, keys, now_ms)

    def _send_to(self, node_id: int, running: _Running, keys: Sequence[Any], now_ms: float) -> None:
        call = running.call
        rest = list(keys)
        while rest:
            try:
                if not self.network.is_ready(node_id, now_ms):
                    self._note_failure(node_id, running, rest, now_ms)
                    return
                version = self._version(node_id, call)
                some = rest[:1] if version < call.batched_since else rest
                message, context = self._build(node_id, running, some, version, now_ms)
            except KafkaError as refused:
                for key in rest:
                    running.finish(key, refused)
                return
            rest = rest[len(some) :]
            for key in some:
                running.items[key].is_sent = True
            request = NodeRequest(node_id, message, _Batch(running, context), min_version=version, max_version=version)
            self.network.send(request, now_ms)

    def _build(
        self, node_id: int, running: _Running, keys: Sequence[Any], version: int, now_ms: float
    ) -> tuple[Message, RequestContext[Any]]:
        node = self.network.node(node_id)
        assert node is not None, node_id
        timeout_ms = min(self.network.config.request_timeout_ms, round(running.deadline_ms - now_ms))
        context = RequestContext(tuple(keys), node, version, timeout_ms)
        return running.call.build(context), context

    def _version(self, node_id: int, call: AdminCall[Any, Any]) -> int:
        lowest, highest = call.request.VERSIONS
        theirs = (self.network.versions_of(node_id) or {}).get(call.request.API_KEY, (0, -1))
        version = min(highest if call.max_version is None else call.max_version, theirs[1])
        if version >= max(lowest, theirs[0]):
            return version
        api = call.request.__name__.removesuffix("Request")
        raise UnsupportedVersion(f"Broker {node_id} does not support {api} in a version that this client has.")

    def _note_failure(self, node_id: int, running: _Running, keys: Iterable[Any], now_ms: float) -> None:
        failure = self.network.failure_of(node_id)
        if failure is None:
            return
        for key in keys:
            item = running.items[key]
            item.last_error = failure
            if isinstance(item.target, Coordinator) and self.network.is_unavailable(node_id, now_ms):
                self._coordinators.pop(item.target, None)

    def _any_failure(self) -> KafkaError | None:
        failures = (self.network.failure_of(node.id) for node in self.network.metadata.all_nodes())
        return next((failure for failure in failures if failure is not None), None)

    # Where a key's request goes

    def _resolve(
        self, running: _Running, item: _Item, any_node: Node | None, needed: set[Coordinator], now_ms: float
    ) -> int | KafkaError | None:
        """Return the id of the broker, an error that is final, or None while the broker is not known."""
        metadata = self.network.metadata
        match item.target:
            case AnyBroker():
                return None if any_node is None else any_node.id
            case Controller():
                return self._controller(item)
            case Broker(broker_id):
                if broker_id in metadata.nodes:
                    return broker_id
                return self._unknown_broker(broker_id) if metadata.changes > running.changes else None
            case Leader(partition):
                return self._leader(running, item, partition, now_ms)
            case Coordinator():
                found = self._coordinators.get(item.target)
                if found is None:
                    needed.add(item.target)
                return found

    def _controller(self, item: _Item) -> int | None:
        metadata = self.network.metadata
        if metadata.controller_id in metadata.nodes:
            return metadata.controller_id
        if metadata.nodes:
            item.last_error = KafkaError(ErrorCode.NOT_CONTROLLER, "The cluster's metadata names no controller.")
            metadata.request_update()
        return None

    def _unknown_broker(self, broker_id: int) -> KafkaError | None:
        known = sorted(self.network.metadata.nodes)
        if not known:
            return None
        text = f"Broker {broker_id} is not in the cluster; its brokers are {', '.join(map(str, known))}."
        return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)

    def _leader(
        self, running: _Running, item: _Item, partition: TopicPartition, now_ms: float
    ) -> int | KafkaError | None:
        metadata = self.network.metadata
        topic = metadata.topics.get(partition.topic)
        if topic is None:
            return None
        error = topic.error
        found = topic.partitions.get(partition.partition)
        if not error and found is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not error and found is not None and found.leader != NO_LEADER:
            return found.leader if found.leader in metadata.nodes else None
        error = error or ErrorCode.LEADER_NOT_AVAILABLE
        item.last_error = KafkaError(error)
        if not error.retriable:
            return item.last_error
        is_unknown = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_unknown and now_ms - running.started_ms >= UNKNOWN_TOPIC_GRACE_MS:
            return item.last_error
        metadata.request_update()
        return None

    def _look_up(self, needed: set[Coordinator], now_ms: float) -> None:
        """Ask any broker for the coordinators, all of a type in one request where the broker can do that."""
        for key_type in sorted({each.type for each in needed}):
            keys = sorted(each.key for each in needed if each.type == key_type)
            node = self.network.least_loaded_node(now_ms)
            try:
                if node is None or not self.network.is_ready(node.id, now_ms):
                    continue
            except LoginFailed as refused:
                self._not_found({Coordinator(key_type, key): refused for key in keys}, now_ms)
                continue
            request = find_coordinator(self.network, node.id, key_type, keys, _LOOKUP)
            self._looked_up |= {Coordinator(key_type, key) for key in found_coordinators(request)}
            self.network.send(request, now_ms)

    # Answers

    def _completed(self, request: NodeRequest, now_ms: float) -> None:
        if request.context is _LOOKUP:
            self._found(request, now_ms)
            return
        batch = request.context
        assert isinstance(batch, _Batch), request
        running = batch.running
        keys = [key for key in batch.context.keys if key in running.items]
        for key in keys:
            running.items[key].is_sent = False
        error = request.error
        if request.answer is not None:
            results = running.call.read(request.answer, batch.context)
        else:
            results = dict.fromkeys(keys, error)
        name = type(request.message).__name__
        again_ms = now_ms + self._backoff.after(max((running.items[key].failures for key in keys), default=0))
        left_out = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The answer to {name} leaves this item out.")
        for key in keys:
            result = results.get(key, left_out)
            if isinstance(result, KafkaError) and self._is_retried(running.call, result):
                self._retry(running.items[key], result, again_ms)
            else:
                running.finish(key, result)

    def _is_retried(self, call: AdminCall[Any, Any], error: KafkaError) -> bool:
        return isinstance(error, Disconnected) or error.code in _MOVED or error.code in call.retried

    def _retry(self, item: _Item, error: KafkaError, again_ms: float) -> None:
        item.last_error = error
        item.not_before_ms = again_ms
        item.failures += 1
        if isinstance(item.target, Coordinator):
            self._coordinators.pop(item.target, None)
        elif not isinstance(item.target, AnyBroker):
            self.network.metadata.request_update()

    def _found(self, request: NodeRequest, now_ms: float) -> None:
        message = request.message
        assert isinstance(message, FindCoordinatorRequest), message
        key_type = CoordinatorType(message.key_type)
        errors: dict[Coordinator, KafkaError] = {}
        for key, found in found_coordinators(request).items():
            coordinator = Coordinator(key_type, key)
            self._looked_up.discard(coordinator)
            if isinstance(found, Node):
                self.network.add_node(found)
                self._coordinators[coordinator] = found.id
            else:
                errors[coordinator] = found
        self._not_found(errors, now_ms)

    def _not_found(self, errors: Mapping[Coordinator, KafkaError], now_ms: float) -> None:
        for running in self._running:
            concerned = [
                (key, item, errors[item.target])
                for key, item in running.waiting
                if isinstance(item.target, Coordinator) and item.target in errors
            ]
            again_ms = now_ms + self._backoff.after(max((item.failures for _key, item, _error in concerned), default=0))
            for key, item, error in concerned:
                if error.retriable:
                    self._retry(item, error, again_ms)
                else:
                    running.finish(key, error)
