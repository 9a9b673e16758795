"""The rules of a consumer without I/O: positions, fetches, offsets and the membership of one client.

`step` acts on answers and on time; `poll` hands records out, and is called while the application waits for them.
Source: KafkaConsumer, ClassicKafkaConsumer.updateAssignmentMetadataIfNeeded, PositionsValidator of Kafka 4.3.1.
"""

from collections.abc import Callable, Collection
from functools import partial
from random import Random
from typing import TypeAlias

from kraft_core.clients.client_metadata import ClientMetadata, TopicPartition
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_errors import NoOffsetForPartition, RecordDeserialization
from kraft_core.clients.consumer.consumer_record import ConsumerRecord, Headers, K, V
from kraft_core.clients.consumer.coordinator import RebalanceCallback
from kraft_core.clients.consumer.fetcher import Fetcher
from kraft_core.clients.consumer.group_membership import new_coordinator
from kraft_core.clients.consumer.offset_fetcher import OffsetFetcher
from kraft_core.clients.consumer.partition_state import FetchPosition, LeaderAndEpoch
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.consumer.topic_metadata_fetcher import TopicMetadataFetcher
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.sasl_client_authenticator import LoginFailed

Records: TypeAlias = dict[TopicPartition, list[ConsumerRecord[K, V]]]
_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


Deserializer: TypeAlias = Callable[[str, Headers, bytes], object]
"""Turns a topic, headers and the bytes of a key or value, which are not null, into what the application uses."""


class ConsumerCore:
    """One consumer. `random` is drawn from for jitter; `wall_clock_ms` returns ms since 1970."""

    def __init__(
        self,
        config: ConsumerConfig,
        random: Random,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.config = config
        allow_creation = config.flag("allow.auto.create.topics")
        metadata_config = config.metadata_config(allow_auto_topic_creation=allow_creation)
        self.metadata = ClientMetadata(config.bootstrap(), metadata_config, random)
        self._network = NetworkClient(self.metadata, random, config.network_config(), config.security())
        self.subscriptions = SubscriptionState(config.reset_strategy)
        self.fetcher = Fetcher(self._network, self.subscriptions, config.fetch_config())
        backoff = ExponentialBackoff(metadata_config.retry_backoff_ms, metadata_config.retry_backoff_max_ms, random)
        self.offset_fetcher = OffsetFetcher(
            self._network, self.subscriptions, config.isolation_level, backoff, wall_clock_ms, self.report
        )
        self.topic_metadata = TopicMetadataFetcher(self._network, backoff, allow_auto_topic_creation=allow_creation)
        self.coordinator = new_coordinator(config, self._network, self.subscriptions, random)
        self._key_deserializer: Deserializer | None = config.get("key.deserializer")  # type: ignore[assignment]  # checked by ConsumerConfig
        self._value_deserializer: Deserializer | None = config.get("value.deserializer")  # type: ignore[assignment]  # as above
        self._errors: list[KafkaError] = []
        self._seen_changes = -1
        self._interest: tuple[object, object] = (None, None)
        self._committed: Pending[dict[TopicPartition, OffsetAndMetadata | None]] | None = None
        self._committed_not_before_ms: float = 0
        self._without_offset: set[TopicPartition] = set()
        self._is_closing = False

    @property
    def network(self) -> NetworkClient:
        """Its connections."""
        return self._network

    # Turns

    def step(self, now_ms: float) -> None:
        """Take completed requests, and do what is due. Called after every event."""
        for request in self._network.take_completed():
            assert callable(request.context), "a consumer's request carries what takes its answer"
            request.context(request, now_ms)
        try:
            self.metadata.raise_fatal_error()
            self._update_interest()
            self._take_metadata(now_ms)
            if self.coordinator is not None:
                self.coordinator.step(now_ms)
            if not self._is_closing:
                self._initialize_positions(now_ms)
                self.topic_metadata.step(now_ms)
                self.offset_fetcher.step(now_ms)
                self.fetcher.send_fetches(now_ms)
        except KafkaError as failure:
            self.report(failure)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        if self._is_closing:
            return None if self.coordinator is None else self.coordinator.next_deadline_ms(now_ms)
        times = [
            self.fetcher.next_deadline_ms(now_ms),
            self.offset_fetcher.next_deadline_ms(now_ms),
            self.topic_metadata.next_deadline_ms(),
            None if self.coordinator is None else self.coordinator.next_deadline_ms(now_ms),
        ]
        if self._committed is None and self._committed_not_before_ms > now_ms:
            times.append(self._committed_not_before_ms)
        return min((time for time in times if time is not None), default=None)

    def poll(self, now_ms: float) -> "Records[object, object]":
        """Return records, up to max.poll.records, and move the positions behind them; empty if there are none yet.

        Raises errors that the application must see, one at each call.
        """
        self.advance(now_ms)
        return self.collect()

    def advance(self, now_ms: float) -> None:
        """Advance the membership: the application waits for records. The first part of `poll`."""
        self.raise_error()
        if self.coordinator is not None:
            self.coordinator.poll(now_ms)
            callback = self.coordinator.pending_callback
            if callback is not None and self.subscriptions.rebalance_listener is None:
                self.callback_completed(callback, None, now_ms)
        if self._without_offset:
            lost = self._without_offset & self.subscriptions.initializing_partitions()
            if lost:
                raise NoOffsetForPartition(lost)

    def collect(self) -> "Records[object, object]":
        """Hand out what was fetched. The second part of `poll`, after the listener was called."""
        records = self._deserialized(self.fetcher.collect_fetch())
        return self.config.interceptors.on_consume(records) if records and self.config.interceptors else records

    def report(self, error: KafkaError) -> None:
        """Keep an error for the application, once until it is raised."""
        if not any(type(each) is type(error) and each.message == error.message for each in self._errors):
            self._errors.append(error)

    def raise_error(self) -> None:
        """Raise the oldest error that the application has not seen."""
        if self._errors:
            raise self._errors.pop(0)

    def raise_login_error(self) -> None:
        """Raise the oldest refused login that the application has not seen."""
        for error in self._errors:
            if isinstance(error, LoginFailed):
                self._errors.remove(error)
                raise error

    def callback_completed(self, callback: RebalanceCallback, error: Exception | None, now_ms: float) -> None:
        """Continue a rebalance after the listener was called."""
        assert self.coordinator is not None, "only a group calls the listener"
        self.coordinator.callback_completed(callback, error, now_ms)

    def close(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Leave the group and close the fetch sessions; done at the deadline at the latest."""
        self._is_closing = True
        self.fetcher.close(now_ms)
        if self.coordinator is not None:
            return self.coordinator.close(deadline_ms, now_ms)
        pending: Pending[None] = Pending()
        pending.complete(None)
        return pending

    # Subscription and positions

    def subscription_changed(self, now_ms: float) -> None:
        """Ask for metadata of what is read now, and let the group know."""
        self._update_interest()
        self._seen_changes = -1
        if self.coordinator is not None:
            self.coordinator.subscription_changed(now_ms)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Continue at an offset; it is validated if the epoch of the record before it is given."""
        self.subscriptions.seek_unvalidated(partition, FetchPosition(offset, leader_epoch, self._leader(partition)))

    def _leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        found = self.metadata.partition(partition)
        return LeaderAndEpoch() if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)

    def _update_interest(self) -> None:
        """Ask for metadata of the topics that are read or looked up; of all topics for a pattern."""
        looked_up = self.offset_fetcher.topics
        topics = None if self.subscriptions.has_pattern_subscription else self.subscriptions.metadata_topics
        if (topics, looked_up) != self._interest:
            self._interest = topics, looked_up
            self.metadata.want_only(None if topics is None else topics | looked_up)

    def _take_metadata(self, now_ms: float) -> None:
        """Act on an update: topics of the pattern, new leaders, errors of topics."""
        if self.metadata.changes == self._seen_changes:
            return
        self._seen_changes = self.metadata.changes
        subscriptions = self.subscriptions
        if subscriptions.has_pattern_subscription:
            self._match_pattern(now_ms)
        for partition in subscriptions.assigned_partitions():
            subscriptions.maybe_validate_position_for_current_leader(partition, self._leader(partition))
        if self.coordinator is not None:
            self.coordinator.metadata_changed(now_ms)
        for name in subscriptions.metadata_topics:
            topic = self.metadata.topics.get(name)
            if topic is not None and topic.error in _TOPIC_ERRORS:
                self.report(KafkaError(topic.error, f"topic {name}: {topic.error.default_message}"))

    def _match_pattern(self, now_ms: float) -> None:
        leave_out = self.config.flag("exclude.internal.topics")
        matched = [
            name
            for name, topic in self.metadata.topics.items()
            if self.subscriptions.matches_subscribed_pattern(name) and not (leave_out and topic.is_internal)
        ]
        if self.subscriptions.subscribe_from_pattern(matched) and self.coordinator is not None:
            self.coordinator.subscription_changed(now_ms)

    # First positions

    def _initialize_positions(self, now_ms: float) -> None:
        """Find positions of new partitions: the group's committed offsets, else by auto.offset.reset."""
        partitions = self.subscriptions.initializing_partitions() - self._without_offset
        if not partitions:
            return
        if self.coordinator is None:
            self._reset(partitions)
        elif self._committed is None and now_ms >= self._committed_not_before_ms:
            deadline_ms = now_ms + self.config.number("default.api.timeout.ms")
            self._committed = self.coordinator.fetch_committed_offsets(partitions, deadline_ms, now_ms)
            self._committed.when_done(partial(self._take_committed, now_ms))

    def _reset(self, partitions: Collection[TopicPartition]) -> None:
        if self.subscriptions.has_default_offset_reset_policy:
            self.subscriptions.reset_initializing_positions(partitions)
        else:
            self._without_offset.update(partitions)

    def _take_committed(
        self, asked_ms: float, pending: Pending[dict[TopicPartition, OffsetAndMetadata | None]]
    ) -> None:
        self._committed = None
        try:
            offsets = pending.result()
        except KafkaError as failure:
            self._committed_not_before_ms = asked_ms + self.metadata.config.retry_backoff_max_ms
            if not failure.retriable:
                self.report(failure)
            return
        initializing = self.subscriptions.initializing_partitions()
        missing = set()
        for partition, committed in offsets.items():
            if partition not in initializing:
                continue
            if committed is None:
                missing.add(partition)
            else:
                self.seek(partition, committed.offset, committed.leader_epoch)
        self._reset(missing)

    # Deserializers

    def _deserialized(self, fetched: dict[TopicPartition, list[Raw]]) -> "Records[object, object]":
        """Return records with their keys and values deserialized.

        A record that cannot be deserialized stays the next one of its partition: it is reported by the poll in which
        there is nothing before it.
        """
        keys, values = self._key_deserializer, self._value_deserializer
        if keys is None and values is None:
            return fetched  # type: ignore[return-value]  # bytes are objects
        done: Records[object, object] = {}
        failure: RecordDeserialization | None = None
        for partition, records in fetched.items():
            good: list[ConsumerRecord[object, object]] = []
            try:
                good.extend(_with_values(partition, each, keys, values) for each in records)
            except RecordDeserialization as refused:
                failure = refused
                epoch = good[-1].leader_epoch if good else None
                position = FetchPosition(refused.offset, epoch, self._leader(partition))
                self.subscriptions.set_position(partition, position)
            if good:
                done[partition] = good
        if failure is not None and not done:
            raise failure
        return done


def _with_values(
    partition: TopicPartition, record: Raw, keys: Deserializer | None, values: Deserializer | None
) -> ConsumerRecord[object, object]:
    key: object = record.key
    value: object = record.value
    origin = "key"
    try:
        if keys is not None and record.key is not None:
            key = keys(record.topic, record.headers, record.key)
        origin = "value"
        if values is not None and record.value is not None:
            value = values(record.topic, record.headers, record.value)
    except Exception as cause:  # the application's code
        raise RecordDeserialization(origin, partition, record.offset, cause) from cause
    return ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        key,
        value,
        record.headers,
        record.leader_epoch,
    )
