"""KafkaProducer: writes records to topics, on asyncio.

    async with KafkaProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        future = await producer.send("topic", value=b"v", key=b"k")
        metadata = await future

Source: KafkaProducer, Kafka 4.3.1.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from kraft_core.clients.client_metadata import ClientMetadata, PartitionInfo, TopicInfo, TopicPartition
from kraft_core.clients.client_runner import ClientRunner
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata
from kraft_core.clients.producer.partitioner import partition_for_key
from kraft_core.clients.producer.producer_batch import Headers, ProducerBatch, size_upper_bound
from kraft_core.clients.producer.producer_config import ProducerConfig, Serializer, parse_producer_config
from kraft_core.clients.producer.producer_interceptor import ProducerRecord
from kraft_core.clients.producer.producer_transactions import ProducerTransactions
from kraft_core.clients.producer.record_accumulator import UNKNOWN_PARTITION, RecordAccumulator
from kraft_core.clients.producer.sender import Sender
from kraft_core.clients.producer.transaction_errors import IllegalState, ProducerFailed, TransactionAbortable
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.protocol.errors import BufferExhausted, ErrorCode, KafkaError, RequestTimedOut

_YIELD_BYTES: Final = 128 * 1024
"""After so many bytes of new batches `send` lets the event loop run, so that batches leave while others are filled."""
_SLACK_BYTES: Final = 128
"""More than a batch's header and a record's own fields."""


class KafkaProducer:
    """A producer on the running event loop, which it must be created on.

    `configs` are Kafka's, with dots (`producer_config`). Without serializers keys and values are bytes or None. Raises
    ConfigException.
    """

    def __init__(self, configs: Mapping[str, object]) -> None:
        self._config = config = parse_producer_config(configs)
        self._interceptors = config.interceptors
        self._is_plain = config.key_serializer is None and config.value_serializer is None and not config.interceptors
        random = Random()  # noqa: S311  # for jitter and partitions
        self._metadata = ClientMetadata(config.bootstrap, config.metadata, random)
        self._pool = BufferPool(config.buffer_memory)
        network = NetworkClient(self._metadata, random, config.network, config.security)
        self._manager = _new_transaction_manager(config, network)
        self._accumulator = RecordAccumulator(config.accumulator, self._metadata, self._pool, random, self._manager)
        self._sender = Sender(config.sender, network, self._accumulator, self._manager)
        self._loop = asyncio.get_running_loop()
        self._runner = ClientRunner(self._sender, self._after_turn, self._fail)
        self._transactions = ProducerTransactions(self._manager, self._runner, config.max_block_ms)
        self._transactional = self._manager if config.transactional_id is not None else None
        self._send_bytes = self._send if self._transactional is None else self._send_in_transaction
        self._open_batches = self._accumulator.open_batches if self._transactional is None else {}
        self._surely_fits = min(config.accumulator.max_request_size, config.buffer_memory) - _SLACK_BYTES
        self._keys_choose = not config.ignore_keys
        self._unyielded_bytes = 0
        self._is_closed = False
        self._seen_changes = 0
        self._blocked: set[asyncio.Future[None]] = set()  # sends that wait for memory
        self._metadata_waiters: set[asyncio.Future[None]] = set()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._idle: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Return the producer; connections are opened when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Deliver what was sent, and close; after an exception only close."""
        await self.close(None if kind is None else 0)

    # Sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> FutureRecordMetadata:
        """Queue a record for sending; return a future of where it is written.

        Waits up to max.block.ms for the topic's metadata and for room in buffer.memory. Without a partition the key
        decides, and without a key the producer fills one partition's batch after the other. `timestamp_ms` is the time
        of the call by default. Headers are pairs of a name and bytes or None.

        Raises KafkaError when the record is not queued: REQUEST_TIMED_OUT, BufferExhausted, MESSAGE_TOO_LARGE,
        TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION, LoginFailed; TypeError for values other than bytes.
        What happens to a queued record, the future says.
        """
        if self._is_plain:
            if key is None and partition is None and timestamp_ms is None and type(value) is bytes and not headers:
                batch = self._open_batches.get(topic)
                if batch is not None:
                    timestamp = int(time.time() * 1000)
                    if batch.try_append_alike(timestamp, value):
                        return FutureRecordMetadata(batch.result, batch.record_count - 1, timestamp, -1, len(value))
            return await self._send_bytes(topic, value, key, partition, timestamp_ms, headers)
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        if self._interceptors:
            record = self._interceptors.on_send(record)
        try:
            future = await self._send_bytes(
                record.topic,
                _serialized(self._config.value_serializer, record, record.value),
                _serialized(self._config.key_serializer, record, record.key),
                record.partition,
                record.timestamp_ms,
                record.headers,
            )
        except Exception as error:
            self._interceptors.on_acknowledgement(None, error, record.headers)
            raise
        if self._interceptors:
            future.add_done_callback(lambda done: self._acknowledge(done, record.headers))
        return future

    async def _send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> FutureRecordMetadata:
        value_size = _size("value", value) if type(value) is not bytes else len(value)
        key_size = -1 if key is None else _size("key", key) if type(key) is not bytes else len(key)
        known = self._metadata.topics.get(topic)
        if known is None or not known.partitions or partition not in known.partitions:
            if known is None or not known.partitions or partition is not None:
                known = await self._wait_on_metadata(topic, partition)
            if key is not None and self._keys_choose and partition is None:
                partition = partition_for_key(key, len(known.partitions))
        if headers or value_size + key_size > self._surely_fits:
            self._check_size(key, value, headers)
        timestamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        now_ms = self._loop.time() * 1000
        chosen = UNKNOWN_PARTITION if partition is None else partition
        if self._transactional is not None:
            self._transactional.check_send()  # again, after the wait for metadata
        batch = self._accumulator.append(topic, chosen, timestamp, key, value, headers, now_ms)
        if batch is None:
            batch = await self._append_when_there_is_room(topic, chosen, timestamp, key, value, headers)
        if self._transactional is not None:
            self._transactional.maybe_add_partition(batch.topic_partition)
        index = batch.record_count - 1
        if index == 0 or batch.is_full:
            self._runner.wake()
        future = FutureRecordMetadata(batch.result, index, timestamp, key_size, value_size)
        if index == 0:
            self._unyielded_bytes += batch.allocated
            if self._unyielded_bytes > _YIELD_BYTES:
                self._unyielded_bytes = 0
                await asyncio.sleep(0)
        return future

    async def _send_in_transaction(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> FutureRecordMetadata:
        """Send within a transaction, which can only be aborted once one of its records was not queued."""
        assert self._transactional is not None, "only transactional producers send this way"
        self._transactional.check_send()
        try:
            return await self._send(topic, value, key, partition, timestamp_ms, headers)
        except (IllegalState, TransactionAbortable, ProducerFailed):
            raise
        except KafkaError as error:
            self._transactional.maybe_transition_to_error_state(error)
            raise

    def _acknowledge(self, future: FutureRecordMetadata, headers: Headers) -> None:
        try:
            metadata = future.result()
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error, headers)
        else:
            self._interceptors.on_acknowledgement(metadata, None, headers)

    def _check_size(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Raise MESSAGE_TOO_LARGE for a record that cannot be sent."""
        size = size_upper_bound(key, value, headers)
        limits = {
            "max.request.size": self._config.accumulator.max_request_size,
            "buffer.memory": self._config.buffer_memory,
        }
        for name, limit in limits.items():
            if size > limit:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"The record takes up to {size} bytes; {name} allows {limit}."
                )

    async def _wait_on_metadata(self, topic: str, partition: int | None) -> TopicInfo:
        """Return a topic with its partitions, with this one if given.

        Raises RequestTimedOut after max.block.ms, and errors of the topic or the login that do not pass.
        """
        if not topic:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The name of the topic is empty.")
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition} is not allowed: partitions are numbered from 0.")
        deadline = self._loop.time() + self._config.max_block_ms / 1000
        self._accumulator.use_topic(topic, self._loop.time() * 1000)
        self._metadata.want([topic])
        self._runner.wake()
        changes = self._metadata.changes
        while True:
            self._check_open()
            known = self._metadata.topics.get(topic)
            if known is not None:
                if known.partitions and (partition is None or partition in known.partitions):
                    return known
                if known.error and not known.error.retriable and self._metadata.changes != changes:
                    raise KafkaError(known.error, f"Topic {topic}: {known.error.default_message}")
                self._metadata.request_update()
            waiter = self._loop.create_future()
            self._metadata_waiters.add(waiter)
            try:
                await _within(waiter, deadline)
            except TimeoutError:
                raise self._metadata_timed_out(topic, partition, known) from None
            finally:
                self._metadata_waiters.discard(waiter)

    def _metadata_timed_out(self, topic: str, partition: int | None, known: TopicInfo | None) -> RequestTimedOut:
        after = f"after {self._config.max_block_ms} ms (max.block.ms)"
        if known is not None and known.partitions:
            return RequestTimedOut(
                f"Topic {topic} has no partition {partition} {after}: it has {len(known.partitions)}, numbered from 0."
            )
        if self._metadata.nodes:
            return RequestTimedOut(f"Topic {topic} is not in the metadata {after}: it does not exist.")
        addresses = ", ".join(f"{node.host}:{node.port}" for node in self._metadata.bootstrap_nodes)
        return RequestTimedOut(f"No metadata {after}: none of {addresses} answered.")

    async def _append_when_there_is_room(
        self, topic: str, partition: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> ProducerBatch:
        size = self._accumulator.needed_bytes(key, value, headers)
        granted = self._loop.create_future()
        self._blocked.add(granted)
        waiter = self._pool.wait(size, lambda: None if granted.done() else granted.set_result(None))
        self._runner.wake()
        try:
            await _within(granted, self._loop.time() + self._config.max_block_ms / 1000)
        except BaseException as error:
            self._pool.cancel(waiter)
            if isinstance(error, TimeoutError):
                text = (
                    f"No room for {size} bytes within {self._config.max_block_ms} ms (max.block.ms): "
                    f"{self._pool.available_bytes} of buffer.memory={self._pool.total_bytes} are free."
                )
                raise BufferExhausted(text) from None
            raise
        finally:
            self._blocked.discard(granted)
        try:
            if self._transactional is not None:
                self._transactional.check_send()
            if partition == UNKNOWN_PARTITION:  # the topic may have been deleted meanwhile
                await self._wait_on_metadata(topic, None)
        except BaseException:
            self._pool.deallocate(size)
            raise
        now_ms = self._loop.time() * 1000
        batch = self._accumulator.append(topic, partition, timestamp, key, value, headers, now_ms, size)
        assert batch is not None, "memory was reserved"
        return batch

    # Transactions

    async def init_transactions(self) -> None:
        """Register the transactional.id: fence older producers that use it, and abort or complete what they left.

        The first call of a transactional producer. This and the calls below wait up to max.block.ms: after
        RequestTimedOut repeat the same call. Raises IllegalState for a call that does not fit; TransactionAbortable
        when abort_transaction() is to be called; ProducerFailed, ProducerFenced among them, when only close() is left.
        """
        self._check_open()
        await self._transactions.init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: all records are part of it until it is committed or aborted."""
        self._check_open()
        self._transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer group's offsets if, and only if, the transaction is committed (KIP-447).

        `group_metadata` is the consumer's `group_metadata()`; a member that left the group meanwhile is refused.
        """
        self._check_open()
        await self._transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Wait until all records of the transaction are written, and commit it."""
        self._check_open()
        await self._transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction; records that were not sent fail with TransactionAborted."""
        self._check_open()
        await self._transactions.abort()

    # The rest of the API

    async def flush(self) -> None:
        """Send all queued records at once, and wait until each is acknowledged or has failed."""
        self._check_open()
        number = self._accumulator.begin_flush()
        done = self._loop.create_future()
        self._flushes.append((number, done))
        self._runner.wake()
        try:
            await done
        finally:
            self._accumulator.end_flush()
            self._flushes = [each for each in self._flushes if each[1] is not done]

    async def partitions_for(self, topic: str) -> Mapping[int, PartitionInfo]:
        """Return a topic's partitions. Raises as `send`."""
        return (await self._wait_on_metadata(topic, None)).partitions

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver what is queued, and close. What is left after `timeout_ms` fails.

        None waits as long as needed: a record never takes longer than delivery.timeout.ms.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._accumulator.close()
        for waiter in [*self._blocked, *self._metadata_waiters]:
            if not waiter.done():
                waiter.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The producer was closed."))
        try:
            if timeout_ms != 0 and not self._sender.is_idle:
                self._idle = self._loop.create_future()
                self._runner.wake()
                await _within(self._idle, None if timeout_ms is None else self._loop.time() + timeout_ms / 1000)
        except TimeoutError:
            pass
        finally:
            closed = "The producer was closed before the record was delivered."
            self._sender.force_close(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, closed))
            await self._runner.close()
            self._interceptors.close()

    # After a turn of the core

    def _after_turn(self) -> None:
        if self._metadata_waiters:
            self._wake_metadata_waiters()
        if self._flushes:
            for number, done in self._flushes:
                if not done.done() and not self._accumulator.has_incomplete_until(number):
                    done.set_result(None)
        if self._idle is not None and not self._idle.done() and self._sender.is_idle:
            self._idle.set_result(None)

    def _wake_metadata_waiters(self) -> None:
        try:
            self._metadata.raise_fatal_error()
        except KafkaError as fatal:
            for waiter in self._metadata_waiters:
                if not waiter.done():
                    waiter.set_exception(fatal)
        if self._metadata.changes != self._seen_changes:
            self._seen_changes = self._metadata.changes
            for waiter in self._metadata_waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _fail(self, fault: Exception) -> None:
        """End all records after a fault in the producer itself."""
        self._accumulator.close()
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The producer failed: {fault!r}")
        self._sender.force_close(error)
        for waiter in [*self._blocked, *self._metadata_waiters]:
            if not waiter.done():
                waiter.set_exception(error)
        self._after_turn()

    def _check_open(self) -> None:
        if self._is_closed:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The producer is closed.")


def _new_transaction_manager(config: ProducerConfig, network: NetworkClient) -> TransactionManager | None:
    """Return the manager of an idempotent producer, None without idempotence."""
    if not config.is_idempotent:
        return None
    retry_backoff_ms = config.accumulator.retry_backoff_ms
    return TransactionManager(network, config.transactional_id, config.transaction_timeout_ms, retry_backoff_ms)


async def _within(awaited: Awaitable[None], deadline: float | None) -> None:
    """Wait until a time of the event loop. Raises TimeoutError."""
    async with asyncio.timeout_at(deadline):
        await awaited


def _serialized(serializer: Serializer | None, record: ProducerRecord, value: Any) -> Any:
    return value if serializer is None or value is None else serializer(record.topic, record.headers, value)


def _size(what: str, value: object) -> int:
    """Return the size of a key or value that is not exactly bytes: -1 for None. Raises TypeError."""
    if value is None:
        return -1
    if isinstance(value, bytes):
        return len(value)
    raise TypeError(f"A {what} is bytes or None; {type(value).__name__} needs a {what}.serializer.")
