"""The rights that each request to a controller needs, checked with a StandardAuthorizer.

Rights on the cluster are checked before a request is handled (`check`); rights on topics, groups and configs by the
managers, item by item (`access`). Super users may do everything, also before this node has loaded any ACL; other users
get UNKNOWN_SERVER_ERROR until then, as from Kafka's early-start listener.

Every denied operation is logged as `authorization_denied`, as in Kafka's audit log.
Source: ControllerApis, AclApis, AuthHelper and StandardAuthorizerData, Kafka 4.3.1; KIP-801.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kraft_core.configs.config_resource import BROKER, GROUP, TOPIC
from kraft_core.controller.access.request_access import RequestAccess
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.standard_authorizer import StandardAuthorizer
from kraft_core.protocol.acl import CLUSTER_NAME, AclOperation, ResourceType
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

_A = AclOperation
CLUSTER_RIGHTS: Final[dict[int, AclOperation]] = {
    ApiKey.FETCH: _A.CLUSTER_ACTION,
    ApiKey.FETCH_SNAPSHOT: _A.CLUSTER_ACTION,
    ApiKey.VOTE: _A.CLUSTER_ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: _A.CLUSTER_ACTION,
    ApiKey.END_QUORUM_EPOCH: _A.CLUSTER_ACTION,
    ApiKey.UPDATE_RAFT_VOTER: _A.CLUSTER_ACTION,
    ApiKey.ALTER_PARTITION: _A.CLUSTER_ACTION,
    ApiKey.BROKER_REGISTRATION: _A.CLUSTER_ACTION,
    ApiKey.BROKER_HEARTBEAT: _A.CLUSTER_ACTION,
    ApiKey.ALLOCATE_PRODUCER_IDS: _A.CLUSTER_ACTION,
    ApiKey.CONTROLLER_REGISTRATION: _A.CLUSTER_ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _A.CLUSTER_ACTION,
    ApiKey.ENVELOPE: _A.CLUSTER_ACTION,
    ApiKey.DESCRIBE_QUORUM: _A.DESCRIBE,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _A.DESCRIBE,
    ApiKey.DESCRIBE_ACLS: _A.DESCRIBE,
    ApiKey.ELECT_LEADERS: _A.ALTER,
    ApiKey.UNREGISTER_BROKER: _A.ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _A.ALTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _A.ALTER,
    ApiKey.UPDATE_FEATURES: _A.ALTER,
    ApiKey.DESCRIBE_CLUSTER: _A.ALTER,
    ApiKey.ADD_RAFT_VOTER: _A.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _A.ALTER,
    ApiKey.CREATE_ACLS: _A.ALTER,
    ApiKey.DELETE_ACLS: _A.ALTER,
    ApiKey.ALTER_CLIENT_QUOTAS: _A.ALTER_CONFIGS,
}
"""The right on the cluster that a whole request needs, by API key."""
RIGHTS_BY_ITEM: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CONFIGS,
    }
)
"""Requests that need a right for each of their topics or configs."""
_RESOURCE_OF: Final = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP, BROKER: ResourceType.CLUSTER}


class ControllerAuthorization:
    """Authorizes the requests to a controller.

    `image` returns the newest committed image; `is_loaded` returns whether that image has caught up with the quorum.
    """

    def __init__(
        self, authorizer: StandardAuthorizer, image: Callable[[], MetadataImage], is_loaded: Callable[[], bool]
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._is_loaded = is_loaded

    def check(self, api_key: int, context: ControllerRequestContext) -> None:
        """Check the right that a whole request needs.

        Raises KafkaError CLUSTER_AUTHORIZATION_FAILED, or UNKNOWN_SERVER_ERROR before the ACLs are loaded.
        """
        operation = CLUSTER_RIGHTS.get(api_key)
        if operation is not None and not self._may_on_cluster(context, operation, api_key):
            text = f"{ApiKey(api_key).name} needs {operation.name} permission on the cluster."
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
        if api_key in RIGHTS_BY_ITEM:
            self._require_loaded(context)

    def may_act_on_cluster(self, context: ControllerRequestContext) -> bool:
        """Return whether the sender may change this node's log levels. Raises KafkaError as `check`."""
        return self._may_on_cluster(context, _A.CLUSTER_ACTION, ApiKey.INCREMENTAL_ALTER_CONFIGS)

    def access(self, api_key: int, context: ControllerRequestContext) -> RequestAccess:
        """Return the rights of one request, each evaluated when a manager calls it."""
        on_topic = partial(self._may, context, api_key, resource_type=ResourceType.TOPIC)

        def on_all_or_one(operation: AclOperation, needed: AclOperation) -> Callable[[str], bool]:
            """Check a right on the cluster, else one on the topic; only the second is logged if it is missing."""

            def may(name: str) -> bool:
                on_all = self._may_on_cluster(context, operation, api_key, is_logged=False)
                return on_all or on_topic(needed, name=name)

            return may

        return RequestAccess(
            may_create=on_all_or_one(_A.CREATE, _A.CREATE),
            may_delete=on_all_or_one(_A.DELETE, _A.DELETE),
            may_describe=on_all_or_one(_A.DELETE, _A.DESCRIBE),
            may_alter=lambda name: on_topic(_A.ALTER, name=name),
            may_describe_configs=lambda name: on_topic(_A.DESCRIBE_CONFIGS, name=name, is_logged=False),
            may_alter_configs=partial(self._may_on_configs, context, api_key, _A.ALTER_CONFIGS),
            may_describe_configs_of=partial(self._may_on_configs, context, api_key, _A.DESCRIBE_CONFIGS),
            may_create_tokens=lambda owner: self._may(
                context, api_key, _A.CREATE_TOKENS, name=owner, resource_type=ResourceType.USER
            ),
            cluster_operations=partial(self._cluster_operations, context, api_key),
        )

    def _may_on_cluster(
        self, context: ControllerRequestContext, operation: AclOperation, api_key: int, *, is_logged: bool = True
    ) -> bool:
        return self._may(
            context, api_key, operation, name=CLUSTER_NAME, resource_type=ResourceType.CLUSTER, is_logged=is_logged
        )

    def _may_on_configs(
        self, context: ControllerRequestContext, api_key: int, operation: AclOperation, kind: int, name: str
    ) -> bool:
        resource_type = _RESOURCE_OF.get(kind, ResourceType.CLUSTER)
        on = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name
        return self._may(context, api_key, operation, name=on, resource_type=resource_type)

    def _cluster_operations(self, context: ControllerRequestContext, api_key: int) -> int:
        if not self._may_on_cluster(context, _A.DESCRIBE, api_key):
            return 0
        return self._authorizer.authorized_operations(
            self._image().acls, context.principal, context.host, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def _may(
        self,
        context: ControllerRequestContext,
        api_key: int,
        operation: AclOperation,
        *,
        name: str,
        resource_type: ResourceType,
        is_logged: bool = True,
    ) -> bool:
        self._require_loaded(context)
        decision = self._authorizer.authorize(
            self._image().acls, context.principal, context.host, operation, resource_type, name
        )
        if not decision.allowed and is_logged:
            extra = {
                "principal": context.principal,
                "client_host": context.host,
                "operation": operation.name,
                "resource": f"{resource_type.name}:{name}",
                "request": ApiKey(api_key).name,
                "rule": str(decision),
            }
            log.info("authorization_denied", extra=extra)
        return decision.allowed

    def _require_loaded(self, context: ControllerRequestContext) -> None:
        if context.principal not in self._authorizer.super_users and not self._is_loaded():
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs are not loaded yet.")
