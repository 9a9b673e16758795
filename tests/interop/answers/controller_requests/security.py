"""ACLs, SCRAM users, client quotas and delegation tokens, valid and invalid."""

from collections.abc import Iterator

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestCreatableRenewers,
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DescribeAclsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.interop.answers.controller_requests.case import Case, fixed, refused_as

TOPICS, GROUPS, CLUSTER, USERS = 2, 3, 4, 7
ANY, LITERAL, PREFIXED, MATCH = 1, 3, 4, 2
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
DESCRIBE_CONFIGS, ALTER_CONFIGS, CREATE_TOKENS = 10, 11, 13
DENY, ALLOW = 2, 3


def quota(
    entity: tuple[tuple[str, str | None], ...], *operations: tuple[str, float | None], validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Return an AlterClientQuotas request; a value of None removes the quota."""
    return AlterClientQuotasRequest(entries=(quota_entry(entity, *operations),), validate_only=validate_only)


def quota_entry(
    entity: tuple[tuple[str, str | None], ...], *operations: tuple[str, float | None]
) -> AlterClientQuotasRequestEntryData:
    """Return the changes of one entity."""
    return AlterClientQuotasRequestEntryData(
        entity=tuple(AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(
            AlterClientQuotasRequestOpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in operations
        ),
    )


QUOTAS: tuple[tuple[tuple[tuple[str, str | None], ...], tuple[tuple[str, float | None], ...]], ...] = (
    ((("user", "alice"),), (("producer_byte_rate", 1000.0),)),
    ((("user", "alice"),), (("producer_byte_rate", 1000.0),)),
    ((("user", "alice"),), (("producer_byte_rate", 2000.0), ("consumer_byte_rate", 5.0))),
    ((("user", "alice"),), (("producer_byte_rate", None),)),
    ((("user", "alice"),), (("producer_byte_rate", None),)),
    ((("user", None),), (("request_percentage", 50.5),)),
    ((("client-id", "app"),), (("controller_mutation_rate", 2.5),)),
    ((("client-id", None),), (("consumer_byte_rate", 9.0),)),
    ((("user", "alice"), ("client-id", "app")), (("consumer_byte_rate", 7.0),)),
    ((("user", None), ("client-id", None)), (("consumer_byte_rate", 8.0),)),
    ((("ip", "10.0.0.1"),), (("connection_creation_rate", 3.0),)),
    ((("ip", None),), (("connection_creation_rate", 4.0),)),
    ((("ip", "no such host.example"),), (("connection_creation_rate", 4.0),)),
    ((("ip", "10.0.0.1"),), (("producer_byte_rate", 4.0),)),
    ((("ip", "10.0.0.1"), ("user", "alice")), (("connection_creation_rate", 4.0),)),
    ((("user", "alice"),), (("connection_creation_rate", 4.0),)),
    ((("user", "alice"),), (("producer_byte_rate", 1.5),)),
    ((("user", "alice"),), (("producer_byte_rate", 0.0),)),
    ((("user", "alice"),), (("producer_byte_rate", -1.0),)),
    ((("user", "alice"),), (("request_percentage", 0.0),)),
    ((("user", "alice"),), (("connection_creation_rate", 1.5),)),
    ((("user", "alice"),), (("no_such_quota", 1.0),)),
    ((("user", "alice"),), ()),
    ((("user", ""),), (("producer_byte_rate", 1.0),)),
    ((("group", "alice"),), (("producer_byte_rate", 1.0),)),
    ((), (("producer_byte_rate", 1.0),)),
    ((("user", "alice"), ("user", "bob")), (("producer_byte_rate", 1.0),)),
    ((("user", "alice"),), (("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))),
    ((("user", "sp ace/and%"),), (("producer_byte_rate", 1.0),)),
    ((("user", "alice"),), (("producer_byte_rate", 1e30),)),
)


def quota_requests() -> Iterator[Case]:
    """Return AlterClientQuotas requests. Bounds on topic changes come last, since they affect this client too."""
    for version in range(2):
        for entity, operations in QUOTAS:
            yield fixed(f"quota {entity} {operations}", quota(entity, *operations), version)
    only = quota((("user", "carol"),), ("producer_byte_rate", 1.0), validate_only=True)
    yield fixed("quota, only to see", only, 1)
    yield fixed("no quotas", AlterClientQuotasRequest(entries=()), 1)
    one = quota_entry((("user", "dave"),), ("producer_byte_rate", 1.0))
    other = quota_entry((("user", "dave"),), ("consumer_byte_rate", 1.0))
    wrong = quota_entry((("user", "erin"),), ("no_such_quota", 1.0))
    yield fixed("one quota right, one wrong", AlterClientQuotasRequest(entries=(one, wrong)), 1)
    yield fixed("quotas of one entity twice", AlterClientQuotasRequest(entries=(one, other)), 1)


def scram_requests() -> Iterator[Case]:
    """AlterUserScramCredentials."""

    def change(*deletions: tuple[str, int], users: tuple[tuple[str, int, int], ...] = ()) -> object:
        return AlterUserScramCredentialsRequest(
            deletions=tuple(
                AlterUserScramCredentialsRequestScramCredentialDeletion(name=name, mechanism=mechanism)
                for name, mechanism in deletions
            ),
            upsertions=tuple(
                AlterUserScramCredentialsRequestScramCredentialUpsertion(
                    name=name,
                    mechanism=mechanism,
                    iterations=iterations,
                    salt=b"salt" * 5,
                    salted_password=bytes(range(32 if mechanism == 1 else 64)),
                )
                for name, mechanism, iterations in users
            ),
        )

    for label, message in (
        ("a user", change(users=(("alice", 1, 4096),))),
        ("the same again", change(users=(("alice", 1, 4096),))),
        ("another mechanism", change(users=(("alice", 2, 8192),))),
        ("too few iterations", change(users=(("bob", 1, 4095),))),
        ("too many iterations", change(users=(("bob", 1, 16385),))),
        ("most iterations", change(users=(("bob", 2, 16384),))),
        ("an unknown mechanism", change(users=(("bob", 7, 4096),))),
        ("mechanism 0", change(users=(("bob", 0, 4096),))),
        ("an empty name", change(users=(("", 1, 4096),))),
        ("two mechanisms at once", change(users=(("carol", 1, 4096), ("carol", 2, 4096)))),
        ("the same twice", change(users=(("carol", 1, 4096), ("carol", 1, 4096)))),
        ("a right and a wrong one", change(users=(("dave", 1, 4096), ("erin", 1, 1)))),
        ("set and delete", change(("alice", 1), users=(("alice", 2, 4096),))),
        ("delete", change(("alice", 1))),
        ("delete again", change(("alice", 1))),
        ("delete nobody", change(("nobody", 1))),
        ("delete an unknown mechanism", change(("alice", 7))),
        ("delete an empty name", change(("", 1))),
        ("delete twice", change(("alice", 2), ("alice", 2))),
        ("nothing", change()),
    ):
        assert isinstance(message, AlterUserScramCredentialsRequest)
        yield fixed(f"SCRAM: {label}", message, 0)


def acl(
    kind: int = TOPICS,
    name: str = "orders",
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> CreateAclsRequestAclCreation:
    """Return an ACL."""
    return CreateAclsRequestAclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


ACLS = (
    (acl(),),
    (acl(),),
    (acl(operation=WRITE), acl(operation=DESCRIBE, permission=DENY)),
    (acl(pattern=PREFIXED, name="ord"), acl(pattern=PREFIXED, name="ord")),
    (acl(name="*", principal="User:*", host="127.0.0.1"),),
    (acl(kind=CLUSTER, name="kafka-cluster", operation=ALL),),
    (acl(kind=CLUSTER, name="other"),),
    (acl(kind=GROUPS, name="g"),),
    (acl(kind=USERS, name="User:bob", operation=CREATE_TOKENS),),
    (acl(name=""),),
    (acl(kind=99),),
    (acl(pattern=99),),
    (acl(operation=99),),
    (acl(permission=99),),
    (acl(principal="alice"),),
    (acl(principal=""),),
    (acl(principal="User:"),),
    (acl(principal=":alice"),),
    (acl(principal="Group:g:h"),),
    (acl(host=""),),
    (acl(host="not a host"),),
    (acl(operation=15),),
    (acl(kind=GROUPS, name="g2", operation=WRITE),),
    (acl(name="bad name"),),
    (acl(name="right"), acl(kind=CLUSTER, name="wrong")),
    (),
)


def acl_filter(
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> dict[str, object]:
    """Return the fields of a filter of DescribeAcls and DeleteAcls. A missing field matches every ACL."""
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }


FILTERS = (
    acl_filter(),
    acl_filter(kind=TOPICS),
    acl_filter(name="orders"),
    acl_filter(name="orders", pattern=MATCH),
    acl_filter(name="orders", pattern=LITERAL),
    acl_filter(name="*", pattern=LITERAL),
    acl_filter(name="ord", pattern=PREFIXED),
    acl_filter(pattern=MATCH),
    acl_filter(principal="User:alice"),
    acl_filter(principal="User:*"),
    acl_filter(principal="alice"),
    acl_filter(host="127.0.0.1"),
    acl_filter(operation=WRITE),
    acl_filter(operation=ALL),
    acl_filter(permission=DENY),
    acl_filter(name=""),
    acl_filter(kind=99),
    acl_filter(pattern=99),
    acl_filter(operation=99),
    acl_filter(permission=99),
)


def acl_requests() -> Iterator[Case]:
    """CreateAcls, DescribeAcls and DeleteAcls."""
    for version in range(1, 4):
        for acls in ACLS:
            yield fixed(f"create {acls}", CreateAclsRequest(creations=acls), version)
        for each in FILTERS:
            yield fixed(f"describe {each}", DescribeAclsRequest(**each), version)  # type: ignore[arg-type]  # keywords
        for each in FILTERS[-5:] + FILTERS[1:8]:
            one = DeleteAclsRequestDeleteAclsFilter(**each)  # type: ignore[arg-type]  # keywords
            yield fixed(f"delete {each}", DeleteAclsRequest(filters=(one,)), version)
        yield fixed("delete by no filter", DeleteAclsRequest(filters=()), version)
        every = DeleteAclsRequestDeleteAclsFilter(**acl_filter())  # type: ignore[arg-type]  # keywords
        yield fixed("delete all, twice", DeleteAclsRequest(filters=(every, every)), version)
        yield fixed("describe nothing", DescribeAclsRequest(**acl_filter()), version)  # type: ignore[arg-type]  # keywords


def token(*renewers: str, lifetime_ms: int = -1, owner: str = "") -> CreateDelegationTokenRequest:
    """Return a CreateDelegationToken request, with renewers and owner as type:name."""
    owner_type, _, owner_name = owner.partition(":")
    return CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=tuple(
            CreateDelegationTokenRequestCreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in renewers)
        ),
        max_lifetime_ms=lifetime_ms,
    )


def token_requests() -> Iterator[Case]:
    """Return requests of delegation tokens.

    Apache's controller applies a new one only after its publishers have run.
    """
    for version in range(1, 4):
        yield fixed("a token", token(), version)
        yield fixed("a token with renewers", token("User:bob", "User:carol"), version)
        yield fixed("a token with a renewer who is no user", token("Group:bob"), version)
        yield fixed("a token for an hour", token(lifetime_ms=3_600_000), version)
    yield fixed("a token for another", token(owner="User:carol"), 3)
    yield fixed("a token for oneself by name", token(owner="User:admin"), 3)
    for version in range(1, 3):
        for period_ms in (-1, 0, 1_000_000):
            yield fixed("renew what is not", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=period_ms), version)
            gone = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=period_ms)
            yield fixed("end what is not", gone, version)
            yield Case(
                f"renew the last by {period_ms}",
                lambda known, period_ms=period_ms: RenewDelegationTokenRequest(
                    hmac=known.hmac, renew_period_ms=period_ms
                ),
                version,
                not_yet=refused_as(ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
            )
            yield Case(
                f"end the last in {period_ms}",
                lambda known, period_ms=period_ms: ExpireDelegationTokenRequest(
                    hmac=known.hmac, expiry_time_period_ms=period_ms + 500_000 if period_ms >= 0 else -1
                ),
                version,
            )
            yield fixed("another token", token(), 3)
