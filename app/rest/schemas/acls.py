"""Bodies and answers about ACLs."""

from typing import Annotated, Final, Literal

from pydantic import Field

from app.actions.acls import ImportChange
from app.cluster.acl_presets import INTERNAL_TOPICS, Preset
from app.rest.schemas.base import CONFIGS_MAX, Answer, Body, ChangeBody, ItemResult, ListOf, Name, Resource, Validated

APPLICATION_TOPICS_MAX: Final = 100


class AclEntry(Body):
    """An ACL of a request. Words are those of REST v3, in any case."""

    resource_type: str
    resource_name: Name
    pattern_type: str
    principal: Name
    host: Name = "*"
    operation: str
    permission: str


class CreateAclBody(AclEntry, ChangeBody):
    """CreateAclRequestData of REST v3."""


class CreateAclsBody(ChangeBody):
    """ACLs to create in one request."""

    data: Annotated[tuple[AclEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


class ImportAclsBody(CreateAclsBody):
    """The ACLs that are to exist. With `remove_others`, all others are deleted."""

    remove_others: bool = False


class ApplicationBody(ChangeBody):
    """An application whose ACLs are created, as kafka-acls does with --producer and --consumer.

    Connect needs its group, its three internal topics and, for sinks, the names of the connectors.
    """

    preset: Preset
    principal: Name
    host: Name = "*"
    read_topics: Annotated[tuple[Name, ...], Field(max_length=APPLICATION_TOPICS_MAX, strict=False)] = ()
    write_topics: Annotated[tuple[Name, ...], Field(max_length=APPLICATION_TOPICS_MAX, strict=False)] = ()
    prefixed: bool = False
    group: Name = ""
    transactional_id: Name = ""
    idempotent: bool = False
    application_id: Name = ""
    exactly_once: bool = False
    internal_topics: Annotated[tuple[Name, ...], Field(max_length=INTERNAL_TOPICS, strict=False)] = ()
    connectors: Annotated[tuple[Name, ...], Field(max_length=APPLICATION_TOPICS_MAX, strict=False)] = ()


class AclFields(Answer):
    """The members of an ACL in the words of REST v3."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclData(AclFields, Resource):
    """An ACL."""

    kind: Literal["KafkaAcl"]


class AclDataList(ListOf[AclData]):
    """ACLs."""

    kind: Literal["KafkaAclList"]


class DeletedAclsData(Validated):
    """The deleted ACLs."""

    data: list[AclData]


class AclResult(AclFields, ItemResult):
    """The result of one ACL."""


class ImportedAclData(AclResult):
    """An ACL of an import: created, left as it was, or deleted."""

    change: ImportChange


class AclImportData(Validated):
    """The result of each listed ACL, in the order of the request, then of the deleted ones; and their numbers."""

    kind: Literal["KafkaAclImport"]
    created_count: int
    unchanged_count: int
    deleted_count: int
    refused_count: int
    data: list[ImportedAclData]
