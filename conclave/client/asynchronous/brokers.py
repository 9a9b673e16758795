"""Methods about brokers. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.calls import Call
from conclave.client.methods import AsyncMethods
from conclave.client.models.brokers import BrokerData, BrokerDataList
from conclave.client.models.shared import ReplicaData, ReplicaDataList
from conclave.client.pages import AsyncPages


class BrokersMethods(AsyncMethods):
    """Methods about brokers."""

    def list_brokers(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[BrokerDataList, BrokerData]:
        """List the registered brokers by id, including fenced ones."""
        return AsyncPages(
            self._send,
            Call[BrokerDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers",
                {200: BrokerDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_broker(self, broker_id: int, *, at_offset: int | None = None, at: str | None = None) -> BrokerData:
        """Describe one broker."""
        return await self._send(
            Call[BrokerData](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}",
                {200: BrokerData},
                path={"broker_id": broker_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def list_replicas(
        self, broker_id: int, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[ReplicaDataList, ReplicaData]:
        """List the replicas of the broker by topic and partition."""
        return AsyncPages(
            self._send,
            Call[ReplicaDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/partition-replicas",
                {200: ReplicaDataList},
                path={"broker_id": broker_id},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )
