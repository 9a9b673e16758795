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
