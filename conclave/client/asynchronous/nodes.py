"""Methods about nodes. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.calls import Call
from conclave.client.methods import AsyncMethods
from conclave.client.models.nodes import (
    BrokerEventData,
    BrokerEventDataList,
    ControllerData,
    ControllerDataList,
    LogDirectoryData,
    LogDirectoryDataList,
    ProducerIdsData,
)
from conclave.client.pages import AsyncPages


class NodesMethods(AsyncMethods):
    """Methods about nodes."""

    async def get_producer_ids(self, *, at_offset: int | None = None, at: str | None = None) -> ProducerIdsData:
        """Return the first producer id that is not allocated. Brokers allocate them in blocks of 1,000."""
        return await self._send(
            Call[ProducerIdsData](
                "GET",
                "/v3/clusters/{cluster_id}/producer-ids",
                {200: ProducerIdsData},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def list_log_directories(
        self, broker_id: int, *, page_size: int | None = None
    ) -> AsyncPages[LogDirectoryDataList, LogDirectoryData]:
        """List the broker's log directories, with their replicas and bytes. The broker is asked if it was not just asked.

        Sizes are null if the broker has not answered within a moment; a later request has them.
        """
        return AsyncPages(
            self._send,
            Call[LogDirectoryDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/log-directories",
                {200: LogDirectoryDataList},
                path={"broker_id": broker_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_controllers(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[ControllerDataList, ControllerData]:
        """List the registered controllers by id."""
        return AsyncPages(
            self._send,
            Call[ControllerDataList](
                "GET",
                "/v3/clusters/{cluster_id}/controllers",
                {200: ControllerDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_controller(
        self, controller_id: int, *, at_offset: int | None = None, at: str | None = None
    ) -> ControllerData:
        """Describe one controller."""
        return await self._send(
            Call[ControllerData](
                "GET",
                "/v3/clusters/{cluster_id}/controllers/{controller_id}",
                {200: ControllerData},
                path={"controller_id": controller_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def broker_timeline(
        self, broker_id: int, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[BrokerEventDataList, BrokerEventData]:
        """List what happened to a broker, newest first: registrations, fencing, shutdowns, directories; also a former one.

        The events come from the metadata log as far as this process keeps it.
        """
        return AsyncPages(
            self._send,
            Call[BrokerEventDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/timeline",
                {200: BrokerEventDataList},
                path={"broker_id": broker_id},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )
