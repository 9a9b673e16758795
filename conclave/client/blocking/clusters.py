"""Methods about clusters. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.clusters import (
    ClusterConnectionData,
    ClusterConnectionDataList,
    ClusterData,
    ClusterDataList,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class ClustersMethods(Methods):
    """Methods about clusters."""

    def list_clusters(self) -> Pages[ClusterDataList, ClusterData]:
        """List the clusters that this process follows and can read now. Under /c/KEY it is the one with that key."""
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

    def list_cluster_connections(self) -> Pages[ClusterConnectionDataList, ClusterConnectionData]:
        """List the added clusters by name."""
        return Pages(
            self._send,
            Call[ClusterConnectionDataList]("GET", "/v3/cluster-connections", {200: ClusterConnectionDataList}),
        )

    def get_cluster_connection(self, key: str) -> ClusterConnectionData:
        """Describe an added cluster."""
        return self._send(
            Call[ClusterConnectionData](
                "GET", "/v3/cluster-connections/{key}", {200: ClusterConnectionData}, path={"key": key}
            )
        )

    def put_cluster_connection(
        self,
        key: str,
        *,
        name: str,
        bootstrap_controllers: Sequence[str],
        command_config: str | UnsetType | None = UNSET,
        schema_registry_url: str | UnsetType | None = UNSET,
        color: Literal["grey", "blue", "green", "yellow", "orange", "red", "purple"] | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> ClusterConnectionData:
        """Add or change a cluster. Its controllers, of which one must answer, and its schema registry are asked first."""
        return self._send(
            Call[ClusterConnectionData](
                "PUT",
                "/v3/cluster-connections/{key}",
                {200: ClusterConnectionData},
                path={"key": key},
                query={"validate_only": validate_only},
                body={
                    "name": name,
                    "bootstrap_controllers": bootstrap_controllers,
                    "command_config": command_config,
                    "schema_registry_url": schema_registry_url,
                    "color": color,
                },
            )
        )

    def delete_cluster_connection(self, key: str, *, validate_only: bool = False) -> DryRunData | None:
        """Remove a cluster from this process, with its reports, schedules and plans. Nothing changes on the cluster."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/cluster-connections/{key}",
                {200: DryRunData, 204: None},
                path={"key": key},
                query={"validate_only": validate_only},
            )
        )
