"""Who may do what in the cluster, and how much of it: ACLs, SCRAM users and client quotas."""

import secrets
from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.cluster.changes import Changes, only, raise_for
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SALT_BITS, ScramMechanism, salt_of
from kraft_core.protocol.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterClientQuotasResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
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
    ClientQuotaRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(entity type, name) pairs sorted by type; the name None is the type's default."""


class AccessAdmin(Changes):
    """Changes of ACLs, SCRAM users and client quotas. Passwords leave this process salted and hashed only."""

    async def create_acls(self, acls: Sequence[StandardAcl], *, validate_only: bool = False) -> int | None:
        """Create ACLs; one that is there already stays as it is. Answers None when it was only validated.

        Raises KafkaError SECURITY_DISABLED (no authorizer), INVALID_REQUEST: with the first that is refused, when others
        may have been created.
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

    async def delete_acls(
        self, wanted: AclFilter, *, validate_only: bool = False
    ) -> tuple[int | None, list[StandardAcl]]:
        """Delete every ACL that the filter fits; returns the offset, None for a dry run, and what was deleted.

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
        """Raise KafkaError SECURITY_DISABLED where there is no authorizer: a listing is refused then as a change is."""
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

    async def put_scram_user(
        self, name: str, mechanism: ScramMechanism, password: str, iterations: int, *, validate_only: bool = False
    ) -> int | None:
        """Set a user's password for one mechanism. Answers None when it was only validated.

        Raises KafkaError UNACCEPTABLE_CREDENTIAL for too few or too many iterations, UNSUPPORTED_VERSION below
        metadata.version 3.5-IV2.
        """
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:  # before a password is hashed for hours
            raise KafkaError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"iterations {iterations} is not between {MIN_ITERATIONS} and {MAX_ITERATIONS}.",
            )
        salt = salt_of(secrets.randbits(SALT_BITS))
        upsertion = AlterUserScramCredentialsRequestScramCredentialUpsertion(
            name=name,
            mechanism=mechanism.type,
            iterations=iterations,
            salt=salt,
            salted_password=mechanism.salted_password(password, salt, iterations),
        )
        request = AlterUserScramCredentialsRequest(upsertions=(upsertion,))
        return await self._alter_scram(
            request,
            lambda record: isinstance(record, UserScramCredentialRecord) and record.name == name,
            validate_only=validate_only,
        )

    async def delete_scram_user(
        self, name: str, mechanism: ScramMechanism, *, validate_only: bool = False
    ) -> int | None:
        """Take a user's password for one mechanism away. Answers None when it was only validated.

        Raises KafkaError RESOURCE_NOT_FOUND.
        """
        deletion = AlterUserScramCredentialsRequestScramCredentialDeletion(name=name, mechanism=mechanism.type)
        return await self._alter_scram(
            AlterUserScramCredentialsRequest(deletions=(deletion,)),
            lambda record: isinstance(record, RemoveUserScramCredentialRecord) and record.name == name,
            validate_only=validate_only,
        )

    async def _alter_scram(
        self,
        request: AlterUserScramCredentialsRequest,
        wanted: Callable[[MetadataRecord], bool],
        *,
        validate_only: bool,
    ) -> int | None:
        before = self._history.newest_offset
        answer = await self._ask(request, AlterUserScramCredentialsResponse, dry_run=validate_only)
        result = only(answer.results)
        raise_for(result.error_code, result.error_message)
        return None if validate_only else await self._committed(before, wanted)

    async def alter_client_quota(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> int | None:
        """Set quotas of one entity, None to take one away; all or none. Answers None when it was only validated.

        Raises KafkaError INVALID_REQUEST for an entity, a key or a value that Kafka does not know.
        """
        entry = AlterClientQuotasRequestEntryData(
            entity=tuple(
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
            ),
            ops=tuple(
                AlterClientQuotasRequestOpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in changes.items()
            ),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)
        before = self._history.newest_offset
        result = only((await self._ask(request, AlterClientQuotasResponse)).entries)
        raise_for(result.error_code, result.error_message)
        return None if validate_only else await self._committed_of(before, ClientQuotaRecord)

    async def _committed_of(self, before: int, kind: type[MetadataRecord]) -> int:
        return await self._committed(before, lambda record: isinstance(record, kind))


def acls_of(image: MetadataImage, wanted: AclFilter) -> list[StandardAcl]:
    """Return the ACLs that the filter fits, in the order of their fields."""
    return sorted(image.acls.matching(wanted), key=msgspec.structs.astuple)
