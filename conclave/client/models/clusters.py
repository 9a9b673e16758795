"""Models of clusters. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer


class ClusterData(Answer, frozen=True, kw_only=True):
    """A cluster."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related
    quorum: Related


class ClusterDataList(Answer, frozen=True, kw_only=True):
    """Clusters."""

    metadata: ListMetadata
    data: list[ClusterData]
    kind: str
