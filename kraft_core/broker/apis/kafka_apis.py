"""The dispatch of the broker's requests to the handlers of their subjects.

ApiVersions advertises exactly the entries of `SERVED`. Any other request closes the connection, as in Kafka.

Source: KafkaApis, Kafka 4.3.1.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from kraft_core.broker.apis.api_versions import ApiVersionsHandler
from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.describe import DescribeHandler
from kraft_core.broker.apis.fetch import FetchHandler
from kraft_core.broker.apis.forwarding import ForwardingHandler
from kraft_core.broker.apis.groups import GroupsHandler
from kraft_core.broker.apis.metadata import MetadataHandler
from kraft_core.broker.apis.offset_fetch import OffsetFetchHandler
from kraft_core.broker.apis.offsets import OffsetsHandler
from kraft_core.broker.apis.produce import ProduceHandler
from kraft_core.broker.apis.producer_id import ProducerIdHandler
from kraft_core.broker.slices import Work
from kraft_core.protocol.api_keys import APIS, ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupHeartbeatResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.server.network.request import Request

log = logging.getLogger(__name__)

LOCAL: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
"""APIs that this broker answers."""

REFUSED: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
"""APIs answered with UNSUPPORTED_VERSION, as in Kafka at group.version 0."""

FORWARDED: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
)
"""APIs that the active controller answers."""

SERVED: Final[dict[int, tuple[int, int]]] = {
    int(key): (APIS[key].min_version, APIS[key].max_version) for key in (*LOCAL, *REFUSED, *FORWARDED)
}
"""Versions (first, last) by API key."""

_NO_HANDSHAKE: Final = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
_NO_AUTHENTICATION: Final = SaslAuthenticateResponse(
    error_code=ErrorCode.ILLEGAL_SASL_STATE,
    error_message="SaslAuthenticate request received after successful authentication",
)
"""Logins end before a request is dispatched (see `server.network.sasl_session`)."""

_NO_CONSUMER_PROTOCOL: Final = ConsumerGroupHeartbeatResponse(
    error_code=ErrorCode.UNSUPPORTED_VERSION,
    error_message="This broker serves the classic group protocol only: set group.protocol=classic.",
)
"""Answered, since a client that misses the API in ApiVersions may retry without reporting it, as librdkafka does."""

_DECODED_BYTES_PER_BYTE: Final = 8
"""Memory of a large request's decoded body and its answer in relation to the request's size."""

Answer = Callable[[Any, Request], Message]


def _decoded(request: Request, answer: Callable[[Any, Request], Work[None]]) -> Work[None]:
    """Decode a request and answer it. A large one waits for memory first, so that few are decoded at the same time."""
    held = request.size * _DECODED_BYTES_PER_BYTE if request.is_large else 0
    if held:
        yield held
    for needed in answer(request.take_body(), request):
        yield needed + held if needed else 0


def _undescribed(body: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Refuse every group: none uses the consumer protocol. Admin clients then describe it as a classic group."""
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            ConsumerGroupDescribeResponseDescribedGroup(
                group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=None
            )
            for group_id in body.group_ids
        )
    )


class KafkaApis:
    """The request handler of the broker's listeners."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._api_versions = ApiVersionsHandler(context, SERVED)
        self.api_versions = self._api_versions.answers
        self._fetch = FetchHandler(context)
        self._produce = ProduceHandler(context)
        self._offsets = OffsetsHandler(context)
        self._forwarding = ForwardingHandler(context)
        self._groups = GroupsHandler(context)
        self._producer_ids = ProducerIdHandler(context)
        self._whole: dict[int, Callable[[Request], None]] = {
            ApiKey.PRODUCE: self._produce.handle,
            ApiKey.FETCH: self._fetch.handle,
            ApiKey.API_VERSIONS: self._api_versions.handle,
            **dict.fromkeys(FORWARDED, self._forwarding.handle),
        }
        self._metadata = MetadataHandler(context)
        self._describe = DescribeHandler(context)
        self._sliced: dict[int, Callable[[Any, Request], Work[None]]] = {
            ApiKey.LIST_OFFSETS: self._offsets.list_offsets,
            ApiKey.METADATA: self._metadata.metadata,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._metadata.describe_topic_partitions,
            ApiKey.DESCRIBE_CONFIGS: self._describe.configs,
            ApiKey.DESCRIBE_LOG_DIRS: self._describe.log_dirs,
            ApiKey.DESCRIBE_GROUPS: self._groups.describe,
            ApiKey.LIST_GROUPS: self._groups.list,
            ApiKey.OFFSET_FETCH: OffsetFetchHandler(context).handle,
        }
        self._deferred: dict[int, Callable[[Any, Request], None]] = {
            ApiKey.JOIN_GROUP: self._groups.join,
            ApiKey.SYNC_GROUP: self._groups.sync,
            ApiKey.INIT_PRODUCER_ID: self._producer_ids.handle,
            ApiKey.DELETE_RECORDS: self._offsets.delete_records,
        }
        self._direct = self._direct_answers()

    def _direct_answers(self) -> dict[int, Answer]:
        groups, metadata = self._groups, self._metadata
        offsets, describe = self._offsets, self._describe
        return {
            ApiKey.OFFSET_COMMIT: groups.commit,
            ApiKey.FIND_COORDINATOR: groups.find_coordinator,
            ApiKey.HEARTBEAT: lambda body, request: groups.heartbeat(body),
            ApiKey.LEAVE_GROUP: lambda body, request: groups.leave(body, request.header.api_version),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda body, request: offsets.offset_for_leader_epoch(body),
            ApiKey.DELETE_GROUPS: lambda body, request: groups.delete(body),
            ApiKey.OFFSET_DELETE: lambda body, request: groups.delete_offsets(body),
            ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
            ApiKey.DESCRIBE_PRODUCERS: lambda body, request: offsets.describe_producers(body),
            ApiKey.LIST_CONFIG_RESOURCES: lambda body, request: describe.config_resources(
                body, request.header.api_version
            ),
            ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda body, request: _NO_CONSUMER_PROTOCOL,
            ApiKey.CONSUMER_GROUP_DESCRIBE: lambda body, request: _undescribed(body),
            ApiKey.SASL_HANDSHAKE: lambda body, request: _NO_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE: lambda body, request: _NO_AUTHENTICATION,
        }

    def handle(self, request: Request) -> None:
        """Handle one request. Raises KafkaError for a malformed one, which closes its connection."""
        header = request.header
        versions = SERVED.get(header.api_key)
        supported = versions is not None and versions[0] <= header.api_version <= versions[1]
        if not supported and header.api_key != ApiKey.API_VERSIONS:
            request.close(f"api {header.api_key} version {header.api_version} is not served here")
            return
        whole = self._whole.get(header.api_key)
        if whole is not None:
            whole(request)
            return
        sliced = self._sliced.get(header.api_key)
        if sliced is not None:
            self._context.work(request, _decoded(request, sliced))
            return
        body = request.take_body()
        deferred = self._deferred.get(header.api_key)
        if deferred is not None:
            deferred(body, request)
            return
        answer = self._direct[header.api_key](body, request)
        try:
            request.respond(answer)
        except KafkaError as error:
            extra = {"api_key": header.api_key, "version": header.api_version, "cause": str(error)}
            log.error("answer_not_encodable", extra=extra)  # noqa: TRY400 # the cause is enough
            request.close("the answer cannot be written in this version")

    def close(self) -> None:
        """Stop the reading threads."""
        self._fetch.close()
