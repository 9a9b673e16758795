"""The ACLs of applications are those that kafka-acls creates for them."""

import asyncio
from pathlib import Path

import pytest

from app.cluster.acl_presets import Application
from kraft_core.clients.admin.acls import describe_acls_request, described_acls
from kraft_core.image.acls_image import AclFilter, StandardAcl
from tests.interop.admin.tools import ACLS, Tools
from tests.interop.conclave import call, running_quorum

pytestmark = pytest.mark.interop

APPLICATIONS = (
    (
        Application(preset="producer", principal="User:p1", write_topics=("orders", "payments")),
        [["--producer", "--topic", "orders", "--topic", "payments"]],
    ),
    (
        Application(
            preset="producer",
            principal="User:p2",
            host="10.0.0.7",
            write_topics=("orders.",),
            prefixed=True,
            transactional_id="shop-",
            idempotent=True,
        ),
        [
            [
                *("--producer", "--topic", "orders.", "--transactional-id", "shop-", "--idempotent"),
                *("--resource-pattern-type", "prefixed", "--allow-host", "10.0.0.7"),
            ]
        ],
    ),
    (
        Application(preset="consumer", principal="User:c1", read_topics=("orders", "*"), group="billing"),
        [["--consumer", "--topic", "orders", "--topic", "*", "--group", "billing"]],
    ),
    (
        Application(preset="consumer", principal="User:c2", read_topics=("orders.",), group="billing-", prefixed=True),
        [["--consumer", "--topic", "orders.", "--group", "billing-", "--resource-pattern-type", "prefixed"]],
    ),
    (
        Application(
            preset="streams",
            principal="User:s1",
            read_topics=("orders",),
            write_topics=("totals",),
            application_id="summing",
            exactly_once=True,
        ),
        [
            ["--operation", "All", "--topic", "summing", "--group", "summing", "--resource-pattern-type", "prefixed"],
            ["--operation", "Read", "--operation", "Describe", "--topic", "orders"],
            ["--producer", "--topic", "totals"],
            [
                *("--operation", "Write", "--operation", "Describe", "--transactional-id", "summing"),
                *("--resource-pattern-type", "prefixed"),
            ],
        ],
    ),
)


def test_the_acls_of_applications_are_those_of_kafka_acls(tmp_path: Path, tools: Tools) -> None:
    access = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    with running_quorum(tmp_path, 1, **access) as quorum:
        for application, commands in APPLICATIONS:
            for command in commands:
                given = ["--add", "--allow-principal", application.principal, *command]
                tools.run(ACLS, "--bootstrap-controller", quorum.bootstrap, *given)
        found = asyncio.run(_created(quorum.ports[0]))
    for application, _ in APPLICATIONS:
        theirs = {acl for acl in found if acl.principal == application.principal}
        assert set(application.acls()) == theirs, application


async def _created(port: int) -> list[StandardAcl]:
    return described_acls(await call(port, describe_acls_request(AclFilter()), 3))
