"""Bodies and answers of deletions of several resources."""

from typing import Annotated, Literal

from pydantic import Field

from app.actions.each import ITEMS_MAX
from app.rest.schemas.acls import AclEntry, AclResult
from app.rest.schemas.base import Body, ChangeBody, ItemResult, Name, TopicName, Validated


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


class TopicDeletionData(ItemResult):
    """The result of one topic."""

    topic_name: str


class TopicDeletionDataList(Validated):
    """The result of each topic, in the order of the request."""

    kind: Literal["KafkaTopicDeletionList"]
    data: list[TopicDeletionData]


class GroupDeletionData(ItemResult):
    """The result of one group."""

    consumer_group_id: str


class GroupDeletionDataList(Validated):
    """The result of each group, in the order of the request."""

    kind: Literal["KafkaConsumerGroupDeletionList"]
    data: list[GroupDeletionData]


class AclDeletionData(AclResult):
    """The result of one ACL."""


class AclDeletionDataList(Validated):
    """The result of each ACL, in the order of the request."""

    kind: Literal["KafkaAclDeletionList"]
    data: list[AclDeletionData]
