"""Looks offsets up for a consumer: resets of positions, validation of positions, and offsets by time.

Every lookup asks the leaders of its partitions and is repeated with back-off after errors that metadata or time heals.
Errors of resets and validations that the application must see are passed to `report`.

Source: OffsetFetcher, OffsetFetcherUtils, OffsetsForLeaderEpochUtils of Kafka 4.3.1; KIP-320, KIP-79.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from kraft_core.clients.client_metadata import NO_LEADER, TopicPartition
from kraft_core.clients.consumer.auto_offset_reset_strategy import LATEST, AutoOffsetResetStrategy
from kraft_core.clients.consumer.consumer_errors import LogTruncation, names_of, timed_out
from kraft_core.clients.consumer.partition_state import FetchPosition, LeaderAndEpoch
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NodeRequest
from kraft_core.clients.offset_and_metadata import OffsetAndTimestamp
from kraft_core.clients.pending import Pending
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestOffsetForLeaderPartition,
    OffsetForLeaderEpochRequestOffsetForLeaderTopic,
    OffsetForLeaderEpochResponse,
)

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]

_CONSUMER: Final = -1  # the replica id of clients
_FIRST_EPOCH_VERSION_FOR_READERS: Final = 3  # before it, OffsetsForLeaderEpoch needs a permission of brokers
_FIRST_VERSION_OF: Final = {-3: 7, -4: 8, -5: 9, -6: 11}  # ListOffsets with these special timestamps
_GIVEN_UP: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST}
)


class _Lookup:
    """Offsets by time that were asked for, until all are found, one error is final, or the deadline."""

    def __init__(self, wanted: Mapping[TopicPartition, int], deadline_ms: float, now_ms: float) -> None:
        self.time_ms = deadline_ms - now_ms
        self.pending: Pending[Offsets] = Pending()
        self.wanted = dict(wanted)
        self.found: Offsets = {}
        self.asked: set[TopicPartition] = set()
        self.deadline_ms = deadline_ms
        self.not_before_ms: float = 0
        self.failures = 0
        self.last_error: KafkaError | None = None


class OffsetFetcher:
    """The offset lookups of one consumer. Its requests carry a callable `(request, now_ms)` as context."""

    def __init__(
        self,
        network: NetworkClient,
        subscriptions: SubscriptionState,
        isolation_level: int,
        backoff: ExponentialBackoff,
        wall_clock_ms: Callable[[], int],
        report: Callable[[KafkaError], None],
    ) -> None:
        self._network = network
        self._metadata = network.metadata
        self._subscriptions = subscriptions
        self._isolation_level = isolation_level
        self._backoff = backoff
        self._wall_clock_ms = wall_clock_ms
        self._lookups: list[_Lookup] = []
        self._unready: set[int] = set()
        self._report = report

    @property
    def topics(self) -> set[str]:
        """The topics whose metadata lookups need."""
        return {partition.topic for lookup in self._lookups for partition in lookup.wanted}

    def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], deadline_ms: float, now_ms: float
    ) -> Pending[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Look up the first record at or after a time, or -1 for the end and -2 for the beginning of the log.

        None is found where no record is that young. Fails with RequestTimedOut at the deadline.
        """
        lookup = _Lookup(timestamps_ms, deadline_ms, now_ms)
        self._lookups.append(lookup)
        return lookup.pending

    def step(self, now_ms: float) -> None:
        """Send what is due, and end lookups that are done or too late. Raises LoginFailed."""
        self._unready.clear()
        for lookup in list(self._lookups):
            self._advance(lookup, now_ms)
        self._reset_positions(now_ms)
        self._validate_positions(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        times = [due for due in map(self._network.connect_due_ms, self._unready) if due > now_ms]
        retry = self._subscriptions.next_retry_ms()
        if retry is not None and retry > now_ms:
            times.append(retry)
        for lookup in self._lookups:
            times.append(lookup.deadline_ms)
            if lookup.not_before_ms > now_ms:
                times.append(lookup.not_before_ms)
        return min(times, default=None)

    def _by_leader(self, partitions: Iterable[TopicPartition], now_ms: float) -> dict[int, list[TopicPartition]]:
        """Group partitions by leaders that a request can be sent to now; ask for metadata of those without one."""
        grouped: dict[int, list[TopicPartition]] = {}
        ready: dict[int, bool] = {}
        for each in partitions:
            leader = self._metadata.leader_of(each)
            if leader is None:
                self._metadata.request_update()
                continue
            if leader.id not in ready:
                ready[leader.id] = self._network.is_ready(leader.id, now_ms)
            if ready[leader.id]:
                grouped.setdefault(leader.id, []).append(each)
        self._unready |= {node_id for node_id, is_ready in ready.items() if not is_ready}
        return grouped

    def _leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        found = self._metadata.partition(partition)
        return LeaderAndEpoch() if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)

    # Offsets by time

    def _advance(self, lookup: _Lookup, now_ms: float) -> None:
        if not lookup.pending.is_done:
            missing = lookup.wanted.keys() - lookup.found.keys()
            if not missing:
                lookup.pending.complete(lookup.found)
            elif now_ms >= lookup.deadline_ms:
                lookup.pending.fail(timed_out(f"no offsets of {names_of(missing)}", lookup.time_ms, lookup.last_error))
            elif now_ms >= lookup.not_before_ms:
                waiting = sorted(missing - lookup.asked)
                self._fail_refused(lookup, waiting)
                for node_id, partitions in self._by_leader(waiting, now_ms).items():
                    lookup.asked.update(partitions)
                    wanted = {each: lookup.wanted[each] for each in partitions}
                    self._send(node_id, wanted, partial(self._found, lookup, wanted), now_ms)
        if lookup.pending.is_done:
            self._lookups.remove(lookup)

    def _fail_refused(self, lookup: _Lookup, waiting: Iterable[TopicPartition]) -> None:
        """End a lookup of a topic whose metadata is refused for good."""
        for each in waiting:
            topic = self._metadata.topics.get(each.topic)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                lookup.pending.fail(KafkaError(topic.error, f"topic {each.topic}: {topic.error.default_message}"))

    def _found(
        self, lookup: _Lookup, wanted: Mapping[TopicPartition, int], request: NodeRequest, now_ms: float
    ) -> None:
        lookup.asked.difference_update(wanted)
        found, failed = _offsets(request, wanted)
        lookup.found.update(found)
        if failed:
            self._metadata.request_update()
            lookup.not_before_ms = now_ms + self._backoff.after(lookup.failures)
            lookup.failures += 1
            lookup.last_error = error = next(iter(failed.values()))
            final = next((each for each in failed.values() if each.code in _GIVEN_UP), None)
            if final is not None:
                lookup.pending.fail(final)
            elif request.error is not None and not error.retriable:
                lookup.pending.fail(error)

    def _send(
        self,
        node_id: int,
        wanted: Mapping[TopicPartition, int],
        context: Callable[[NodeRequest, float], None],
        now_ms: float,
    ) -> None:
        grouped: dict[str, list[ListOffsetsRequestListOffsetsPartition]] = {}
        for (topic, partition), timestamp in wanted.items():
            epoch = self._leader(TopicPartition(topic, partition)).epoch
            grouped.setdefault(topic, []).append(
                ListOffsetsRequestListOffsetsPartition(
                    partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
                )
            )
        message = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level,
            topics=tuple(
                ListOffsetsRequestListOffsetsTopic(name=name, partitions=tuple(partitions))
                for name, partitions in grouped.items()
            ),
            timeout_ms=self._network.config.request_timeout_ms,
        )
        lowest = max((_FIRST_VERSION_OF.get(timestamp, 0) for timestamp in wanted.values()), default=0)
        lowest = max(lowest, 2 if self._isolation_level else 0)
        self._network.send(NodeRequest(node_id, message, context, min_version=lowest), now_ms)

    # Resets

    def _reset_positions(self, now_ms: float) -> None:
        strategies = self._subscriptions.partitions_needing_reset(now_ms)
        for node_id, partitions in self._by_leader(strategies, now_ms).items():
            self._await(partitions, now_ms)
            asked = {each: strategies[each] for each in partitions}
            wall_ms = self._wall_clock_ms()
            wanted = {each: strategy.timestamp_ms(wall_ms) for each, strategy in asked.items()}
            self._send(node_id, wanted, partial(self._reset, asked), now_ms)

    def _await(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        """Do not ask for these partitions again while a request is in flight."""
        self._subscriptions.set_next_allowed_retry(partitions, now_ms + self._network.config.request_timeout_ms + 1)

    def _reset(
        self, strategies: Mapping[TopicPartition, AutoOffsetResetStrategy], request: NodeRequest, now_ms: float
    ) -> None:
        found, failed = _offsets(request, strategies)
        for partition, offset in found.items():
            if offset is None:  # by_duration, and no record is that young
                if self._subscriptions.is_assigned(partition):
                    self._subscriptions.request_offset_reset(partition, LATEST)
                continue
            position = FetchPosition(offset.offset, None, self._leader(partition))
            self._subscriptions.maybe_seek_unvalidated(partition, position, strategies[partition])
        self._retry(failed, now_ms)

    def _retry(self, failed: Mapping[TopicPartition, KafkaError], now_ms: float) -> None:
        if failed:
            self._metadata.request_update()
            self._subscriptions.set_next_allowed_retry(failed, now_ms + self._backoff.after(0))
            for error in failed.values():
                if error.code in _GIVEN_UP:
                    self._report(error)

    # Validation

    def _validate_positions(self, now_ms: float) -> None:
        positions = self._subscriptions.partitions_needing_validation(now_ms)
        grouped: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for partition, position in positions.items():
            node_id = position.current_leader.leader
            if node_id == NO_LEADER or node_id not in self._metadata.nodes:
                self._metadata.request_update()
            else:
                grouped.setdefault(node_id, {})[partition] = position
        for node_id, asked in grouped.items():
            if not self._network.is_ready(node_id, now_ms):
                self._unready.add(node_id)
            elif self._can_validate(node_id):
                self._await(asked, now_ms)
                self._send_epochs(node_id, asked, now_ms)
            else:
                for partition, position in asked.items():
                    leader = position.current_leader
                    self._subscriptions.maybe_validate_position_for_current_leader(
                        partition, leader, can_validate=False
                    )

    def _can_validate(self, node_id: int) -> bool:
        versions = self._network.versions_of(node_id) or {}
        return versions.get(ApiKey.OFFSET_FOR_LEADER_EPOCH, (0, -1))[1] >= _FIRST_EPOCH_VERSION_FOR_READERS

    def _send_epochs(self, node_id: int, asked: Mapping[TopicPartition, FetchPosition], now_ms: float) -> None:
        grouped: dict[str, list[OffsetForLeaderEpochRequestOffsetForLeaderPartition]] = {}
        for (topic, partition), position in asked.items():
            assert position.offset_epoch is not None, "a position is validated by its epoch"
            grouped.setdefault(topic, []).append(
                OffsetForLeaderEpochRequestOffsetForLeaderPartition(
                    partition=partition,
                    current_leader_epoch=position.current_leader.epoch,
                    leader_epoch=position.offset_epoch,
                )
            )
        message = OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=tuple(
                OffsetForLeaderEpochRequestOffsetForLeaderTopic(topic=name, partitions=tuple(partitions))
                for name, partitions in grouped.items()
            ),
        )
        context = partial(self._validated, asked)
        request = NodeRequest(node_id, message, context, min_version=_FIRST_EPOCH_VERSION_FOR_READERS)
        self._network.send(request, now_ms)

    def _validated(self, asked: Mapping[TopicPartition, FetchPosition], request: NodeRequest, now_ms: float) -> None:
        answer = request.answer
        failed: dict[TopicPartition, KafkaError] = {}
        truncations: list[LogTruncation] = []
        left = dict(asked)
        if isinstance(answer, OffsetForLeaderEpochResponse):
            for topic in answer.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic, each.partition)
                    position = left.pop(partition, None)
                    if position is None:
                        continue
                    if each.error_code != ErrorCode.NONE:
                        failed[partition] = _error(ErrorCode(each.error_code), partition)
                        continue
                    truncation = self._subscriptions.maybe_complete_validation(
                        partition, position, each.leader_epoch, each.end_offset
                    )
                    if truncation is not None:
                        truncations.append(truncation)
        for partition in left:
            failed[partition] = request.error or _error(ErrorCode.UNKNOWN_SERVER_ERROR, partition)
        self._retry(failed, now_ms)
        if truncations:
            offsets = {key: value for each in truncations for key, value in each.offsets.items()}
            divergent = {key: value for each in truncations for key, value in each.divergent_offsets.items()}
            self._report(LogTruncation(offsets, divergent))
            self._subscriptions.set_next_allowed_retry(offsets, now_ms + self._backoff.max_ms)


def _offsets(
    request: NodeRequest, wanted: Iterable[TopicPartition]
) -> tuple[Offsets, dict[TopicPartition, KafkaError]]:
    """Return what an answer to ListOffsets says of each partition: an offset (None: no such record) or an error."""
    found: Offsets = {}
    failed: dict[TopicPartition, KafkaError] = {}
    if isinstance(request.answer, ListOffsetsResponse):
        for topic in request.answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                error = ErrorCode(each.error_code)
                if error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT or (error is ErrorCode.NONE and each.offset < 0):
                    found[partition] = None
                elif error is ErrorCode.NONE:
                    epoch = each.leader_epoch if each.leader_epoch >= 0 else None
                    found[partition] = OffsetAndTimestamp(each.offset, each.timestamp, epoch)
                else:
                    failed[partition] = _error(error, partition)
    for partition in wanted:
        if partition not in found and partition not in failed:
            failed[partition] = request.error or _error(ErrorCode.UNKNOWN_SERVER_ERROR, partition)
    return found, failed


def _error(code: ErrorCode, partition: TopicPartition) -> KafkaError:
    return KafkaError(code, f"offset of {partition.topic}-{partition.partition}: {code.default_message}")
