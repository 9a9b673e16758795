"""Rights on a secured quorum of ours: Apache's tools as users with and without them, and Apache's brokers as peers."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import CreateTopicsResponse, DescribeClusterRequest, DescribeClusterResponse
from kraft_core.security.listener_security import ClientSecurity, client_security
from kraft_core.server.kafka_client import KafkaConnection
from kraft_core.storage.properties import parse_properties
from tests.interop import kafka
from tests.interop.conclave import create_topics
from tests.security.secure_quorum import (
    PASSWORD,
    PLAIN_MODULE,
    SCRAM_MODULE,
    SecureQuorum,
    secure_quorum,
    wait_for_voters,
)

pytestmark = pytest.mark.interop

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:controller;User:admin",
}


def user_config(found: SecureQuorum, name: str, password: str = PASSWORD) -> Path:
    """Client properties of another user."""
    module = PLAIN_MODULE if found.client_properties["sasl.mechanism"] == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="{name}" password="{password}";'
    return kafka.write_properties(
        found.folder / f"{name}.properties", {**found.client_properties, "sasl.jaas.config": jaas}
    )


def tool(found: SecureQuorum, main_class: str, *arguments: str, config: Path | None = None) -> tuple[int, str]:
    """Run a tool of Apache's against the controllers -> (exit code, what it printed)."""
    outcome = subprocess.run(
        kafka.java(
            main_class,
            "--bootstrap-controller",
            found.bootstrap,
            "--command-config",
            str(config or found.command_config),
            *arguments,
            log_level="ERROR",
        ),
        capture_output=True,
        text=True,
        timeout=90,
    )
    return outcome.returncode, outcome.stdout + outcome.stderr


def load_properties(path: Path) -> dict[str, str]:
    """Read a properties file."""
    return parse_properties(path.read_text())


def add_user(found: SecureQuorum, name: str) -> None:
    """Add a user to the PLAIN users of every controller."""
    for node_id in found.node_ids:
        path = found.config_of(node_id)
        path.write_text(path.read_text().replace("user_admin=", f'user_{name}="{PASSWORD}" user_admin='))


def test_rights_are_given_asked_and_taken_back(tmp_path: Path) -> None:
    kafka.require()
    with secure_quorum(tmp_path, 3, "SASL_SSL", "PLAIN", **AUTHORIZER) as found:
        add_user(found, "alice")
        alice = user_config(found, "alice")
        for node_id in found.node_ids:
            found.format(node_id)
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        acls = "org.apache.kafka.tools.AclCommand"
        quorum = "org.apache.kafka.tools.MetadataQuorumCommand"

        code, said = tool(found, quorum, "describe", "--status", config=alice)
        assert code != 0
        assert "ClusterAuthorizationException" in said, said
        code, said = tool(found, acls, "--add", "--allow-principal", "User:alice", "--operation", "Alter", "--cluster")
        assert code == 0, said
        code, said = tool(found, quorum, "describe", "--status", config=alice)
        assert code == 0, said
        assert "LeaderId" in said
        code, said = tool(found, acls, "--list")
        assert "principal=User:alice, host=*, operation=ALTER, permissionType=ALLOW" in said, said

        asyncio.run(revoke_on_an_open_connection(found, client_security(load_properties(alice)), acls))
        assert "authorization_denied" in found.outputs()
        assert PASSWORD not in found.outputs()


async def revoke_on_an_open_connection(found: SecureQuorum, security: ClientSecurity, acls: str) -> None:
    """What Alice may on her open connection changes with the ACLs, and she keeps it."""
    connection = await KafkaConnection.open("127.0.0.1", found.port_of(1), "alice", 5_000, security)
    ask = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    answer = await connection.request(ask)
    assert isinstance(answer, DescribeClusterResponse)
    assert (answer.error_code, answer.cluster_authorized_operations) == (0, 1 << 7 | 1 << 8)
    client = found.client_of(security)
    created = await client.request(create_topics(["secret"]), 10_000)
    assert isinstance(created, CreateTopicsResponse)
    assert [topic.error_code for topic in created.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    client.close()
    said = await asyncio.to_thread(
        tool, found, acls, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Alter", "--cluster"
    )
    assert said[0] == 0, said
    answer = await connection.request(ask)
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    connection.close()
