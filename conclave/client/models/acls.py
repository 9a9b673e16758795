"""Models of acls. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from msgspec import UNSET, UnsetType

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer, Body


class AclData(Answer, frozen=True, kw_only=True):
    """An ACL."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str
    kind: str


class AclDataList(Answer, frozen=True, kw_only=True):
    """ACLs."""

    metadata: ListMetadata
    data: list[AclData]
    kind: str


class AclDeletionData(Answer, frozen=True, kw_only=True):
    """The result of one ACL."""

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclDeletionDataList(Answer, frozen=True, kw_only=True):
    """The result of each ACL, in the order of the request."""

    validated: bool | None = None
    kind: str
    data: list[AclDeletionData]


class AclEntry(Body, frozen=True, kw_only=True):
    """An ACL of a request. Words are those of REST v3, in any case."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str | UnsetType = UNSET
    operation: str
    permission: str


class ImportedAclData(Answer, frozen=True, kw_only=True):
    """An ACL of an import: created, left as it was, or deleted."""

    metadata_offset: int | None
    error_code: int | None
    kafka_error: str | None
    message: str | None
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str
    change: str


class AclImportData(Answer, frozen=True, kw_only=True):
    """The result of each listed ACL, in the order of the request, then of the deleted ones; and their numbers."""

    validated: bool | None = None
    kind: str
    created_count: int
    unchanged_count: int
    deleted_count: int
    refused_count: int
    data: list[ImportedAclData]


class DeletedAclsData(Answer, frozen=True, kw_only=True):
    """The deleted ACLs."""

    validated: bool | None = None
    data: list[AclData]
