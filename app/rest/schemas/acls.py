"""Bodies and answers about ACLs."""

from typing import Annotated, Literal

from pydantic import Field

from app.rest.schemas.base import CONFIGS_MAX, Body, ChangeBody, ListOf, Name, Resource, Validated


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


class AclData(Resource):
    """An ACL."""

    kind: Literal["KafkaAcl"]
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclDataList(ListOf[AclData]):
    """ACLs."""

    kind: Literal["KafkaAclList"]


class DeletedAclsData(Validated):
    """The deleted ACLs."""

    data: list[AclData]
