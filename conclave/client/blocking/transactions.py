"""Methods about transactions. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.shared import DryRunData
from conclave.client.models.transactions import (
    ProducerData,
    ProducerDataList,
    TransactionData,
    TransactionDataList,
    TransactionDetailData,
)
from conclave.client.pages import Pages


class TransactionsMethods(Methods):
    """Methods about transactions."""

    def list_transactions(self, *, page_size: int | None = None) -> Pages[TransactionDataList, TransactionData]:
        """List the transactional ids."""
        return Pages(
            self._send,
            Call[TransactionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/transactions",
                {200: TransactionDataList},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_transaction(self, transactional_id: str) -> TransactionDetailData:
        """Describe a transactional id, with the partitions of its open transaction."""
        return self._send(
            Call[TransactionDetailData](
                "GET",
                "/v3/clusters/{cluster_id}/transactions/{transactional_id}",
                {200: TransactionDetailData},
                path={"transactional_id": transactional_id},
                waits_for_offset=True,
            )
        )

    def list_producers(
        self, topic_name: str, partition_id: int, *, page_size: int | None = None
    ) -> Pages[ProducerDataList, ProducerData]:
        """List the active producers of a partition, as its leader knows them."""
        return Pages(
            self._send,
            Call[ProducerDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/producers",
                {200: ProducerDataList},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def abort_transaction(
        self, topic_name: str, partition_id: int, *, start_offset: int, validate_only: bool = False
    ) -> DryRunData | None:
        """Abort a transaction that hangs in one partition (KIP-664): one that its coordinator no longer knows.

        While the producer lives, its transaction would end in this partition and stay open in others. 409 if none begins
        at `start_offset`.
        """
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/transactions:abort",
                {200: DryRunData, 204: None},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"validate_only": validate_only},
                body={"start_offset": start_offset},
            )
        )
