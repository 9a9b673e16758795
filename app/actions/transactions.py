"""Changes of transactions, each written to the audit."""

from app.actions.audited import Audited, Caller
from kraft_core.clients.admin.transactions import ProducerState
from kraft_core.clients.client_metadata import TopicPartition


class TransactionActions(Audited):
    """Aborts transactions that hang."""

    async def abort(self, caller: Caller, partition: TopicPartition, state: ProducerState) -> None:
        """Write an abort marker for a producer's open transaction to one partition."""
        detail = {
            "partition": partition.partition,
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "start_offset": state.current_transaction_start_offset,
        }
        async with self._audited(caller, "transaction.abort", f"topic/{partition.topic}", detail):
            await self._cluster.admin.transactions.abort(partition, state)
