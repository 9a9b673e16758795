"""ACLs: created and deleted through the active controller, and read from the image."""

from collections.abc import Mapping, Sequence

import msgspec

from app.cluster.changes import Changes, all_of, raise_for
from app.texts import phrase
from kraft_core.clients.admin.acls import (
    create_acls_request,
    delete_acls_request,
    deleted_acls,
    describe_acls_request,
)
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.standard_authorizer import parse_principal
from kraft_core.protocol.acl import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    parse_acl_word,
)
from kraft_core.protocol.messages import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
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
        before = self._history.newest_offset
        if validate_only:
            await self._check_authorizer()
        answer = await self._ask(create_acls_request(acls), CreateAclsResponse, dry_run=validate_only)
        offset = None if validate_only else await self._committed_of(before, AccessControlEntryRecord)
        for result in answer.results:
            raise_for(result.error_code, result.error_message)
        return offset

    async def delete(self, *wanted: AclFilter, validate_only: bool = False) -> tuple[int | None, list[StandardAcl]]:
        """Delete every ACL that matches a filter. Returns the offset, None when only validated, and the deleted ACLs.

        Raises KafkaError SECURITY_DISABLED, INVALID_REQUEST: the error is that of the first refused filter, and what
        the others match may have been deleted.
        """
        before = self._history.newest_offset
        if validate_only:
            await self._check_authorizer()
        answer = await self._ask(delete_acls_request(wanted), DeleteAclsResponse, dry_run=validate_only)
        results = all_of(len(wanted), answer.filter_results)
        for result in results:
            raise_for(result.error_code, result.error_message)
        deleted = [acl for result in results for acl in deleted_acls(result) if isinstance(acl, StandardAcl)]
        return None if validate_only else await self._committed_of(before, RemoveAccessControlEntryRecord), deleted

    async def _check_authorizer(self) -> None:
        """Raise KafkaError SECURITY_DISABLED when the cluster has no authorizer; it refuses listings then, too."""
        cluster_acls = AclFilter(
            resource_type=ResourceType.CLUSTER,
            resource_name=CLUSTER_NAME,
            pattern_type=PatternType.LITERAL,
            operation=AclOperation.ALTER,
            permission_type=AclPermissionType.ALLOW,
        )
        answer = await self._ask(describe_acls_request(cluster_acls), DescribeAclsResponse)
        raise_for(answer.error_code, answer.error_message)

    async def _committed_of(self, before: int, kind: type[MetadataRecord]) -> int:
        return await self._committed(before, lambda record: isinstance(record, kind))


def acls_of(image: MetadataImage, wanted: AclFilter) -> list[StandardAcl]:
    """Return the ACLs that match the filter, sorted by their fields."""
    return sorted(image.acls.matching(wanted), key=msgspec.structs.astuple)


def filter_of(acl: StandardAcl) -> AclFilter:
    """Return the filter that only this ACL matches."""
    return AclFilter(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def wrong_principal(name: str) -> str:
    """Return what is wrong with the principal of an ACL, "" for nothing."""
    try:
        parse_principal(name)
    except ValueError:
        return phrase("The principal must be TYPE:NAME, as in User:alice (was '%(name)s').", name=name)
    return ""


def words_of(acl: StandardAcl) -> dict[str, str]:
    """Return the members of an ACL in the words of REST v3."""
    return {
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": AclOperation(acl.operation).name,
        "permission": AclPermissionType(acl.permission_type).name,
    }


def acl_of(given: Mapping[str, str]) -> StandardAcl:
    """Return the ACL with these members in words, in any case.

    Raises KafkaError INVALID_REQUEST for an unknown word and for one of filters.
    """
    return StandardAcl(
        resource_type=parse_acl_word(ResourceType, given.get("resource_type", ""), "resource_type"),
        resource_name=given.get("resource_name", ""),
        pattern_type=parse_acl_word(PatternType, given.get("pattern_type", ""), "pattern_type"),
        principal=given.get("principal", ""),
        host=given.get("host", ""),
        operation=parse_acl_word(AclOperation, given.get("operation", ""), "operation"),
        permission_type=parse_acl_word(AclPermissionType, given.get("permission", ""), "permission"),
    )
