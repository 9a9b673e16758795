"""One simulated broker: takes frames from its connections one by one, as Kafka does, and answers with frames."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.api_keys import APIS, ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import (
    RequestHeader,
    decode_request_body,
    decode_request_header,
    encode_response,
)
from kraft_core.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
)
from kraft_core.protocol.wire import Message
from tests.clients.simulator.links import Link
from tests.simulator.invariant import check

if TYPE_CHECKING:
    from tests.clients.simulator.sim_cluster import SimCluster

SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)

_LACKING: Final = -1

PROFILES: Final[dict[str, dict[int, int]]] = {
    "4.3": {},
    "3.9": {
        ApiKey.PRODUCE: 11,
        ApiKey.FETCH: 17,
        ApiKey.LIST_OFFSETS: 9,
        ApiKey.METADATA: 12,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.OFFSET_FETCH: 9,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.END_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    },
    "3.0": {
        ApiKey.PRODUCE: 9,
        ApiKey.FETCH: 12,
        ApiKey.LIST_OFFSETS: 7,
        ApiKey.METADATA: 11,
        ApiKey.OFFSET_COMMIT: 8,
        ApiKey.OFFSET_FETCH: 8,
        ApiKey.FIND_COORDINATOR: 4,
        ApiKey.JOIN_GROUP: 7,
        ApiKey.LEAVE_GROUP: 4,
        ApiKey.API_VERSIONS: 3,
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 3,
        ApiKey.END_TXN: 3,
        ApiKey.TXN_OFFSET_COMMIT: 3,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _LACKING,
    },
    "2.1": {
        ApiKey.PRODUCE: 7,
        ApiKey.FETCH: 10,
        ApiKey.LIST_OFFSETS: 4,
        ApiKey.METADATA: 7,
        ApiKey.OFFSET_COMMIT: 5,
        ApiKey.OFFSET_FETCH: 5,
        ApiKey.FIND_COORDINATOR: 2,
        ApiKey.JOIN_GROUP: 4,
        ApiKey.HEARTBEAT: 2,
        ApiKey.LEAVE_GROUP: 2,
        ApiKey.SYNC_GROUP: 2,
        ApiKey.API_VERSIONS: 2,
        ApiKey.INIT_PRODUCER_ID: 1,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
        ApiKey.ADD_PARTITIONS_TO_TXN: 1,
        ApiKey.ADD_OFFSETS_TO_TXN: 1,
        ApiKey.END_TXN: 1,
        ApiKey.TXN_OFFSET_COMMIT: 2,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _LACKING,
    },
}
"""Releases of Kafka: the highest version of each API, where it is not that of 4.3."""


OUTDATED: Final = frozenset(
    {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT}
)
"""Requests of transactions that are not handled after the end of their connection, where transactions are of version 1.

A late one would take part in the producer's next transaction: no client can prevent that, so KIP-890 raises epochs.
"""


# A request of a dead connection is handled unless the client's next connection has overtaken it. An idempotent producer
# that finds a sequence missing raises its epoch and sends again; batches of the old epoch that arrive even later, but
# before those of the new one, are written twice. Kafka's protocol allows that, so the simulator does not look for it.


@dataclass(slots=True)
class Call:
    """A request that a broker handles. `answer` takes the answer, at once or later; None for no answer."""

    broker: "SimBroker"
    link: Link
    header: RequestHeader
    incarnation: int
    is_answered: bool = False

    def answer(self, message: Message | None) -> None:
        """Send the answer, unless the broker was killed since."""
        check(not self.is_answered, "a simulated broker answers twice", self.header)
        self.is_answered = True
        if self.broker.incarnation == self.incarnation:
            self.broker.answer(self, message)


Handler = Callable[["SimBroker", Message, Call], Message | None]
"""Returns the answer; None if it comes later through `Call.answer`."""

HANDLERS: Final[dict[int, Handler]] = {}
"""Filled by the modules of the APIs."""


@dataclass
class Parked:
    """A fetch that waits for data. `retry` answers it if there is enough, or if it is late."""

    retry: Callable[[], bool]


class SimBroker:
    """A broker. `view` is what it knows of leaders, which may lag behind the truth."""

    def __init__(self, cluster: "SimCluster", broker_id: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.id = broker_id
        self.rack = f"rack-{broker_id}"
        self.is_up = True
        self.incarnation = 0
        self.view: dict[TopicPartition, tuple[int, int]] = {}
        self.parked: list[Parked] = []
        self.state: dict[str, object] = {}  # of the APIs' modules; lost with the process
        self.requests = 0
        self.newest: dict[int, int] = {}  # connection that a request was handled of, by process
        self.seen: dict[int, int] = {}
        self.choose_versions()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its listener."""
        return f"broker-{self.id}", 9092

    def choose_versions(self) -> None:
        """Take a release, as an upgrade or a downgrade does."""
        self.profile = self.world.random.choice(self.cluster.profiles)
        limits = PROFILES[self.profile]
        self.versions = {
            int(key): (APIS[key].min_version, min(limits.get(key, APIS[key].max_version), APIS[key].max_version))
            for key in SERVED
            if limits.get(key) != _LACKING
        }

    def on_killed(self) -> None:
        """Forget what was only in memory."""
        self.parked.clear()
        self.state.clear()

    def on_progress(self) -> None:
        """Look at the fetches that wait for data."""
        self.parked = [parked for parked in self.parked if not parked.retry()]

    # Frames

    def receive(self, link: Link, data: bytes) -> None:
        """Take bytes of a connection."""
        if not self.is_up or link.incarnation != self.incarnation:
            return
        link.frames.receive_data(data)
        while (frame := link.frames.next_frame()) is not None:
            link.queue.append(frame)
        self._next(link)

    def _next(self, link: Link) -> None:
        if link.is_busy or not link.queue:
            return
        if not link.is_up:
            if link.was_seen_down:  # an answer could not be written, so the broker has closed its side
                link.queue.clear()
                return
            link.was_seen_down = True
        link.is_busy = True
        random = self.world.random
        is_slow = self.world.chance(self.cluster.disorder.slow)
        delay_us = random.randint(20_000, 1_200_000) if is_slow else random.randint(20, 200)
        self.world.after(delay_us, self._handle, link, link.queue.popleft(), self.incarnation)

    def _handle(self, link: Link, frame: bytes, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        header, position = decode_request_header(frame)
        if header.api_key in OUTDATED and not link.is_up and self.cluster.transaction_version < 2:
            return
        newest = self.newest.get(link.process.id, 0)
        if link.id < newest and not link.is_up:
            return  # overtaken by a newer connection: see the note below
        self.newest[link.process.id] = max(newest, link.id)
        self.requests += 1
        self.seen[header.api_key] = self.seen.get(header.api_key, 0) + 1
        call = Call(self, link, header, incarnation)
        low, high = self.versions.get(header.api_key, (0, _LACKING))
        if not low <= header.api_version <= high:
            check(header.api_key == ApiKey.API_VERSIONS, "a request in a version that the broker lacks", header)
            refused = self._api_versions(ErrorCode.UNSUPPORTED_VERSION)
            self._send(link, encode_response(refused, (header.api_key, 0), header.correlation_id))
            return
        if header.api_key == ApiKey.API_VERSIONS:
            call.answer(self._api_versions(ErrorCode.NONE))
            return
        request = decode_request_body(header, frame, position)
        if self.world.prints_trace:
            self.world.note("broker", self.id, "gets", request, "of", link.process.id)
        answer = HANDLERS[header.api_key](self, request, call)
        if answer is not None:
            call.answer(answer)

    def _api_versions(self, error: ErrorCode) -> ApiVersionsResponse:
        keys = tuple(
            ApiVersionsResponseApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self.versions.items())
        )
        transaction_version = self.cluster.transaction_version
        features = (
            ApiVersionsResponseFinalizedFeatureKey(
                name="transaction.version",
                max_version_level=transaction_version,
                min_version_level=transaction_version,
            ),
        )
        return ApiVersionsResponse(
            error_code=error,
            api_keys=keys,
            finalized_features_epoch=1,
            finalized_features=features if self.profile == "4.3" else (),
        )

    def answer(self, call: Call, message: Message | None) -> None:
        """Send an answer, and go on with the connection's next request, after the throttle time if there is one."""
        if message is None:
            call.link.is_busy = False
            self._next(call.link)
            return
        throttle_ms = 0
        if call.header.api_key != ApiKey.API_VERSIONS and self.world.chance(self.cluster.disorder.throttle):
            throttle_ms = self.world.random.randint(1, 700)
            message = msgspec.structs.replace(message, throttle_time_ms=throttle_ms)
        if self.world.prints_trace and call.header.api_key != ApiKey.API_VERSIONS:
            self.world.note("broker", self.id, "answers", message, "to", call.link.process.id)
        self._send(call.link, encode_response(message, call.header), throttle_ms)

    def _send(self, link: Link, data: bytes, throttle_ms: int = 0) -> None:
        self.cluster.links.answer(link, data)
        self.world.after(throttle_ms * 1000, self._unmute, link, self.incarnation)

    def _unmute(self, link: Link, incarnation: int) -> None:
        if incarnation == self.incarnation:
            link.is_busy = False
            self._next(link)
