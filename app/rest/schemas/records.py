"""Answers about the metadata log."""

from typing import Literal

from app.rest.schemas.base import Answer, ListOf


class MetadataRecordData(Answer):
    """One record of the metadata log. Secrets are hidden."""

    offset: int
    type: str
    data: dict[str, object]


class ChangeData(Answer):
    """One committed batch or transaction. `lines` describes it in words."""

    kind: Literal["KafkaMetadataChange"]
    first_offset: int
    offset: int
    leader_epoch: int
    timestamp: int
    lines: list[str]
    records: list["MetadataRecordData"]


class ChangeDataList(ListOf[ChangeData]):
    """Changes, oldest first."""

    kind: Literal["KafkaMetadataChangeList"]
    oldest_offset: int


class DifferenceData(Answer):
    """One resource that differs between two states. `lines` says in words what differs."""

    kind: Literal["KafkaMetadataDifference"]
    resource_type: Literal[
        "feature", "broker", "controller", "topic", "config", "quota", "acl", "scram", "delegation-token"
    ]
    resource_name: str
    change: Literal["added", "removed", "changed"]
    lines: list[str]


class DifferenceDataList(ListOf[DifferenceData]):
    """Differences, by kind and name."""

    kind: Literal["KafkaMetadataDifferenceList"]
    from_offset: int
    to_offset: int
