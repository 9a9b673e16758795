"""A long list of valid and invalid requests that two controllers get in the same order.

Each has a name, a function from the side's state (topic ids, broker epochs, cluster id) to the message, and a version.
Topics have manual replica assignments, so that both sides place them alike. Not included: requests that make Apache's
controller fail and resign (a key twice in a resource, an unknown config operation, an unknown recovery state, growth by
more records than fit in a batch, null as a log level), and null as a topic's config value, which ours rejects.
"""

from collections.abc import Iterator
from typing import Any

from kraft_core.protocol.messages import CreateAclsRequest, DescribeAclsRequest
from tests.interop.answers.controller_requests.brokers import broker_requests
from tests.interop.answers.controller_requests.case import BY_TOKEN, Case, fixed, forwarded, principal
from tests.interop.answers.controller_requests.configs import config_requests
from tests.interop.answers.controller_requests.describe import describe_requests
from tests.interop.answers.controller_requests.features import feature_requests
from tests.interop.answers.controller_requests.lifecycle import lifecycle_requests
from tests.interop.answers.controller_requests.loggers import logger_requests
from tests.interop.answers.controller_requests.partitions import isr_requests, reassignment_requests
from tests.interop.answers.controller_requests.quorum import quorum_requests
from tests.interop.answers.controller_requests.security import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CREATE,
    CREATE_TOKENS,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUPS,
    PREFIXED,
    USERS,
    acl,
    acl_filter,
    acl_requests,
    quota_requests,
    scram_requests,
    token,
    token_requests,
)
from tests.interop.answers.controller_requests.timeouts import timeout_requests
from tests.interop.answers.controller_requests.topics import creation, deletion_requests, topic, topic_requests


def all_requests() -> list[Case]:
    """Return the list for a listener without security, in order."""
    return [
        *broker_requests(),
        *topic_requests(),
        *config_requests(),
        *logger_requests(),
        *describe_requests(),
        *isr_requests(),
        *reassignment_requests(),
        *deletion_requests(),
        *timeout_requests(),
        *feature_requests(),
        *scram_requests(),
        *acl_requests(),
        *token_requests(),
        *quorum_requests(),
        *forwarded_requests(),
        *quota_requests(),
    ]


def lifecycle() -> list[Case]:
    """Return the list for brokers that start and stop, in order."""
    return [*list(broker_requests())[:15], *lifecycle_requests()]


def secure_requests() -> list[Case]:
    """Return the list for a listener with SASL and an authorizer.

    The first requests are from alice, who has no rights, then from admin, who has all, then from alice with some.
    """
    without_rights = [
        *broker_requests(),
        *topic_requests(),
        *config_requests(),
        *logger_requests(),
        *describe_requests(),
        *isr_requests(),
        *reassignment_requests(),
        *deletion_requests(),
        *feature_requests(),
        *scram_requests(),
        *acl_requests(),
        *quorum_requests(),
        *forwarded_requests(),
        *quota_requests(),
    ]
    with_some = [*topic_requests(), *config_requests(), *describe_requests(), *deletion_requests()]
    return [
        *(case._replace(user="alice") for case in without_rights),
        *acl_requests(),
        *token_requests(),
        *list(broker_requests())[:15],
        *topic_requests(),
        fixed("rights of alice", CreateAclsRequest(creations=RIGHTS), 3),
        Case(
            "rights of alice are known", lambda _: EVERY_ACL, 3, not_yet=lambda said: number_of_acls(said) < len(RIGHTS)
        ),
        *(case._replace(user="alice") for case in with_some),
        fixed("a token to log in with", token(lifetime_ms=3_600_000), 3),
        next(case for case in token_requests() if case.name == "renew the last by -1"),
        *(case._replace(user=BY_TOKEN, not_yet=None) for case in (*token_requests(), *list(describe_requests())[:80])),
        *forwarded_requests(),
    ]


RIGHTS = (
    acl(name="made-", pattern=PREFIXED, operation=DESCRIBE),
    acl(name="made-2", operation=ALTER),
    acl(name="made-2", operation=ALTER_CONFIGS),
    acl(name="made-2", operation=DESCRIBE_CONFIGS),
    acl(name="made-4", operation=ALL),
    acl(name="made-4", operation=DELETE, permission=DENY),
    acl(name="set-", pattern=PREFIXED, operation=DELETE),
    acl(name="only-", pattern=PREFIXED, operation=CREATE),
    acl(name="right-1", operation=CREATE),
    acl(name="forwarded", operation=CREATE),
    acl(kind=GROUPS, name="workers", operation=ALTER_CONFIGS),
    acl(kind=CLUSTER, name="kafka-cluster", operation=DESCRIBE),
    acl(kind=CLUSTER, name="kafka-cluster", operation=DESCRIBE_CONFIGS),
    acl(kind=USERS, name="User:carol", operation=CREATE_TOKENS),
)
"""The rights of alice in the last part."""
EVERY_ACL = DescribeAclsRequest(**acl_filter())  # type: ignore[arg-type] # each is a keyword argument


def number_of_acls(said: Any) -> int:
    """Return the number of ACLs in a DescribeAcls response."""
    return sum(len(each.acls) for each in said.resources)


def forwarded_requests() -> Iterator[Case]:
    """Return requests in envelopes, and invalid envelopes."""
    alice = principal("alice")
    one = fixed("create", creation(topic("forwarded", (101,))), 7)
    yield forwarded(one, alice)
    yield forwarded(one, alice, bytes(15) + b"\x01")
    yield forwarded(one, alice, b"")
    yield forwarded(one, alice, b"\x01\x02\x03")
    yield forwarded(one, b"")
    yield forwarded(one, b"\x00\x07" + alice[2:])
    yield forwarded(one, alice[:4])
    for case in token_requests():
        if (case.version == 2 or "by name" in case.name) and "the last" not in case.name:
            yield forwarded(case, alice)
            yield forwarded(case, principal("alice", by_token=True))
    others = [
        *list(config_requests())[:3],
        *list(broker_requests())[:3],
        *list(scram_requests())[:3],
        *list(quota_requests())[:3],
        *list(acl_requests())[:3],
        *list(describe_requests())[:3],
        *list(quorum_requests())[-8:],
    ]
    for case in others:
        yield forwarded(case, alice)
    yield forwarded(forwarded(one, alice), alice)
