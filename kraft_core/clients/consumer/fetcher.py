"""Fetches records for a consumer: one request in flight per broker, answers kept until the application takes them.

While the application reads the answers of one request, the next one is fetched: a broker is asked again as long as none
of its partitions has two answers. So at most two answers a broker are kept, each of at most fetch.max.bytes or one
batch, and every request names all partitions of the broker, which keeps its session small in changes.

Source: AbstractFetch, FetchCollector, FetchBuffer of Kafka 4.3.1; KIP-227 (sessions), KIP-320 (leader epochs), KIP-392
(preferred replicas), KIP-951 (leaders named in answers).
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kraft_core.clients.client_metadata import NO_EPOCH, NO_LEADER, Node, TopicPartition
from kraft_core.clients.consumer.completed_fetch import CompletedFetch
from kraft_core.clients.consumer.consumer_errors import OffsetOutOfRange, RecordUnreadable
from kraft_core.clients.consumer.fetch_session_handler import FetchRequestData, FetchSessionHandler, PartitionData
from kraft_core.clients.consumer.partition_state import FetchPosition, LeaderAndEpoch, TopicPartitionState
from kraft_core.clients.consumer.subscription_state import READ_UNCOMMITTED, SubscriptionState
from kraft_core.clients.consumer.uniform_records import Forms, Raw
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import InvalidAnswer, NodeRequest
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchRequest, FetchResponse, FetchResponsePartitionData
from kraft_core.protocol.uuids import ZERO_UUID

_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_RETRIED: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_ANSWERS_MAX: Final = 2
"""Answers of one partition that are kept."""


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """The consumer's configs of fetches; `fetch_size` is max.partition.fetch.bytes. Times are ms."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_wait_ms: int = 500
    fetch_size: int = 1024 * 1024
    max_poll_records: int = 500
    check_crcs: bool = True
    client_rack: str = ""
    isolation_level: int = READ_UNCOMMITTED
    retry_backoff_ms: int = 100
    record_bytes_max: int | None = None  # of readers for people: longer keys and values are clipped


class Fetcher:
    """The fetches of one consumer. Its requests carry a callable `(request, now_ms)` as context."""

    def __init__(self, network: NetworkClient, subscriptions: SubscriptionState, config: FetchConfig) -> None:
        self._network = network
        self._metadata = network.metadata
        self._subscriptions = subscriptions
        self.config = config
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._pending: dict[int, NodeRequest] = {}  # by node id
        self._buffer: deque[CompletedFetch] = deque()
        self._answers: dict[TopicPartition, list[CompletedFetch]] = {}  # those in the buffer
        self._forms = Forms()
        self._unready: set[int] = set()  # nodes that are connected to
        self._not_before_ms: dict[TopicPartition, float] = {}  # after an error
        self._leaders_key: tuple[int, int] | None = None
        self._leaders_found: frozenset[int] = frozenset()
        self._alone: dict[TopicPartition, None] = {}  # asked for alone, since an answer was too large
        self._is_closed = False
        self._has_drained = False  # whether an answer that held back a fetch was read since the last `send_fetches`

    # Requests

    def send_fetches(self, now_ms: float) -> None:
        """Send a request to every broker that has something to be fetched and no request in flight.

        Raises LoginFailed if a broker refuses the login.
        """
        if self._is_closed:
            return
        self._has_drained = False
        if self._not_before_ms:
            self._not_before_ms = {each: time for each, time in self._not_before_ms.items() if time > now_ms}
        self._unready.clear()
        if self._is_asked_of_all():
            return
        wanted: dict[int, dict[TopicPartition, PartitionData]] = {}
        skipped: set[int] = set()
        for partition in self._subscriptions.fetchable_partitions(lambda each: each not in self._not_before_ms):
            position = self._position(partition)
            node_id = None if position is None else self._node_of(partition, position, now_ms)
            if position is None or node_id is None or node_id in skipped:
                continue
            if node_id not in wanted:
                if node_id in self._pending or not self._is_ready(node_id, now_ms):
                    skipped.add(node_id)
                    continue
                wanted[node_id] = {}
            answers = self._answers.get(partition, ())
            if answers and (len(answers) >= _ANSWERS_MAX or answers[-1].end_offset is None):
                skipped.add(node_id)
                continue
            topic = self._metadata.topics.get(partition.topic)
            wanted[node_id][partition] = PartitionData(
                ZERO_UUID if topic is None else topic.topic_id,
                position.offset if not answers else answers[-1].end_offset or 0,
                self.config.fetch_size,
                position.current_leader.epoch,
            )
        for node_id, named in wanted.items():
            alone = next((each for each in self._alone if each in named), None)
            partitions = named if alone is None else {alone: named[alone]}
            if partitions and node_id not in skipped:
                session = self._sessions.setdefault(node_id, FetchSessionHandler())
                self._send(node_id, session.build(partitions), now_ms)

    @property
    def wants_turn(self) -> bool:
        """Whether the records that were handed out may have made room for a fetch."""
        return self._has_drained and not self._is_asked_of_all()

    def _is_asked_of_all(self) -> bool:
        """Whether every leader of an assigned partition has a request in flight."""
        return bool(self._pending) and self._pending.keys() >= self._leaders()

    def _leaders(self) -> frozenset[int]:
        """Return the leaders of the assigned partitions by the present metadata."""
        key = self._metadata.changes, self._subscriptions.assignment_id
        if key != self._leaders_key:
            self._leaders_key = key
            found = map(self._leader, self._subscriptions.assigned_partitions())
            self._leaders_found = frozenset(each.leader for each in found)
        return self._leaders_found

    def _is_ready(self, node_id: int, now_ms: float) -> bool:
        if self._network.is_ready(node_id, now_ms):
            return True
        self._unready.add(node_id)
        return False

    def _position(self, partition: TopicPartition) -> FetchPosition | None:
        """Return a valid position with a leader; None, and asks for metadata, while there is none."""
        position = self._subscriptions.valid_position(partition)
        if position is not None and position.current_leader.leader == NO_LEADER:
            self._subscriptions.maybe_validate_position_for_current_leader(partition, self._leader(partition))
            position = self._subscriptions.valid_position(partition)
            if position is not None and position.current_leader.leader == NO_LEADER:
                self._metadata.request_update()
                return None
        return position

    def _leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        found = self._metadata.partition(partition)
        return LeaderAndEpoch() if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)

    def _node_of(self, partition: TopicPartition, position: FetchPosition, now_ms: float) -> int | None:
        """Return the broker to read from: the preferred replica while it is online, else the leader."""
        state = self._subscriptions.state(partition)
        preferred = None if state is None else state.read_replica(now_ms)
        if preferred is not None:
            found = self._metadata.partition(partition)
            if found is not None and preferred in self._metadata.nodes and preferred not in found.offline_replicas:
                return preferred
            self._forget_preferred(partition)
        leader = position.current_leader.leader
        if leader not in self._metadata.nodes:
            self._metadata.request_update()
            return None
        return leader

    def _forget_preferred(self, partition: TopicPartition) -> bool:
        """Read from the leader again; return whether a follower was preferred."""
        state = self._subscriptions.state(partition)
        if state is None or state.preferred_read_replica is None:
            return False
        state.preferred_read_replica = None
        return True

    def _send(self, node_id: int, data: FetchRequestData, now_ms: float, *, is_last: bool = False) -> None:
        config = self.config
        message = FetchRequest(
            max_wait_ms=0 if is_last else config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            isolation_level=config.isolation_level,
            session_id=data.session_id,
            session_epoch=data.epoch,
            topics=data.topics,
            forgotten_topics_data=data.forgotten,
            rack_id=config.client_rack,
        )
        context: Callable[[NodeRequest, float], None] = partial(self._completed, data)
        request = NodeRequest(node_id, message, context, max_version=data.max_version)
        self._pending[node_id] = request
        self._network.send(request, now_ms)

    def close(self, now_ms: float) -> None:
        """Fetch no more, forget all answers, and close the sessions of connected brokers."""
        self._is_closed = True
        self._buffer.clear()
        self._answers.clear()
        for node_id, session in self._sessions.items():
            if session.session_id and self._network.is_ready(node_id, now_ms):
                session.notify_close()
                self._send(node_id, session.build({}), now_ms, is_last=True)
        self._sessions.clear()

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when to fetch again after an error or after a failed connection; None without any."""
        connects = [due for due in map(self._network.connect_due_ms, self._unready) if due > now_ms]
        return min([*self._not_before_ms.values(), *connects], default=None)

    # Answers

    def _completed(self, data: FetchRequestData, request: NodeRequest, now_ms: float) -> None:
        self._pending.pop(request.node_id, None)
        session = self._sessions.get(request.node_id)
        if session is None or self._is_closed:
            return
        answer = request.answer
        if not isinstance(answer, FetchResponse):
            session.handle_error()
            for partition in data.session_partitions:
                self._forget_preferred(partition)
            if isinstance(request.error, InvalidAnswer):
                self._take_invalid(data, request.error)
            return
        partitions = session.handle_response(answer, request.version)
        if partitions is None:
            if answer.error_code:
                self._metadata.request_update()
                self._delay(data.session_partitions, now_ms)
            return
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for partition, each in partitions.items():
            self._alone.pop(partition, None)
            self._take(partition, data.session_partitions[partition].fetch_offset, each, now_ms)
            if each.error_code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}:
                hint = each.current_leader
                if hint.leader_id != NO_LEADER and hint.leader_epoch != NO_EPOCH:
                    leaders[partition] = hint.leader_id, hint.leader_epoch
        if leaders:
            self._take_leaders(leaders, answer)

    def _take_invalid(self, data: FetchRequestData, error: InvalidAnswer) -> None:
        """Ask for each partition alone after an answer that is too large; give up on one whose own is."""
        partitions = list(data.session_partitions)
        if len(partitions) > 1:
            self._alone.update(dict.fromkeys(partitions))
            return
        for partition in partitions:
            self._alone.pop(partition, None)
            offset = data.session_partitions[partition].fetch_offset
            cause = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, error.message)
            self._keep_error(partition, offset, RecordUnreadable(partition, offset, cause))

    def _take_leaders(self, leaders: dict[TopicPartition, tuple[int, int]], answer: FetchResponse) -> None:
        endpoints = [Node(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
        for partition in self._metadata.update_leaders(leaders, endpoints):
            self._not_before_ms.pop(partition, None)
            self._subscriptions.maybe_validate_position_for_current_leader(partition, self._leader(partition))

    def _delay(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        for partition in partitions:
            self._not_before_ms[partition] = now_ms + self.config.retry_backoff_ms

    def _take(
        self, partition: TopicPartition, fetch_offset: int, answer: FetchResponsePartitionData, now_ms: float
    ) -> None:
        """Keep the answer of one partition, unless its position has moved elsewhere since the request."""
        state = self._subscriptions.state(partition)
        if state is None or not state.has_valid_position or state.position is None:
            return
        answers = self._answers.get(partition)
        if fetch_offset != (answers[-1].end_offset if answers else state.position.offset):
            return
        if answer.error_code != ErrorCode.NONE:
            self._take_error(partition, state, fetch_offset, ErrorCode(answer.error_code), now_ms)
            return
        if answer.high_watermark >= 0:
            state.high_watermark = answer.high_watermark
        if answer.log_start_offset >= 0:
            state.log_start_offset = answer.log_start_offset
        if answer.last_stable_offset >= 0:
            state.last_stable_offset = answer.last_stable_offset
        if answer.preferred_read_replica >= 0 and answer.preferred_read_replica != state.preferred_read_replica:
            state.preferred_read_replica = answer.preferred_read_replica
            state.preferred_until_ms = now_ms + self._metadata.config.metadata_max_age_ms
        if answer.records:
            config = self.config
            self._keep(
                CompletedFetch(
                    partition,
                    answer.records,
                    fetch_offset,
                    isolation_level=config.isolation_level,
                    check_crcs=config.check_crcs,
                    record_bytes_max=config.record_bytes_max,
                    aborted=answer.aborted_transactions or (),
                    forms=self._forms,
                )
            )

    def _keep(self, fetch: CompletedFetch) -> None:
        self._buffer.append(fetch)
        self._answers.setdefault(fetch.partition, []).append(fetch)

    def _take_error(
        self,
        partition: TopicPartition,
        state: TopicPartitionState,
        fetch_offset: int,
        error: ErrorCode,
        now_ms: float,
    ) -> None:
        self._subscriptions.move_partition_to_end(partition)
        if error in _STALE_METADATA:
            self._metadata.request_update()
            self._forget_preferred(partition)
            self._delay([partition], now_ms)
        elif error in _RETRIED:
            self._delay([partition], now_ms)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._forget_preferred(partition):
                return  # the leader may have the offset
            if partition in self._answers:
                self._delay([partition], now_ms)  # a fetch ahead: what was fetched before it is read first
            elif self._subscriptions.has_default_offset_reset_policy:
                self._subscriptions.request_offset_reset(partition)
            else:
                self._keep_error(partition, fetch_offset, OffsetOutOfRange({partition: fetch_offset}))
        else:
            where = f"{partition.topic}-{partition.partition} at offset {fetch_offset}"
            self._keep_error(partition, fetch_offset, KafkaError(error, f"fetch of {where}: {error.default_message}"))

    def _keep_error(self, partition: TopicPartition, fetch_offset: int, error: KafkaError) -> None:
        self._keep(CompletedFetch(partition, b"", fetch_offset, error=error))

    # The application

    def collect_fetch(self) -> dict[TopicPartition, list[Raw]]:
        """Hand out up to max.poll.records records and move the positions behind them.

        Answers of paused partitions are kept; those that no longer fit the position are dropped. Raises the error of
        an answer if there is nothing to hand out before it.
        """
        collected: dict[TopicPartition, list[Raw]] = {}
        remaining = self.config.max_poll_records
        paused: list[CompletedFetch] = []
        try:
            while remaining > 0 and self._buffer:
                fetch = self._buffer[0]
                if self._subscriptions.is_paused(fetch.partition):
                    paused.append(self._buffer.popleft())
                    continue
                records = self._fetch_records(fetch, remaining)
                if records:
                    remaining -= len(records)
                    known = collected.get(fetch.partition)
                    collected[fetch.partition] = records if known is None else known + records
                if fetch.is_consumed:
                    self._drop_first()
        except KafkaError:
            if not collected:
                raise
        finally:
            self._buffer.extendleft(reversed(paused))
        return collected

    def _fetch_records(self, fetch: CompletedFetch, count: int) -> list[Raw]:
        partition = fetch.partition
        state = self._subscriptions.state(partition)
        position = None if state is None else state.position
        if (
            state is None
            or position is None
            or not self._subscriptions.is_fetchable(partition)
            or fetch.next_fetch_offset != position.offset
        ):
            fetch.drain()
            return []
        records = fetch.fetch_records(count)
        if fetch.next_fetch_offset > position.offset:
            state.position = FetchPosition(fetch.next_fetch_offset, fetch.last_epoch, position.current_leader)
        if fetch.is_consumed:
            self._subscriptions.move_partition_to_end(partition)
        return records

    def _drop_first(self) -> None:
        fetch = self._buffer.popleft()
        answers = self._answers[fetch.partition]
        if len(answers) >= _ANSWERS_MAX or answers[-1].end_offset is None:  # as in `send_fetches`
            self._has_drained = True
        answers.remove(fetch)
        if not answers:
            del self._answers[fetch.partition]
