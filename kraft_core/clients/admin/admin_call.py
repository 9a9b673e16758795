"""One operation of Admin as data: its keys, where each key's request goes, how requests are built and answers are read.

An `AdminCall` is carried out by AdminCore. Its outcome is one value or one KafkaError for each key (`Results`).
Source: AdminApiHandler, AdminApiLookupStrategy, KafkaFuture maps of Kafka 4.3.1's KafkaAdminClient.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.coordinator_lookup import CoordinatorType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.wire import Message

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AnyBroker:
    """The broker with the least load."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The broker that metadata names as the controller; it forwards requests to the active controller."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker by id."""

    id: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The coordinator of a group or a transactional id."""

    type: CoordinatorType
    key: str


Target = AnyBroker | Controller | Broker | Leader | Coordinator
ANY_BROKER: Final = AnyBroker()
CONTROLLER: Final = Controller()


class Results(dict[K, V | KafkaError], Generic[K, V]):
    """The outcome of each key, in the order of the call: a value, or the KafkaError of this key alone."""

    @property
    def succeeded(self) -> dict[K, V]:
        """The values of the keys that succeeded."""
        return {key: value for key, value in self.items() if not isinstance(value, KafkaError)}

    @property
    def failed(self) -> dict[K, KafkaError]:
        """The errors of the keys that failed."""
        return {key: value for key, value in self.items() if isinstance(value, KafkaError)}

    def get_or_raise(self, key: K) -> V:
        """Return the value of a key; raises its KafkaError, and KeyError for a key that the call did not have."""
        value = self[key]
        if isinstance(value, KafkaError):
            raise value
        return value

    def all(self) -> dict[K, V]:
        """Return the values of all keys; raises the first KafkaError."""
        return {key: self.get_or_raise(key) for key in self}


@dataclass(frozen=True, slots=True)
class RequestContext(Generic[K]):
    """What a request is for: the keys, the broker, the version it will have, and the ms that the broker may take."""

    keys: Sequence[K]
    node: Node
    version: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall(Generic[K, V]):
    """An operation.

    `build` makes one request for some of the keys, or raises KafkaError; `read` returns what the answer says of each of
    them. Keys with the same target share a request; before version `batched_since` each key has its own. Errors that a
    changed leader, controller or coordinator explains are retried, and those in `retried`; all others are final.
    """

    request: type[Message]
    keys: Iterable[K]
    target: Callable[[K], Target]
    build: Callable[[RequestContext[K]], Message]
    read: Callable[[Any, RequestContext[K]], Mapping[K, V | KafkaError]]
    batched_since: int = 0
    max_version: int | None = None
    retried: frozenset[ErrorCode] = frozenset()
    timeout_ms: int | None = None


def single(
    request: Message,
    read: Callable[[Any], V | KafkaError],
    target: Target = ANY_BROKER,
    *,
    build: Callable[[RequestContext[None]], Message] | None = None,
    timeout_ms: int | None = None,
) -> AdminCall[None, V]:
    """Return a call with one request and one result. `build` makes the request where it depends on its context."""
    return AdminCall(
        request=type(request),
        keys=(None,),
        target=lambda _key: target,
        build=lambda context: request if build is None else build(context),
        read=lambda answer, _context: {None: read(answer)},
        timeout_ms=timeout_ms,
    )


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the KafkaError of a code in an answer, None for no error. An unknown code is UNKNOWN_SERVER_ERROR."""
    return None if code == ErrorCode.NONE else KafkaError(ErrorCode(code), message or None)


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the partition indexes by topic, both in the given order."""
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


class AdminCalls(ABC):
    """Base of the operations by subject."""

    @abstractmethod
    async def run(self, call: AdminCall[K, V]) -> Results[K, V]:
        """Carry out a call. The results have every key of the call."""

    async def run_single(self, call: AdminCall[None, V]) -> V:
        """Carry out a call with one result; raises its KafkaError."""
        return (await self.run(call)).get_or_raise(None)
