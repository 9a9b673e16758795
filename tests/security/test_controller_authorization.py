"""The rights that each request to a controller needs, and the answers without them."""

import logging
from uuid import UUID

import pytest

from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.image.acls_image import AclsImage, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.standard_authorizer import StandardAuthorizer
from kraft_core.protocol.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.controller_authorization import CLUSTER_RIGHTS, RIGHTS_BY_ITEM, ControllerAuthorization
from kraft_core.server.api_versions import controller_versions

ALICE = ControllerRequestContext("User:alice", "client", "10.0.0.1")
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


def acl(
    operation: AclOperation, kind: ResourceType = ResourceType.CLUSTER, name: str = CLUSTER_NAME, *, deny: bool = False
) -> StandardAcl:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return StandardAcl(kind, name, PatternType.LITERAL, "User:alice", "*", operation, permission)


def authorization(*acls: StandardAcl, is_loaded: bool = True) -> ControllerAuthorization:
    held = AclsImage()
    for number, each in enumerate(acls):
        held = held.insert(UUID(int=number + 1), each)
    image = MetadataImage(offset=10, acls=held)
    return ControllerAuthorization(StandardAuthorizer(frozenset({"User:root"})), lambda: image, lambda: is_loaded)


def code_of(authorizer: ControllerAuthorization, api_key: int, context: ControllerRequestContext = ALICE) -> ErrorCode:
    try:
        authorizer.check(api_key, context)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_every_api_of_the_listener_has_a_rule() -> None:
    """The APIs without a right are open to all, always refused, or about the user's own tokens."""
    without_right = {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    }
    assert set(CLUSTER_RIGHTS) | RIGHTS_BY_ITEM | without_right == set(controller_versions())
    assert not set(CLUSTER_RIGHTS) & (RIGHTS_BY_ITEM | without_right)


@pytest.mark.parametrize("api_key", sorted(CLUSTER_RIGHTS))
def test_a_request_needs_its_own_right_on_the_cluster(api_key: int) -> None:
    needed = CLUSTER_RIGHTS[api_key]
    assert code_of(authorization(), api_key) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert code_of(authorization(), api_key, ControllerRequestContext("User:root")) is ErrorCode.NONE
    assert code_of(authorization(acl(needed)), api_key) is ErrorCode.NONE
    assert code_of(authorization(acl(needed), acl(needed, deny=True)), api_key) is not ErrorCode.NONE
    implying = {AclOperation.DESCRIBE: {AclOperation.ALTER}}.get(needed, set())
    for other in set(CLUSTER_RIGHTS.values()) - {needed} - implying:
        assert code_of(authorization(acl(other)), api_key) is not ErrorCode.NONE


@pytest.mark.parametrize("api_key", sorted(set(CLUSTER_RIGHTS) | RIGHTS_BY_ITEM))
def test_before_the_acls_are_loaded_only_super_users_are_served(api_key: int) -> None:
    early = authorization(acl(AclOperation.ALL), is_loaded=False)
    assert code_of(early, api_key) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(early, api_key, ControllerRequestContext("User:root")) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        (acl(AclOperation.CREATE), {"create"}),
        (acl(AclOperation.DELETE), {"delete", "describe"}),
        (acl(AclOperation.CREATE, ResourceType.TOPIC, "orders"), {"create"}),
        (acl(AclOperation.DELETE, ResourceType.TOPIC, "orders"), {"delete", "describe"}),
        (acl(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders"), {"describe"}),
        (acl(AclOperation.ALTER, ResourceType.TOPIC, "orders"), {"alter", "describe"}),
        (acl(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "orders"), {"describe_configs"}),
        (acl(AclOperation.ALL, ResourceType.TOPIC, "payments"), set()),
        (acl(AclOperation.ALTER), set()),
    ],
    ids=lambda each: ",".join(sorted(each)) if isinstance(each, set) else str(each),  # the same in every process
)
def test_rights_on_a_topic(held: StandardAcl, allowed: set[str]) -> None:
    access = authorization(held).access(ApiKey.CREATE_TOPICS, ALICE)
    tests = {
        "create": access.may_create,
        "delete": access.may_delete,
        "describe": access.may_describe,
        "alter": access.may_alter,
        "describe_configs": access.may_describe_configs,
    }
    assert {name for name, may in tests.items() if may("orders")} == allowed


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        (acl(AclOperation.ALTER_CONFIGS), {BROKER, CLIENT_METRICS}),
        (acl(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "x"), {TOPIC}),
        (acl(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, "x"), {GROUP}),
        (acl(AclOperation.DESCRIBE_CONFIGS), set()),
    ],
    ids=str,
)
def test_rights_on_configs(held: StandardAcl, allowed: set[int]) -> None:
    access = authorization(held).access(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALICE)
    assert {kind for kind in (TOPIC, BROKER, CLIENT_METRICS, GROUP) if access.may_alter_configs(kind, "x")} == allowed


def test_the_operations_on_the_cluster_are_listed_for_users_who_may_describe_it() -> None:
    def operations(*held: StandardAcl) -> int:
        return authorization(*held).access(ApiKey.DESCRIBE_CLUSTER, ALICE).cluster_operations()

    assert operations(acl(AclOperation.CREATE)) == 0
    assert operations(acl(AclOperation.ALTER)) == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE


def test_a_denial_is_logged_with_principal_operation_resource_host_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        authorizer = authorization(acl(AclOperation.CREATE, ResourceType.TOPIC, "orders", deny=True))
        code_of(authorizer, ApiKey.UPDATE_FEATURES)
        authorizer.access(ApiKey.CREATE_TOPICS, ALICE).may_create("orders")
        authorizer.access(ApiKey.CREATE_TOPICS, ALICE).may_describe_configs("orders")
    seen = [(r.msg, r.principal, r.client_host, r.operation, r.resource, r.request) for r in caplog.records]
    who = ("authorization_denied", "User:alice", "10.0.0.1")
    assert seen == [
        (*who, "ALTER", "CLUSTER:kafka-cluster", "UPDATE_FEATURES"),
        (*who, "CREATE", "TOPIC:orders", "CREATE_TOPICS"),
    ]
    assert [r.rule.split("(")[0] for r in caplog.records] == ["DefaultDeny", "MatchingAcl"]
