"""Controllers that authenticate with certificates and passwords: ours alone, and mixed with Apache's."""

import asyncio
import re
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode
from tests.interop.admin.tools import QUORUM, Tools
from tests.interop.conclave import RawBroker, create_topics, retry
from tests.interop.kafka import PATIENCE_S
from tests.security.secure_quorum import PASSWORD, STORE_PASSWORD, SecureQuorum, secure_quorum, wait_for_voters

pytestmark = pytest.mark.interop

KINDS = [
    ("SSL", None),
    ("SASL_SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "PLAIN"),
]
MUTUAL = {"ssl_client_auth": "required"}


async def use(found: SecureQuorum, name: str, broker_id: int) -> None:
    client = found.client()
    broker = RawBroker(broker_id, found.cluster_id, client)

    async def create() -> None:
        """Create the topic, retried when the leader was lost or the broker's session has ended."""
        await broker.heartbeat()
        answer = await client.request(create_topics([name]))
        assert answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, answer

    try:
        await broker.register()
        await retry(create, PATIENCE_S, (AssertionError, ConnectionError))
    finally:
        client.close()


@pytest.mark.parametrize(("protocol", "mechanism"), KINDS)
def test_three_of_ours_elect_serve_and_fail_over(tmp_path: Path, protocol: str, mechanism: str | None) -> None:
    with secure_quorum(tmp_path, 3, protocol, mechanism, **(MUTUAL if mechanism is None else {})) as found:
        for node_id in found.node_ids:
            found.format(node_id)
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        asyncio.run(use(found, "before", 101))
        leader = found.wait_for_leader()
        found.processes[leader].kill()
        found.wait_for_leader(other_than=leader)
        asyncio.run(use(found, "after", 102))
        assert PASSWORD not in found.printed()
        assert STORE_PASSWORD not in found.printed()


@pytest.mark.parametrize(("protocol", "mechanism"), KINDS)
def test_apaches_controllers_and_ours_form_one_quorum(
    tmp_path: Path, tools: Tools, protocol: str, mechanism: str | None
) -> None:
    with secure_quorum(tmp_path, 3, protocol, mechanism, **(MUTUAL if mechanism is None else {})) as found:
        for node_id in found.node_ids:
            found.format(node_id)
        found.start_apache(1)
        found.start(2)
        found.start(3)
        found.wait_for_leader()
        wait_for_voters(found)
        asyncio.run(use(found, "together", 101))
        address = ("--bootstrap-controller", found.bootstrap, "--command-config", found.command_config)
        code, said = tools.attempt_when_loaded(QUORUM, *address, "describe", "--status")
        assert code == 0, said
        assert re.search(r"CurrentVoters:.*\"id\": 1.*\"id\": 2.*\"id\": 3", said), said
        leader = found.wait_for_leader()
        found.processes[leader].stop()
        found.wait_for_leader(other_than=leader)
        asyncio.run(use(found, "after", 102))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_controllers_log_in_with_scram_from_the_first_start_and_after_an_outage(
    tmp_path: Path, mechanism: str
) -> None:
    """Apache's controllers cannot: after a restart they know no user until there is a leader."""
    with secure_quorum(tmp_path, 3, "SASL_PLAINTEXT", mechanism) as found:
        for node_id in found.node_ids:
            found.format(node_id)
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        asyncio.run(use(found, "before", 101))
        for node_id in found.node_ids:
            (found.folder_of(node_id) / "data" / "bootstrap.checkpoint").unlink()
            found.processes[node_id].kill()
        for node_id in found.node_ids:
            found.start(node_id)
        found.wait_for_leader()
        wait_for_voters(found)
        asyncio.run(use(found, "after", 102))
        found.stop_all()
        data = b"".join(
            path.read_bytes() for path in found.folder.rglob("*") if path.is_file() and "data" in path.parts
        )
        assert PASSWORD.encode() not in data
        assert PASSWORD not in found.printed()
