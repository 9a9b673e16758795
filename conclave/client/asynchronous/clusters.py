"""Methods about clusters. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.calls import Call
from conclave.client.methods import AsyncMethods
from conclave.client.models.clusters import ClusterData, ClusterDataList
from conclave.client.pages import AsyncPages


class ClustersMethods(AsyncMethods):
    """Methods about clusters."""

    def list_clusters(self) -> AsyncPages[ClusterDataList, ClusterData]:
        """List the one cluster that this process follows."""
        return AsyncPages(
            self._send, Call[ClusterDataList]("GET", "/v3/clusters", {200: ClusterDataList}, waits_for_offset=True)
        )

    async def get_cluster(self, *, at_offset: int | None = None, at: str | None = None) -> ClusterData:
        """Describe the cluster."""
        return await self._send(
            Call[ClusterData](
                "GET",
                "/v3/clusters/{cluster_id}",
                {200: ClusterData},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )
