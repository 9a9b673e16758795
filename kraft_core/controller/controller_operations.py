"""The table of requests and the operations that serve them.

A write reads the tip and may append records; its response waits for the log. A read uses the committed image, and every
node answers it; on the active controller most reads wait until the quorum confirms the leadership. A new request of the
controller is one row here. Source: the Controller methods of QuorumController, Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kraft_core.controller.access.acl_control_manager import create_acls, delete_acls, describe_acls
from kraft_core.controller.access.client_quota_control_manager import alter_client_quotas
from kraft_core.controller.access.controller_mutation_quota_manager import ControllerMutationQuotaManager
from kraft_core.controller.access.delegation_token_control_manager import (
    DelegationTokenControlManager,
    allows_token_requests,
    refused,
    token_owner,
)
from kraft_core.controller.access.scram_control_manager import alter_user_scram_credentials
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
from kraft_core.controller.brokers.cluster_control_manager import ClusterControlManager, register_controller
from kraft_core.controller.brokers.feature_control_manager import FeatureControlManager
from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
from kraft_core.controller.controller_result import ControllerResult, check_record_count
from kraft_core.controller.partitions.alter_partition import alter_partition
from kraft_core.controller.partitions.alter_partition_reassignments import PartitionReassignments
from kraft_core.controller.partitions.assign_replicas_to_dirs import assign_replicas_to_dirs
from kraft_core.controller.partitions.leader_election import LeaderElection
from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
from kraft_core.controller.partitions.topic_creation import TopicCreation
from kraft_core.controller.partitions.topic_deletion import delete_topics
from kraft_core.controller.producer_id_control_manager import allocate_producer_ids
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from kraft_core.controller.access.request_access import RequestAccess
    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_request_context import ControllerRequestContext
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.wire import Message

_Throttled = TypeVar("_Throttled", m.CreateTopicsResponse, m.DeleteTopicsResponse, m.CreatePartitionsResponse)


class Call(msgspec.Struct, frozen=True):
    """A request with what an operation may need. `image` is the tip for a write, the committed image for a read."""

    image: MetadataImage
    request: Any
    version: int
    context: ControllerRequestContext
    now_ms: int


@dataclass(slots=True)
class Managers:
    """The managers of one controller, made once; the metadata comes with each call."""

    config: ControllerConfig
    random: Random
    writer: RecordWriter
    configuration: ConfigurationControlManager = field(init=False)
    heartbeats: BrokerHeartbeatManager = field(init=False)
    replication: ReplicationControlManager = field(init=False)
    cluster: ClusterControlManager = field(init=False)
    features: FeatureControlManager = field(init=False)
    topics: TopicCreation = field(init=False)
    elections: LeaderElection = field(init=False)
    reassignments: PartitionReassignments = field(init=False)
    mutation_quotas: ControllerMutationQuotaManager = field(init=False)
    delegation_tokens: DelegationTokenControlManager = field(init=False)

    def __post_init__(self) -> None:
        """Make the managers."""
        config = self.config
        self.configuration = ConfigurationControlManager(config)
        self.heartbeats = BrokerHeartbeatManager(config.session_timeout_ms)
        self.replication = ReplicationControlManager(self.configuration, self.heartbeats)
        handle_broker_shutdown = self.replication.handle_broker_shutdown
        self.cluster = ClusterControlManager(config, self.writer, self.heartbeats, handle_broker_shutdown)
        self.features = FeatureControlManager(config.node_id, self.writer, self.configuration)
        self.topics = TopicCreation(config, self.configuration, self.replication, self.random)
        self.elections = LeaderElection(self.replication, config.leader_balance_max_elections)
        self.reassignments = PartitionReassignments(self.replication)
        self.mutation_quotas = ControllerMutationQuotaManager(config.quota_window_num, config.quota_window_size_seconds)
        self.delegation_tokens = DelegationTokenControlManager(config, self.random)

    def access(self, call: Call) -> RequestAccess:
        """Return the rights of the sender, with what this controller adds to them."""
        context = call.context
        return replace(context.access, is_forwarded=context.forwarded, controller_ids=self.writer.voter_ids)


Write = Callable[[Managers, Call], ControllerResult[Any]]
Read = Callable[[Managers, Call], "Message"]


def _with_mutation_quota(
    strict_since: int, operate: Callable[[Managers, Call, RequestAccess], ControllerResult[_Throttled]]
) -> Write:
    """Charge the operation to the client's quota of topic changes.

    Versions from `strict_since` on are refused when the quota is used up; older ones are throttled.
    """

    def operate_with_quota(managers: Managers, call: Call) -> ControllerResult[_Throttled]:
        access, context = managers.access(call), call.context
        quota = managers.mutation_quotas.quota_for(
            call.image, context.principal, context.client_id, call.now_ms, is_strict=call.version >= strict_since
        )
        if quota is None:
            return operate(managers, call, access)
        result = operate(managers, call, replace(access, apply_partition_change_quota=quota.record))
        if not quota.throttle_time_ms:
            return result
        response = msgspec.structs.replace(result.response, throttle_time_ms=quota.throttle_time_ms)
        return msgspec.structs.replace(result, response=response)

    return operate_with_quota


WRITES: Final[dict[type, Write]] = {
    m.BrokerRegistrationRequest: lambda to, c: to.cluster.register_broker(c.image, c.request, c.version, c.now_ms),
    m.BrokerHeartbeatRequest: lambda to, c: to.replication.process_broker_heartbeat(c.image, c.request),
    m.UnregisterBrokerRequest: lambda to, c: to.replication.unregister_broker(c.image, c.request),
    m.ControllerRegistrationRequest: lambda _, c: register_controller(c.image, c.request),
    m.UpdateFeaturesRequest: lambda to, c: to.features.update_features(c.image, c.request, c.version),
    m.AllocateProducerIdsRequest: lambda _, c: allocate_producer_ids(c.image, c.request),
    m.CreateTopicsRequest: _with_mutation_quota(
        6, lambda to, c, access: to.topics.create_topics(c.image, c.request, access)
    ),
    m.DeleteTopicsRequest: _with_mutation_quota(
        5, lambda to, c, access: delete_topics(c.image, c.request, c.version, to.config, to.random, access)
    ),
    m.CreatePartitionsRequest: _with_mutation_quota(
        3, lambda to, c, access: to.topics.create_partitions(c.image, c.request, access)
    ),
    m.AlterPartitionRequest: lambda to, c: alter_partition(to.replication, c.image, c.request, c.version),
    m.ElectLeadersRequest: lambda to, c: to.elections.elect_leaders(c.image, c.request),
    m.AlterPartitionReassignmentsRequest: lambda to, c: to.reassignments.alter(c.image, c.request),
    m.AssignReplicasToDirsRequest: lambda to, c: assign_replicas_to_dirs(to.replication, c.image, c.request),
    m.IncrementalAlterConfigsRequest: lambda to, c: to.configuration.incremental_alter_configs(
        c.image, c.request, to.access(c)
    ),
    m.AlterConfigsRequest: lambda to, c: to.configuration.legacy_alter_configs(c.image, c.request, to.access(c)),
    m.CreateAclsRequest: lambda to, c: create_acls(c.image, c.request, to.random),
    m.DeleteAclsRequest: lambda _, c: delete_acls(c.image, c.request),
    m.AlterUserScramCredentialsRequest: lambda _, c: alter_user_scram_credentials(c.image, c.request),
    m.AlterClientQuotasRequest: lambda _, c: alter_client_quotas(c.image, c.request),
    m.CreateDelegationTokenRequest: lambda to, c: to.delegation_tokens.create(c.image, c.request, c.context, c.now_ms),
    m.RenewDelegationTokenRequest: lambda to, c: to.delegation_tokens.renew(c.image, c.request, c.context, c.now_ms),
    m.ExpireDelegationTokenRequest: lambda to, c: to.delegation_tokens.expire(c.image, c.request, c.context, c.now_ms),
}
"""Requests that only the active controller serves: `operation(managers, call)`, called `to` and `c` here."""

READS: Final[dict[type, Read]] = {
    m.ListPartitionReassignmentsRequest: lambda to, c: to.reassignments.list(c.image, c.request),
    m.DescribeClusterRequest: lambda to, c: to.cluster.describe_cluster(c.image, c.request, c.version, c.context),
    m.DescribeConfigsRequest: lambda to, c: to.configuration.describe_configs(
        c.image, c.request, c.context.access, c.context.log_levels
    ),
    m.DescribeAclsRequest: lambda to, c: describe_acls(c.image, c.request, to.config.authorizer),
}
"""Requests that every controller answers from its committed image."""

CONFIRMED_READS: Final = frozenset(READS) - {m.DescribeClusterRequest}
"""Reads that the active controller answers only after the quorum has confirmed that it is still active.

DescribeCluster is excluded: clients find the controllers by it, also in a quorum that has lost its majority.
"""

_NEEDS_AUTHORIZER: Final = frozenset({m.CreateAclsRequest, m.DeleteAclsRequest})
_TOKEN_REQUESTS: Final = frozenset(
    {m.CreateDelegationTokenRequest, m.RenewDelegationTokenRequest, m.ExpireDelegationTokenRequest}
)
_UNBOUNDED: Final = frozenset(
    {
        m.BrokerRegistrationRequest,
        m.BrokerHeartbeatRequest,
        m.AlterPartitionRequest,
        m.AssignReplicasToDirsRequest,
    }
)
"""Requests of brokers, which may write any number of records."""

_EMPTY_REQUESTS: Final[dict[type, tuple[tuple[str, ...], Callable[[], Message]]]] = {
    m.AlterPartitionRequest: (("topics",), m.AlterPartitionResponse),
    m.AlterUserScramCredentialsRequest: (("deletions", "upsertions"), m.AlterUserScramCredentialsResponse),
    m.AlterClientQuotasRequest: (("entries",), m.AlterClientQuotasResponse),
    m.AlterConfigsRequest: (("resources",), m.AlterConfigsResponse),
    m.IncrementalAlterConfigsRequest: (("resources",), m.IncrementalAlterConfigsResponse),
    m.AlterPartitionReassignmentsRequest: (("topics",), m.AlterPartitionReassignmentsResponse),
    m.CreatePartitionsRequest: (("topics",), m.CreatePartitionsResponse),
    m.CreateTopicsRequest: (("topics",), m.CreateTopicsResponse),
    m.ElectLeadersRequest: (("topic_partitions",), m.ElectLeadersResponse),
}
"""Request class → the fields that are empty in a request without items, and its response. A null field means all."""
_MAY_BE_ANSWERED_EARLY: Final = frozenset(_EMPTY_REQUESTS) | _NEEDS_AUTHORIZER | _TOKEN_REQUESTS


def is_empty_request(message: Message) -> bool:
    """Report whether the request has no items, so that every controller can answer it at once."""
    fields, _ = _EMPTY_REQUESTS.get(type(message), ((), None))
    return bool(fields) and all(getattr(message, each) == () for each in fields)


def early_answer(managers: Managers, message: Any, context: ControllerRequestContext) -> Message | None:
    """Return an immediate response if the request needs no metadata, else None. Valid on inactive controllers too.

    Such requests have no items, or the settings, the connection or the sender's rights rule them out.
    Raises KafkaError SECURITY_DISABLED for ACLs without an authorizer.
    """
    if type(message) not in _MAY_BE_ANSWERED_EARLY:
        return None
    if is_empty_request(message):
        return _EMPTY_REQUESTS[type(message)][1]()
    if type(message) in _NEEDS_AUTHORIZER and managers.config.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if type(message) in _TOKEN_REQUESTS and not allows_token_requests(context):
        return refused(message, context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if isinstance(message, m.CreateDelegationTokenRequest):
        owner = token_owner(message, context)
        if owner != context.principal and not context.access.may_create_tokens(owner):
            return refused(message, context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return None


def check_size(message: Message, result: ControllerResult[Message]) -> None:
    """Raise KafkaError POLICY_VIOLATION if a user's request writes more records than one batch holds."""
    if type(message) not in _UNBOUNDED:
        check_record_count(len(result.records))
