"""Aborting a transaction that hangs in one partition (KIP-664)."""

from app.cluster.broker_clients import BrokerClients
from kraft_core.clients.admin.transactions import AbortTransactionSpec, ProducerState
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError


class TransactionAdmin:
    """Changes of transactions. All raise KafkaError."""

    def __init__(self, clients: BrokerClients) -> None:
        self._clients = clients

    async def open_at(self, partition: TopicPartition, start_offset: int) -> ProducerState:
        """Return the producer whose open transaction begins at an offset. Raises INVALID_TXN_STATE without one."""
        found = (await self._clients.admin().describe_producers([partition])).get_or_raise(partition)
        for each in found:
            if start_offset >= 0 and each.current_transaction_start_offset == start_offset:
                return each
        text = f"No open transaction of {partition.topic}-{partition.partition} begins at offset {start_offset}."
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)

    async def abort(self, partition: TopicPartition, state: ProducerState) -> None:
        """Write an abort marker for a producer's open transaction to one partition."""
        spec = AbortTransactionSpec(partition, state.producer_id, state.producer_epoch, max(0, state.coordinator_epoch))
        await self._clients.admin().abort_transaction(spec)
