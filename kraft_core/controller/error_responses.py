"""Error responses: the error in the fields where each response has them, at the top level or in every item.

Available for every request of a controller's listener, so that the server can respond to a request it does not pass on.
Source: getErrorResponse of Kafka's request classes, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft_core.protocol import messages as m
from kraft_core.protocol.api_keys import response_class
from kraft_core.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraft_core.protocol.wire import Message


def error_response(request: Message, version: int, code: int, message: str | None = None) -> Message:
    """Return the response to `request` with the error in every error field.

    `message` fills the error message fields; it is omitted for UNKNOWN_SERVER_ERROR, so that no internals leak.
    Raises KeyError for a request without response class.
    """
    text = None if code == ErrorCode.UNKNOWN_SERVER_ERROR else message
    maker = _MAKERS.get(type(request))
    if maker is not None:
        return maker(request, version, int(code), text)
    return _top_level(request, int(code), text)


def _top_level(request: Message, code: int, text: str | None) -> Message:
    """Return a response that has one error_code, and perhaps an error_message."""
    response = response_class(type(request).API_KEY)
    fields: dict[str, Any] = {"error_code": code}
    if "error_message" in response.__struct_fields__:
        fields["error_message"] = text
    return response(**fields)


def _create_topics(request: m.CreateTopicsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.CreateTopicsResponseCreatableTopicResult
    return m.CreateTopicsResponse(
        topics=tuple(result(name=topic.name, error_code=code, error_message=text) for topic in request.topics)
    )


def _delete_topics(request: m.DeleteTopicsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.DeleteTopicsResponseDeletableTopicResult
    results = [result(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics]
    results += [result(name=name, error_code=code) for name in request.topic_names]
    return m.DeleteTopicsResponse(responses=tuple(results))


def _create_partitions(request: m.CreatePartitionsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.CreatePartitionsResponseCreatePartitionsTopicResult
    return m.CreatePartitionsResponse(
        results=tuple(result(name=topic.name, error_code=code, error_message=text) for topic in request.topics)
    )


def _alter_configs(request: m.AlterConfigsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.AlterConfigsResponseAlterConfigsResourceResponse
    return m.AlterConfigsResponse(
        responses=tuple(
            result(
                error_code=code, error_message=text, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        )
    )


def _incremental_alter_configs(
    request: m.IncrementalAlterConfigsRequest, version: int, code: int, text: str | None
) -> Message:
    result = m.IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    return m.IncrementalAlterConfigsResponse(
        responses=tuple(
            result(
                error_code=code, error_message=text, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        )
    )


def _describe_configs(request: m.DescribeConfigsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.DescribeConfigsResponseDescribeConfigsResult
    return m.DescribeConfigsResponse(
        results=tuple(
            result(
                error_code=code, error_message=text, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        )
    )


def _elect_leaders(request: m.ElectLeadersRequest, version: int, code: int, text: str | None) -> Message:
    result = m.ElectLeadersResponsePartitionResult
    return m.ElectLeadersResponse(
        error_code=code if version >= 1 else 0,
        replica_election_results=tuple(
            m.ElectLeadersResponseReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    result(partition_id=index, error_code=code, error_message=text) for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def _alter_partition_reassignments(
    request: m.AlterPartitionReassignmentsRequest, version: int, code: int, text: str | None
) -> Message:
    result = m.AlterPartitionReassignmentsResponseReassignablePartitionResponse
    return m.AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=tuple(
            m.AlterPartitionReassignmentsResponseReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    result(partition_index=each.partition_index, error_code=code, error_message=text)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _list_partition_reassignments(
    request: m.ListPartitionReassignmentsRequest, version: int, code: int, text: str | None
) -> Message:
    ongoing = m.ListPartitionReassignmentsResponseOngoingPartitionReassignment
    return m.ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        topics=tuple(
            m.ListPartitionReassignmentsResponseOngoingTopicReassignment(
                name=topic.name, partitions=tuple(ongoing(partition_index=index) for index in topic.partition_indexes)
            )
            for topic in request.topics or ()
        ),
    )


def _alter_client_quotas(request: m.AlterClientQuotasRequest, version: int, code: int, text: str | None) -> Message:
    part = m.AlterClientQuotasResponseEntityData
    return m.AlterClientQuotasResponse(
        entries=tuple(
            m.AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=text,
                entity=tuple(part(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity),
            )
            for entry in request.entries
        )
    )


def _alter_user_scram_credentials(
    request: m.AlterUserScramCredentialsRequest, version: int, code: int, text: str | None
) -> Message:
    users = {each.name for each in request.deletions} | {each.name for each in request.upsertions}
    result = m.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult
    return m.AlterUserScramCredentialsResponse(
        results=tuple(result(user=user, error_code=code, error_message=text) for user in sorted(users))
    )


def _describe_user_scram_credentials(
    request: m.DescribeUserScramCredentialsRequest, version: int, code: int, text: str | None
) -> Message:
    result = m.DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult
    return m.DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=text,
        results=(result(error_code=code, error_message=text),)
        * len(request.users or ()),  # without user names, as in Kafka
    )


def _create_acls(request: m.CreateAclsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.CreateAclsResponseAclCreationResult(error_code=code, error_message=text)
    return m.CreateAclsResponse(results=(result,) * len(request.creations))


def _delete_acls(request: m.DeleteAclsRequest, version: int, code: int, text: str | None) -> Message:
    result = m.DeleteAclsResponseDeleteAclsFilterResult(error_code=code, error_message=text)
    return m.DeleteAclsResponse(filter_results=(result,) * len(request.filters))


def _create_delegation_token(
    request: m.CreateDelegationTokenRequest, version: int, code: int, text: str | None
) -> Message:
    return m.CreateDelegationTokenResponse(
        error_code=code,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User" if version >= 3 else "",
        token_requester_principal_name="ANONYMOUS" if version >= 3 else "",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def _api_versions(request: m.ApiVersionsRequest, version: int, code: int, text: str | None) -> Message:
    keys: tuple[m.ApiVersionsResponseApiVersion, ...] = ()
    if code == ErrorCode.UNSUPPORTED_VERSION:
        low, high = m.ApiVersionsRequest.VERSIONS
        keys = (m.ApiVersionsResponseApiVersion(api_key=18, min_version=low, max_version=high),)
    return m.ApiVersionsResponse(error_code=code, api_keys=keys)


def _fetch(request: m.FetchRequest, version: int, code: int, text: str | None) -> Message:
    """Return the error at the top level and, before v13, in every partition, where older clients look for it."""
    topics: tuple[m.FetchResponseFetchableTopicResponse, ...] = ()
    if version < 13:
        topics = tuple(
            m.FetchResponseFetchableTopicResponse(
                topic=topic.topic,
                partitions=tuple(
                    m.FetchResponsePartitionData(
                        partition_index=each.partition, error_code=code, high_watermark=-1, records=b""
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    return m.FetchResponse(error_code=code, session_id=request.session_id, responses=topics)


_MAKERS: Final[dict[type, Callable[[Any, int, int, str | None], Message]]] = {
    m.CreateTopicsRequest: _create_topics,
    m.DeleteTopicsRequest: _delete_topics,
    m.CreatePartitionsRequest: _create_partitions,
    m.AlterConfigsRequest: _alter_configs,
    m.IncrementalAlterConfigsRequest: _incremental_alter_configs,
    m.DescribeConfigsRequest: _describe_configs,
    m.ElectLeadersRequest: _elect_leaders,
    m.AlterPartitionReassignmentsRequest: _alter_partition_reassignments,
    m.ListPartitionReassignmentsRequest: _list_partition_reassignments,
    m.AlterClientQuotasRequest: _alter_client_quotas,
    m.AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    m.DescribeUserScramCredentialsRequest: _describe_user_scram_credentials,
    m.CreateAclsRequest: _create_acls,
    m.DeleteAclsRequest: _delete_acls,
    m.CreateDelegationTokenRequest: _create_delegation_token,
    m.ApiVersionsRequest: _api_versions,
    m.FetchRequest: _fetch,
}
"""Responses that have errors in other fields than one error_code at the top level."""
