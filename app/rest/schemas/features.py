"""Bodies and answers about features."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, Body, ChangeBody, ListOf, Resource, Validated


class FeatureEntry(Body):
    """A feature and its new level. A lower level requires a downgrade `upgrade_type`; 0 disables the feature."""

    feature_name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    level: Annotated[int, Field(ge=0, le=2**15 - 1)]
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] = "UPGRADE"


class UpdateFeaturesBody(ChangeBody):
    """Feature levels to change, all or none."""

    data: Annotated[tuple[FeatureEntry, ...], Field(min_length=1, max_length=100, strict=False)]


class BrokerFeatureData(Answer):
    """The levels of a feature that a broker supports."""

    broker_id: int
    lowest_level: int
    highest_level: int


class FeatureData(Resource):
    """A feature and its finalized level: 0 when disabled, null while it is unknown.

    `lowest_level` and `highest_level` are those that this software supports, null for a feature that it does not know.
    """

    kind: Literal["KafkaFeature"]
    feature_name: str
    level: int | None
    lowest_level: int | None
    highest_level: int | None
    brokers: list[BrokerFeatureData]


class FeatureDataList(ListOf[FeatureData], Validated):
    """Features."""

    kind: Literal["KafkaFeatureList"]
