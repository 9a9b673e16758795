"""Creation, deletion and listing of ACLs. The authorizer has checked the sender's rights before.

Source: AclControlManager, AclApis, ClusterMetadataAuthorizer, CreateAclsRequest, DeleteAclsRequest, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.controller.controller_result import MAX_RECORDS_PER_USER_OP, ControllerResult
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.image_writer import acl_record
from kraft_core.protocol.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateAclsResponse,
    CreateAclsResponseAclCreationResult,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DeleteAclsResponseDeleteAclsMatchingAcl,
    DescribeAclsResponse,
    DescribeAclsResponseAclDescription,
    DescribeAclsResponseDescribeAclsResource,
)
from kraft_core.protocol.metadata_records import RemoveAccessControlEntryRecord
from kraft_core.protocol.uuids import random_uuid

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from kraft_core.image.acls_image import Pattern
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.standard_authorizer import StandardAuthorizer
    from kraft_core.protocol.messages import (
        CreateAclsRequest,
        CreateAclsRequestAclCreation,
        DeleteAclsRequest,
        DeleteAclsRequestDeleteAclsFilter,
        DescribeAclsRequest,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, random: Random
) -> ControllerResult[CreateAclsResponse]:
    """Create ACLs independently of each other. An ACL that exists, or is repeated, succeeds without a record.

    Each new ACL gets a unique id. Error of an ACL: INVALID_REQUEST for an unknown type, pattern or operation, an empty
    name, a cluster other than "kafka-cluster", a principal without a colon.
    Raises KafkaError UNKNOWN_SERVER_ERROR if any ACL has ANY, MATCH or 0 for a type, which Kafka cannot read.
    """
    for creation in request.creations:
        _check_can_be_an_acl(creation)
    records: list[MetadataRecord] = []
    results: list[CreateAclsResponseAclCreationResult] = []
    new: set[StandardAcl] = set()
    ids: set[UUID] = set()
    for creation in request.creations:
        try:
            acl = _valid_acl(creation)
        except KafkaError as error:
            results.append(CreateAclsResponseAclCreationResult(error_code=error.code, error_message=error.message))
            continue
        results.append(CreateAclsResponseAclCreationResult())
        if acl not in new and not image.acls.contains(acl):
            new.add(acl)
            ids.add(acl_id := _new_id(image, ids, random))
            records.append(acl_record(acl_id, acl))
    return ControllerResult.atomic_of(records, CreateAclsResponse(results=tuple(results)))


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Delete the ACLs that match any filter; a filter without match is no error.

    Error of a filter: INVALID_REQUEST for an unknown type, pattern or operation. Raises KafkaError: INVALID_REQUEST if
    too many ACLs match, UNKNOWN_SERVER_ERROR for a filter with a 0, which Kafka cannot read.
    """
    for each in request.filters:
        if 0 in {each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type}:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Filters contain UNKNOWN elements.")
    doomed: set[StandardAcl] = set()
    results: list[DeleteAclsResponseDeleteAclsFilterResult] = []
    for each in request.filters:
        try:
            wanted = _valid_filter(each)
        except KafkaError as error:
            results.append(DeleteAclsResponseDeleteAclsFilterResult(error_code=error.code, error_message=error.message))
            continue
        matching = sorted(image.acls.matching(wanted), key=_order)
        doomed.update(matching)
        results.append(
            DeleteAclsResponseDeleteAclsFilterResult(error_message=None, matching_acls=tuple(map(_matching, matching)))
        )
    ids = [acl_id for acl_id, acl in image.acls.by_id.items() if acl in doomed] if doomed else []
    if len(ids) > MAX_RECORDS_PER_USER_OP:
        raise _invalid(f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single delete operation.")
    records: list[MetadataRecord] = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids]
    return ControllerResult.atomic_of(records, DeleteAclsResponse(filter_results=tuple(results)))


def describe_acls(
    image: MetadataImage, request: DescribeAclsRequest, authorizer: StandardAuthorizer | None
) -> DescribeAclsResponse:
    """List the ACLs that match the filter, grouped by resource pattern and sorted.

    An unknown number matches nothing. Raises KafkaError: SECURITY_DISABLED without an authorizer,
    UNKNOWN_SERVER_ERROR for a filter with a 0, which Kafka cannot read.
    """
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    if 0 in {request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type}:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeAclsRequest contains UNKNOWN elements.")
    wanted = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )
    found: dict[Pattern, set[StandardAcl]] = {}
    for acl in image.acls.matching(wanted):
        found.setdefault(acl.pattern, set()).add(acl)
    return DescribeAclsResponse(resources=tuple(_resource(*pattern, found[pattern]) for pattern in sorted(found)))


def _check_can_be_an_acl(creation: CreateAclsRequestAclCreation) -> None:
    """Raise KafkaError UNKNOWN_SERVER_ERROR for values that Kafka's request class cannot hold."""
    types = creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
    if 0 in types or 1 in types or creation.resource_pattern_type == PatternType.MATCH:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "An ACL cannot have ANY, MATCH or UNKNOWN for a type.")


def _valid_acl(creation: CreateAclsRequestAclCreation) -> StandardAcl:
    name = creation.resource_name
    if creation.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if not ResourceType(creation.resource_type):
        raise _invalid("Invalid resourceType UNKNOWN")
    if not PatternType(creation.resource_pattern_type):
        raise _invalid("Invalid patternType UNKNOWN")
    if not AclOperation(creation.operation):
        raise _invalid("Invalid operation UNKNOWN")
    if not AclPermissionType(creation.permission_type):
        raise _invalid("Invalid permissionType UNKNOWN")
    if ":" not in creation.principal:
        raise _invalid(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return StandardAcl(
        resource_type=creation.resource_type,
        resource_name=name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _valid_filter(each: DeleteAclsRequestDeleteAclsFilter) -> AclFilter:
    if not ResourceType(each.resource_type_filter) or not PatternType(each.pattern_type_filter):
        raise _invalid("Unknown patternFilter.")
    if not AclOperation(each.operation) or not AclPermissionType(each.permission_type):
        raise _invalid("Unknown entryFilter.")
    return AclFilter(
        resource_type=each.resource_type_filter,
        resource_name=each.resource_name_filter,
        pattern_type=each.pattern_type_filter,
        principal=each.principal_filter,
        host=each.host_filter,
        operation=each.operation,
        permission_type=each.permission_type,
    )


def _new_id(image: MetadataImage, taken: set[UUID], random: Random) -> UUID:
    while True:
        drawn = random_uuid(random)
        if drawn not in image.acls.by_id and drawn not in taken:
            return drawn


def _matching(acl: StandardAcl) -> DeleteAclsResponseDeleteAclsMatchingAcl:
    return DeleteAclsResponseDeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _resource(
    resource_type: int, pattern_type: int, name: str, acls: set[StandardAcl]
) -> DescribeAclsResponseDescribeAclsResource:
    return DescribeAclsResponseDescribeAclsResource(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        acls=tuple(
            DescribeAclsResponseAclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
            for acl in sorted(acls, key=_order)
        ),
    )


def _order(acl: StandardAcl) -> tuple[Pattern, str, str, int, int]:
    return acl.pattern, acl.principal, acl.host, acl.operation, acl.permission_type


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
