"""Who may do what: the rules one by one, and all of them together against a naive model."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.image.metadata_image import AclsImage, StandardAcl
from kraft_core.image.standard_authorizer import StandardAuthorizer, host_address, parse_super_users
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.image.naive_authorizer import naive_authorize

ALICE = "User:alice"
ALL, READ, WRITE, DESCRIBE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DELETE, ALTER, CREATE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.CREATE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(name: str, operation: AclOperation, **fields: Any) -> StandardAcl:
    defaults: dict[str, Any] = {
        "resource_type": TOPIC,
        "pattern_type": LITERAL,
        "principal": ALICE,
        "host": "*",
        "permission_type": AclPermissionType.ALLOW,
    }
    return StandardAcl(resource_name=name, operation=operation, **{**defaults, **fields})


def deny(name: str, operation: AclOperation, **fields: Any) -> StandardAcl:
    return acl(name, operation, permission_type=AclPermissionType.DENY, **fields)


def image_of(*acls: StandardAcl) -> AclsImage:
    image = AclsImage()
    for number, each in enumerate(acls):
        image = image.insert(UUID(int=number + 1), each)
    return image


def allowed(
    acls: Sequence[StandardAcl],
    operation: AclOperation,
    name: str = "orders",
    *,
    principal: str = ALICE,
    host: str = "10.0.0.1",
    kind: ResourceType = TOPIC,
    authorizer: StandardAuthorizer | None = None,
) -> bool:
    judge = authorizer or StandardAuthorizer()
    return judge.authorize(image_of(*acls), principal, host, operation, kind, name).allowed


names = st.sampled_from(["orders", "orders-eu", "order", "o", "pay", "*", "ord", "#a", "-"])
principals = st.sampled_from([ALICE, "User:bob", "User:*", "Group:alice"])
hosts = st.sampled_from(["*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"])
kinds = st.sampled_from([TOPIC, TOPIC, TOPIC, GROUP])
operations = st.sampled_from([each for each in AclOperation if each > AclOperation.ANY])
acl_strategy = st.builds(
    StandardAcl,
    resource_type=kinds,
    resource_name=names,
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=principals,
    host=hosts,
    operation=operations,
    permission_type=st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
)


@given(
    st.lists(acl_strategy, max_size=14),
    st.sampled_from([ALICE, "User:bob", "User:root", "Group:alice"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]),
    operations,
    kinds,
    names,
    st.booleans(),
)
@settings(max_examples=1500, deadline=None)
def test_every_decision_is_that_of_the_naive_model(
    acls: list[StandardAcl],
    principal: str,
    host: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    default: bool,
) -> None:
    authorizer = StandardAuthorizer(frozenset({"User:root"}), allow_everyone_if_no_acl_is_found=default)
    expected = naive_authorize(
        acls,
        principal,
        "0:0:0:0:0:0:0:1" if host == "::1" else host,
        operation,
        kind,
        name,
        super_users={"User:root"},
        default=default,
    )
    assert authorizer.authorize(image_of(*acls), principal, host, operation, kind, name).allowed is expected


@given(st.lists(acl_strategy, min_size=1, max_size=12), st.data())
@settings(max_examples=300, deadline=None)
def test_removed_acls_leave_nothing_in_the_image(acls: list[StandardAcl], data: st.DataObject) -> None:
    image = image_of(*acls)
    gone = data.draw(st.sets(st.integers(1, len(acls))))
    for number in gone:
        image = image.remove(UUID(int=number))
    kept = [each for number, each in enumerate(acls, 1) if number not in gone]
    assert sorted(image.by_id.values(), key=str) == sorted(kept, key=str)
    found = [each for entries in image.by_pattern.values() for group in entries.values() for each in group]
    assert sorted(found, key=str) == sorted(kept, key=str)
    assert all(len(entries) and all(entries.values()) for entries in image.by_pattern.values())


def test_nothing_is_allowed_without_acls() -> None:
    assert not allowed([], READ)


def test_allow_everyone_opens_only_resources_that_have_no_acl_at_all() -> None:
    """StandardAuthorizerTest.testAuthorizationWithManyAcls: another's ACL closes the resource for everybody."""
    everyone = StandardAuthorizer(allow_everyone_if_no_acl_is_found=True)
    assert allowed([], READ, authorizer=everyone)
    assert not allowed([acl("orders", READ, principal="User:bob")], READ, authorizer=everyone)
    assert not allowed([acl("or", READ, principal="User:bob", pattern_type=PREFIXED)], READ, authorizer=everyone)
    assert allowed([acl("or", READ, principal="User:bob")], READ, authorizer=everyone)


def test_a_super_user_is_allowed_despite_every_deny() -> None:
    root = StandardAuthorizer(frozenset({ALICE}))
    assert allowed([deny("orders", ALL)], READ, authorizer=root)


def test_deny_beats_allow_wherever_each_of_them_is() -> None:
    assert not allowed([acl("orders", READ), deny("*", READ)], READ)
    assert not allowed([acl("*", ALL), deny("ord", ALL, pattern_type=PREFIXED)], READ)
    assert not allowed([acl("ord", READ, pattern_type=PREFIXED), deny("orders", READ, principal="User:*")], READ)


@pytest.mark.parametrize("operation", [READ, WRITE, DELETE, ALTER])
def test_an_allow_of_these_operations_includes_describe_but_a_deny_does_not(operation: AclOperation) -> None:
    assert allowed([acl("orders", operation)], DESCRIBE)
    assert allowed([acl("orders", DESCRIBE), deny("orders", operation)], DESCRIBE)


def test_create_does_not_allow_to_describe() -> None:
    assert not allowed([acl("orders", CREATE)], DESCRIBE)


def test_alter_configs_allows_to_describe_configs_and_not_the_reverse() -> None:
    assert allowed([acl("orders", AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS)
    assert not allowed([acl("orders", AclOperation.DESCRIBE_CONFIGS)], AclOperation.ALTER_CONFIGS)


def test_the_wildcard_principal_means_principals_of_every_type() -> None:
    assert allowed([acl("orders", READ, principal="User:*")], READ, principal="Group:x")


def test_a_prefixed_star_is_not_a_wildcard() -> None:
    assert not allowed([acl("*", READ, pattern_type=PREFIXED)], READ)
    assert allowed([acl("*", READ, pattern_type=PREFIXED)], READ, name="*x")


def test_hosts_are_compared_as_java_writes_them() -> None:
    assert allowed([acl("orders", READ, host="0:0:0:0:0:0:0:1")], READ, host="::1")
    assert allowed([acl("orders", READ, host="10.0.0.1")], READ, host="::ffff:10.0.0.1")
    assert not allowed([acl("orders", READ, host="10.0.0.2")], READ)
    assert host_address("fe80::1%eth0") == "fe80:0:0:0:0:0:0:1%eth0"
    assert host_address("no:address") == "no:address"


def test_authorized_operations_are_bits_by_operation() -> None:
    """KIP-430."""
    bits = StandardAuthorizer().authorized_operations(image_of(acl("t", READ)), ALICE, "h", TOPIC, "t")
    assert bits == 1 << READ | 1 << DESCRIBE
    everything = StandardAuthorizer(frozenset({ALICE}))
    assert everything.authorized_operations(AclsImage(), ALICE, "h", ResourceType.USER, "u") == 1 << 13 | 1 << 14


def test_the_reason_is_written_as_in_the_audit_log() -> None:
    judge = StandardAuthorizer(frozenset({"User:root"}))
    image = image_of(acl("t", READ))
    assert str(judge.authorize(image, "User:root", "h", READ, TOPIC, "t")) == "SuperUser"
    assert str(judge.authorize(image, ALICE, "h", WRITE, TOPIC, "t")) == "DefaultDeny"
    assert str(judge.authorize(image, ALICE, "h", READ, TOPIC, "t")) == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=READ, permissionType=ALLOW])"
    )


def test_super_users_are_separated_by_semicolons() -> None:
    """StandardAuthorizerTest.testGetConfiguredSuperUsers: a distinguished name contains commas."""
    assert parse_super_users(" User:a; User:CN=b,O=c;;") == {"User:a", "User:CN=b,O=c"}
    assert parse_super_users("") == frozenset()
    with pytest.raises(ValueError, match="principalType:principalName but got alice"):
        parse_super_users("alice")
