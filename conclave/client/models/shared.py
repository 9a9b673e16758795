"""Models of several subjects. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.structs import Answer


class PlannedChangeData(Answer, frozen=True, kw_only=True):
    """One planned change: the value before and after, null for none."""

    what: str
    before: object
    after: object


class DryRunData(Answer, frozen=True, kw_only=True):
    """The dry run of a change that otherwise has no body. `not_checked` names what only the change itself can check."""

    kind: str
    validated: bool
    changes: list[PlannedChangeData]
    not_checked: list[str]


class ListMetadata(Answer, frozen=True, kw_only=True):
    """Address of a list and of its next page, null for the last one."""

    self: str
    next: str | None


class ListenerData(Answer, frozen=True, kw_only=True):
    """A listener of a node."""

    name: str
    host: str
    port: int


class Metadata(Answer, frozen=True, kw_only=True):
    """Address and name of one resource."""

    self: str
    resource_name: str | None


class Related(Answer, frozen=True, kw_only=True):
    """A link to another resource."""

    related: str


class ReplicaData(Answer, frozen=True, kw_only=True):
    """A replica."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related
    directory_id: str | None


class ReplicaDataList(Answer, frozen=True, kw_only=True):
    """Replicas."""

    metadata: ListMetadata
    data: list[ReplicaData]
    kind: str
