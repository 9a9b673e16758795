"""Models of client quotas. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer, Body


class QuotaEntityData(Answer, frozen=True, kw_only=True):
    """One component of a quota entity. `entity_name` null is the default of the type."""

    entity_type: str
    entity_name: str | None


class QuotaValueData(Answer, frozen=True, kw_only=True):
    """One quota."""

    key: str
    value: float


class ClientQuotaData(Answer, frozen=True, kw_only=True):
    """The quotas of one entity."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    entity: list[QuotaEntityData]
    quotas: list[QuotaValueData]


class ClientQuotaDataList(Answer, frozen=True, kw_only=True):
    """Client quotas."""

    metadata: ListMetadata
    data: list[ClientQuotaData]
    kind: str


class QuotaEntityEntry(Body, frozen=True, kw_only=True):
    """One component of a quota entity. `entity_name` null is the default of the type."""

    entity_type: str
    entity_name: str | None


class QuotaEntry(Body, frozen=True, kw_only=True):
    """One quota. `value` null removes it."""

    key: str
    value: float | None
