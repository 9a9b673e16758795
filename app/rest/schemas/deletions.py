"""Bodies and answers of deletions of several resources."""

from typing import Annotated, Literal

from pydantic import Field

from app.actions.each import ITEMS_MAX
from app.rest.schemas.acls import AclEntry
from app.rest.schemas.base import Answer, Body, ChangeBody, Name, TopicName, Validated


class TopicToDelete(Body):
    """A topic by its name."""

    topic_name: TopicName


class DeleteTopicsBody(ChangeBody):
    """The topics to delete, each once."""

    data: Annotated[tuple[TopicToDelete, ...], Field(min_length=1, max_length=ITEMS_MAX, strict=False)]


class GroupToDelete(Body):
    """A group by its id."""

    consumer_group_id: Name


class DeleteGroupsBody(ChangeBody):
    """The groups to delete, each once."""

    data: Annotated[tuple[GroupToDelete, ...], Field(min_length=1, max_length=ITEMS_MAX, strict=False)]


class DeleteAclsBody(ChangeBody):
    """The ACLs to delete, each once. None of their members is a filter."""

    data: Annotated[tuple[AclEntry, ...], Field(min_length=1, max_length=ITEMS_MAX, strict=False)]


class DeletionData(Answer):
    """The result of one item. The last three members are null where it was deleted, or would be.

    `metadata_offset` is the offset of the deletion, null for what is not in the metadata log.
    """

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None


class TopicDeletionData(DeletionData):
    """The result of one topic."""

    topic_name: str


class TopicDeletionDataList(Validated):
    """The result of each topic, in the order of the request."""

    kind: Literal["KafkaTopicDeletionList"]
    data: list[TopicDeletionData]


class GroupDeletionData(DeletionData):
    """The result of one group."""

    consumer_group_id: str


class GroupDeletionDataList(Validated):
    """The result of each group, in the order of the request."""

    kind: Literal["KafkaConsumerGroupDeletionList"]
    data: list[GroupDeletionData]


class AclDeletionData(DeletionData):
    """The result of one ACL."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclDeletionDataList(Validated):
    """The result of each ACL, in the order of the request."""

    kind: Literal["KafkaAclDeletionList"]
    data: list[AclDeletionData]
