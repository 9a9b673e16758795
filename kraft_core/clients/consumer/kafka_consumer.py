"""The consumer for asyncio: KafkaConsumer of Kafka 4.3.1 in Python's manner.

    async with KafkaConsumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        async for record in consumer:
            ...

It works on the event loop in which it was opened. Heartbeats and fetches continue while the application does something
else; partitions of a group change only within `poll`.
"""

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from random import SystemRandom
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from kraft_core.clients.client_metadata import PartitionInfo, TopicPartition
from kraft_core.clients.client_runner import ClientRunner
from kraft_core.clients.consumer.auto_offset_reset_strategy import (
    EARLIEST,
    EARLIEST_TIMESTAMP,
    LATEST,
    LATEST_TIMESTAMP,
    AutoOffsetResetStrategy,
)
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_core import ConsumerCore
from kraft_core.clients.consumer.consumer_errors import timed_out
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.clients.consumer.coordinator import Coordinator
from kraft_core.clients.consumer.subscription_state import ConsumerRebalanceListener, SubscriptionPattern
from kraft_core.clients.consumer.topic_metadata_fetcher import Topics
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata, OffsetAndTimestamp
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, InvalidRequest, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")
Record: TypeAlias = ConsumerRecord[Any, Any]

CLOSE_TIMEOUT_MS: Final = 30_000
_TURN_MS: Final = 1_000
_YIELD_MS: Final = 10
"""Polls that find records let the core and other tasks run at least this often."""


class KafkaConsumer:
    """A consumer; `configs` are Kafka's with dots. Raises ConfigException.

    Without deserializers keys and values are bytes or None. Only one task at a time may call its methods.
    """

    def __init__(self, configs: Mapping[str, object] | ConsumerConfig) -> None:
        self.config = configs if isinstance(configs, ConsumerConfig) else ConsumerConfig(configs)
        self._core = ConsumerCore(self.config, SystemRandom(), _wall_clock_ms)
        self._subscriptions = self._core.subscriptions
        self._runner: ClientRunner | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._failure: Exception | None = None
        self._is_polling = False
        self._is_closed = False
        self._yielded_ms: float = 0

    async def __aenter__(self) -> Self:
        """Start; connections are opened when they are needed."""
        self._runner = ClientRunner(self._core, self._turned, self._failed)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit if enable.auto.commit is set, leave the group and close the connections, within the time.

        With 0 the requests are sent to a coordinator that is connected, and no answer is awaited.
        """
        if self._is_closed or self._runner is None:
            return
        self._is_closed = True
        now_ms = self._runner.now_ms()
        left = self._core.close(now_ms + timeout_ms, now_ms)
        try:
            self._runner.turn()
            while self._failure is None:
                await self._call_listener()
                if left.is_done or self._failure is not None or not await self._wait(now_ms + timeout_ms):
                    break
            self._runner.turn()
            await asyncio.sleep(0)  # also uvloop writes what is sent, such as LeaveGroup
        finally:
            await self._runner.close()
            self.config.interceptors.close()
        if left.error is not None:
            raise left.error

    # Subscription

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group: names, or a pattern for whole names. It replaces the one before.

        A SubscriptionPattern is matched by the broker, with group.protocol=consumer only. Raises InvalidSubscription
        while partitions are assigned, InvalidRequest without a group.id.
        """
        self._started()
        if self.config.group_id is None:
            raise InvalidRequest("subscribe needs a group.id; to read without a group, assign partitions")
        if isinstance(topics, str):
            raise InvalidRequest(f"topics must be a list of names or a pattern, not the string {topics!r}")
        if isinstance(topics, SubscriptionPattern) and self.config.group_protocol != "consumer":
            raise InvalidRequest("a SubscriptionPattern needs group.protocol=consumer; use a re.Pattern with classic")
        if isinstance(topics, re.Pattern | SubscriptionPattern):
            self._subscriptions.subscribe_pattern(topics, listener)
        else:
            names = set(topics)
            if not names:
                raise InvalidRequest("topics are empty; to read nothing, unsubscribe")
            if not all(isinstance(name, str) and name.strip() for name in names):
                raise InvalidRequest(f"topics {sorted(map(repr, names))} must be names that are not empty")
            self._subscriptions.subscribe(names, listener)
        self._subscription_changed()

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read just these partitions; those assigned already keep their positions. Raises InvalidSubscription."""
        self._started()
        wanted = [TopicPartition(*partition) for partition in partitions]
        if not wanted:
            raise InvalidRequest("partitions are empty; to read nothing, unsubscribe")
        for topic, partition in wanted:
            if not topic or partition < 0:
                raise InvalidRequest(f"partition ({topic!r}, {partition}) must be a topic's name and a number from 0")
        self._subscriptions.assign_from_user(wanted)
        self._subscription_changed()

    async def unsubscribe(self) -> None:
        """Give up the subscription or the assigned partitions; a member leaves its group.

        The listener is called first; raises RebalanceListenerFailed if it failed.
        """
        runner = self._started()
        try:
            if self._core.coordinator is not None and self._subscriptions.has_auto_assigned_partitions:
                left = self._core.coordinator.unsubscribe(runner.now_ms())
                runner.wake()
                while not left.is_done:
                    await self._call_listener()
                    await self._wait(runner.now_ms() + _TURN_MS)
                left.result()
        finally:
            self._subscriptions.unsubscribe()
            self._subscription_changed()

    def _subscription_changed(self) -> None:
        runner = self._started()
        self._core.subscription_changed(runner.now_ms())
        runner.wake()

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed to; for a pattern, those that match it now."""
        return self._subscriptions.subscription

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._subscriptions.assigned_partitions())

    # Records

    async def poll(self, timeout_ms: float = 0) -> dict[TopicPartition, list[Record]]:
        """Return records as soon as there are any, up to max.poll.records; an empty dict after the time.

        Positions move behind the records returned. Raises KafkaErrors: NoOffsetForPartition, OffsetOutOfRange and
        LogTruncation without auto.offset.reset, RecordUnreadable, RecordDeserialization, refused access.
        """
        runner = self._started()
        if self._subscriptions.has_no_subscription_or_user_assignment:
            raise InvalidRequest("nothing to poll: subscribe to topics or assign partitions first")
        if self._is_polling:
            raise InvalidRequest("poll is running in another task: a consumer has one reader")
        self._is_polling = True
        deadline_ms = runner.now_ms() + timeout_ms
        has_turned = False
        try:
            while True:
                now_ms = runner.now_ms()
                if now_ms - self._yielded_ms > _YIELD_MS:
                    self._yielded_ms = now_ms
                    runner.wake()
                    await asyncio.sleep(0)
                self._core.advance(now_ms)
                await self._call_listener()
                records = self._core.collect()  # returned without another await: a cancelled poll loses no records
                if records:
                    if self._core.fetcher.wants_turn:
                        runner.turn()  # the next fetch goes out before the records are used
                    return records
                if not has_turned:  # that turn may end what is waited for
                    runner.turn()
                elif await self._wait(deadline_ms):
                    self._yielded_ms = runner.now_ms()
                else:
                    return self._core.collect()
                has_turned = not has_turned
        finally:
            self._is_polling = False

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records without an end.

        The position is behind all records of a poll when its first one is yielded, as in Java; with
        enable.auto.commit, records not yet yielded can be committed when the loop is left by `break`.
        """
        while True:
            for records in (await self.poll(3_600_000)).values():
                for record in records:
                    yield record

    async def _call_listener(self) -> None:
        """Call the rebalance listener as long as the membership waits for it."""
        coordinator = self._core.coordinator
        while coordinator is not None and (callback := coordinator.pending_callback) is not None:
            error: Exception | None = None
            listener = self._subscriptions.rebalance_listener
            if listener is not None:
                try:
                    outcome = getattr(listener, callback.kind.value)(list(callback.partitions))
                    if inspect.isawaitable(outcome):
                        await outcome
                except Exception as failure:  # noqa: BLE001  # the application's code: the membership decides
                    error = failure
            assert self._runner is not None, "only an open consumer polls"
            self._core.callback_completed(callback, error, self._runner.now_ms())
            self._runner.wake()

    # Positions

    async def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """Return the offset of the next record, waiting until it is known. Raises PartitionNotAssigned."""
        runner = self._started()
        key = TopicPartition(*partition)
        started_ms, deadline_ms = runner.now_ms(), self._deadline_ms(timeout_ms)
        while True:
            found = self._subscriptions.valid_position(key)
            if found is not None:
                return found.offset
            self._core.raise_error()
            runner.wake()
            if not await self._wait(deadline_ms):
                raise timed_out(f"no position of {key.topic}-{key.partition}", deadline_ms - started_ms)

    def current_position(self, partition: tuple[str, int]) -> int | None:
        """Return the offset of the next record; None while it is being looked up. Raises PartitionNotAssigned."""
        found = self._subscriptions.valid_position(TopicPartition(*partition))
        return None if found is None else found.offset

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Continue at an offset; one with a leader epoch is validated first. Raises PartitionNotAssigned."""
        wanted = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        self._core.seek(TopicPartition(*partition), wanted.offset, wanted.leader_epoch)
        self._started().wake()

    def seek_to_beginning(self, partitions: Collection[tuple[str, int]] = ()) -> None:
        """Continue at the first offset of partitions, of all assigned ones if none is given."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[tuple[str, int]] = ()) -> None:
        """Continue behind the last record of partitions, of all assigned ones if none is given."""
        self._reset(partitions, LATEST)

    def _reset(self, partitions: Collection[tuple[str, int]], strategy: AutoOffsetResetStrategy) -> None:
        for partition in partitions or self.assignment():
            self._subscriptions.request_offset_reset(TopicPartition(*partition), strategy)
        self._started().wake()

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of partitions until `resume`; what was fetched is kept. Raises PartitionNotAssigned."""
        for partition in partitions:
            self._subscriptions.pause(TopicPartition(*partition))

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """End the pause of partitions. Raises PartitionNotAssigned."""
        for partition in partitions:
            self._subscriptions.resume(TopicPartition(*partition))
        self._started().wake()

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._subscriptions.paused_partitions()

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is before the end of the last fetch; None if unknown."""
        return self._subscriptions.partition_lag(TopicPartition(*partition), self.config.isolation_level)

    # Offsets and topics

    async def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after a time; None where there is none."""
        for partition, timestamp in timestamps_ms.items():
            if timestamp < 0:
                raise InvalidRequest(f"timestamp {timestamp} of {partition} must be 0 or more")
        return await self._list_offsets(timestamps_ms, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP), timeout_ms)
        return {partition: 0 if offset is None else offset.offset for partition, offset in found.items()}

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition, of committed ones with read_committed."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), timeout_ms)
        return {partition: 0 if offset is None else offset.offset for partition, offset in found.items()}

    async def _list_offsets(
        self, timestamps_ms: Mapping[tuple[str, int], int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps_ms.items()}
        deadline_ms, now_ms = self._deadline_ms(timeout_ms), self._started().now_ms()
        return await self._result(self._core.offset_fetcher.list_offsets(wanted, deadline_ms, now_ms))

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> dict[TopicPartition, PartitionInfo]:
        """Return the partitions of a topic; empty if there is no such topic and it is not created."""
        return (await self._topics(topic, timeout_ms)).get(topic, {})

    async def list_topics(self, timeout_ms: float | None = None) -> dict[str, dict[TopicPartition, PartitionInfo]]:
        """Return all topics that this client may see, with their partitions."""
        return await self._topics(None, timeout_ms)

    async def _topics(self, topic: str | None, timeout_ms: float | None) -> Topics:
        now_ms = self._started().now_ms()
        return await self._result(self._core.topic_metadata.ask(topic, self._deadline_ms(timeout_ms), now_ms))

    # Group

    async def commit(
        self, offsets: Mapping[tuple[str, int], OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets, the positions of all assigned partitions if none is given; raises the broker's error.

        Retriable errors are retried until the time has passed. Raises CommitFailed when the group has assigned the
        partitions to other members, RebalanceInProgress when it is about to: poll first.
        """
        coordinator, wanted = self._member("commit"), self._to_commit(offsets)
        await self._result(coordinator.commit_offsets(wanted, self._deadline_ms(timeout_ms), self._started().now_ms()))

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], OffsetAndMetadata] | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object] | None = None,
    ) -> None:
        """Commit as `commit` does, with one attempt and without waiting for it.

        `callback` is called with the offsets and the error or None, in the order of the calls. An error that may pass
        is RetriableCommitFailed. Without a callback errors are logged.
        """
        coordinator, wanted, runner = self._member("commit_async"), self._to_commit(offsets), self._started()
        committed = coordinator.commit_offsets(wanted, None, runner.now_ms())
        committed.when_done(lambda done: _report_commit(callback, wanted, done.error))
        runner.wake()

    def _to_commit(
        self, offsets: Mapping[tuple[str, int], OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._subscriptions.all_consumed()
        return {TopicPartition(*partition): offset for partition, offset in offsets.items()}

    async def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None where there is none."""
        coordinator = self._member("committed")
        wanted = [TopicPartition(*partition) for partition in partitions]
        now_ms = self._started().now_ms()
        return await self._result(coordinator.fetch_committed_offsets(wanted, self._deadline_ms(timeout_ms), now_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the present generation, for a transaction's offsets."""
        return self._member("group_metadata").group_metadata()

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Join the group again at the next poll (KIP-568)."""
        self._member("enforce_rebalance").enforce_rebalance(reason, self._started().now_ms())

    def _member(self, what: str) -> Coordinator:
        if self._core.coordinator is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"{what} needs a group.id")
        return self._core.coordinator

    # The event loop

    def _started(self) -> ClientRunner:
        if self._runner is None or self._is_closed:
            raise InvalidRequest("the consumer is not open: use it within `async with`")
        return self._runner

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        given = self.config.number("default.api.timeout.ms") if timeout_ms is None else timeout_ms
        return self._started().now_ms() + given

    async def _result(self, pending: Pending[T]) -> T:
        """Wait for the end of an operation, which has a deadline of its own."""
        runner = self._started()
        runner.wake()
        while not pending.is_done:
            await self._wait(runner.now_ms() + _TURN_MS)
            self._core.raise_login_error()
        return pending.result()

    async def _wait(self, deadline_ms: float) -> bool:
        """Wait for a turn of the core; return False when the time has passed. Raises the core's own failure."""
        assert self._runner is not None, "only an open consumer waits"
        if self._failure is not None:
            raise self._failure
        left_ms = deadline_ms - self._runner.now_ms()
        if left_ms <= 0:
            await asyncio.sleep(0)
            return False
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(left_ms / 1_000, _end, waiter)
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)
        return True

    def _turned(self) -> None:
        for waiter in self._waiters:
            _end(waiter)

    def _failed(self, failure: Exception) -> None:
        self._failure = failure
        self._turned()


def _report_commit(
    callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object] | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    error: Exception | None,
) -> None:
    if callback is None:
        if error is not None:
            log.error("commit_failed", extra={"error": str(error)})
        return
    try:
        callback(offsets, error)
    except Exception:  # the application's code
        log.exception("commit_callback_failed")


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
