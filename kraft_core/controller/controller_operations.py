"""Which request is answered by which manager, and how: the table the QuorumController looks into.

A write sees the tip and may append; its answer waits for the log. A read sees the committed image and any node answers it;
on the active controller most wait first until the quorum confirms it. Source: QuorumController's Controller methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kraft_core.controller.access import acl_control_manager, client_quota_control_manager, scram_control_manager
from kraft_core.controller.access.controller_mutation_quota import ControllerMutationQuotaManager
from kraft_core.controller.access.delegation_token_control_manager import (
    DelegationTokenControlManager,
    allows_token_requests,
    refused,
    token_owner,
)
from kraft_core.controller.brokers import cluster_control_manager, feature_control_manager
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerControlState
from kraft_core.controller.brokers.broker_lifecycle import BrokerLifecycle
from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
from kraft_core.controller.controller_result import MAX_RECORDS_PER_USER_OP, ControllerResult
from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
from kraft_core.controller.partitions.topic_access import TopicAccess
from kraft_core.controller.producer_id_control_manager import allocate_producer_ids
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_result import RequestContext
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.wire import Message

_Throttled = TypeVar("_Throttled", m.CreateTopicsResponse, m.DeleteTopicsResponse, m.CreatePartitionsResponse)


class Call(msgspec.Struct, frozen=True):
    """One request on its way to a manager. `image` is the tip for a write, the committed image for a read."""

    image: MetadataImage
    message: Any
    version: int
    context: RequestContext
    now_ms: int


class Written(msgspec.Struct, frozen=True):
    """What an operation wants, and what to do once its records have offsets: `appended(last_offset)`."""

    result: ControllerResult[Message]
    appended: Callable[[int], None] | None = None


@dataclass(slots=True)
class Managers:
    """The managers of one controller, made once; all metadata they see comes with each call."""

    config: ControllerConfig
    random: Random
    writer: RecordWriter
    configuration: ConfigurationControlManager = field(init=False)
    replication: ReplicationControlManager = field(init=False)
    lifecycle: BrokerLifecycle = field(init=False)
    mutation_quotas: ControllerMutationQuotaManager = field(init=False)
    delegation_tokens: DelegationTokenControlManager = field(init=False)

    def __post_init__(self) -> None:
        """Make the managers."""
        self.configuration = ConfigurationControlManager(self.config)
        self.replication = ReplicationControlManager(self.config, self.configuration, self.random)
        self.lifecycle = BrokerLifecycle(self.config, self.replication.brokers)
        self.mutation_quotas = ControllerMutationQuotaManager(
            self.config.quota_window_num, self.config.quota_window_size_seconds
        )
        self.delegation_tokens = DelegationTokenControlManager(self.config, self.random)


def _access(managers: Managers, call: Call) -> TopicAccess:
    return replace(call.context.access, is_forwarded=call.context.forwarded, controller_ids=managers.writer.voter_ids)


def _with_mutation_quota(
    managers: Managers, call: Call, strict_since: int, operate: Callable[[TopicAccess], ControllerResult[_Throttled]]
) -> Written:
    """Change topics on the account of the client's quota; versions from `strict_since` on are refused, others slowed."""
    access, context = _access(managers, call), call.context
    quota = managers.mutation_quotas.quota_for(
        call.image, context.principal, context.client_id, call.now_ms, is_strict=call.version >= strict_since
    )
    if quota is None:
        return Written(operate(access))
    result = operate(replace(access, apply_partition_change_quota=quota.record))
    if quota.throttle_time_ms:
        response = msgspec.structs.replace(result.response, throttle_time_ms=quota.throttle_time_ms)
        return Written(msgspec.structs.replace(result, response=response))
    return Written(result)


def _register_broker(managers: Managers, call: Call) -> Written:
    heartbeats = managers.lifecycle.heartbeats
    request: m.BrokerRegistrationRequest = call.message
    result = managers.lifecycle.register_broker(
        call.image,
        request,
        call.version,
        next_offset=managers.writer.next_offset,
        kraft_version=managers.writer.kraft_version,
        now_ms=call.now_ms,
    )
    existing = call.image.cluster.brokers.get(request.broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id

    def appended(last_offset: int) -> None:
        heartbeats.registered(request.broker_id, last_offset, new_incarnation=is_new)

    return Written(result, appended)


def _heartbeat(managers: Managers, call: Call) -> Written:
    request: m.BrokerHeartbeatRequest = call.message
    result, state = managers.lifecycle.process_heartbeat(call.image, request)
    if state is not BrokerControlState.CONTROLLED_SHUTDOWN:
        return Written(result)
    heartbeats = managers.lifecycle.heartbeats
    return Written(result, lambda offset: heartbeats.begin_controlled_shutdown(request.broker_id, offset))


def _unregister_broker(managers: Managers, call: Call) -> Written:
    result = managers.lifecycle.unregister_broker(call.image, call.message)
    return Written(result, lambda _: managers.lifecycle.heartbeats.forget(call.message.broker_id))


def _update_features(managers: Managers, call: Call) -> Written:
    return Written(
        feature_control_manager.update_features(
            call.image,
            call.message,
            call.version,
            node_id=managers.config.node_id,
            quorum=managers.writer,
            elr_safety_records=lambda: managers.configuration.elr_safety_records(call.image),
        )
    )


def _register_controller(managers: Managers, call: Call) -> Written:
    return Written(cluster_control_manager.register_controller(call.image, call.message))


def _allocate_producer_ids(managers: Managers, call: Call) -> Written:
    return Written(allocate_producer_ids(call.image, call.message))


def _create_topics(managers: Managers, call: Call) -> Written:
    return _with_mutation_quota(
        managers, call, 6, lambda access: managers.replication.create_topics(call.image, call.message, access)
    )


def _delete_topics(managers: Managers, call: Call) -> Written:
    return _with_mutation_quota(
        managers,
        call,
        5,
        lambda access: managers.replication.delete_topics(call.image, call.message, call.version, access),
    )


def _create_partitions(managers: Managers, call: Call) -> Written:
    return _with_mutation_quota(
        managers, call, 3, lambda access: managers.replication.create_partitions(call.image, call.message, access)
    )


def _alter_partition(managers: Managers, call: Call) -> Written:
    return Written(managers.replication.alter_partition(call.image, call.message, call.version))


def _elect_leaders(managers: Managers, call: Call) -> Written:
    return Written(managers.replication.elect_leaders(call.image, call.message))


def _alter_partition_reassignments(managers: Managers, call: Call) -> Written:
    return Written(managers.replication.alter_partition_reassignments(call.image, call.message))


def _assign_replicas_to_dirs(managers: Managers, call: Call) -> Written:
    return Written(managers.replication.assign_replicas_to_dirs(call.image, call.message))


def _incremental_alter_configs(managers: Managers, call: Call) -> Written:
    access = _access(managers, call)
    return Written(managers.configuration.incremental_alter_configs(call.image, call.message, access))


def _alter_configs(managers: Managers, call: Call) -> Written:
    return Written(managers.configuration.legacy_alter_configs(call.image, call.message, _access(managers, call)))


def _create_acls(managers: Managers, call: Call) -> Written:
    return Written(acl_control_manager.create_acls(call.image, call.message, managers.random))


def _delete_acls(managers: Managers, call: Call) -> Written:
    return Written(acl_control_manager.delete_acls(call.image, call.message))


def _alter_user_scram_credentials(managers: Managers, call: Call) -> Written:
    return Written(scram_control_manager.alter_user_scram_credentials(call.image, call.message))


def _alter_client_quotas(managers: Managers, call: Call) -> Written:
    return Written(client_quota_control_manager.alter_client_quotas(call.image, call.message))


def _create_delegation_token(managers: Managers, call: Call) -> Written:
    return Written(managers.delegation_tokens.create(call.image, call.message, call.context, call.now_ms))


def _renew_delegation_token(managers: Managers, call: Call) -> Written:
    return Written(managers.delegation_tokens.renew(call.image, call.message, call.context, call.now_ms))


def _expire_delegation_token(managers: Managers, call: Call) -> Written:
    return Written(managers.delegation_tokens.expire(call.image, call.message, call.context, call.now_ms))


WRITES: Final[dict[type, Callable[[Managers, Call], Written]]] = {
    m.BrokerRegistrationRequest: _register_broker,
    m.BrokerHeartbeatRequest: _heartbeat,
    m.UnregisterBrokerRequest: _unregister_broker,
    m.ControllerRegistrationRequest: _register_controller,
    m.UpdateFeaturesRequest: _update_features,
    m.AllocateProducerIdsRequest: _allocate_producer_ids,
    m.CreateTopicsRequest: _create_topics,
    m.DeleteTopicsRequest: _delete_topics,
    m.CreatePartitionsRequest: _create_partitions,
    m.AlterPartitionRequest: _alter_partition,
    m.ElectLeadersRequest: _elect_leaders,
    m.AlterPartitionReassignmentsRequest: _alter_partition_reassignments,
    m.AssignReplicasToDirsRequest: _assign_replicas_to_dirs,
    m.IncrementalAlterConfigsRequest: _incremental_alter_configs,
    m.AlterConfigsRequest: _alter_configs,
    m.CreateAclsRequest: _create_acls,
    m.DeleteAclsRequest: _delete_acls,
    m.AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    m.AlterClientQuotasRequest: _alter_client_quotas,
    m.CreateDelegationTokenRequest: _create_delegation_token,
    m.RenewDelegationTokenRequest: _renew_delegation_token,
    m.ExpireDelegationTokenRequest: _expire_delegation_token,
}
"""Requests that only the active controller takes."""


def _list_partition_reassignments(managers: Managers, call: Call) -> Message:
    return managers.replication.list_partition_reassignments(call.image, call.message)


def _describe_cluster(managers: Managers, call: Call) -> Message:
    return cluster_control_manager.describe_cluster(
        call.image,
        call.message,
        version=call.version,
        cluster_id=managers.config.cluster_id,
        leader_id=managers.writer.leader_id,
        listener_name=call.context.listener_name,
        operations=call.context.access.cluster_operations,
    )


def _describe_configs(managers: Managers, call: Call) -> Message:
    return managers.configuration.describe_configs(
        call.image, call.message, _access(managers, call), call.context.log_levels
    )


def _describe_acls(managers: Managers, call: Call) -> Message:
    if managers.config.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    return acl_control_manager.describe_acls(call.image, call.message)


READS: Final[dict[type, Callable[[Managers, Call], Message]]] = {
    m.ListPartitionReassignmentsRequest: _list_partition_reassignments,
    m.DescribeClusterRequest: _describe_cluster,
    m.DescribeConfigsRequest: _describe_configs,
    m.DescribeAclsRequest: _describe_acls,
}
"""Requests that any controller answers from its committed image."""

CONFIRMED_READS: Final = frozenset(READS) - {m.DescribeClusterRequest}
"""Reads that an active controller answers only when the quorum confirms that it is still active.

Not DescribeCluster: by it clients find the controllers, and people look at a quorum that has lost its majority.
"""

_NEEDS_AUTHORIZER: Final = frozenset({m.CreateAclsRequest, m.DeleteAclsRequest})
_OF_TOKENS: Final = frozenset(
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
"""Brokers' requests, whose records are as many as it takes."""


_NOTHING_ASKED: Final[dict[type, tuple[tuple[str, ...], Callable[[], Message]]]] = {
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
"""Requests by the fields whose emptiness means that nothing is asked, with the answer to that; null asks for all."""
_MAYBE_EARLY: Final = frozenset(_NOTHING_ASKED) | _NEEDS_AUTHORIZER | _OF_TOKENS


def asks_nothing(message: Message) -> bool:
    """Say whether the request asks for nothing, so that any controller can answer it, at any time, at once."""
    fields, _ = _NOTHING_ASKED.get(type(message), ((), None))
    return bool(fields) and all(getattr(message, each) == () for each in fields)


def early_answer(managers: Managers, message: Any, context: RequestContext) -> Message | None:
    """Answer who asks for nothing, or what the settings, the connection or the sender's rights rule out; else None.

    So it is on whatever controller, active or not. Raises KafkaError SECURITY_DISABLED.
    """
    if type(message) not in _MAYBE_EARLY:
        return None
    if asks_nothing(message):
        return _NOTHING_ASKED[type(message)][1]()
    if type(message) in _NEEDS_AUTHORIZER and managers.config.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if type(message) in _OF_TOKENS and not allows_token_requests(context):
        return refused(message, context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if isinstance(message, m.CreateDelegationTokenRequest):
        owner = token_owner(message, context)
        if owner != context.principal and not context.access.may_create_tokens(owner):
            return refused(message, context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return None


def check_size(message: Message, result: ControllerResult[Message]) -> None:
    """Refuse a user's request that would write more than a batch. Raises POLICY_VIOLATION."""
    if len(result.records) > MAX_RECORDS_PER_USER_OP and type(message) not in _UNBOUNDED:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Unable to perform excessively large batch operation: {len(result.records)} records, "
            f"of at most {MAX_RECORDS_PER_USER_OP}.",
        )
