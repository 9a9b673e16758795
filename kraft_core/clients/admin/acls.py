"""Admin's operations on ACLs. Source: KafkaAdminClient, AclBinding, AclBindingFilter of Kafka 4.3.1; KIP-140."""

from collections.abc import Collection, Iterable

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    RequestContext,
    Results,
    error_of,
    single,
)
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

MatchingAcls = tuple[StandardAcl | KafkaError, ...]
"""The ACLs that a filter deleted, with an error in the place of one that could not be deleted."""


class AclCalls(AdminCalls):
    """ACLs."""

    async def describe_acls(self, acl_filter: AclFilter | None = None) -> list[StandardAcl]:
        """Return the ACLs that match a filter, or all. Raises KafkaError, SECURITY_DISABLED without an authorizer."""

        def read(answer: DescribeAclsResponse) -> list[StandardAcl] | KafkaError:
            return error_of(answer.error_code, answer.error_message) or described_acls(answer)

        return await self.run_single(single(describe_acls_request(acl_filter or AclFilter()), read))

    async def create_acls(self, acls: Collection[StandardAcl]) -> Results[StandardAcl, None]:
        """Create ACLs, by ACL. Those that exist already are no failure."""

        def build(context: RequestContext[StandardAcl]) -> CreateAclsRequest:
            return create_acls_request(context.keys)

        def read(
            answer: CreateAclsResponse, context: RequestContext[StandardAcl]
        ) -> dict[StandardAcl, KafkaError | None]:
            errors = (error_of(each.error_code, each.error_message) for each in answer.results)
            return dict(zip(context.keys, errors, strict=False))  # an answer that is too short leaves keys out

        return await self.run(
            AdminCall(request=CreateAclsRequest, keys=acls, target=lambda _: CONTROLLER, build=build, read=read)
        )

    async def delete_acls(self, filters: Collection[AclFilter]) -> Results[AclFilter, MatchingAcls]:
        """Delete the ACLs that match filters, by filter."""

        def build(context: RequestContext[AclFilter]) -> DeleteAclsRequest:
            return delete_acls_request(context.keys)

        def read(
            answer: DeleteAclsResponse, context: RequestContext[AclFilter]
        ) -> dict[AclFilter, MatchingAcls | KafkaError]:
            return {
                wanted: error_of(each.error_code, each.error_message) or deleted_acls(each)
                for wanted, each in zip(context.keys, answer.filter_results, strict=False)
            }

        return await self.run(
            AdminCall(request=DeleteAclsRequest, keys=filters, target=lambda _: CONTROLLER, build=build, read=read)
        )


def describe_acls_request(wanted: AclFilter) -> DescribeAclsRequest:
    """Return the request for the ACLs that match a filter."""
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )


def described_acls(answer: DescribeAclsResponse) -> list[StandardAcl]:
    """Return the ACLs of an answer, in its order."""
    return [
        StandardAcl(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            pattern_type=resource.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission_type,
        )
        for resource in answer.resources
        for each in resource.acls
    ]


def create_acls_request(acls: Iterable[StandardAcl]) -> CreateAclsRequest:
    """Return the request that creates ACLs; its answer has their results in the same order."""
    return CreateAclsRequest(
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


def delete_acls_request(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    """Return the request that deletes what matches filters; its answer has their results in the same order."""
    return DeleteAclsRequest(
        filters=tuple(
            DeleteAclsRequestDeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            )
            for wanted in filters
        )
    )


def deleted_acls(found: DeleteAclsResponseDeleteAclsFilterResult) -> MatchingAcls:
    """Return what one filter of DeleteAcls deleted, in the answer's order."""
    return tuple(
        error_of(each.error_code, each.error_message)
        or StandardAcl(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission_type,
        )
        for each in found.matching_acls
    )
