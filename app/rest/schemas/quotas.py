"""Bodies and answers about client quotas."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, Body, ChangeBody, ConfigName, ListOf, Name, Resource


class QuotaEntityEntry(Body):
    """One component of a quota entity. `entity_name` null is the default of the type."""

    entity_type: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    entity_name: Name | None


class QuotaEntry(Body):
    """One quota. `value` null removes it."""

    key: ConfigName
    value: Annotated[float, Field(strict=False, allow_inf_nan=False)] | None


class AlterQuotaBody(ChangeBody):
    """Changes of the quotas of one entity, all or none."""

    entity: Annotated[tuple[QuotaEntityEntry, ...], Field(min_length=1, max_length=3, strict=False)]
    data: Annotated[tuple[QuotaEntry, ...], Field(min_length=1, max_length=100, strict=False)]


class QuotaEntityData(Answer):
    """One component of a quota entity. `entity_name` null is the default of the type."""

    entity_type: str
    entity_name: str | None


class QuotaValueData(Answer):
    """One quota."""

    key: str
    value: float


class ClientQuotaData(Resource):
    """The quotas of one entity."""

    kind: Literal["KafkaClientQuota"]
    entity: list[QuotaEntityData]
    quotas: list[QuotaValueData]


class ClientQuotaDataList(ListOf[ClientQuotaData]):
    """Client quotas."""

    kind: Literal["KafkaClientQuotaList"]
