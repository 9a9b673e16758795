"""ControllerApis: the request handler of the controller listeners.

ApiVersions is answered at once, and so are APIs that need SASL or another listener. Every other request goes to the
node as an event and is answered when the node responds. An Envelope (KIP-590) is unwrapped: its request is handled like
any other, with the principal that the broker names, and the answer is wrapped again.

An API key or version that is not served closes the connection, as in Kafka, except for ApiVersions.
Source: ControllerApis, SimpleApiVersionManager, EnvelopeUtils and RequestContext of Kafka 4.3.1.
"""

import itertools
import logging
import struct
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, Protocol

import msgspec

from kraft_core.clients.kafka_client import says_not_active
from kraft_core.configs.config_resource import BROKER_LOGGER
from kraft_core.controller.controller_operations import is_empty_request
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.controller.error_responses import error_response
from kraft_core.node import ControllerRequest, NodeEvent
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.errors import DecodeError, ErrorCode, InvalidFrame, KafkaError
from kraft_core.protocol.framing import (
    RequestHeader,
    decode,
    decode_request_body,
    decode_request_header,
    encode_response,
)
from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    ApiVersionsRequest,
    BrokerHeartbeatRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DefaultPrincipalData,
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    ElectLeadersRequest,
    EnvelopeRequest,
    EnvelopeResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.raft.events import RequestReceived
from kraft_core.security.controller_authorization import ControllerAuthorization
from kraft_core.server.api_versions import ApiVersionsAnswers, controller_versions
from kraft_core.server.network.large_requests import LargeRequests
from kraft_core.server.network.request import Request
from kraft_core.server.runtime_logger_manager import RuntimeLoggerManager

log = logging.getLogger(__name__)

RAFT_APIS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
URGENT_APIS: Final[frozenset[int]] = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
    }
)
"""Requests that keep the quorum together and the brokers unfenced; handled before all others."""
FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
_ADMINISTRATIVE: Final = FORWARDABLE | {ApiKey.ENVELOPE}
_UNSERVED: Final[dict[int, ErrorCode]] = {
    ApiKey.SASL_HANDSHAKE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.SASL_AUTHENTICATE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ErrorCode.UNKNOWN_SERVER_ERROR,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of APIs that are always refused, since they need SASL or another listener."""
_WITH_DEADLINE: Final = (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
"""Requests whose timeout is observed; those of UpdateFeatures and ListPartitionReassignments are not, as in Kafka."""
_UNKNOWN: Final = 0
"""The number of UNKNOWN in the enums of ACLs."""

Answer = Callable[[Message], None]


class ControllerView(Protocol):
    """The interface of ControllerServer that ControllerApis uses."""

    def post(self, event: NodeEvent) -> None:
        """Pass an event to the node."""

    def now_ms(self) -> int:
        """Return the node's time."""


class ControllerApis:
    """The handler of the controller listeners."""

    def __init__(
        self,
        owner: ControllerView,
        api_versions: ApiVersionsAnswers,
        heartbeat_interval_ms: int,
        loggers: RuntimeLoggerManager,
        authorization: ControllerAuthorization | None = None,
    ) -> None:
        self._owner = owner
        self._loggers = loggers
        self._authorization = authorization
        self._api_versions = api_versions
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._large = LargeRequests()
        self._request_ids = itertools.count(1)
        self._answers: dict[int, Answer] = {}

    def handle(self, request: Request) -> None:
        """Handle one request. Raises KafkaError if it cannot be decoded, which closes its connection."""
        header = request.header
        versions = controller_versions().get(header.api_key)
        if header.api_key == ApiKey.API_VERSIONS:
            self._answer_api_versions(request, versions)
            return
        if versions is None or not versions[0] <= header.api_version <= versions[1]:
            request.close(f"api {header.api_key} version {header.api_version} is not supported on this listener")
            return
        if request.is_large and header.api_key in _ADMINISTRATIVE:
            self._large.submit(request, lambda: self._take_large(request))
        else:
            self._take(request, lambda answer: _respond(request, answer))

    def _take_large(self, request: Request) -> None:
        def respond(answer: Message) -> None:
            _respond(request, answer)
            self._large.done()

        self._take(request, respond)

    def _take(self, request: Request, answer: Answer) -> None:
        """Decode a request and serve it. Raises KafkaError if it cannot be decoded."""
        header = request.header
        message = request.take_body()
        refuse_unknown_elements(message)
        if isinstance(message, EnvelopeRequest):
            self._open_envelope(message, request, answer)
            return
        now_ms = self._owner.now_ms()
        context = ControllerRequestContext(
            request.principal,
            header.client_id or "",
            request.client_host,
            self._deadline_ms(message, now_ms),
            request.listener_name,
            security_protocol=request.security_protocol,
            token_authenticated=request.token_authenticated,
            received_ms=now_ms,
        )
        self._serve(header, message, context, answer)

    def answered(self, request_id: int, message: Message) -> None:
        """Send the node's answer."""
        answer = self._answers.pop(request_id, None)
        if answer is not None:
            answer(message)

    def submit(self, message: Message, version: int, answer: Answer) -> None:
        """Pass a request of this process to the node, as if it had arrived on a listener."""
        header = RequestHeader(ApiKey(message.API_KEY), version, 0, "")
        now_ms = self._owner.now_ms()
        context = ControllerRequestContext(deadline_ms=self._deadline_ms(message, now_ms), received_ms=now_ms)
        self._dispatch(header, message, context, answer)

    # -- to the node

    def _serve(
        self, header: RequestHeader, message: Message, context: ControllerRequestContext, answer: Answer
    ) -> None:
        """Check the right on the cluster and dispatch the request; the managers check rights on topics and configs."""
        if self._authorization is not None:
            try:
                self._authorization.check(header.api_key, context)
            except KafkaError as error:
                answer(error_response(message, header.api_version, error.code, error.message))
                return
            context = msgspec.structs.replace(context, access=self._authorization.access(header.api_key, context))
        if isinstance(message, IncrementalAlterConfigsRequest) and any(map(_is_logger, message.resources)):
            self._alter_loggers(header, message, context, answer)
            return
        if isinstance(message, DescribeConfigsRequest) and any(map(_is_logger, message.resources)):
            context = msgspec.structs.replace(context, log_levels=self._loggers.levels())
        self._dispatch(header, message, context, answer)

    def _alter_loggers(
        self,
        header: RequestHeader,
        message: IncrementalAlterConfigsRequest,
        context: ControllerRequestContext,
        answer: Answer,
    ) -> None:
        """Change this node's log levels and dispatch the other resources; the log levels come last in the answer."""
        logger_responses = tuple(
            self._alter_logger(resource, context, validate_only=message.validate_only)
            for resource in message.resources
            if _is_logger(resource)
        )

        def with_loggers(others: Message) -> None:
            assert isinstance(others, IncrementalAlterConfigsResponse), "the answer to this request"
            answer(msgspec.structs.replace(others, responses=others.responses + logger_responses))

        rest = tuple(resource for resource in message.resources if not _is_logger(resource))
        self._dispatch(header, msgspec.structs.replace(message, resources=rest), context, with_loggers)

    def _alter_logger(
        self,
        resource: IncrementalAlterConfigsRequestAlterConfigsResource,
        context: ControllerRequestContext,
        *,
        validate_only: bool,
    ) -> IncrementalAlterConfigsResponseAlterConfigsResourceResponse:
        code, words = ErrorCode.NONE, None
        try:
            if self._authorization is not None and not self._authorization.may_act_on_cluster(context):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            self._loggers.alter(resource, validate_only=validate_only)
        except KafkaError as error:
            code, words = error.code, error.message
        return IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=code,
            error_message=words,
        )

    def _dispatch(
        self, header: RequestHeader, message: Message, context: ControllerRequestContext, answer: Answer
    ) -> None:
        refusal = _UNSERVED.get(header.api_key)
        is_over = context.deadline_ms <= self._owner.now_ms()  # a timeout of 0 has expired on arrival
        if refusal is None and is_over and not is_empty_request(message):
            refusal = ErrorCode.REQUEST_TIMED_OUT
        if refusal is not None:
            answer(_refused(message, header.api_version, refusal))
            return
        request_id = next(self._request_ids)
        self._answers[request_id] = answer
        if header.api_key in RAFT_APIS:
            self._owner.post(RequestReceived(request_id, message, header.api_version))
        else:
            self._owner.post(ControllerRequest(request_id, message, header.api_version, context))

    def _deadline_ms(self, message: Message, now_ms: int) -> int:
        if isinstance(message, _WITH_DEADLINE):
            return now_ms + message.timeout_ms
        if isinstance(message, BrokerHeartbeatRequest):
            return now_ms + self._heartbeat_interval_ms // 2
        return NEVER_MS

    # -- ApiVersions

    def _answer_api_versions(self, request: Request, versions: tuple[int, int] | None) -> None:
        header = request.header
        assert versions is not None, "every listener serves ApiVersions"
        if not versions[0] <= header.api_version <= versions[1]:
            request.respond_bytes(self._api_versions.unsupported(header))
            return
        body = request.body()
        assert isinstance(body, ApiVersionsRequest)
        request.respond_bytes(self._api_versions.answer(header, body))

    # -- Envelope

    def _open_envelope(self, envelope: EnvelopeRequest, request: Request, answer: Answer) -> None:
        try:
            if self._authorization is not None:
                forwarder = ControllerRequestContext(request.principal, host=request.client_host)
                self._authorization.check(ApiKey.ENVELOPE, forwarder)
            header, message, context = self._unwrap(envelope, request.listener_name)
        except KafkaError as error:
            log.info("envelope_refused", extra={"client_host": request.client_host, "cause": str(error)})
            answer(EnvelopeResponse(error_code=error.code))
            return
        self._serve(header, message, context, lambda enclosed: answer(_wrap(header, enclosed)))

    def _unwrap(
        self, envelope: EnvelopeRequest, listener_name: str
    ) -> tuple[RequestHeader, Message, ControllerRequestContext]:
        """Decode the enclosed request. Raises KafkaError with the error code of the envelope's answer."""
        principal = read_principal(envelope.request_principal)
        address = envelope.client_host_address
        if len(address) not in (4, 16):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The client address has {len(address)} bytes.")
        try:
            header, body_offset = decode_request_header(envelope.request_data)
            versions = controller_versions().get(header.api_key)
            if versions is None or not versions[0] <= header.api_version <= versions[1]:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"Api {header.api_key} v{header.api_version} is not supported."
                )
            if header.api_key not in FORWARDABLE:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Api {header.api_key} may not be forwarded.")
            message = decode_request_body(header, envelope.request_data, body_offset)
            refuse_unknown_elements(message)
        except (DecodeError, InvalidFrame) as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The enclosed request is malformed: {error}") from error
        client_id, host = header.client_id or "", str(ip_address(address))
        now_ms = self._owner.now_ms()
        context = ControllerRequestContext(
            f"{principal.type}:{principal.name}",
            client_id,
            host,
            self._deadline_ms(message, now_ms),
            listener_name,
            forwarded=True,
            token_authenticated=principal.token_authenticated,
            received_ms=now_ms,
        )
        return header, message, context


def _is_logger(
    resource: DescribeConfigsRequestDescribeConfigsResource | IncrementalAlterConfigsRequestAlterConfigsResource,
) -> bool:
    return resource.resource_type == BROKER_LOGGER


def _refused(message: Message, version: int, code: ErrorCode) -> Message:
    """Return the answer to a request that is always refused."""
    words = (
        "SaslAuthenticate request received after successful authentication"
        if code is ErrorCode.ILLEGAL_SASL_STATE
        else None
    )
    return error_response(message, version, code, words)


def refuse_unknown_elements(message: Message) -> None:
    """Raise InvalidFrame for ACLs or filters with an UNKNOWN element, since Kafka cannot decode such a request."""
    match message:
        case CreateAclsRequest(creations=creations):
            elements = [(a.resource_type, a.resource_pattern_type, a.operation, a.permission_type) for a in creations]
        case DescribeAclsRequest():
            elements = [_filter_elements(message)]
        case DeleteAclsRequest(filters=filters):
            elements = [_filter_elements(each) for each in filters]
        case _:
            return
    if any(_UNKNOWN in each for each in elements):
        raise InvalidFrame("an ACL with an unknown element")


def _filter_elements(acl_filter: DescribeAclsRequest | DeleteAclsRequestDeleteAclsFilter) -> tuple[int, int, int, int]:
    return (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )


def read_principal(data: bytes | None) -> DefaultPrincipalData:
    """Read DefaultPrincipalData behind its version. Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE."""
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    if data is None or len(data) < 2:
        raise KafkaError(code, "The envelope names no principal.")
    (version,) = struct.unpack_from(">h", data)
    if version != 0:
        raise KafkaError(code, f"Version {version} of principal data is not supported.")
    try:
        principal = decode(DefaultPrincipalData, version, data, 2)
    except DecodeError as error:
        raise KafkaError(code, str(error)) from error
    assert isinstance(principal, DefaultPrincipalData)
    return principal


def _wrap(header: RequestHeader, answer: Message) -> EnvelopeResponse:
    """Wrap an answer in an envelope; NOT_CONTROLLER becomes the envelope's error code, so that the broker retries."""
    if says_not_active(answer):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return EnvelopeResponse(response_data=encode_response(answer, header, header.correlation_id)[4:])


def _respond(request: Request, answer: Message) -> None:
    try:
        request.respond(answer)
    except KafkaError as error:
        extra = {"api_key": request.header.api_key, "version": request.header.api_version, "cause": str(error)}
        log.error("answer_not_encodable", extra=extra)  # noqa: TRY400  # the cause is enough
        request.close("the answer cannot be encoded in the request's version")
