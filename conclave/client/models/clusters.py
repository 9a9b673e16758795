"""Models of clusters. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata, Related
from conclave.client.structs import Answer


class ClusterConnectionData(Answer, frozen=True, kw_only=True):
    """An added cluster. `key` is in the addresses of its pages, /c/KEY/; `cluster` is its resource."""

    validated: bool | None = None
    kind: str
    metadata: Metadata
    key: str
    name: str
    cluster_id: str
    bootstrap_controllers: list[str]
    command_config: str | None
    schema_registry_url: str | None
    color: str
    changed_by: str
    changed_at: str
    cluster: Related


class ClusterConnectionDataList(Answer, frozen=True, kw_only=True):
    """Added clusters by name."""

    metadata: ListMetadata
    data: list[ClusterConnectionData]
    kind: str


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
