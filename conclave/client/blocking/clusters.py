"""Methods about clusters. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.clusters import ClusterData, ClusterDataList
from conclave.client.pages import Pages


class ClustersMethods(Methods):
    """Methods about clusters."""

    def list_clusters(self) -> Pages[ClusterDataList, ClusterData]:
        """List the one cluster that this process follows."""
        return Pages(
            self._send, Call[ClusterDataList]("GET", "/v3/clusters", {200: ClusterDataList}, waits_for_offset=True)
        )

    def get_cluster(self, *, at_offset: int | None = None, at: str | None = None) -> ClusterData:
        """Describe the cluster."""
        return self._send(
            Call[ClusterData](
                "GET",
                "/v3/clusters/{cluster_id}",
                {200: ClusterData},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )
