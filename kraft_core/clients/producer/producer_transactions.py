"""The transactional calls of a KafkaProducer, on asyncio. Source: KafkaProducer, Kafka 4.3.1."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.client_runner import ClientRunner
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.transaction_errors import IllegalState
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from kraft_core.protocol.errors import RequestTimedOut


class ProducerTransactions:
    """Waits for what a TransactionManager does; `manager` is None without idempotence."""

    def __init__(self, manager: TransactionManager | None, runner: ClientRunner, max_block_ms: int) -> None:
        self._manager = manager
        self._runner = runner
        self._max_block_ms = max_block_ms

    async def init(self) -> None:
        """Get the producer id."""
        manager = self._require_manager()
        await self._wait(manager, manager.initialize_transactions(), "init_transactions()")

    def begin(self) -> None:
        """Begin a transaction."""
        self._require_manager().begin_transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        manager = self._require_manager()
        if group_metadata.generation_id > 0 and not group_metadata.member_id:
            raise ValueError(
                f"group metadata with generation_id {group_metadata.generation_id} needs a member_id; "
                "take it from the consumer's group_metadata()"
            )
        if offsets:
            result = manager.send_offsets_to_transaction(offsets, group_metadata)
            await self._wait(manager, result, "send_offsets_to_transaction()")

    async def commit(self) -> None:
        """Commit the transaction."""
        manager = self._require_manager()
        await self._wait(manager, manager.begin_commit(), "commit_transaction()")

    async def abort(self) -> None:
        """Abort the transaction."""
        manager = self._require_manager()
        await self._wait(manager, manager.begin_abort(), "abort_transaction()")

    async def _wait(self, manager: TransactionManager, result: TransactionalRequestResult, operation: str) -> None:
        """Wait for an outcome. A call that was given up, by time or cancellation, can be repeated."""
        self._runner.wake()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.on_completion(lambda: None if done.done() else done.set_result(None))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._max_block_ms / 1000):
                await done
        if not result.is_completed:
            raise RequestTimedOut(
                f"{operation} had no outcome within {self._max_block_ms} ms (max.block.ms). It is still being tried: "
                "repeat the call, or close the producer."
            )
        result.is_acked = True
        if result.error is not None:
            raise manager.error_for_application(result.error)

    def _require_manager(self) -> TransactionManager:
        if self._manager is None:
            raise IllegalState("The producer has no transactional.id; set it to use transactions.")
        return self._manager
