"""ACLs: created and deleted through the active controller, and read from the image."""

from collections.abc import Sequence

import msgspec

from app.cluster.changes import Changes, only, raise_for
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.messages import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kraft_core.protocol.metadata_records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)


class AclAdmin(Changes):
    """Changes of ACLs."""

    async def create(self, acls: Sequence[StandardAcl], *, validate_only: bool = False) -> int | None:
        """Create ACLs. Existing ones stay as they are. Returns the offset, None when only validated.

        Raises KafkaError SECURITY_DISABLED without an authorizer, INVALID_REQUEST for an invalid ACL: the error is that
        of the first refused ACL, and the others may have been created.
        """
        request = CreateAclsRequest(
            creations=tuple(
                CreateAclsRequestAclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
                for acl in acls
            )
        )
        before = self._history.newest_offset
        if validate_only:
            await self._check_authorizer()
        answer = await self._ask(request, CreateAclsResponse, dry_run=validate_only)
        offset = None if validate_only else await self._committed_of(before, AccessControlEntryRecord)
        for result in answer.results:
            raise_for(result.error_code, result.error_message)
        return offset

    async def delete(self, wanted: AclFilter, *, validate_only: bool = False) -> tuple[int | None, list[StandardAcl]]:
        """Delete every ACL that matches the filter. Returns the offset, None when only validated, and the deleted ACLs.

        Raises KafkaError SECURITY_DISABLED, INVALID_REQUEST.
        """
        request = DeleteAclsRequest(
            filters=(
                DeleteAclsRequestDeleteAclsFilter(
                    resource_type_filter=wanted.resource_type,
                    resource_name_filter=wanted.resource_name,
                    pattern_type_filter=wanted.pattern_type,
                    principal_filter=wanted.principal,
                    host_filter=wanted.host,
                    operation=wanted.operation,
                    permission_type=wanted.permission_type,
                ),
            )
        )
        before = self._history.newest_offset
        if validate_only:
            await self._check_authorizer()
        result = only((await self._ask(request, DeleteAclsResponse, dry_run=validate_only)).filter_results)
        raise_for(result.error_code, result.error_message)
        deleted = [
            StandardAcl(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in result.matching_acls
            if not acl.error_code
        ]
        return None if validate_only else await self._committed_of(before, RemoveAccessControlEntryRecord), deleted

    async def _check_authorizer(self) -> None:
        """Raise KafkaError SECURITY_DISABLED when the cluster has no authorizer; it refuses listings then, too."""
        request = DescribeAclsRequest(
            resource_type_filter=ResourceType.CLUSTER,
            pattern_type_filter=PatternType.LITERAL,
            operation=AclOperation.ALTER,
            permission_type=AclPermissionType.ALLOW,
            resource_name_filter=CLUSTER_NAME,
            principal_filter=None,
            host_filter=None,
        )
        answer = await self._ask(request, DescribeAclsResponse)
        raise_for(answer.error_code, answer.error_message)

    async def _committed_of(self, before: int, kind: type[MetadataRecord]) -> int:
        return await self._committed(before, lambda record: isinstance(record, kind))


def acls_of(image: MetadataImage, wanted: AclFilter) -> list[StandardAcl]:
    """Return the ACLs that match the filter, sorted by their fields."""
    return sorted(image.acls.matching(wanted), key=msgspec.structs.astuple)
