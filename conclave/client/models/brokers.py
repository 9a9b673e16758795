"""Models of brokers. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListenerData, ListMetadata, Metadata, Related
from conclave.client.structs import Answer


class BrokerData(Answer, frozen=True, kw_only=True):
    """A broker."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related
    is_fenced: bool
    is_shutting_down: bool
    broker_epoch: int
    incarnation_id: str
    listeners: list[ListenerData]
    log_directories: list[str]


class BrokerDataList(Answer, frozen=True, kw_only=True):
    """Brokers."""

    metadata: ListMetadata
    data: list[BrokerData]
    kind: str
