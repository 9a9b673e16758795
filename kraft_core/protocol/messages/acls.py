"""Access control entries (KIP-140).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeAclsRequest(Message):
    """Ask for the ACLs that match a filter; apiKey 29, v1-3. Source: DescribeAclsRequest.json."""

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    resource_type_filter: Annotated[int, wire("int8")] = 0
    resource_name_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    pattern_type_filter: Annotated[int, wire("int8")] = 3
    principal_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    host_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class DescribeAclsResponseAclDescription(Message):
    """An element of DescribeAclsResponse.resources[].acls."""

    principal: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class DescribeAclsResponseDescribeAclsResource(Message):
    """An element of DescribeAclsResponse.resources."""

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    pattern_type: Annotated[int, wire("int8")] = 3
    acls: Annotated[tuple[DescribeAclsResponseAclDescription, ...], wire("[]AclDescription")] = ()


class DescribeAclsResponse(Message):
    """ACLs by resource; apiKey 29, v1-3. Source: DescribeAclsResponse.json."""

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    resources: Annotated[tuple[DescribeAclsResponseDescribeAclsResource, ...], wire("[]DescribeAclsResource")] = ()


class CreateAclsRequestAclCreation(Message):
    """An element of CreateAclsRequest.creations."""

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    resource_pattern_type: Annotated[int, wire("int8")] = 3
    principal: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class CreateAclsRequest(Message):
    """Add ACLs; apiKey 30, v1-3. Source: CreateAclsRequest.json."""

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    creations: Annotated[tuple[CreateAclsRequestAclCreation, ...], wire("[]AclCreation")] = ()


class CreateAclsResponseAclCreationResult(Message):
    """An element of CreateAclsResponse.results."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class CreateAclsResponse(Message):
    """The ACLs added, one by one; apiKey 30, v1-3. Source: CreateAclsResponse.json."""

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[tuple[CreateAclsResponseAclCreationResult, ...], wire("[]AclCreationResult")] = ()


class DeleteAclsRequestDeleteAclsFilter(Message):
    """An element of DeleteAclsRequest.filters."""

    resource_type_filter: Annotated[int, wire("int8")] = 0
    resource_name_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    pattern_type_filter: Annotated[int, wire("int8")] = 3
    principal_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    host_filter: Annotated[str | None, wire("string", nullable_since=0)] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class DeleteAclsRequest(Message):
    """Delete the ACLs that match filters; apiKey 31, v1-3. Source: DeleteAclsRequest.json."""

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    filters: Annotated[tuple[DeleteAclsRequestDeleteAclsFilter, ...], wire("[]DeleteAclsFilter")] = ()


class DeleteAclsResponseDeleteAclsMatchingAcl(Message):
    """An element of DeleteAclsResponse.filter_results[].matching_acls."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    pattern_type: Annotated[int, wire("int8")] = 3
    principal: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class DeleteAclsResponseDeleteAclsFilterResult(Message):
    """An element of DeleteAclsResponse.filter_results."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    matching_acls: Annotated[tuple[DeleteAclsResponseDeleteAclsMatchingAcl, ...], wire("[]DeleteAclsMatchingAcl")] = ()


class DeleteAclsResponse(Message):
    """The ACLs deleted by each filter; apiKey 31, v1-3. Source: DeleteAclsResponse.json."""

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    filter_results: Annotated[
        tuple[DeleteAclsResponseDeleteAclsFilterResult, ...], wire("[]DeleteAclsFilterResult")
    ] = ()
